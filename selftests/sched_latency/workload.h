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
		give_up(results, "a thread cannot be started: %s", strerror(error));
}

static inline struct results *run_once(const struct workload *workload)
{
	struct results *results = results_new();
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork_bound();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid) {
		workload->measure(results);
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

static inline void keep_run(const struct workload *workload, const struct results *results,
			    const char *command, const char *status, int number)
{
	const char *directory = results_directory();
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.json", directory ? directory : "", workload->name);
	/* The user did not ask for this file, so this is no failure. */
	if (!directory || !save_run(path, results, workload->name, command, status))
		ksft_print_msg("the run is not kept for latency_thresholds.sh: %s\n",
			       strerror(errno));
	if (!common.json)
		return;
	number_path(path, sizeof(path), common.json, number);
	if (!save_run(path, results, workload->name, command, status))
		ksft_exit_fail_msg("--json %s: %s\n", path, strerror(errno));
}

static inline void print_metrics(const struct results *results)
{
	for (int i = 0; i < results->nr_metrics; i++) {
		const struct metric *metric = &results->metrics[i];

		ksft_print_msg("%-34s %14.10g %s\n", metric->name, metric->value, metric->unit);
	}
}

static inline void run_batch(const struct workload *workload, const char *command,
			     struct results **batch, int runs)
{
	static int number;

	for (int i = 0; i < runs; i++) {
		batch[i] = run_once(workload);
		keep_run(workload, batch[i], command, batch[i]->done ? "DONE" : "ERROR", ++number);
		if (!batch[i]->done)
			ksft_exit_fail_msg("%s\n", batch[i]->error);
		if (i == runs - 1)
			print_metrics(batch[i]);
	}
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
	struct results *batch[MOST_RUNS], *again[MOST_RUNS];
	const char *command = command_line(argc, argv), *why;
	struct verdict verdicts[MOST_TESTS], confirmed[MOST_TESTS];
	struct budget *budget;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			print_usage(workload->name, workload->about, workload->examples,
				    workload->rows, workload->nr_rows);
			return KSFT_PASS;
		}
	}
	ksft_print_header();
	parse_options(argc, argv, workload->rows, workload->nr_rows);
	choose_allowed();
	why = workload->cannot ? workload->cannot() : NULL;
	if (why) {
		struct results *results = results_new();

		snprintf(results->error, sizeof(results->error), "%s", why);
		keep_run(workload, results, command, "SKIP", 1);
		ksft_exit_skip("%s\n", why);
	}
	budget = budget_load(common.budget, workload->name, common.record);
	if (!common.runs)
		common.runs = common.record ? RECORDED_RUNS : budget->nr_lines ? BATCH : 1;
	if (common.record && common.runs < FEWEST_RECORDED)
		ksft_exit_fail_msg("--record: a baseline is %d runs or more\n", FEWEST_RECORDED);
	ksft_set_plan(workload->nr_tests);
	ksft_print_msg("%s on CPUs %.200s, runs: %d\n", workload->name, cpus_list(&common.cpus),
		       common.runs);
	run_batch(workload, command, batch, common.runs);
	if (common.record)
		budget_record(budget, workload->name, batch, common.runs, command);
	if (judge(verdicts, workload->tests, workload->nr_tests, batch, common.runs, budget)) {
		ksft_print_msg("once more, to confirm it\n");
		run_batch(workload, command, again, common.runs);
		judge(confirmed, workload->tests, workload->nr_tests, again, common.runs, budget);
		confirm(verdicts, confirmed, workload->tests, workload->nr_tests);
	}
	print_verdicts(verdicts, workload->tests, workload->nr_tests, command);
	ksft_finished();
}

#endif
