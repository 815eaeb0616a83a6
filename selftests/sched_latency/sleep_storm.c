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
 * cycles with sched_balance_rq() on the stack.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "workload.h"

/*
 * The cycles of the load balancer, and their share in all cycles of the
 * machine: those with sched_balance_rq() (load_balance() before 6.10) on the
 * stack, as measured by
 *
 *	perf record -a -g -e cycles
 *
 * On a machine that counts no cycles, perf takes another event and reports
 * success. So the counter is tried before perf is started, and the event is
 * checked again in what perf recorded.
 */

#define PERF_SAMPLES_PER_S	"199"
#define PERF_FIELDS		"-F period,event,ip,sym 2>/dev/null"

struct balance_cycles {
	pid_t perf;
	const char *event;
	/* A file without a name, so that none is left. */
	int data;
	/* For perf's commands and replies. perf fails if they are closed. */
	int ctl, ack;
};

static const char *why_no_cycles(const char *event)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
	};
	int cpu = sched_getcpu();
	long fd;

	if (strcmp(event, "cycles"))
		return NULL;
	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	if (errno == EACCES || errno == EPERM)
		return "counting the cycles of the whole machine needs root or CAP_PERFMON";
	return "this machine or its kernel cannot count cycles";
}

/* Start perf, and wait until it counts. If it does not, record the reason. */
static void balance_start(struct balance_cycles *cycles, struct results *results,
			  const char *event)
{
	const char *why, *tmp = getenv("TMPDIR");
	int ctl[2], ack[2];
	char word[8] = "";

	cycles->event = event ? event : "cycles";
	why = why_no_cycles(cycles->event);
	if (why) {
		add_absent(results, "balance", "%s", why);
		return;
	}
	if (pipe(ctl) || pipe(ack))
		give_up(results, "pipe: %s", strerror(errno));
	cycles->data = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR, 0600);
	if (cycles->data < 0) {
		add_absent(results, "balance", "no file for perf: %s", strerror(errno));
		return;
	}
	cycles->perf = fork_bound();
	if (!cycles->perf) {
		char control[32], data[32];
		int null = open("/dev/null", O_RDWR);

		close(ctl[1]);
		close(ack[0]);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		/* Starts disabled; "enable" below starts it, and it replies. */
		snprintf(control, sizeof(control), "--control=fd:%d,%d", ctl[0], ack[1]);
		snprintf(data, sizeof(data), "/proc/self/fd/%d", cycles->data);
		execlp("perf", "perf", "record", "-q", "-a", "-g", "-D", "-1", control, "-F",
		       PERF_SAMPLES_PER_S, "-e", cycles->event, "-o", data, NULL);
		_exit(127);
	}
	close(ctl[0]);
	close(ack[1]);
	signal(SIGPIPE, SIG_IGN);
	if (write(ctl[1], "enable\n", 7) != 7 || read(ack[0], word, 4) != 4) {
		int status;

		waitpid(cycles->perf, &status, 0);
		cycles->perf = 0;
		close(cycles->data);
		add_absent(results, "balance", WIFEXITED(status) && WEXITSTATUS(status) == 127 ?
			   "perf is not installed (Debian: linux-perf)" : "perf record failed");
	}
	cycles->ctl = ctl[1];
	cycles->ack = ack[0];
}

/* A sample: period and event, then a line per function, then an empty line. */
static void read_samples(FILE *script, struct results *results, const char *event)
{
	double all = 0, balance = 0, period = 0;
	__u64 samples = 0, strange = 0;
	bool inside = false;
	char line[1024], name[64], symbol[256];
	struct metric *metric;

	while (fgets(line, sizeof(line), script)) {
		if (line[0] != '\t' && sscanf(line, "%lf %63[^: ]", &period, name) == 2) {
			samples++;
			strange += strcmp(name, event);
			all += period;
			inside = false;
		} else if (!inside && sscanf(line, "%*x %255s", symbol) == 1 &&
			   (!strcmp(symbol, "sched_balance_rq") ||
			    !strcmp(symbol, "load_balance"))) {
			inside = true;
			balance += period;
		}
	}
	if (strange || !samples) {
		add_absent(results, "balance", "%s", strange ?
			   "perf counted another event than cycles" : "perf recorded no sample");
		return;
	}
	add_metric(results, EXACT, NEITHER, "samples", samples, "balance.samples")->n = samples;
	metric = add_metric(results, EXACT, LOWER, strcmp(event, "cycles") ? "ns" : "cycles",
			    balance, "balance.with_sched_balance_rq");
	metric->n = samples;
	metric = add_metric(results, RATE, LOWER, "%", all ? 100 * balance / all : 0,
			    "balance.of_all");
	metric->n = samples;
	metric->aim = MEDIAN;
}

static void balance_stop(struct balance_cycles *cycles, struct results *results)
{
	char command[256];
	FILE *script;
	int status;

	if (!cycles->perf)
		return;
	kill(cycles->perf, SIGINT);
	waitpid(cycles->perf, &status, 0);
	close(cycles->ctl);
	close(cycles->ack);
	snprintf(command, sizeof(command), "perf script -i /proc/self/fd/%d " PERF_FIELDS,
		 cycles->data);
	script = popen(command, "re");
	if (script) {
		read_samples(script, results, cycles->event);
		pclose(script);
	} else {
		add_absent(results, "balance", "perf script: %s", strerror(errno));
	}
	close(cycles->data);
}

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
	{ .name = "woken_in_time", .rule = GROSS, .most_ms = FAIR_MS,
	  .compared = { "oversleep.p50" } },
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
