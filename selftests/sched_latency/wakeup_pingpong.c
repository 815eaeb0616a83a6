// SPDX-License-Identifier: GPL-2.0
/*
 * How long does it take to wake a task: by a futex, an eventfd or a pipe, on
 * CPUs that share a core, a cluster, an LLC, a node, or none of these?
 *
 * Two threads wake each other in turn. Each notes the time before it wakes the
 * other one, which reads the clock when it runs. Only wake-ups of a thread that
 * slept are counted: one that had not gone to sleep yet has made no voluntary
 * context switch. The pairs of CPUs and the ways to wake are measured in turn,
 * one slice of each in every round, so that changes over time affect all of
 * them. In the last pair the second thread may run on any CPU.
 */
#define _GNU_SOURCE
#include <sys/eventfd.h>

#include "sched_latency.h"

enum distance {
	SAME_CPU, SAME_CORE, SAME_CLUSTER, SAME_LLC, OTHER_LLC, OTHER_NODE, FREE, DISTANCES
};

enum way { FUTEX, EVENTFD, PIPE, WAYS };

static const char * const way_names[WAYS] = { "futex", "eventfd", "pipe" };
static const char * const names[DISTANCES] = {
	"same_cpu", "same_core", "same_cluster", "same_llc", "other_llc", "other_node", "free",
};

/* The default is a few seconds where all pairs exist. */
static double slice_ms = 12, warm_up_ms = 2;
static int nr_rounds = 5;

/* One of the two threads. */
static struct side {
	struct cpus cpus;
	__u32 word;
	int fds[2];
	__u64 turns, awake;
	struct side *other;
} sides[2];

static struct pair {
	/* Below 0 if there is no such pair, or if it may be any CPU. */
	int first, second;
	struct slices {
		struct samples samples;
		__u64 awake, turns, lasted;
	} by[WAYS];
} pairs[DISTANCES];

static struct slices *slices;
static enum way way;
static __u64 stamp;
static bool stop;

/* DISTANCES if sysfs does not say. */
static enum distance distance_of(int a, int b)
{
	struct cpus shared;

	if (cpus_sharing(a, CORE, &shared) && cpus_has(&shared, b))
		return SAME_CORE;
	if (cpus_sharing(a, CLUSTER, &shared) && cpus_has(&shared, b))
		return SAME_CLUSTER;
	if (!cpus_sharing(a, LLC, &shared))
		return DISTANCES;
	if (cpus_has(&shared, b))
		return SAME_LLC;
	return !cpus_sharing(a, NODE, &shared) || cpus_has(&shared, b) ? OTHER_LLC : OTHER_NODE;
}

/* The first pair of each kind, with one of the first CPUs. */
static void choose_pairs(void)
{
	int first = cpus_next(&common.cpus, -1), tried = 0;

	for (enum distance i = 0; i < DISTANCES; i++) {
		pairs[i] = (struct pair){ .first = -1, .second = -1 };
		for (way = 0; way < WAYS; way++)
			samples_new(&pairs[i].by[way].samples);
	}
	pairs[SAME_CPU].first = first;
	pairs[SAME_CPU].second = first;
	pairs[FREE].first = cpus_count(&common.cpus) > 1 ? first : -1;
	for_each_cpu(a, &common.cpus) {
		if (tried++ == 8)
			break;
		for (int b = cpus_next(&common.cpus, a); b >= 0; b = cpus_next(&common.cpus, b)) {
			enum distance distance = distance_of(a, b);

			if (distance < DISTANCES && pairs[distance].first < 0) {
				pairs[distance].first = a;
				pairs[distance].second = b;
			}
		}
	}
}

static void wake(struct side *side)
{
	__u64 one = 1;

	stamp = now();
	if (way == FUTEX)
		futex_wake(&side->word, 1);
	else
		must(write(side->fds[way == PIPE], &one, sizeof(one)) == sizeof(one), "write");
}

static void wait_for(struct side *side)
{
	__u64 sum;

	if (way == FUTEX) {
		futex_wait(&side->word, 0);
		store(side->word, 0);
	} else {
		must(read(side->fds[0], &sum, sizeof(sum)) == sizeof(sum), "read");
	}
}

/* Only the first thread ends a slice, so that none is left asleep. */
static void *play(void *argument)
{
	struct side *side = argument;
	__u64 counted_from = be_ready(&side->cpus, 0) + (__u64)(warm_up_ms * 1e6);
	__u64 end = counted_from + (__u64)(slice_ms * 1e6), time;
	long before = usage_of(RUSAGE_THREAD).ru_nvcsw, after;

	if (side == &sides[0])
		wake(side->other);
	while (!load(stop)) {
		wait_for(side);
		time = woken();
		after = usage_of(RUSAGE_THREAD).ru_nvcsw;
		if (time >= counted_from && !load(stop)) {
			side->turns++;
			if (after == before)
				side->awake++;
			else if (side == &sides[1] || cpus_count(&side->other->cpus) == 1)
				sample(&slices->samples, ran_on(&side->cpus), time - stamp);
		}
		before = after;
		/* A slice without a sample lasts longer: something else had the CPU. */
		if (side == &sides[0] && time >= end &&
		    (side->other->turns > side->other->awake || time >= end + PATIENCE / 30)) {
			slices->lasted += time - counted_from;
			store(stop, true);
		}
		wake(side->other);
	}
	return NULL;
}

static void run_slice(struct pair *pair)
{
	stop = false;
	slices = &pair->by[way];
	for (int i = 0; i < 2; i++) {
		int cpu = i ? pair->second : pair->first, *fds = sides[i].fds;

		sides[i] = (struct side){ .other = &sides[!i], .fds = { -1, -1 } };
		if (cpu < 0)
			sides[i].cpus = common.cpus;
		else
			cpus_add(&sides[i].cpus, cpu);
		if (way == EVENTFD)
			fds[0] = eventfd(0, EFD_CLOEXEC);
		must(way == FUTEX || (way == PIPE && !pipe2(fds, O_CLOEXEC)) || fds[0] >= 0,
		     way_names[way]);
	}
	run_threads(2, play, sides, sizeof(sides[0]));
	for (int i = 0; i < 2; i++) {
		close(sides[i].fds[0]);
		close(sides[i].fds[1]);
		slices->awake += sides[i].awake;
		slices->turns += sides[i].turns;
	}
}

static void report(enum distance distance)
{
	const char *name = text_of("%s_%s", way_names[way], names[distance]);

	slices = &pairs[distance].by[way];
	if (pairs[distance].first < 0) {
		add_absent(name, "these CPUs have no such pair");
		return;
	}
	add_samples(name, &slices->samples, false);
	add_metric(EXACT, NEITHER, "samples", slices->awake, slices->turns,
		   text_of("%s.awake", name));
	/* Unlike p50, this shows a CPU that is away half of the time. */
	add_metric(RATE, LOWER, "ns", slices->lasted / (double)slices->turns, slices->turns,
		   text_of("%s.mean_turn", name));
}

static void measure(void)
{
	choose_pairs();
	for (int i = 0; i < nr_rounds * DISTANCES; i++)
		for (way = 0; way < WAYS; way++)
			if (pairs[i % DISTANCES].first >= 0)
				run_slice(&pairs[i % DISTANCES]);
	for (enum distance distance = 0; distance < DISTANCES; distance++)
		for (way = 0; way < WAYS; way++)
			report(distance);
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "slices of each pair and way" },
	{ "slice-ms", 0, NUMBER, &slice_ms, 1, 1e6, "length of a slice" },
	{ "warm-up-ms", 0, NUMBER, &warm_up_ms, 0, 1e6, "time before each slice, not counted" },
};

#define EACH(distance, what)								\
	"futex_" #distance "." #what, "eventfd_" #distance "." #what, "pipe_" #distance "." #what
#define COMPARED(distance, unit)							\
	{ .name = #distance "_within_baseline", .rule = BASELINE, .reference = unit,	\
	  .metrics = { "futex_" #distance ".p50", "futex_" #distance ".mean_turn",	\
		       "eventfd_" #distance ".p50", "eventfd_" #distance ".mean_turn",	\
		       "pipe_" #distance ".p50", "pipe_" #distance ".mean_turn" } }

static const struct test tests[] = {
	{ .name = "every_pair_woke", .rule = DONE,
	  .metrics = { EACH(same_cpu, samples), EACH(same_core, samples),
		       EACH(same_cluster, samples), EACH(same_llc, samples),
		       EACH(other_llc, samples), EACH(other_node, samples), EACH(free, samples) } },
	{ .name = "woken_in_time", .rule = AT_MOST, .most_ms = FAIR_MS,
	  .metrics = { EACH(same_cpu, p50), EACH(same_core, p50), EACH(same_cluster, p50),
		       EACH(same_llc, p50), EACH(other_llc, p50), EACH(other_node, p50),
		       EACH(free, p50) } },
	COMPARED(same_cpu, SYSCALL), COMPARED(same_core, IPI), COMPARED(same_cluster, IPI),
	COMPARED(same_llc, IPI), COMPARED(other_llc, IPI), COMPARED(other_node, IPI),
	COMPARED(free, IPI),
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("wakeup_pingpong", NULL,
	      "How long it takes to wake a task by a futex, an eventfd or a pipe, near and far.")
