// SPDX-License-Identifier: GPL-2.0
/*
 * Real-time overload: SCHED_FIFO threads that have to be pushed to, and pulled
 * by, other CPUs, so that cpupri_set(), cpupri_find() and the rto_mask are busy.
 *
 * Profile overload: two threads for each CPU and one more, of different
 * priorities, which may run on all CPUs. Each works for 50 us and then sleeps.
 * The sleeps vary, and all threads together use 70 % of the CPUs.
 *
 * Profile pinned-groups imitates the FFmpeg of the mails: one in each group of 8
 * CPUs, with threads of SCHED_FIFO 99. A group is a ring of stages, as many as
 * it has CPUs. Each works on a frame and hands it on through a pipe. There is a
 * frame for each CPU, so threads often find another one where they ran, and are
 * pushed. Each sleeps for a quarter of its work, so a group uses 80 % of its
 * CPUs. That is below the limit of the kernel for RT tasks, which stays.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

#define LOWEST_PRIORITY	10
#define GROUPS_PRIORITY	99
#define WORK_US		50
#define LOAD		0.7
#define FEW		3
#define FEWEST_BURSTS	20

static double seconds = 0.3, warm_up = 0.05;
static int nr_threads, group_size = 8;
static const char *profile = "both";

struct rt_thread {
	int number, cpu, pipe[2];
	const struct cpus *cpus;
	struct rt_thread *next;
	unsigned short seed[3];
	/* What is before counted is warm-up. */
	__u64 counted, n, changes;
};

static struct samples late;
/* Steps of work for WORK_US, and the mean sleep. */
static double burst, sleep_ns;
/* Threads that have not run FEW times. The run lasts for them, longer in a slow guest. */
static int nr_awaited;

static bool over(const struct rt_thread *own, __u64 time)
{
	__u64 end = own->counted + (__u64)(seconds * NS_PER_S);

	return time >= end && (load(nr_awaited) <= 0 || time >= end + PATIENCE);
}

/* Note that it was woken. False in the warm-up. */
static bool count(struct rt_thread *own, __u64 time)
{
	int cpu = ran_on(own->cpus), was_on = own->cpu;

	own->cpu = cpu;
	if (time < own->counted)
		return false;
	own->changes += own->n++ && cpu != was_on;
	if (own->n == FEW)
		__atomic_sub_fetch(&nr_awaited, 1, __ATOMIC_RELAXED);
	return true;
}

static void *overload(void *argument)
{
	struct rt_thread *own = argument;
	__u64 due = be_ready(own->cpus, LOWEST_PRIORITY + own->number % 40), time;

	for (own->counted = due + (__u64)(warm_up * NS_PER_S);; due = now()) {
		/* From 0.5 to 1.5 times the mean; each run has the same sleeps. */
		due += (__u64)(sleep_ns * (0.5 + erand48(own->seed)));
		if (over(own, due))
			return NULL;
		sleep_until(due);
		time = woken();
		if (count(own, time))
			sample(&late, own->cpu, time - due);
		work_steps(burst);
	}
}

static void *stage(void *argument)
{
	struct rt_thread *own = argument;
	char frame;

	own->counted = be_ready(own->cpus, GROUPS_PRIORITY) + (__u64)(warm_up * NS_PER_S);
	while (read(own->pipe[0], &frame, 1) == 1 && !over(own, now())) {
		count(own, woken());
		work_steps(burst);
		sleep_until(now() + WORK_US * 1000 / 4);
		must(write(own->next->pipe[1], &frame, 1) == 1, "a frame");
	}
	/* Else the next stage might wait for a frame forever. */
	must(write(own->next->pipe[1], &frame, 1) == 1, "a frame");
	return NULL;
}

static double seconds_of(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

/* What all did, or the first ones of rings of this size. */
static struct {
	double took, kernel;
	__u64 n, changes, idle;
} sum;

static void run(struct rt_thread *threads, int nr, int ring, void *(*play)(void *argument))
{
	struct rusage had = usage_of(RUSAGE_SELF), has;
	__u64 begin = now();
	double system;

	nr_awaited = nr;
	run_threads(nr, play, threads, sizeof(*threads));
	memset(&sum, 0, sizeof(sum));
	sum.took = seconds_since(begin) - warm_up;
	has = usage_of(RUSAGE_SELF);
	system = seconds_of(has.ru_stime) - seconds_of(had.ru_stime);
	sum.kernel = percent(system, system + seconds_of(has.ru_utime) - seconds_of(had.ru_utime));
	for (int i = 0; i < nr; i += ring) {
		sum.n += threads[i].n;
		sum.changes += threads[i].changes;
		sum.idle += !threads[i].n;
	}
}

static void run_overload(void)
{
	struct rt_thread *threads = shared_memory(nr_threads * sizeof(*threads));

	samples_new(&late);
	sleep_ns = WORK_US * 1000 * (nr_threads / (LOAD * cpus_count(&common.cpus)) - 1);
	for (int i = 0; i < nr_threads; i++)
		threads[i] = (struct rt_thread){ .cpus = &common.cpus, .number = i,
						 .seed = { 0, 0, i } };
	run(threads, nr_threads, 1, overload);
	add_metric(EXACT, NEITHER, "bursts", sum.n, sum.n, "overload.bursts");
	add_metric(RATE, HIGHER, "bursts/s", sum.n / sum.took, sum.n, "overload.bursts_per_s");
	add_metric(EXACT, LOWER, "threads", sum.idle, nr_threads, "overload.idle_threads");
	if (cpus_count(&common.cpus) == 1 ||
	    (!sum.changes && sum.n < (__u64)FEWEST_BURSTS * nr_threads))
		add_absent("overload.cpu_changes_per_s", "one CPU, or too few bursts to tell");
	else
		add_metric(RATE, NEITHER, "1/s", sum.changes / sum.took, sum.n,
			   "overload.cpu_changes_per_s");
	add_samples("overload.late", &late, true);
}

/* CPUs in the order of their numbers, as FFmpeg was pinned; the rest is not used. */
static void run_groups(void)
{
	int nr_cpus = cpus_count(&common.cpus), cpu = -1;
	int size = group_size < nr_cpus ? group_size : nr_cpus, nr = nr_cpus / size;
	/* A ring of one would wake itself. */
	int nr_stages = size < 2 ? 2 : size;
	struct rt_thread *stages = shared_memory(nr * nr_stages * sizeof(*stages));
	struct cpus *cpus = shared_memory(nr * sizeof(*cpus));

	for (int i = 0; i < nr * nr_stages; i++) {
		int group = i / nr_stages, number = i % nr_stages;

		if (number < size) {
			cpu = cpus_next(&common.cpus, cpu);
			cpus_add(&cpus[group], cpu);
		}
		stages[i].cpus = &cpus[group];
		stages[i].next = &stages[group * nr_stages + (number + 1) % nr_stages];
		must(!pipe2(stages[i].pipe, O_CLOEXEC), "pipe");
		must(number >= size || write(stages[i].pipe[1], "", 1) == 1, "a frame");
	}
	run(stages, nr * nr_stages, nr_stages, stage);
	add_metric(RATE, HIGHER, "frames/s", sum.n / sum.took, sum.n, "groups.frames_per_s");
	add_metric(EXACT, LOWER, "groups", sum.idle, nr, "groups.idle_groups");
	add_metric(RATE, LOWER, "%", sum.kernel, sum.n, "groups.kernel_of_cpu_time");
}

static void measure(void)
{
	be_prompt();
	rt_priority = LOWEST_PRIORITY;
	burst = WORK_US * steps_per_us();
	if (strcmp(profile, "pinned-groups"))
		run_overload();
	else
		add_absent("overload", "another profile was asked for");
	if (strcmp(profile, "overload"))
		run_groups();
	else
		add_absent("groups", "another profile was asked for");
}

static const char *cannot(void)
{
	int nr = cpus_count(&common.cpus);

	if (strcmp(profile, "both") && strcmp(profile, "overload") &&
	    strcmp(profile, "pinned-groups"))
		ksft_exit_fail_msg("--profile %s: overload, pinned-groups or both\n", profile);
	if (!nr_threads)
		nr_threads = 2 * nr + 1;
	if (nr_threads <= LOAD * nr)
		ksft_exit_fail_msg("--threads %d: too few for %d CPUs\n", nr_threads, nr);
	return why_no_realtime(GROUPS_PRIORITY);
}

static const struct option_row rows[] = {
	{ "profile", 0, WORD, &profile, 0, 0, "overload, pinned-groups or both" },
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of each profile" },
	{ "warm-up", 0, NUMBER, &warm_up, 0, 3600, "seconds before each profile, not counted" },
	{ "threads", 't', COUNT, &nr_threads, 1, 20000, "threads of overload (2 per CPU, and 1)" },
	{ "group-size", 0, COUNT, &group_size, 1, MOST_CPUS, "CPUs of a group" },
};

static const struct test tests[] = {
	{ .name = "overload_ran", .rule = DONE, .metrics = { "overload.bursts" } },
	{ .name = "every_thread_ran", .rule = ZERO, .metrics = { "overload.idle_threads" } },
	{ .name = "migrated", .rule = DONE, .realtime = true,
	  .metrics = { "overload.cpu_changes_per_s" } },
	{ .name = "groups_ran", .rule = DONE, .metrics = { "groups.frames_per_s" } },
	{ .name = "every_group_ran", .rule = ZERO, .metrics = { "groups.idle_groups" } },
	{ .name = "ran_in_time", .rule = AT_MOST, .realtime = true, .most_ms = REALTIME_MS,
	  .metrics = { "overload.late.p50" } },
	{ .name = "late_within_baseline", .rule = BASELINE,
	  .metrics = { "overload.late.p50", "overload.late.worst_cpu_p50" } },
	{ .name = "late_tail_within_baseline", .rule = BASELINE, .tolerance = TAIL,
	  .metrics = { "overload.late.p99", "overload.late.p99_9",
		       "overload.late.worst_cpu_p99" } },
	{ .name = "work_within_baseline", .rule = BASELINE,
	  .metrics = { "overload.bursts_per_s", "groups.frames_per_s" } },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("rt_push_pull", cannot,
	      "SCHED_FIFO threads that are pushed and pulled from CPU to CPU.")
