/* SPDX-License-Identifier: GPL-2.0 */
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
#ifndef BALANCE_CYCLES_H
#define BALANCE_CYCLES_H

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "results.h"

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

static inline const char *why_no_cycles(const char *event)
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
static inline void balance_start(struct balance_cycles *cycles, struct results *results,
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
static inline void read_samples(FILE *script, struct results *results, const char *event)
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

static inline void balance_stop(struct balance_cycles *cycles, struct results *results)
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

#endif
