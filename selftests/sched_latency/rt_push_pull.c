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
 * Profile pinned-groups, in pinned_groups.h, imitates the FFmpeg of the mails.
 *
 * The load is below the kernel's limit for RT tasks, sched_rt_runtime_us, which
 * is not changed. By default it is 95 % in 6.12, and 100 % in 7.3. Each thread
 * also checks the clock itself, and RLIMIT_RTTIME ends a thread that still runs
 * on.
 */
#define _GNU_SOURCE
#include "workload.h"
#include "thread_work.h"
#include "pinned_groups.h"

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
	if (cpus_count(&common.cpus) > 1)
		add_metric(results, RATE, NEITHER, "1/s", changes / counted_s,
			   "overload.cpu_changes_per_s");
	else
		add_absent(results, "overload.cpu_changes_per_s",
			   "one CPU: threads cannot change CPUs");
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
