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
 * cycles with sched_balance_rq() on the stack; see balance_cycles.h.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>

#include "workload.h"
#include "balance_cycles.h"

#define MOST_CHILDREN	100000

static int sleep_ms = 1, log_loops = 9, nr_children;
static bool no_perf;
static const char *perf_event;

/* Shared by all processes. */
struct gate {
	__u32 ready, go, nr;
	__u64 sleeps;
	/* For each CPU, and one for all CPUs that came online meanwhile. */
	struct histogram late[];
};

static struct results *all;
static struct gate *gate;
static int nr_cpus;

static void wait_while(__u32 *word, __u32 value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
		syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void wake_all(__u32 *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static __noreturn void child(void)
{
	const struct timespec length = { sleep_ms / 1000, sleep_ms % 1000 * 1000000 };
	__u64 before, after, asked = sleep_ms * 1000000ULL;

	/* Only the last one wakes the parent: 4800 wake-ups are too many. */
	if (__atomic_add_fetch(&gate->ready, 1, __ATOMIC_ACQ_REL) == gate->nr)
		wake_all(&gate->ready);
	wait_while(&gate->go, 0);
	for (long i = 0; i < 1L << log_loops; i++) {
		int cpu;

		before = now();
		if (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL))
			_exit(KSFT_FAIL);
		inject_delay();
		after = now();
		cpu = sched_getcpu();
		if (common.cpus_given && !cpus_has(&common.cpus, cpu))
			give_up(all, MOVED_AWAY, cpu);
		histogram_add_shared(&gate->late[cpu < nr_cpus ? cpu : nr_cpus],
				     after - before - asked);
		__atomic_add_fetch(&gate->sleeps, 1, __ATOMIC_RELAXED);
	}
	_exit(KSFT_PASS);
}

/* The available memory in kB; 0 if the kernel does not say. */
static long available_memory(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	long found = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %ld", &found) == 1)
			break;
	if (file)
		fclose(file);
	return found;
}

static void fork_children(struct results *results)
{
	for (int i = 0; i < nr_children; i++) {
		pid_t pid = fork_bound();

		if (!pid)
			child();
		if (pid < 0)
			give_up(results, "child %d of %d: fork: %s; try fewer --children",
				i + 1, nr_children, strerror(errno));
	}
}

static void await_children(struct results *results)
{
	for (int i = 0; i < nr_children; i++) {
		int status;
		pid_t pid = wait(&status);

		if (pid < 0)
			give_up(results, "wait: %s", strerror(errno));
		if (results->error[0])
			_exit(KSFT_FAIL);
		if (status)
			give_up(results, "a child %s %d",
				WIFSIGNALED(status) ? "was killed by signal" : "failed: exit",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
}

/* Wait until all children are at the gate; give up if one has ended. */
static void await_ready(struct results *results)
{
	const struct timespec second = { 1, 0 };
	__u32 ready;

	while ((ready = __atomic_load_n(&gate->ready, __ATOMIC_ACQUIRE)) < gate->nr) {
		siginfo_t gone = {};

		syscall(SYS_futex, &gate->ready, FUTEX_WAIT, ready, &second, NULL, 0);
		if (!waitid(P_ALL, 0, &gone, WEXITED | WNOHANG | WNOWAIT) && gone.si_pid)
			give_up(results, "a child ended before it slept: %d", gone.si_status);
	}
}

static void report(struct results *results, double forked, double started, double took, long memory)
{
	struct histogram *sum = calloc(1, sizeof(*sum));
	struct metric *metric;

	for (int cpu = 0; cpu <= nr_cpus && sum; cpu++) {
		histogram_settle(&gate->late[cpu]);
		histogram_merge(sum, &gate->late[cpu]);
		if (cpu < nr_cpus)
			add_row(results, "oversleep", cpu, &gate->late[cpu])->compared = true;
	}
	if (!sum)
		give_up(results, "no memory");
	metric = add_metric(results, EXACT, NEITHER, "sleeps", gate->sleeps, "sleeps");
	metric->n = gate->sleeps;
	add_metric(results, EXACT, LOWER, "sleeps",
		   (double)nr_children * (1L << log_loops) - gate->sleeps, "sleeps_missing");
	metric = add_metric(results, RATE, HIGHER, "sleeps/s", gate->sleeps / took, "sleeps_per_s");
	metric->n = gate->sleeps;
	metric->aim = MEDIAN;
	add_quantiles(results, "oversleep", sum, ALL_COMPARED);
	add_metric(results, EXACT, LOWER, "s", forked, "start.forks_s")->n = nr_children;
	metric = add_metric(results, EXACT, LOWER, "s", started, "start.all_ready_s");
	metric->n = nr_children;
	metric->aim = TAIL;
	add_metric(results, EXACT, LOWER, "s", took, "storm_s");
	if (memory > 0)
		add_metric(results, EXACT, LOWER, "kB", (double)memory / nr_children,
			   "memory_per_child")->n = nr_children;
	else
		add_absent(results, "memory_per_child", "other work gave back more memory");
}

static void measure(struct results *results)
{
	struct balance_cycles cycles = {};
	double begin, forked, ready, end;
	long memory;
	size_t size;

	all = results;
	nr_cpus = cpus_last(&common.cpus) + 1;
	size = sizeof(*gate) + (nr_cpus + 1) * sizeof(*gate->late);
	gate = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (gate == MAP_FAILED)
		give_up_refused(results, "mmap", errno);
	gate->nr = nr_children;
	if (common.cpus_given && !run_on(&common.cpus))
		give_up(results, "--cpus: %s", strerror(errno));
	memory = available_memory();
	begin = seconds_of(CLOCK_MONOTONIC);
	fork_children(results);
	forked = seconds_of(CLOCK_MONOTONIC);
	await_ready(results);
	ready = seconds_of(CLOCK_MONOTONIC);
	memory -= available_memory();

	if (no_perf)
		add_absent(results, "balance", "--no-perf");
	else
		balance_start(&cycles, results, perf_event);
	end = seconds_of(CLOCK_MONOTONIC);
	__atomic_store_n(&gate->go, 1, __ATOMIC_RELEASE);
	wake_all(&gate->go);
	await_children(results);
	report(results, forked - begin, ready - begin, seconds_of(CLOCK_MONOTONIC) - end, memory);
	balance_stop(&cycles, results);
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
	{ "no-perf", 0, FLAG, &no_perf, 0, 0, "do not count the balancer's cycles with perf" },
	/* For tests on machines without cycles. */
	{ "perf-event", 0, WORD, &perf_event, 0, 0, NULL },
};

static const struct test tests[] = {
	{ .name = "slept", .rule = WORK, .metric = "sleeps" },
	{ .name = "slept_as_often_as_asked", .rule = NONE, .metric = "sleeps_missing" },
	{ .name = "histogram_holds_all", .rule = NONE, .metric = "oversleep.overflow" },
	{ .name = "balance_counted", .rule = WORK, .metric = "balance.samples" },
	{ .name = "sleeps_within_baseline", .rule = BASELINE, .compared = { "sleeps_per_s" } },
	{ .name = "oversleep_within_baseline", .rule = BASELINE,
	  .compared = { "oversleep.p50", "oversleep.p99", "oversleep.p99_9" } },
	{ .name = "start_within_baseline", .rule = BASELINE, .compared = { "start.all_ready_s" } },
	{ .name = "balance_within_baseline", .rule = BASELINE, .compared = { "balance.of_all" } },
	{ .name = "each_cpu_within_baseline", .rule = BASELINE, .each_cpu = true,
	  .compared = { "oversleep.p50", "oversleep.p99" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload sleep_storm = {
	.name = "sleep_storm",
	.about =
		"The load for the load balancer that struct rq was ordered by: many processes that\n"
		"sleep for 1 ms again and again. KTAP on standard output.",
	.examples = "  sleep_storm\n"
		    "  sleep_storm -m 1 -l 13 -c 4800       the mail's: 8192 sleeps, for 480 CPUs\n"
		    "  sleep_storm --record                 a baseline of this machine\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.cannot = cannot,
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&sleep_storm, argc, argv);
}
