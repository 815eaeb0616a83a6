// SPDX-License-Identifier: GPL-2.0
/*
 * Do two tasks take turns on a CPU?
 *
 * Two ordinary tasks spin on each CPU. Nothing wakes up, so only the tick, or
 * the hrtick, can take the CPU from one and give it to the other. Each measures
 * how long it ran before the other did, without the time in which it stood still.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

/* Longer than an interrupt of a kernel that is fit for its purpose. */
#define GAP_NS	200000

static double seconds = 0.5;

static struct samples samples;
/* On each CPU, the task that was there last, one too high. */
static int ran_last[MOST_CPUS];

static void *work(void *argument)
{
	struct pinned *own = argument;
	__u64 end = be_ready(&own->cpus, 0) + (__u64)(seconds * NS_PER_S);
	int cpu = own->cpu, id = own->number + 1;
	__u64 time, ran = now(), turn = 0;

	/* A CPU that somebody else has all the time gets more. */
	for (; (time = now()) < end || (!samples.on[cpu].n && time < end + PATIENCE); ran = time) {
		if (__atomic_exchange_n(&ran_last[cpu], id, __ATOMIC_RELAXED) != id) {
			if (turn)
				sample(&samples, ran_on(&own->cpus), turn + woken() - time);
			turn = 0;
		} else if (time - ran < GAP_NS) {
			turn += time - ran;
		}
	}
	return NULL;
}

static void measure(void)
{
	samples_new(&samples);
	run_on_each(&common.cpus, 2, work);
	add_samples("turn", &samples, true);
	add_metric(EXACT, LOWER, "CPUs", samples_idle(&samples), cpus_count(&common.cpus),
		   "cpus_without_turns");
}

static const struct option_row rows[] = {
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of a run" },
};

static const struct test tests[] = {
	{ .name = "every_cpu_took_turns", .rule = ZERO, .metrics = { "cpus_without_turns" } },
	/* Older kernels may let a task run for 12 ms, and look with the next tick. */
	{ .name = "turns_in_time", .rule = AT_MOST,
	  .metrics = { "turn.p90", "turn.worst_cpu_p50" },
	  .most_ms = TURN_MS, .own_time = true, .since_major = 6, .since_minor = 6 },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("take_turns", NULL,
	      "How long a task keeps its CPU while another one waits for it.")
