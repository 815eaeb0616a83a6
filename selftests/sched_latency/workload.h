/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the workloads share. Each run is a process, so that a run that dies is
 * noticed and leaves nothing behind. Then the results are written, and judged
 * by judge.h alone.
 *
 * No setting of the machine has to be restored. A run changes only attributes
 * of its own process, and /dev/cpu_dma_latency, which the kernel resets when
 * the file is closed.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "options.h"
#include "judge.h"
#include "realtime.h"
#include "run_file.h"

struct workload {
	const char *name, *about, *examples;
	const struct option_row *rows;
	int nr_rows;
	const struct test *tests;
	int nr_tests;
	/* Why there is nothing to measure here, or NULL. */
	const char *(*cannot)(void);
	void (*measure)(struct results *results);
};

/* Runs of a batch that is compared with a baseline, and runs that --record adds. */
#define JUDGED_RUNS	5
#define RECORDED_RUNS	20

#define NS_PER_S	1000000000ULL
/* How much longer a run may last for its first samples: a guest can be very slow. */
#define PATIENCE	(60 * NS_PER_S)

static inline __u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NS_PER_S + time.tv_nsec;
}

static inline void sleep_until(__u64 ns)
{
	const struct timespec time = { ns / NS_PER_S, ns % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

/* Inject --inject-delay-us, to check that a regression is caught. */
static inline void inject_delay(void)
{
	__u64 end;

	if (!common.inject_us)
		return;
	end = now() + common.inject_us * 1000;
	while (now() < end)
		;
}

/* The kernel moves even a pinned thread when its CPU goes offline. */
#define MOVED_AWAY	"a thread ran on CPU %d, not where it is pinned: was a CPU set offline?"

/* Called within a run: ends it without results, and records why. */
static inline __noreturn __printf(2, 3)
void give_up(struct results *results, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(results->error, sizeof(results->error), format, args);
	va_end(args);
	_exit(KSFT_FAIL);
}

/* The same if the kernel refused something. If a limit of the user is the reason, it is a skip. */
static inline __noreturn void give_up_refused(struct results *results, const char *what, int error)
{
	results->refused = error == EMFILE || error == ENFILE || error == EAGAIN ||
			   error == ENOMEM || error == EPERM || error == EACCES;
	give_up(results, "%s: %s", what, strerror(error));
}

/* A child that does not outlive its parent, however the parent ends. */
static inline pid_t fork_bound(void)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(KSFT_FAIL);
	return pid;
}

static inline void start_thread(struct results *results, pthread_t *thread,
				void *(*work)(void *argument), void *argument)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	/* Locked in memory: the default 8 MB are too much for 1000 threads. */
	pthread_attr_setstacksize(&attributes, 256 << 10);
	error = pthread_create(thread, &attributes, work, argument);
	pthread_attr_destroy(&attributes);
	if (error)
		give_up_refused(results, "a thread cannot be started", error);
}

/* A CPU on which nothing more urgent can run: if time is lost there, the CPU stood still. */
struct spinner {
	pthread_t thread;
	int cpu;
	__u64 lost, took;
};

#define MOST_SPINNERS	8
#define SPIN_NS		20000000ULL
/* Longer than an interrupt of a kernel that is fit for its purpose. */
#define GAP_NS		200000ULL

static inline void *spin(void *argument)
{
	struct spinner *own = argument;
	__u64 start, last, time;

	if (!run_on_cpu(own->cpu) || !be_realtime(sched_get_priority_max(SCHED_FIFO)))
		return NULL;
	start = now();
	for (last = start; last < start + SPIN_NS; last = time) {
		time = now();
		own->lost += time - last > GAP_NS ? time - last : 0;
	}
	own->took = last - start;
	return NULL;
}

/* In percent; 0 where SCHED_FIFO is not allowed. Not measured beside the run. */
static inline double hidden_steal(struct results *results)
{
	struct spinner spinners[MOST_SPINNERS] = {};
	__u64 lost = 0, took = 0;
	int nr = 0, cpu = -1;

	while (nr < MOST_SPINNERS && (cpu = cpus_next(&common.cpus, cpu)) >= 0) {
		spinners[nr].cpu = cpu;
		start_thread(results, &spinners[nr].thread, spin, &spinners[nr]);
		nr++;
	}
	for (int i = 0; i < nr; i++) {
		pthread_join(spinners[i].thread, NULL);
		lost += spinners[i].lost;
		took += spinners[i].took;
	}
	return took ? 100.0 * lost / took : 0;
}

static inline struct results *run_once(const struct workload *workload)
{
	struct results *results = results_new();
	struct moment before, after;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork_bound();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid) {
		read_moment(&common.cpus, &before);
		workload->measure(results);
		read_moment(&common.cpus, &after);
		compare_moments(&common.cpus, &before, &after, &results->disturbance);
		results->disturbance.hidden = hidden_steal(results);
		results->done = true;
		fflush(stdout);
		_exit(KSFT_PASS);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (results->done || results->error[0])
		return results;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
		snprintf(results->error, sizeof(results->error),
			 "an RT thread ran for %d ms without sleep: ended by RLIMIT_RTTIME",
			 RTTIME_SOFT_US / 1000);
	else if (WIFSIGNALED(status))
		snprintf(results->error, sizeof(results->error), "the run was killed: %s",
			 strsignal(WTERMSIG(status)));
	else
		snprintf(results->error, sizeof(results->error), "the run ended early: exit %d",
			 WEXITSTATUS(status));
	return results;
}

/* file.json, file-2.json and so on. */
static inline void number_path(char *path, size_t size, const char *json, int number)
{
	const char *dot = strrchr(json, '.'), *slash = strrchr(json, '/');

	if (!dot || (slash && dot < slash))
		dot = json + strlen(json);
	if (number == 1)
		snprintf(path, size, "%s", json);
	else
		snprintf(path, size, "%.*s-%d%s", (int)(dot - json), json, number, dot);
}

/* Write the run where --json and SCHED_LATENCY_RESULTS want it. */
static inline void keep_run(const struct workload *workload, const struct results *results,
			    const char *command, const char *status, int number)
{
	const char *directory = getenv("SCHED_LATENCY_RESULTS");
	static char path[4096];

	if (directory) {
		snprintf(path, sizeof(path), "%s/%s.json", directory, workload->name);
		if (!save_run(path, results, workload->name, command, status))
			ksft_exit_fail_msg("SCHED_LATENCY_RESULTS: %s: %s\n", path,
					   strerror(errno));
	}
	if (!common.json)
		return;
	number_path(path, sizeof(path), common.json, number);
	if (!save_run(path, results, workload->name, command, status))
		ksft_exit_fail_msg("--json %s: %s\n", path, strerror(errno));
}

/* Skip every test, so that none is missing in the output. */
static inline __noreturn void skip_all(const struct workload *workload, const char *why)
{
	for (int i = 0; i < workload->nr_tests; i++)
		ksft_test_result_code(KSFT_SKIP, workload->tests[i].name, "%s", why);
	ksft_finished();
}

static inline void print_metrics(const struct results *results)
{
	for (int i = 0; i < results->nr_metrics; i++) {
		const struct metric *metric = &results->metrics[i];

		ksft_print_msg("%-34s %14.10g %s\n", metric->name, metric->value, metric->unit);
	}
}

/* The histogram of one run: a line for each eighth of a power of two. */
static inline void print_histogram(const struct results *results)
{
	static const char stars[] = "**************************************************";
	__u64 most = 0, limit = common.histogram_us * 1000ULL;
	int end;

	for (int i = 0; i < results->nr_bars; i = end) {
		const struct bar *bar = &results->bars[i];
		__u64 count = 0, step, to;

		step = bar->from < 8 ? 1 : (1ULL << (63 - __builtin_clzll(bar->from))) / 8;
		to = bar->from / step * step + step;
		for (end = i; end < results->nr_bars && results->bars[end].from < to &&
		     !strcmp(results->bars[end].name, bar->name); end++)
			count += results->bars[end].count;
		if (!i || strcmp(bar->name, bar[-1].name)) {
			ksft_print_msg("histogram of %s\n", bar->name);
			most = 0;
			for (int j = i; j < results->nr_bars &&
			     !strcmp(results->bars[j].name, bar->name); j++)
				most += results->bars[j].count;
		}
		if (!limit || bar->from < limit)
			ksft_print_msg("%10.3f us %8llu %.*s\n", bar->from / step * step / 1e3,
				       (unsigned long long)count, (int)(50 * count / most), stars);
	}
}

/*
 * Runs that were disturbed from outside are repeated, up to a quarter of the
 * batch. If more are disturbed, that is how the machine is: they count, or the
 * batch ends, because its comparison would be skipped.
 */
static inline void run_batch(const struct workload *workload, const char *command,
			     struct batch *batch, int runs, bool compared)
{
	int spare = (runs + 3) / 4, left_out = 0;
	static int number;

	batch->nr = 0;
	batch->disturbed = NULL;
	while (batch->nr < runs) {
		struct results *results = run_once(workload);

		keep_run(workload, results, command, results->done ? "DONE" :
			 results->refused ? "SKIP" : "ERROR", ++number);
		if (results->refused)
			skip_all(workload, results->error);
		if (!results->done)
			ksft_exit_fail_msg("%s\n", results->error);
		if (results->disturbance.why[0]) {
			ksft_print_msg("run %d is disturbed: %s\n", number,
				       results->disturbance.why);
			if (left_out < spare && runs > 1) {
				left_out++;
				results_free(results);
				continue;
			}
			if (!results->disturbance.judged)
				batch->disturbed = results->disturbance.why;
		}
		batch->runs[batch->nr++] = results;
		if (batch->disturbed && compared)
			break;
	}
	if (left_out)
		ksft_print_msg("%d of %d runs were left out because they were disturbed\n",
			       left_out, batch->nr + left_out);
	if (!common.quiet)
		print_metrics(batch->runs[batch->nr - 1]);
	if (common.histogram)
		print_histogram(batch->runs[batch->nr - 1]);
}

/* The command that repeats the run, for messages and files. */
static inline const char *command_line(int argc, char **argv)
{
	static char text[2048];
	int len = 0;

	for (int i = 0; i < argc && len < (int)sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", argv[i]);
	return text;
}

static inline int workload_main(const struct workload *workload, int argc, char **argv)
{
	static struct results *runs[2][MOST_RUNS];
	static struct verdict verdicts[MOST_TESTS], confirmed[MOST_TESTS];
	static struct baseline baseline;
	static char conditions[CONDITIONS][MOST_CONDITION], options[2048];
	struct batch first = { .runs = runs[0] }, second = { .runs = runs[1] };
	const char *command = command_line(argc, argv), *why;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			print_usage(workload->name, workload->about, workload->examples,
				    workload->rows, workload->nr_rows);
			return KSFT_PASS;
		}
	}
	ksft_print_header();
	parse_options(argc, argv, workload->rows, workload->nr_rows);
	if (common.limit)
		add_limits(common.limit);
	read_board_limits(workload->name);
	choose_allowed();
	why = workload->cannot ? workload->cannot() : NULL;
	if (why) {
		struct results *results = results_new();

		snprintf(results->error, sizeof(results->error), "%s", why);
		keep_run(workload, results, command, "SKIP", 1);
		ksft_exit_skip("%s\n", why);
	}
	baseline_path(&baseline, common.baseline, workload->name);
	baseline_read(&baseline, workload->name);
	if (common.record || !baseline.missing[0]) {
		options_text(options, sizeof(options), workload->rows, workload->nr_rows);
		conditions_now(conditions, workload->name, options, &common.cpus);
	}
	if (!baseline.missing[0])
		baseline_fits(&baseline, conditions);
	if (common.record && baseline.missing[0] && (baseline.damaged || baseline.nr_runs))
		ksft_exit_fail_msg("--record: %s: %s; remove it, or name another with --baseline\n",
				   baseline.path, baseline.missing);
	if (common.baseline && !common.record && (baseline.damaged || !baseline.nr_runs))
		ksft_exit_fail_msg("--baseline %s: %s\n", baseline.path, baseline.missing);
	if (!common.runs)
		common.runs = common.record ? RECORDED_RUNS : baseline.missing[0] ? 1 : JUDGED_RUNS;
	ksft_set_plan(workload->nr_tests);
	ksft_print_msg("%s on CPUs %.200s, runs: %d\n", workload->name, cpus_list(&common.cpus),
		       common.runs);
	run_batch(workload, command, &first, common.runs,
		  common.record || !baseline.missing[0]);
	if (common.record) {
		if (first.disturbed)
			ksft_exit_fail_msg("--record: too many runs are disturbed: %s\n",
					   first.disturbed);
		baseline_record(&baseline, workload->name, conditions, first.runs, first.nr);
	}
	/* What was just recorded is no evidence of itself. */
	if (common.record)
		snprintf(baseline.missing, sizeof(baseline.missing), "it was recorded by this run");
	if (judge(verdicts, workload->tests, workload->nr_tests, &first, &baseline)) {
		ksft_print_msg("once more, to confirm it\n");
		run_batch(workload, command, &second, common.runs, !baseline.missing[0]);
		judge(confirmed, workload->tests, workload->nr_tests, &second, &baseline);
		confirm(verdicts, confirmed, workload->tests, workload->nr_tests);
	}
	print_verdicts(verdicts, workload->tests, workload->nr_tests, command);
	ksft_finished();
}

#endif
