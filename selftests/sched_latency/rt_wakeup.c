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

static double seconds = 0.5, warm_up = 0.1, interval_us = 1000, distance_us = 50;
static double break_us;
static int priority = 80, cycles, nr_threads;
static bool lock_memory;

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

/* The first wake-up beyond --break-trace: its CPU, and how late it was. */
static int broken_cpu = -1;
static __u64 broken_ns;
static int trace_marker = -1, tracing_on = -1;
static char tracing[64];

static void open_tracing(struct results *results)
{
	static const char * const places[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };
	char path[96];

	for (size_t i = 0; i < ARRAY_SIZE(places) && tracing_on < 0; i++) {
		snprintf(tracing, sizeof(tracing), "%s", places[i]);
		snprintf(path, sizeof(path), "%s/trace_marker", tracing);
		trace_marker = open(path, O_WRONLY | O_CLOEXEC);
		snprintf(path, sizeof(path), "%s/tracing_on", tracing);
		tracing_on = open(path, O_WRONLY | O_CLOEXEC);
	}
	if (tracing_on < 0)
		give_up(results, "--break-trace: %s/tracing_on: %s; mount tracefs, as root",
			places[0], strerror(errno));
}

/* Only the first thread stops it. What it did is said in report(). */
static void stop_tracing(int cpu, __u64 late)
{
	int none = -1, len;
	char text[80];

	if (!__atomic_compare_exchange_n(&broken_cpu, &none, cpu, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	broken_ns = late;
	len = snprintf(text, sizeof(text), "rt_wakeup: CPU %d woke up %.1f us late\n", cpu,
		       late / 1e3);
	if (trace_marker >= 0 && write(trace_marker, text, len) < 0)
		len = 0;
	if (write(tracing_on, "0", 1) < 0)
		tracing[0] = '\0';
}

static void report_break(struct results *results)
{
	if (!break_us) {
		add_absent(results, "timer.beyond_break", "no --break-trace");
		return;
	}
	add_metric(results, EXACT, LOWER, "wake-ups", broken_cpu >= 0, "timer.beyond_break");
	if (broken_cpu < 0)
		return;
	ksft_print_msg("CPU %d woke up %.1f us late, beyond %g us\n", broken_cpu, broken_ns / 1e3,
		       break_us);
	if (tracing[0])
		ksft_print_msg("tracing is off; look at %s/trace or per_cpu/cpu%d/trace\n", tracing,
			       broken_cpu);
	else
		ksft_print_msg("tracing could not be stopped\n");
}

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
			if (break_us && woken - next > break_us * 1000)
				stop_tracing(own->cpu, woken - next);
		}
		if (__atomic_load_n(&broken_cpu, __ATOMIC_RELAXED) >= 0)
			break;
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

/* In percent of all intervals. */
static double missed_share(__u64 missed, __u64 woken)
{
	return missed ? 100.0 * missed / (missed + woken) : 0;
}

static void report(int nr)
{
	struct histogram *sum = calloc(1, sizeof(*sum));
	__u64 missed = 0, elsewhere = 0;
	struct metric *metric;
	struct row *row;
	int idle = 0;

	for (int i = 0; i < nr && sum; i++) {
		histogram_merge(sum, &threads[i].histogram);
		missed += threads[i].missed;
		elsewhere += threads[i].elsewhere;
		idle += !threads[i].histogram.n;
		row = add_row(all, "timer", threads[i].cpu, &threads[i].histogram);
		row->missed = missed_share(threads[i].missed, threads[i].histogram.n);
		row->compared = true;
	}
	if (!sum)
		give_up(all, "no memory");
	add_quantiles(all, "timer", sum, ALL_COMPARED);
	metric = add_metric(all, EXCEEDANCE, LOWER, "intervals", missed, "timer.missed");
	metric->n = sum->n + missed;
	metric = add_metric(all, RATE, LOWER, "%", missed_share(missed, sum->n),
			    "timer.missed_share");
	metric->n = sum->n + missed;
	metric->aim = POINTS;
	add_metric(all, EXACT, LOWER, "samples", elsewhere, "timer.elsewhere")->n = sum->n;
	add_metric(all, EXACT, LOWER, "threads", idle, "timer.idle_threads")->n = nr;
	report_break(all);
}

static void measure(struct results *results)
{
	int nr = cpus_count(&common.cpus), i = 0;

	all = results;
	threads = calloc(nr, sizeof(*threads));
	if (!threads || pthread_barrier_init(&ready, NULL, nr + 1))
		give_up(results, "no memory");
	if (!guard_realtime())
		give_up_refused(results, "RLIMIT_RTTIME", errno);
	be_prompt();
	if (break_us)
		open_tracing(results);
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
	if (nr_threads > cpus_count(&common.cpus))
		ksft_exit_fail_msg("--threads %d: there are only %d CPUs\n", nr_threads,
				   cpus_count(&common.cpus));
	if (nr_threads)
		cpus_keep_first(&common.cpus, nr_threads);
	return why_no_realtime(priority);
}

static const struct option_row rows[] = {
	{ "seconds", 's', DURATION, &seconds, 0.01, 864000,
	  "length of a run, such as 10m; -D as in cyclictest" },
	{ "duration", 'D', DURATION | HARMLESS, &seconds, 0.01, 864000, NULL },
	{ "cycles", 'l', COUNT, &cycles, 1, 1e9, "make N wake-ups on each CPU, however long" },
	{ "warm-up", 0, NUMBER, &warm_up, 0, 3600, "seconds before the run, not counted" },
	{ "interval-us", 'i', NUMBER, &interval_us, 50, 1e6, "time between wake-ups of a thread" },
	{ "distance-us", 'd', NUMBER, &distance_us, 0, 1e6, "time between the threads' wake-ups" },
	{ "priority", 'p', COUNT, &priority, 1, 99, "priority of the SCHED_FIFO threads" },
	{ "threads", 't', COUNT | OPTIONAL | HARMLESS, &nr_threads, 1, MOST_CPUS,
	  "use the first N CPUs only (all)" },
	{ "break-trace", 'b', NUMBER | HARMLESS, &break_us, 1, 1e9,
	  "stop at a wake-up that is N us late, and stop the kernel's tracing" },
	/* Memory is always locked: as in cyclictest, but without a choice. */
	{ NULL, 'm', FLAG | HARMLESS, &lock_memory, 0, 0, NULL },
};

static const struct test tests[] = {
	{ .name = "timer_wakeups", .rule = WORK, .metric = "timer.samples" },
	{ .name = "every_cpu_woke", .rule = NONE, .metric = "timer.idle_threads" },
	{ .name = "ran_where_pinned", .rule = NONE, .metric = "timer.elsewhere" },
	{ .name = "histogram_holds_all", .rule = NONE, .metric = "timer.overflow" },
	{ .name = "timers_in_time", .rule = GROSS, .realtime = true, .most_ms = TIMER_MS,
	  .compared = { "timer.p50" } },
	{ .name = "below_break_trace", .rule = NONE, .metric = "timer.beyond_break" },
	{ .name = "p50_within_baseline", .rule = BASELINE, .compared = { "timer.p50" } },
	{ .name = "p99_within_baseline", .rule = BASELINE, .compared = { "timer.p99" } },
	{ .name = "p99_9_within_baseline", .rule = BASELINE, .compared = { "timer.p99_9" } },
	{ .name = "missed_within_baseline", .rule = BASELINE,
	  .compared = { "timer.missed_share" } },
	{ .name = "each_cpu_within_baseline", .rule = BASELINE, .each_cpu = true,
	  .compared = { "timer.p50", "timer.p99", "timer.missed" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload rt_wakeup = {
	.name = "rt_wakeup",
	.about =
		"How late SCHED_FIFO threads wake up from a timer, one on each CPU, as cyclictest\n"
		"measures it. KTAP on standard output.",
	.examples = "  rt_wakeup\n"
		    "  rt_wakeup -D 1m -i 200 -d 0 --histogram --json run.json\n"
		    "  rt_wakeup --record                   a baseline of this machine\n"
		    "  rt_wakeup -D 1h --limit timer.max=80us --break-trace 80\n",
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
