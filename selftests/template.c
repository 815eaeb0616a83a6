// SPDX-License-Identifier: GPL-2.0
/*
 * How late does an ordinary task wake up from a sleep?
 *
 * A task on each CPU sleeps for a millisecond, again and again, and reads the
 * clock when it runs.
 */
/*
 * This is a template. Copy it to sched_latency/NAME.c, without this comment; no
 * other file has to change. The comment above becomes the text of the patch that
 * adds the program: what is measured, how, and why. The names of the tests below
 * are expected of every run from then on, and never change. The header explains
 * all that is used here.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

/* What options set. By default a run takes no more than a few seconds. */
static double seconds = 0.5, sleep_us = 1000;

static struct samples samples;

/* A thread on each CPU. */
static void *work(void *argument)
{
	struct pinned *own = argument;
	/* All start together. A priority instead of 0 makes it SCHED_FIFO. */
	__u64 end = be_ready(&own->cpus, 0) + (__u64)(seconds * NS_PER_S);
	__u64 next;

	/* However slow the machine is, there is a sample. */
	do {
		next = now() + (__u64)(sleep_us * 1000);
		sleep_until(next);
		/*
		 * woken() is now(), but late by --inject-delay-us: so a test that
		 * cannot fail is found. ran_on() ends the run if the CPU was lost.
		 */
		sample(&samples, ran_on(&own->cpus), woken() - next);
	} while (next < end);
	return NULL;
}

/* A run: it writes down what it measured, and judges nothing. */
static void measure(void)
{
	samples_new(&samples);
	run_on_each(&common.cpus, 1, work);
	/* late.samples, late.p50, late.p99 and so on; true: those of the worst CPU, too. */
	add_samples("late", &samples, true);
	/* One figure more. What cannot be measured has a reason: add_absent(name, why). */
	add_metric(EXACT, LOWER, "tasks", samples_idle(&samples), cpus_count(&common.cpus),
		   "late.idle_tasks");
}

/* Name, letter or 0, type, variable, least, most, help. */
static const struct option_row rows[] = {
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of a run" },
	{ "sleep-us", 0, NUMBER, &sleep_us, 1, 1e6, "length of each sleep" },
};

/* enum rule explains the kinds. Each program has one of AT_MOST, and LIMITS. */
static const struct test tests[] = {
	{ .name = "every_task_woke", .rule = ZERO, .metrics = { "late.idle_tasks" } },
	{ .name = "woken_in_time", .rule = AT_MOST,
	  .metrics = { "late.p50" }, .most_ms = FAIR_MS },
	{ .name = "late_within_baseline", .rule = BASELINE,
	  .metrics = { "late.p50", "late.worst_cpu_p50" } },
	{ .name = "late_tail_within_baseline", .rule = BASELINE,
	  .metrics = { "late.p99", "late.worst_cpu_p99" }, .tolerance = TAIL },
	{ .name = "within_limits", .rule = LIMITS },
};

/*
 * Its name; a function that says why there is nothing to measure here, or NULL:
 * it can always be measured; and what --help says.
 */
WORKLOAD_MAIN("template", NULL, "How late an ordinary task wakes up from a sleep.")
