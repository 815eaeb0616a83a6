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
#include "workload.h"

static double seconds = 2, warm_up = 0.1, interval_us = 1000, distance_us = 50;
static int priority = 80, cycles;

struct cpu_thread {
	pthread_t thread;
	int cpu, place;
	const char *error;
	__u64 missed, elsewhere;
	struct histogram histogram;
};

static struct results *all;
static struct cpu_thread *threads;
static pthread_barrier_t ready;
static __u64 start, end;

static void cycle(struct cpu_thread *own)
{
	__u64 interval = interval_us * 1000, recorded = start + (__u64)(warm_up * NS_PER_S);
	__u64 next = start + own->place * (__u64)(distance_us * 1000), woken;

	while (own->histogram.n < (__u64)cycles || !cycles) {
		next += interval;
		sleep_until(next);
		inject_delay();
		woken = now();
		/* A slow machine, a guest perhaps, may need longer for the first one. */
		if (woken >= end && own->histogram.n)
			break;
		if (next >= recorded) {
			histogram_add(&own->histogram, woken - next);
			own->elsewhere += sched_getcpu() != own->cpu;
		}
		while (next + interval < woken) {
			next += interval;
			own->missed += next >= recorded;
		}
	}
}

static void *work(void *argument)
{
	struct cpu_thread *own = argument;

	if (!run_on_cpu(own->cpu))
		own->error = "its CPU cannot be used";
	else if (!be_realtime(priority))
		own->error = "SCHED_FIFO is not allowed";
	/* First until all threads are ready, then until the start is set. */
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	if (!own->error && start)
		cycle(own);
	return NULL;
}

static void report(int nr)
{
	struct histogram *sum = calloc(1, sizeof(*sum));
	__u64 missed = 0, elsewhere = 0;
	int idle = 0;

	for (int i = 0; i < nr && sum; i++) {
		histogram_merge(sum, &threads[i].histogram);
		missed += threads[i].missed;
		elsewhere += threads[i].elsewhere;
		idle += !threads[i].histogram.n;
		add_row(all, "timer", threads[i].cpu, &threads[i].histogram);
	}
	if (!sum)
		give_up(all, "no memory");
	add_quantiles(all, "timer", sum, GATE_P50 | GATE_P99);
	add_metric(all, EXCEEDANCE, LOWER, "intervals", missed, "timer.missed")->n = sum->n;
	add_metric(all, EXACT, LOWER, "samples", elsewhere, "timer.elsewhere")->n = sum->n;
	add_metric(all, EXACT, LOWER, "threads", idle, "timer.idle_threads")->n = nr;
}

static void measure(struct results *results)
{
	int nr = cpus_count(&common.cpus), i = 0;

	all = results;
	threads = calloc(nr, sizeof(*threads));
	if (!threads || pthread_barrier_init(&ready, NULL, nr + 1))
		give_up(results, "no memory");
	if (!guard_realtime())
		give_up(results, "RLIMIT_RTTIME: %s", strerror(errno));
	be_prompt();
	for (int cpu = cpus_next(&common.cpus, -1); cpu >= 0; cpu = cpus_next(&common.cpus, cpu)) {
		threads[i].cpu = cpu;
		threads[i].place = i;
		start_thread(results, &threads[i].thread, work, &threads[i]);
		i++;
	}
	pthread_barrier_wait(&ready);
	for (i = 0; i < nr; i++)
		if (threads[i].error)
			give_up(results, "CPU %d: %s", threads[i].cpu, threads[i].error);
	start = now();
	end = start + (__u64)((cycles ? 3600 : warm_up + seconds) * NS_PER_S);
	pthread_barrier_wait(&ready);
	for (i = 0; i < nr; i++)
		pthread_join(threads[i].thread, NULL);
	report(nr);
}

static const char *cannot(void)
{
	return why_no_realtime(priority);
}

static const struct option_row rows[] = {
	{ "seconds", 's', NUMBER, &seconds, 0.01, 86400, "length of a run" },
	{ "cycles", 'l', COUNT, &cycles, 1, 1e9, "make N wake-ups on each CPU, however long" },
	{ "warm-up", 0, NUMBER, &warm_up, 0, 3600, "seconds before the run, not counted" },
	{ "interval-us", 'i', NUMBER, &interval_us, 50, 1e6, "time between wake-ups of a thread" },
	{ "distance-us", 'd', NUMBER, &distance_us, 0, 1e6, "time between the threads' wake-ups" },
	{ "priority", 'p', COUNT, &priority, 1, 98, "priority of the SCHED_FIFO threads" },
};

static const struct test tests[] = {
	{ .name = "timer_wakeups", .rule = WORK, .metric = "timer.samples" },
	{ .name = "every_cpu_woke", .rule = NONE, .metric = "timer.idle_threads" },
	{ .name = "ran_where_pinned", .rule = NONE, .metric = "timer.elsewhere" },
	{ .name = "histogram_holds_all", .rule = NONE, .metric = "timer.overflow" },
	{ .name = "within_budget", .rule = BUDGET },
};

static const struct workload rt_wakeup = {
	.name = "rt_wakeup",
	.about =
		"How late SCHED_FIFO threads wake up from a timer, one on each CPU, as cyclictest\n"
		"measures it. KTAP on standard output.",
	.examples = "  rt_wakeup\n"
		    "  rt_wakeup --seconds 60 --interval-us 200 --distance-us 0 --json run.json\n"
		    "  rt_wakeup --record                   a baseline of this machine\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.cannot = cannot,
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&rt_wakeup, argc, argv);
}
