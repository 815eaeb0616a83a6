// SPDX-License-Identifier: GPL-2.0
/*
 * The workload with which the fields of struct rq were reordered ("[PATCH v2]
 * Reorder some fields in struct rq."). It keeps the load balancer busy: many
 * processes sleep for a millisecond, again and again, so that CPUs go idle and
 * look for work all the time.
 *
 * Its options are those of the mail: -m milliseconds, -l the binary logarithm
 * of the number of sleeps, -c children. The mail's "8000 sleeps" are -l 13,
 * which is 8192, and its machine of 480 CPUs had -c 4800. The mail measured the
 * cycles with sched_balance_rq() on the stack; perf record -a -g shows them.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

#define MOST_CHILDREN	100000

static int sleep_ms = 1, log_loops = 9, nr_children;

/* Shared by all processes. */
static struct gate {
	__u32 ready, go;
} *gate;

static struct samples late;

static __noreturn void child(void)
{
	const struct timespec length = { sleep_ms / 1000, sleep_ms % 1000 * 1000000 };
	__u64 asked = sleep_ms * 1000000ULL;

	__atomic_add_fetch(&gate->ready, 1, __ATOMIC_RELEASE);
	futex_wait(&gate->go, 0);
	for (long i = 0; i < 1L << log_loops; i++) {
		__u64 before = now(), after;

		if (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL))
			_exit(KSFT_FAIL);
		after = woken();
		sample(&late, ran_on(&common.cpus), after - before - asked);
	}
	_exit(KSFT_PASS);
}

static void fork_children(void)
{
	for (int i = 0; i < nr_children; i++) {
		pid_t pid = fork_bound();

		if (!pid)
			child();
		if (pid < 0)
			give_up("child %d of %d: fork: %s; try fewer --children", i + 1,
				nr_children, strerror(errno));
	}
}

static void await_children(void)
{
	for (int i = 0; i < nr_children; i++) {
		int status;

		must(wait(&status) > 0, "wait");
		/* A child that gave up has said why. */
		if (WIFEXITED(status) && WEXITSTATUS(status))
			_exit(KSFT_FAIL);
		if (status)
			give_up("a child was killed by signal %d", WTERMSIG(status));
	}
}

/* Wait until all children are at the gate; give up if one has ended. */
static void await_ready(void)
{
	while (load(gate->ready) < (__u32)nr_children) {
		siginfo_t gone = {};

		if (!waitid(P_ALL, 0, &gone, WEXITED | WNOHANG | WNOWAIT) && gone.si_pid)
			give_up("a child ended before it slept: %d", gone.si_status);
		usleep(1000);
	}
}

static void measure(void)
{
	long asked = (long)nr_children << log_loops;
	double ready, took;
	__u64 begin, n;

	samples_new(&late);
	gate = shared_memory(sizeof(*gate));
	must(run_on(&common.cpus), "--cpus");
	begin = now();
	fork_children();
	await_ready();
	ready = seconds_since(begin);
	begin = now();
	futex_wake(&gate->go, 1);
	await_children();
	took = seconds_since(begin);
	n = samples_count(&late);
	add_metric(EXACT, NEITHER, "sleeps", n, n, "sleeps");
	add_metric(EXACT, LOWER, "sleeps", asked - n, asked, "sleeps_missing");
	add_metric(RATE, HIGHER, "sleeps/s", n / took, n, "sleeps_per_s");
	add_samples("oversleep", &late, true);
	add_metric(EXACT, LOWER, "s", ready, nr_children, "start.all_ready_s");
	add_metric(EXACT, LOWER, "s", took, 1, "storm_s");
}

/* By default, as many children for each CPU as in the mail. */
static const char *cannot(void)
{
	if (!nr_children)
		nr_children = 10 * cpus_count(&common.cpus);
	return NULL;
}

static const struct option_row rows[] = {
	{ "children", 'c', COUNT, &nr_children, 1, MOST_CHILDREN,
	  "processes that sleep (10 for each CPU)" },
	{ "log-loops", 'l', COUNT, &log_loops, 0, 30, "each process sleeps 2^N times" },
	{ "sleep-ms", 'm', COUNT, &sleep_ms, 0, 60000, "length of each sleep" },
};

static const struct test tests[] = {
	{ .name = "slept", .rule = DONE, .metrics = { "sleeps" } },
	{ .name = "slept_as_often_as_asked", .rule = ZERO, .metrics = { "sleeps_missing" } },
	{ .name = "woken_in_time", .rule = AT_MOST,
	  .metrics = { "oversleep.p50" }, .most_ms = FAIR_MS },
	{ .name = "sleeps_within_baseline", .rule = BASELINE, .metrics = { "sleeps_per_s" } },
	{ .name = "oversleep_within_baseline", .rule = BASELINE,
	  .metrics = { "oversleep.p50", "oversleep.worst_cpu_p50" } },
	{ .name = "oversleep_tail_within_baseline", .rule = BASELINE,
	  .metrics = { "oversleep.p99", "oversleep.p99_9", "oversleep.worst_cpu_p99",
		       "start.all_ready_s" },
	  .tolerance = TAIL },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("sleep_storm", cannot,
	      "Many processes that sleep for 1 ms again and again: a load for the balancer.")
