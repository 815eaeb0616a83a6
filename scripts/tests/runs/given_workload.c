// SPDX-License-Identifier: GPL-2.0
/* A workload with given measurements, see test_workload_baselines.py. */
#define _GNU_SOURCE
#include "disturbance.h"

/* What this machine did meanwhile is not looked at: a run of the harness takes less than a tick. */
static void given_disturbance(struct disturbance *found);
#define compare_moments(cpus, before, after, found) given_disturbance(found)
#include "workload.h"

/* The value of each run comes from the environment; then what each of two CPUs adds to it. */
static double values[400], more[2];
static int nr;

/* A word with a letter for each run: d if it is disturbed. */
static void given_disturbance(struct disturbance *found)
{
	const char *given = getenv("DISTURBED") ?: "";
	int next = 0;
	FILE *file = fopen(getenv("COUNTER"), "r");

	if (!file || fscanf(file, "%d", &next) != 1)
		exit(KSFT_FAIL);
	fclose(file);
	if (next <= (int)strlen(given) && given[next - 1] == 'd')
		strcpy(found->why, "it was shaken");
	found->others = atof(getenv("OTHERS") ?: "0");
}

/* Lines of a run: CPU, p50, p99 in ns, missed in percent. */
static void measure_cpus(struct results *results, int run)
{
	FILE *file = fopen(getenv("CPUS"), "r");
	double p50, p99, missed;
	int of, cpu;

	while (file && fscanf(file, "%d %d %lf %lf %lf", &of, &cpu, &p50, &p99, &missed) == 5) {
		struct row *row = &results->rows[results->nr_rows];

		if (of != run)
			continue;
		results->nr_rows++;
		strcpy(row->group, "many");
		row->cpu = cpu;
		row->n = 1;
		row->p50 = p50;
		row->p99 = p99;
		row->missed = missed;
		row->compared = true;
	}
	fclose(file);
}

static void measure(struct results *results)
{
	static struct histogram histogram;
	struct metric *metric;
	int run;
	FILE *file = fopen(getenv("COUNTER"), "r+");

	if (!file || fscanf(file, "%d", &run) != 1)
		give_up(results, "no counter");
	rewind(file);
	fprintf(file, "%d\n", run + 1);
	fclose(file);
	if (getenv("CPUS"))
		measure_cpus(results, run);
	if (getenv("GONE") && run >= atoi(getenv("GONE")))
		return;
	metric = add_metric(results, QUANTILE, getenv("HIGHER") ? HIGHER : LOWER, "ns",
				values[run % nr], "value");
	metric->aim = getenv("POINTS") ? POINTS : getenv("TAIL") ? TAIL : MEDIAN;
	metric->nr_rounds = 9;
	for (int i = 0; i < 9; i++)
		metric->rounds[i] = i < values[run % nr] ? 2 : 0;
	metric = add_metric(results, QUANTILE, LOWER, "ns", 1, "other");
	metric->nr_rounds = 9;
	for (int i = 0; i < 9; i++)
		metric->rounds[i] = 1;
	for (int cpu = 0; cpu < 2; cpu++) {
		memset(&histogram, 0, sizeof(histogram));
		for (int i = 0; i < 100; i++)
			histogram_add(&histogram, 1000 * values[run % nr] + more[cpu]);
		add_row(results, "row", cpu, &histogram)->compared = true;
	}
}

static const struct test tests[] = {
	{ .name = "value_within_baseline", .rule = BASELINE, .compared = { "value" } },
	{ .name = "cpus_within_baseline", .rule = BASELINE, .each_cpu = true,
		.compared = { "row.p50" } },
	{ .name = "each_of_many", .rule = BASELINE, .each_cpu = true,
		.compared = { "many.p50", "many.p99", "many.missed" } },
	{ .name = "not_above", .rule = NOT_ABOVE, .metric = "value", .other = "other" },
	{ .name = "above", .rule = ABOVE, .metric = "value", .other = "other" },
	{ .name = "absent", .rule = WORK, .metric = "bogus" },
	{ .name = "in_time", .rule = GROSS, .most_ms = FAIR_MS, .compared = { "value" } },
	{ .name = "realtime_in_time", .rule = GROSS, .most_ms = REALTIME_MS, .realtime = true,
		.compared = { "bogus", "value" } },
	{ .name = "timer_in_time", .rule = GROSS, .most_ms = TIMER_MS, .realtime = true,
		.compared = { "value" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static double option;
static const struct option_row rows[] = {
	{ "option", 0, NUMBER, &option, 0, 9, "" },
};

static const struct workload harness = {
	.name = "harness", .about = "", .examples = "", .tests = tests, .rows = rows, .nr_rows = 1,
	.nr_tests = ARRAY_SIZE(tests), .measure = measure,
};

int main(int argc, char **argv)
{
	char *text = getenv("VALUES");

	while (*text && nr < 400)
		values[nr++] = strtod(text, &text);
	sscanf(getenv("MORE"), "%lf %lf", &more[0], &more[1]);
	return workload_main(&harness, argc, argv);
}
