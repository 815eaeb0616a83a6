// SPDX-License-Identifier: GPL-2.0
/*
 * Real-time overload: SCHED_FIFO threads that have to be pushed to, and pulled
 * by, other CPUs, so that cpupri_set(), cpupri_find() and the rto_mask are busy.
 *
 * Profile overload: two threads for each CPU and one more, of different
 * priorities, which may run on all CPUs. Each thread works for --burst-us and
 * then sleeps. The sleeps vary. They are chosen so that all threads together
 * use --load percent of the CPUs. Often more threads want to run than there are
 * CPUs.
 *
 * Profile pinned-groups imitates the FFmpeg of the mails.
 *
 * The load is below the kernel's limit for RT tasks, sched_rt_runtime_us, which
 * is not changed. By default it is 95 % in 6.12, and 100 % in 7.3. Each thread
 * also checks the clock itself, and RLIMIT_RTTIME ends a thread that still runs
 * on.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>

#include "workload.h"

/* Counters that the kernel has for this thread, and work that takes CPU time. */

static int open_counter(__u32 type, __u64 config, bool user, bool kernel)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.exclude_user = !user,
		.exclude_kernel = !kernel,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* -1 where it cannot be counted. */
static int open_migrations(void)
{
	return open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true, true);
}

static long close_migrations(int fd)
{
	__u64 count;
	long found = -1;

	if (fd < 0)
		return -1;
	if (read(fd, &count, sizeof(count)) == sizeof(count))
		found = count;
	close(fd);
	return found;
}

/*
 * Work that is the same in each run: a number of steps that was measured once.
 * If it read the clock again and again instead, much of the time would be spent
 * there.
 */
static double steps_per_us;

static __u64 steps(long nr)
{
	__u64 value = nr;

	while (nr--) {
		value = value * 6364136223846793005ULL + 1442695040888963407ULL;
		/* Else the compiler could compute the result. */
		__asm__ volatile("" : "+r" (value));
	}
	return value;
}

/* The fastest of some tries: whatever else runs makes them slower. */
static void measure_steps(void)
{
	__u64 best = ~0ULL;

	for (int i = 0; i < 200; i++) {
		__u64 begin = now(), took;

		steps(2000);
		took = now() - begin;
		if (took && took < best)
			best = took;
	}
	steps_per_us = 2000 * 1000.0 / best;
}

/* The steps for this number of us, but no longer than until @until. */
static void work_for(double us, __u64 until)
{
	for (; us > 0 && now() < until; us -= 10)
		steps(steps_per_us * (us < 10 ? us : 10));
}

/*
 * Profile pinned-groups of rt_push_pull. It imitates the workload of the mails:
 * one FFmpeg in each group of 8 CPUs, with threads of SCHED_FIFO 99 that wake
 * each other.
 *
 * A group is a ring of stages, with one thread for each of its CPUs. Each
 * thread may run on any CPU of the group. Each stage works on a frame and hands
 * it on through a pipe, which holds a byte for each waiting frame. There is a
 * frame for each CPU, so threads often find another thread on the CPU where
 * they ran, and are pushed. Before a stage hands a frame on, it sleeps for a
 * quarter of the time that the work takes, so a group uses at most 80 % of its
 * CPUs.
 */

#define GROUPS_PRIORITY	99
#define MOST_STAGES	64

static struct {
	int nr, size;
	double frame_us;
} groups = { 0, 8, 50 };

struct group;

struct stage {
	pthread_t thread;
	struct group *group;
	int number;
	/* A pipe: a byte for each frame that waits here. */
	int frames[2];
	/* User cycles and kernel cycles. */
	__u64 elsewhere, cycles[2];
};

struct group {
	struct cpus cpus;
	int nr_stages;
	__u64 frames;
	struct stage stages[MOST_STAGES];
};

static struct group *group_list;
static pthread_barrier_t groups_ready;
static __u64 groups_start, groups_counted_from, groups_end;
static const char *groups_error;
/* Groups that have processed FEW_FRAMES. */
static int groups_run;

#define FEW_FRAMES	3

static bool groups_over(__u64 time)
{
	return time >= groups_end &&
	       (__atomic_load_n(&groups_run, __ATOMIC_RELAXED) == groups.nr ||
		time >= groups_end + PATIENCE);
}

static __u64 read_counter(int fd)
{
	__u64 count = 0;

	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static bool take_frame(struct stage *stage)
{
	char frame;

	return read(stage->frames[0], &frame, 1) == 1;
}

static void put_frame(struct stage *stage)
{
	if (write(stage->frames[1], "", 1) != 1)
		groups_error = "a frame was lost";
}

static void hand_on(struct stage *stage)
{
	struct group *group = stage->group;

	put_frame(&group->stages[(stage->number + 1) % group->nr_stages]);
}

static void run_stage(struct stage *stage)
{
	struct group *group = stage->group;
	__u64 rest = groups.frame_us * 1000 / 4;

	while (take_frame(stage)) {
		__u64 woken = now();

		if (groups_over(woken))
			break;
		inject_delay();
		if (woken >= groups_counted_from) {
			stage->elsewhere += !cpus_has(&group->cpus, sched_getcpu());
			if (!stage->number && ++group->frames == FEW_FRAMES)
				__atomic_add_fetch(&groups_run, 1, __ATOMIC_RELAXED);
		}
		work_for(groups.frame_us, groups_end + PATIENCE);
		sleep_until(now() + rest);
		hand_on(stage);
	}
	/* Else the next stage might wait for a frame forever. */
	hand_on(stage);
}

static void *stage_thread(void *argument)
{
	struct stage *stage = argument;
	int user, kernel;

	if (!run_on(&stage->group->cpus) || !be_realtime(GROUPS_PRIORITY))
		groups_error = "SCHED_FIFO or the CPUs of a group are not allowed";
	user = open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true, false);
	kernel = open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, true);
	pthread_barrier_wait(&groups_ready);
	pthread_barrier_wait(&groups_ready);
	if (!groups_error && groups_start)
		run_stage(stage);
	stage->cycles[0] = read_counter(user);
	stage->cycles[1] = read_counter(kernel);
	close(user);
	close(kernel);
	return NULL;
}

static void make_stages(struct results *results, struct group *group)
{
	/* A ring of one would wake itself. */
	group->nr_stages = groups.size < 2 ? 2 : groups.size;
	for (int i = 0; i < group->nr_stages; i++) {
		struct stage *stage = &group->stages[i];

		stage->group = group;
		stage->number = i;
		if (pipe2(stage->frames, O_CLOEXEC))
			give_up_refused(results, "pipe", errno);
		/* A frame for each CPU, at different stages. */
		if (i < groups.size)
			put_frame(stage);
	}
}

/* CPUs in the order of their numbers, as FFmpeg was pinned; the rest is not used. */
static void make_groups(struct results *results)
{
	int nr_cpus = cpus_count(&common.cpus), fit, cpu = -1;

	if (groups.size > nr_cpus)
		groups.size = nr_cpus;
	if (groups.size > MOST_STAGES)
		groups.size = MOST_STAGES;
	fit = nr_cpus / groups.size;
	if (!groups.nr || groups.nr > fit)
		groups.nr = fit;
	group_list = calloc(groups.nr, sizeof(*group_list));
	if (!group_list)
		give_up(results, "no memory");
	for (int i = 0; i < groups.nr; i++) {
		for (int j = 0; j < groups.size; j++) {
			cpu = cpus_next(&common.cpus, cpu);
			cpus_add(&group_list[i].cpus, cpu);
		}
		make_stages(results, &group_list[i]);
	}
}

static void report_groups(struct results *results, double seconds, double system_s,
			  double all_s)
{
	__u64 frames = 0, elsewhere = 0, least = ~0ULL, cycles[2] = {};
	struct metric *metric;

	for (int i = 0; i < groups.nr; i++) {
		const struct group *group = &group_list[i];

		frames += group->frames;
		least = group->frames < least ? group->frames : least;
		for (int j = 0; j < group->nr_stages; j++) {
			elsewhere += group->stages[j].elsewhere;
			cycles[0] += group->stages[j].cycles[0];
			cycles[1] += group->stages[j].cycles[1];
		}
	}
	metric = add_metric(results, RATE, HIGHER, "frames/s", frames / seconds,
			    "groups.frames_per_s");
	metric->n = frames;
	metric->aim = MEDIAN;
	add_metric(results, RATE, HIGHER, "%", frames ? 100.0 * least * groups.nr / frames : 0,
		   "groups.evenness")->n = groups.nr;
	add_metric(results, EXACT, LOWER, "turns", elsewhere, "groups.elsewhere")->n = frames;
	if (all_s > 0)
		add_metric(results, RATE, LOWER, "%", 100 * system_s / all_s,
			   "groups.kernel_of_cpu_time");
	if (cycles[0] + cycles[1])
		add_metric(results, RATE, LOWER, "%", 100.0 * cycles[1] / (cycles[0] + cycles[1]),
			   "groups.kernel_of_cycles");
	else
		add_absent(results, "groups.kernel_of_cycles", "this machine counts no cycles");
}

static double seconds_in(const struct timeval *time)
{
	return time->tv_sec + time->tv_usec / 1e6;
}

static void run_groups(struct results *results, double seconds, double warm_up)
{
	struct rusage before, after;
	double user_s, system_s, counted_s;
	int nr = 0;

	make_groups(results);
	for (int i = 0; i < groups.nr; i++)
		nr += group_list[i].nr_stages;
	if (pthread_barrier_init(&groups_ready, NULL, nr + 1))
		give_up(results, "no memory");
	for (int i = 0; i < groups.nr; i++)
		for (int j = 0; j < group_list[i].nr_stages; j++) {
			struct stage *stage = &group_list[i].stages[j];

			start_thread(results, &stage->thread, stage_thread, stage);
		}
	pthread_barrier_wait(&groups_ready);
	if (groups_error)
		give_up(results, "%s", groups_error);
	getrusage(RUSAGE_SELF, &before);
	groups_start = now();
	groups_counted_from = groups_start + (__u64)(warm_up * NS_PER_S);
	groups_end = groups_counted_from + (__u64)(seconds * NS_PER_S);
	pthread_barrier_wait(&groups_ready);
	for (int i = 0; i < groups.nr; i++)
		for (int j = 0; j < group_list[i].nr_stages; j++)
			pthread_join(group_list[i].stages[j].thread, NULL);
	counted_s = (now() - groups_counted_from) / (double)NS_PER_S;
	getrusage(RUSAGE_SELF, &after);
	if (groups_error)
		give_up(results, "%s", groups_error);
	user_s = seconds_in(&after.ru_utime) - seconds_in(&before.ru_utime);
	system_s = seconds_in(&after.ru_stime) - seconds_in(&before.ru_stime);
	report_groups(results, counted_s, system_s, user_s + system_s);
}

static double seconds = 0.3, warm_up = 0.05, burst_us = 50, load = 70;
static int nr_threads;
static const char *profile = "both";

struct rt_thread {
	pthread_t thread;
	int priority, cpu;
	__u64 seed, bursts, changes;
	long migrations;
	const char *error;
	/* How late the thread ran after it should have. */
	struct histogram late;
};

static struct results *all;
static struct rt_thread *threads;
/* For each CPU that a thread ran on. */
static struct histogram *late_on;
static pthread_barrier_t ready;
static __u64 start, counted_from, end;
static double sleep_ns, counted_s;
/* Threads that have run FEW times. */
static int nr_run;

#define FEW	2
#define FEWEST_BURSTS	20

/* The run lasts until all threads have run: longer in a slow guest. */
static bool over(__u64 time)
{
	return time >= end && (__atomic_load_n(&nr_run, __ATOMIC_RELAXED) == nr_threads ||
			       time >= end + PATIENCE);
}

/* From 0.5 to 1.5 times the mean; each run has the same sleeps. */
static __u64 next_sleep(struct rt_thread *own)
{
	own->seed ^= own->seed << 13;
	own->seed ^= own->seed >> 7;
	own->seed ^= own->seed << 17;
	return sleep_ns * (0.5 + (own->seed >> 11) / (double)(1ULL << 53));
}

static void overload(struct rt_thread *own)
{
	int counter = -1;
	__u64 due, woken;

	due = start + next_sleep(own);
	while (!over(due)) {
		int cpu;

		sleep_until(due);
		inject_delay();
		woken = now();
		cpu = sched_getcpu();
		if (!cpus_has(&common.cpus, cpu))
			give_up(all, MOVED_AWAY, cpu);
		if (counter < 0 && woken >= counted_from)
			counter = open_migrations();
		if (woken >= counted_from) {
			histogram_add(&own->late, woken - due);
			own->changes += own->bursts++ && cpu != own->cpu;
			histogram_add_shared(&late_on[cpu], woken - due);
			if (own->bursts == FEW)
				__atomic_add_fetch(&nr_run, 1, __ATOMIC_RELAXED);
		}
		own->cpu = cpu;
		work_for(burst_us, end + PATIENCE);
		due = now() + next_sleep(own);
	}
	own->migrations = close_migrations(counter);
}

static void *run_thread(void *argument)
{
	struct rt_thread *own = argument;

	if (!run_on(&common.cpus) || !be_realtime(own->priority))
		own->error = "its SCHED_FIFO or its CPUs are not allowed";
	/* First until all threads are ready, then until the start is set. */
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	if (!own->error && start)
		overload(own);
	return NULL;
}

static void run_threads(struct results *results)
{
	threads = calloc(nr_threads, sizeof(*threads));
	late_on = calloc(cpus_last(&common.cpus) + 1, sizeof(*late_on));
	if (!threads || !late_on || pthread_barrier_init(&ready, NULL, nr_threads + 1))
		give_up(results, "no memory");
	/* All threads together use load percent of all CPUs. */
	sleep_ns = burst_us * 1000 *
		   (nr_threads / (load / 100 * cpus_count(&common.cpus)) - 1);
	for (int i = 0; i < nr_threads; i++) {
		threads[i].priority = 10 + i % 40;
		threads[i].seed = 0x9e3779b97f4a7c15ULL * (i + 1);
		start_thread(results, &threads[i].thread, run_thread, &threads[i]);
	}
	pthread_barrier_wait(&ready);
	for (int i = 0; i < nr_threads; i++)
		if (threads[i].error)
			give_up(results, "%s", threads[i].error);
	start = now();
	counted_from = start + (__u64)(warm_up * NS_PER_S);
	end = counted_from + (__u64)(seconds * NS_PER_S);
	pthread_barrier_wait(&ready);
	for (int i = 0; i < nr_threads; i++)
		pthread_join(threads[i].thread, NULL);
	counted_s = (now() - counted_from) / (double)NS_PER_S;
}

/* The least in percent of the mean: 100 where all have the same. */
static double evenness(const __u64 *counts, int nr)
{
	__u64 least = counts[0], sum = 0;

	for (int i = 0; i < nr; i++) {
		least = counts[i] < least ? counts[i] : least;
		sum += counts[i];
	}
	return sum ? 100.0 * least * nr / sum : 0;
}

static void report_placement(struct results *results)
{
	int nr_cpus = cpus_count(&common.cpus), place = 0;
	__u64 *counts = calloc(nr_cpus + nr_threads, sizeof(*counts));

	if (!counts)
		give_up(results, "no memory");
	for (int cpu = cpus_next(&common.cpus, -1); cpu >= 0;
	     cpu = cpus_next(&common.cpus, cpu), place++) {
		counts[place] = late_on[cpu].n;
		histogram_settle(&late_on[cpu]);
		add_row(results, "overload", cpu, &late_on[cpu])->compared = true;
	}
	add_metric(results, RATE, HIGHER, "%", evenness(counts, nr_cpus),
		   "overload.evenness_of_cpus")->n = nr_cpus;
	for (int i = 0; i < nr_threads; i++)
		counts[i] = threads[i].bursts;
	add_metric(results, RATE, HIGHER, "%", evenness(counts, nr_threads),
		   "overload.evenness_of_threads")->n = nr_threads;
	free(counts);
}

static void report_overload(struct results *results)
{
	struct histogram *first = calloc(2, sizeof(*first)), *every = first + 1;
	__u64 bursts = 0, changes = 0;
	long migrations = 0;
	int highest = 0;

	if (!first)
		give_up(results, "no memory");
	for (int i = 0; i < nr_threads; i++)
		highest = threads[i].priority > highest ? threads[i].priority : highest;
	for (int i = 0; i < nr_threads; i++) {
		bursts += threads[i].bursts;
		changes += threads[i].changes;
		migrations = threads[i].migrations < 0 || migrations < 0 ? -1 :
			     migrations + threads[i].migrations;
		histogram_merge(every, &threads[i].late);
		/* They get a CPU at once: nothing else has their priority. */
		if (threads[i].priority == highest)
			histogram_merge(first, &threads[i].late);
	}
	add_metric(results, EXACT, NEITHER, "bursts", bursts, "overload.bursts")->n = bursts;
	add_metric(results, RATE, HIGHER, "bursts/s", bursts / counted_s,
		   "overload.bursts_per_s")->aim = MEDIAN;
	if (cpus_count(&common.cpus) == 1)
		add_absent(results, "overload.cpu_changes_per_s",
			   "one CPU: threads cannot change CPUs");
	else if (!changes && bursts < (__u64)FEWEST_BURSTS * nr_threads)
		add_absent(results, "overload.cpu_changes_per_s",
			   "%llu bursts are too few to tell whether threads change CPUs", bursts);
	else
		add_metric(results, RATE, NEITHER, "1/s", changes / counted_s,
			   "overload.cpu_changes_per_s");
	if (migrations >= 0)
		add_metric(results, RATE, NEITHER, "1/s", migrations / counted_s,
			   "overload.migrations_per_s");
	else
		add_absent(results, "overload.migrations_per_s", "perf_event_open is not allowed");
	report_placement(results);
	add_quantiles(results, "overload.late", every, ALL_COMPARED);
	add_quantiles(results, "overload.late_first", first, ALL_COMPARED);
}

static void measure(struct results *results)
{
	bool both = !strcmp(profile, "both");

	all = results;
	if (!guard_realtime())
		give_up_refused(results, "RLIMIT_RTTIME", errno);
	be_prompt();
	measure_steps();
	if (both || !strcmp(profile, "overload")) {
		run_threads(results);
		report_overload(results);
	} else {
		add_absent(results, "overload", "another profile was asked for");
	}
	if (both || !strcmp(profile, "pinned-groups"))
		run_groups(results, seconds, warm_up);
	else
		add_absent(results, "groups", "another profile was asked for");
}

static const char *cannot(void)
{
	int nr = cpus_count(&common.cpus);

	if (strcmp(profile, "both") && strcmp(profile, "overload") &&
	    strcmp(profile, "pinned-groups"))
		ksft_exit_fail_msg("--profile %s: overload, pinned-groups or both\n", profile);
	if (!nr_threads)
		nr_threads = 2 * nr + 1;
	if (nr_threads <= load / 100 * nr)
		ksft_exit_fail_msg("--threads %d: no load of %g %% on %d CPUs\n", nr_threads, load,
				   nr);
	return why_no_realtime(GROUPS_PRIORITY);
}

static const struct option_row rows[] = {
	{ "profile", 0, WORD, &profile, 0, 0, "overload, pinned-groups" },
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of each profile" },
	{ "warm-up", 0, NUMBER, &warm_up, 0, 3600, "seconds before each profile, not counted" },
	{ "threads", 't', COUNT, &nr_threads, 1, 20000, "threads of overload (2 per CPU, and 1)" },
	{ "burst-us", 0, NUMBER, &burst_us, 1, 10000, "work of a thread before it sleeps" },
	{ "load", 0, NUMBER, &load, 1, 85, "CPU time of all threads, in percent of all CPUs" },
	{ "groups", 'g', COUNT, &groups.nr, 1, MOST_CPUS, "groups of pinned-groups (what fits)" },
	{ "group-size", 0, COUNT, &groups.size, 1, MOST_CPUS, "CPUs of a group" },
	{ "frame-us", 0, NUMBER, &groups.frame_us, 1, 10000, "work on a frame in each stage" },
};

static const struct test tests[] = {
	{ .name = "overload_ran", .rule = WORK, .metric = "overload.bursts" },
	{ .name = "every_thread_ran", .rule = WORK, .metric = "overload.evenness_of_threads" },
	{ .name = "migrated", .rule = WORK, .metric = "overload.cpu_changes_per_s" },
	{ .name = "groups_ran", .rule = WORK, .metric = "groups.frames_per_s" },
	{ .name = "every_group_ran", .rule = WORK, .metric = "groups.evenness" },
	{ .name = "kept_in_groups", .rule = NONE, .metric = "groups.elsewhere" },
	{ .name = "ran_in_time", .rule = GROSS, .realtime = true, .most_ms = REALTIME_MS,
	  .compared = { "overload.late.p50", "overload.late_first.p50" } },
	{ .name = "late_within_baseline", .rule = BASELINE,
	  .compared = { "overload.late.p50", "overload.late.p99", "overload.late.p99_9" } },
	{ .name = "late_first_within_baseline", .rule = BASELINE,
	  .compared = { "overload.late_first.p50", "overload.late_first.p99",
			"overload.late_first.p99_9" } },
	{ .name = "work_within_baseline", .rule = BASELINE,
	  .compared = { "overload.bursts_per_s", "groups.frames_per_s" } },
	{ .name = "each_cpu_within_baseline", .rule = BASELINE, .each_cpu = true,
	  .compared = { "overload.p50", "overload.p99" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload rt_push_pull = {
	.name = "rt_push_pull",
	.about =
		"SCHED_FIFO threads that are pushed and pulled from CPU to CPU, and pipelines of them\n"
		"in groups of CPUs. KTAP on standard output.",
	.examples =
		"  rt_push_pull\n"
		"  rt_push_pull --profile overload --threads 961 --seconds 30\n"
		"  rt_push_pull --profile pinned-groups --groups 60 --group-size 8 --seconds 60\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.cannot = cannot,
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&rt_push_pull, argc, argv);
}
