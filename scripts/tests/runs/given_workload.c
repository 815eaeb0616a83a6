// SPDX-License-Identifier: GPL-2.0
/* A workload with given measurements, see test_workload_baselines.py. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "kselftest.h"

/* What this machine did meanwhile does not count: a run ends with what is given. */
static __noreturn void given_exit(int code);
#define _exit given_exit
#include "sched_latency.c"
#undef _exit

static double values[400];
static int nr, run;

static void given_exit(int code)
{
	const char *disturbed = getenv("DISTURBED") ?: "";

	if (all && all->done) {
		memset(&all->disturbance, 0, sizeof(all->disturbance));
		/* A word with a letter for each run: d if it is disturbed. */
		if (run < (int)strlen(disturbed) && disturbed[run] == 'd')
			strcpy(all->disturbance.why, "it was shaken");
		all->disturbance.others = atof(getenv("OTHERS") ?: "0");
		all->disturbance.unseen = atof(getenv("UNSEEN") ?: "0");
		all->disturbance.urgent = atof(getenv("URGENT") ?: "0");
		all->disturbance.realtime = atof(getenv("REALTIME") ?: "0");
		for (int i = 0; i < all->nr_metrics; i++)
			if (!strcmp(all->metrics[i].name, "reference.ipi"))
				all->metrics[i].value = atof(getenv("COST") ?: "10");
	}
	_exit(code);
}

static void measure(void)
{
	FILE *file = fopen(getenv("COUNTER"), "r+");
	struct metric *value, *other;

	if (!file || fscanf(file, "%d", &run) != 1)
		give_up("no counter");
	rewind(file);
	fprintf(file, "%d\n", run + 1);
	fclose(file);
	if (getenv("GONE") && run >= atoi(getenv("GONE")))
		return;
	value = add_metric(QUANTILE, getenv("HIGHER") ? HIGHER : LOWER, "ns", values[run % nr], 1,
			   "value");
	if (getenv("ABSENT"))
		add_absent(getenv("ABSENT"), "it is not here");
	value->cpu = atoi(getenv("CPU") ?: "-1");
	add_metric(QUANTILE, LOWER, "ns", values[run % nr], 1, "twin");
	if (getenv("MOVES"))
		add_metric(RATE, LOWER, "1/s", atof(getenv("MOVES")), 1, "moves");
	else
		add_absent("moves", "nobody asked");
	other = add_metric(QUANTILE, LOWER, "ns", 1, 1, "other");
	value->nr_rounds = 10;
	other->nr_rounds = 10;
	for (int i = 0; i < 10; i++) {
		value->rounds[i] = i < values[run % nr] ? 2 : 0;
		other->rounds[i] = 1;
	}
}

static const struct test tests[] = {
	{ .name = "median", .rule = BASELINE, .metrics = { "value" } },
	{ .name = "tail", .rule = BASELINE, .metrics = { "value" }, .tolerance = TAIL },
	{ .name = "points", .rule = BASELINE, .metrics = { "value" }, .tolerance = POINTS },
	{ .name = "ratio", .rule = BASELINE, .metrics = { "twin" }, .reference = IPI },
	{ .name = "above", .rule = ABOVE, .metrics = { "value", "other" } },
	{ .name = "absent", .rule = DONE, .metrics = { "bogus" } },
	{ .name = "in_time", .rule = AT_MOST, .most_ms = FAIR_MS, .metrics = { "value" } },
	{ .name = "realtime_in_time", .rule = AT_MOST, .most_ms = REALTIME_MS, .realtime = true,
	  .metrics = { "bogus", "value" } },
	{ .name = "timer_in_time", .rule = AT_MOST, .most_ms = TIMER_MS, .realtime = true,
	  .metrics = { "value" } },
	{ .name = "moved", .rule = DONE, .realtime = true, .metrics = { "moves" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static double option;
static const struct option_row rows[] = {
	{ "option", 0, NUMBER, &option, 0, 9, "" },
};

static const struct workload harness = {
	.name = "harness", .about = "", .tests = tests, .rows = rows, .nr_rows = 1,
	.nr_tests = ARRAY_SIZE(tests), .measure = measure,
};

int main(int argc, char **argv)
{
	char *text = getenv("VALUES");

	while (*text && nr < 400)
		values[nr++] = strtod(text, &text);
	return workload_main(&harness, argc, argv);
}
