/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Judges the results of the runs. Nothing here measures, and nothing else
 * judges. A test is a row:
 *
 *	WORK		the metric exists, and is not 0; the default metric is
 *			the test's .samples
 *	NONE		the metric is 0
 *	NOT_ABOVE	the metric is above the other one in no more slices of a
 *			run than chance explains if both are equal
 *	ABOVE		the metric is not above the other one in no more slices
 *			of a run than chance explains if both are equal
 *	BUDGET		no metric that has a budget exceeds it
 *
 * A failure of the last three must be confirmed by a second batch.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include "budget.h"

#define MOST_TESTS	64

enum rule { WORK, NONE, NOT_ABOVE, ABOVE, BUDGET };

struct test {
	const char *name;
	enum rule rule;
	const char *metric, *other, *or_other;
	/* Needs the caches that sysfs shows. */
	bool caches;
	/* On kernels before this version a failure is a skip. */
	unsigned int since_major, since_minor;
};

struct verdict {
	int result;
	/* The lines of the budget that failed, one bit for each. */
	unsigned int lines;
	char text[512];
};

static inline const struct metric *rounds_of(struct results **runs, int run, const char *name)
{
	const struct metric *metric = name ? find_metric(runs[run], name) : NULL;

	return metric && metric->nr_rounds ? metric : NULL;
}

static inline void skip(struct verdict *verdict, struct results **runs, const char *name)
{
	const char *why = why_absent(runs[0], name);

	verdict->result = why ? KSFT_SKIP : KSFT_FAIL;
	if (why)
		snprintf(verdict->text, sizeof(verdict->text), "%s", why);
	else
		snprintf(verdict->text, sizeof(verdict->text), "%s was not measured", name);
}

static inline void judge_count(struct verdict *verdict, const struct test *test,
			       struct results **runs, int nr_runs)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", test->metric ? test->metric : test->name,
		 test->metric ? "" : ".samples");
	for (int i = 0; i < nr_runs; i++) {
		const struct metric *metric = find_metric(runs[i], name);

		if (!metric) {
			skip(verdict, runs, name);
			return;
		}
		if (test->rule == NONE ? !metric->value : metric->value)
			continue;
		verdict->result = KSFT_FAIL;
		snprintf(verdict->text, sizeof(verdict->text), "run %d: %s is %g %s", i + 1,
			 metric->name, metric->value, metric->unit);
	}
}

static inline void judge_ratio(struct verdict *verdict, const struct test *test,
			       struct results **runs, int nr_runs)
{
	const char *with = rounds_of(runs, 0, test->other) || !test->or_other ? test->other :
			   test->or_other;
	const char *made_up = made_up_topology();
	bool above = test->rule == ABOVE;
	int wrong = 0, nr = 0;

	if (!rounds_of(runs, 0, test->metric)) {
		skip(verdict, runs, test->metric);
		return;
	}
	if (!rounds_of(runs, 0, with)) {
		skip(verdict, runs, with);
		return;
	}
	if (test->caches && made_up) {
		verdict->result = KSFT_SKIP;
		snprintf(verdict->text, sizeof(verdict->text), "%s", made_up);
		return;
	}
	for (int i = 0; i < nr_runs; i++) {
		const struct metric *a = rounds_of(runs, i, test->metric);
		const struct metric *b = rounds_of(runs, i, with);

		for (int j = 0; a && b && j < a->nr_rounds && nr < MOST_SLICES; j++, nr++)
			wrong += above ? a->rounds[j] <= b->rounds[j] : a->rounds[j] > b->rounds[j];
	}
	if (nr < FEWEST_SLICES) {
		verdict->result = KSFT_SKIP;
		snprintf(verdict->text, sizeof(verdict->text),
			 "%d slices are too few, %d are needed", nr, FEWEST_SLICES);
		return;
	}
	if (wrong < slices_table[nr - FEWEST_SLICES])
		return;
	if (!ksft_min_kernel_version(test->since_major, test->since_minor)) {
		verdict->result = KSFT_SKIP;
		snprintf(verdict->text, sizeof(verdict->text), "kernels before %u.%u lack this",
			 test->since_major, test->since_minor);
		return;
	}
	verdict->result = KSFT_FAIL;
	snprintf(verdict->text, sizeof(verdict->text),
		 "%s %.4g is %sabove %s %.4g in %d of %d slices", test->metric,
		 find_metric(runs[0], test->metric)->value, above ? "not " : "", with,
		 find_metric(runs[0], with)->value, wrong, nr);
}

/* The number of pairs of a run and a recorded run that exceed the budget. */
static inline int beyond(const struct budget_line *line, const double *values, int nr)
{
	bool lower = !strcmp(line->direction, "lower");
	int count = 0;

	for (int i = 0; i < nr; i++)
		for (int j = 0; j < line->nr; j++) {
			double limit = line->values[j] * line->factor + line->more;

			count += lower ? values[i] > limit : values[i] < limit;
		}
	return count;
}

static inline void judge_budget(struct verdict *verdict, struct results **runs, int nr_runs,
				const struct budget *budget)
{
	size_t len = 0;

	verdict->result = budget->missing[0] || nr_runs != BATCH ? KSFT_SKIP : KSFT_PASS;
	if (budget->missing[0])
		snprintf(verdict->text, sizeof(verdict->text), "%s", budget->missing);
	else if (nr_runs != BATCH)
		snprintf(verdict->text, sizeof(verdict->text),
			 "a budget is judged from %d runs, not %d", BATCH, nr_runs);
	for (int i = 0; i < budget->nr_lines && verdict->result != KSFT_SKIP; i++) {
		const struct budget_line *line = &budget->lines[i];
		const struct metric *metric;
		double values[BATCH];
		int count;

		for (int run = 0; run < BATCH; run++) {
			metric = find_metric(runs[run], line->metric);
			if (metric)
				values[run] = metric->value;
			else
				break;
		}
		count = metric ? beyond(line, values, BATCH) : 0;
		if (metric && count < ranks_table[line->nr - FEWEST_RECORDED])
			continue;
		verdict->result = KSFT_FAIL;
		verdict->lines |= 1U << i;
		if (len >= sizeof(verdict->text))
			continue;
		if (!metric)
			len += snprintf(verdict->text + len, sizeof(verdict->text) - len,
					"%s%s has a budget, but was not measured", len ? "; " : "",
					line->metric);
		else
			len += snprintf(verdict->text + len, sizeof(verdict->text) - len,
					"%s%s: baseline %.6g, measured %.6g %s, budget %s, %d of %d pairs of %d runs beyond it",
					len ? "; " : "", line->metric,
					median_of(line->values, line->nr),
					median_of(values, BATCH), line->unit, line->budget, count,
					BATCH * line->nr, BATCH);
	}
}

/* True if a failure has to be confirmed. */
static inline bool judge(struct verdict *verdicts, const struct test *tests, int nr_tests,
			 struct results **runs, int nr_runs, const struct budget *budget)
{
	bool doubtful = false;

	memset(verdicts, 0, nr_tests * sizeof(*verdicts));
	for (int i = 0; i < nr_tests; i++) {
		enum rule rule = tests[i].rule;

		if (rule == WORK || rule == NONE)
			judge_count(&verdicts[i], &tests[i], runs, nr_runs);
		else if (rule == BUDGET)
			judge_budget(&verdicts[i], runs, nr_runs, budget);
		else
			judge_ratio(&verdicts[i], &tests[i], runs, nr_runs);
		if (rule >= NOT_ABOVE && verdicts[i].result == KSFT_FAIL) {
			doubtful = true;
			ksft_print_msg("%s: %s\n", tests[i].name, verdicts[i].text);
		}
	}
	return doubtful;
}

/* Keep the failures of both batches; for WORK and NONE, those of either. */
static inline void confirm(struct verdict *verdicts, const struct verdict *again,
			   const struct test *tests, int nr_tests)
{
	for (int i = 0; i < nr_tests; i++) {
		struct verdict *verdict = &verdicts[i];
		bool failed = verdict->result == KSFT_FAIL && again[i].result == KSFT_FAIL;

		if (tests[i].rule < NOT_ABOVE) {
			if (again[i].result == KSFT_FAIL)
				*verdict = again[i];
			continue;
		}
		if (verdict->result != KSFT_FAIL)
			continue;
		if (tests[i].rule == BUDGET)
			failed = failed && verdict->lines & again[i].lines;
		if (failed)
			*verdict = again[i];
		else
			verdict->result = KSFT_PASS;
	}
}

static inline void print_verdicts(const struct verdict *verdicts, const struct test *tests,
				  int nr_tests, const char *command)
{
	for (int i = 0; i < nr_tests; i++) {
		if (verdicts[i].result == KSFT_SKIP) {
			ksft_test_result_code(KSFT_SKIP, tests[i].name, "%s", verdicts[i].text);
			continue;
		}
		if (verdicts[i].result == KSFT_FAIL)
			ksft_print_msg("%s: %s; again: %s\n", tests[i].name, verdicts[i].text,
				       command);
		ksft_test_result(verdicts[i].result == KSFT_PASS, "%s\n", tests[i].name);
	}
}

#endif
