// SPDX-License-Identifier: GPL-2.0
/*
 * How late does a SCHED_FIFO thread wake up from a timer?
 *
 * As in cyclictest, a thread on each CPU sleeps until the next full interval,
 * with clock_nanosleep() on CLOCK_MONOTONIC, and measures how late it wakes up.
 * Intervals that have passed by then are skipped, and counted. The threads
 * start --distance-us apart, memory is locked, and CPUs do not enter deep idle
 * states.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

static double seconds = 0.5, warm_up = 0.1, interval_us = 1000, distance_us = 50;
static int priority = 80, cycles, nr_threads;

/* every: of all intervals; the missed ones were late by what is left of the sleep. */
static struct samples samples, every;

static void *work(void *argument)
{
	struct pinned *own = argument;
	__u64 start = be_ready(&own->cpus, priority), interval = interval_us * 1000, time;
	__u64 recorded = start + (__u64)(warm_up * NS_PER_S);
	__u64 end = cycles ? ~0ULL : start + (__u64)((warm_up + seconds) * NS_PER_S);
	__u64 next = start + own->number * (__u64)(distance_us * 1000);
	struct histogram *on = &samples.on[own->cpu];

	while ((on->n < (__u64)cycles || !cycles) && !beyond_threshold()) {
		next += interval;
		/* A slow machine, a guest perhaps, may need longer for the first one. */
		if (next >= end && on->n)
			break;
		sleep_until(next);
		time = woken();
		if (next >= recorded) {
			sample(&samples, ran_on(&own->cpus), time - next);
			histogram_add(&every.on[own->cpu], time - next);
		}
		for (; next + interval < time && next + interval < end; next += interval)
			if (next + interval >= recorded) {
				samples.missed[own->cpu]++;
				histogram_add(&every.on[own->cpu], time - next - interval);
			}
	}
	return NULL;
}

static void measure(void)
{
	struct histogram *sum = shared_memory(sizeof(*sum));
	double worst = 0;
	long missed = 0;
	int at = -1;
	__u64 n;

	be_prompt();
	rt_priority = priority;
	samples_new(&samples);
	samples.missed = shared_memory(samples.nr_cpus * sizeof(*samples.missed));
	samples_new(&every);
	run_on_each(&common.cpus, 1, work);
	add_samples("timer", &samples, true);
	for_each_cpu(cpu, &common.cpus) {
		double p50 = histogram_quantile(&every.on[cpu], 0.5);

		missed += samples.missed[cpu];
		histogram_merge(sum, &every.on[cpu]);
		if (p50 > worst) {
			worst = p50;
			at = cpu;
		}
	}
	n = samples_count(&samples) + missed;
	add_metric(EXCEEDANCE, LOWER, "intervals", missed, n, "timer.missed");
	add_metric(RATE, LOWER, "%", percent(missed, n), n, "timer.missed_share");
	/* One stall, which may be the host's, is more than half of a very short run. */
	if (at >= 0 && (cycles ? cycles * interval_us / 1e6 : seconds) >= 0.4) {
		add_metric(QUANTILE, LOWER, "ns", histogram_quantile(sum, 0.5), sum->n,
			   "timer.p50_with_missed");
		add_metric(QUANTILE, LOWER, "ns", worst, every.on[at].n,
			   "timer.p50_with_missed.worst_cpu")->cpu = at;
	} else {
		add_absent("timer.p50_with_missed", "the run is too short");
	}
	if (beyond_threshold())
		add_absent("timer.idle_threads", "it ended at --threshold-us");
	else
		add_metric(EXACT, LOWER, "threads", samples_idle(&samples),
			   cpus_count(&common.cpus), "timer.idle_threads");
}

static const char *cannot(void)
{
	struct cpus kept = {};

	if (nr_threads > cpus_count(&common.cpus))
		ksft_exit_fail_msg("--threads %d: there are only %d CPUs\n", nr_threads,
				   cpus_count(&common.cpus));
	for_each_cpu(cpu, &common.cpus)
		if (!nr_threads || cpus_count(&kept) < nr_threads)
			cpus_add(&kept, cpu);
	common.cpus = kept;
	return why_no_realtime(priority);
}

static const struct option_row rows[] = {
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000, "length of a run, such as 10m" },
	{ "duration", 'D', DURATION | HARMLESS, &seconds, 0.01, 864000, NULL },
	{ "cycles", 'l', COUNT, &cycles, 1, 1e9, "make N wake-ups on each CPU, however long" },
	{ "warm-up", 0, NUMBER, &warm_up, 0, 3600, "seconds before the run, not counted" },
	{ "interval-us", 'i', NUMBER, &interval_us, 50, 1e6, "time between wake-ups of a thread" },
	{ "distance-us", 'd', NUMBER, &distance_us, 0, 1e6, "time between the threads' wake-ups" },
	{ "priority", 'p', COUNT, &priority, 1, 99, "priority of the SCHED_FIFO threads" },
	{ "threads", 't', COUNT | HARMLESS, &nr_threads, 1, MOST_CPUS,
	  "use the first N CPUs only" },
};

static const struct test tests[] = {
	{ .name = "timer_wakeups", .rule = DONE, .metrics = { "timer.samples" } },
	{ .name = "every_cpu_woke", .rule = ZERO, .metrics = { "timer.idle_threads" } },
	{ .name = "timers_in_time", .rule = AT_MOST,
	  .metrics = { "timer.p50", "timer.p50_with_missed", "timer.worst_cpu_p50",
		       "timer.p50_with_missed.worst_cpu" },
	  .most_ms = TIMER_MS, .realtime = true },
	{ .name = "p50_within_baseline", .rule = BASELINE,
	  .metrics = { "timer.p50", "timer.worst_cpu_p50" } },
	{ .name = "p99_within_baseline", .rule = BASELINE,
	  .metrics = { "timer.p99", "timer.p99_9", "timer.worst_cpu_p99" },
	  .tolerance = TAIL },
	{ .name = "missed_within_baseline", .rule = BASELINE,
	  .metrics = { "timer.missed_share", "timer.worst_cpu_missed_share" },
	  .tolerance = POINTS },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("rt_wakeup", cannot,
	      "How late SCHED_FIFO threads wake up from a timer, one on each CPU.")
