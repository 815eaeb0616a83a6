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

struct spinner {
	struct cpus cpu;
	int id, *ran_last;
};

static struct samples samples;

static void *work(void *argument)
{
	struct spinner *own = argument;
	__u64 end = be_ready(&own->cpu, 0) + (__u64)(seconds * NS_PER_S);
	__u64 time, ran = now(), turn = 0;
	int cpu = cpus_next(&own->cpu, -1);

	/* A CPU that somebody else has all the time gets more. */
	for (; (time = now()) < end || (!samples.on[cpu].n && time < end + PATIENCE); ran = time) {
		if (__atomic_exchange_n(own->ran_last, own->id, __ATOMIC_RELAXED) != own->id) {
			if (turn)
				sample(&samples, cpu, turn + woken() - time);
			turn = 0;
		} else if (time - ran < GAP_NS) {
			turn += time - ran;
		}
	}
	return NULL;
}

static void measure(void)
{
	int nr = cpus_count(&common.cpus), idle = 0, i = 0;
	struct spinner *spinners = calloc(2 * nr, sizeof(*spinners));
	int *ran_last = calloc(nr, sizeof(*ran_last));

	must(spinners && ran_last, "memory");
	samples_new(&samples);
	for_each_cpu(cpu, &common.cpus)
		for (int id = 1; id <= 2; id++, i++) {
			cpus_add(&spinners[i].cpu, cpu);
			spinners[i].id = id;
			spinners[i].ran_last = &ran_last[i / 2];
		}
	run_threads(2 * nr, work, spinners, sizeof(*spinners));
	add_samples("turn", &samples, true);
	for_each_cpu(cpu, &common.cpus)
		idle += !samples.on[cpu].n;
	add_metric(EXACT, LOWER, "CPUs", idle, nr, "cpus_without_turns");
}

static const struct option_row rows[] = {
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of a run" },
};

static const struct test tests[] = {
	{ .name = "every_cpu_took_turns", .rule = ZERO, .metrics = { "cpus_without_turns" } },
	/* Older kernels may let a task run for 12 ms, and look with the next tick. */
	{ .name = "turns_in_time", .rule = AT_MOST, .metrics = { "turn.p90" },
	  .most_ms = TURN_MS, .own_time = true, .since_major = 6, .since_minor = 6 },
	{ .name = "within_limits", .rule = LIMITS },
};

int main(int argc, char **argv)
{
	static const struct workload workload = {
		"take_turns",
		"How long a task keeps its CPU while another one waits for it.",
		rows, ARRAY_SIZE(rows), tests, ARRAY_SIZE(tests), NULL, measure
	};

	return workload_main(&workload, argc, argv);
}
