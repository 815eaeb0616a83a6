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
 *	ABOVE		the metric is above the other one in more slices of a
 *			run than chance explains if both are equal
 *	BASELINE	the metrics are not worse than the baseline, and a
 *			regression of the aim would have been seen
 *	GROSS		the metrics are not beyond a limit that holds on every
 *			machine, so that gross breakage fails without a baseline
 *	LIMITS		no run is beyond an absolute limit
 *
 * A failure of NOT_ABOVE, ABOVE, BASELINE and GROSS must be confirmed by a
 * second batch. statistics.h says how rare false alarms are.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include "baseline.h"
#include "limits.h"

#define MOST_TESTS	64
#define FEWEST_SLICES	7
#define MOST_SLICES	1000
/* A test with BASELINE or GROSS compares no more metrics. */
#define MOST_COMPARED	24

/*
 * Limits of medians, in ms. A working timer is late by microseconds; a limit
 * has to be below the jiffy by which a broken one is late, and above what a
 * slow emulated machine needs. A task that is not real-time may wait for a
 * slice of another one: a few ms.
 */
#define TIMER_MS	1
#define REALTIME_MS	5
#define FAIR_MS		10
/* Others that had so much, in percent, excuse any lateness. */
#define MOST_EXCUSING	25.0

enum rule { WORK, NONE, NOT_ABOVE, ABOVE, BASELINE, GROSS, LIMITS };

struct test {
	const char *name;
	enum rule rule;
	const char *metric, *other;
	/* For BASELINE and GROSS: the metrics. */
	const char *compared[MOST_COMPARED];
	/* For BASELINE: they are those of each CPU. */
	bool each_cpu;
	/* For GROSS: the limit of metrics that are times. */
	double most_ms;
	/* Tasks that are not real-time are no excuse. */
	bool realtime;
	/* Needs the caches that sysfs shows. */
	bool caches;
	/* On kernels before this version a failure is a skip. */
	unsigned int since_major, since_minor;
};

struct verdict {
	int result;
	/* The compared metrics that failed, one bit for each. */
	unsigned int failed;
	/* Of GROSS: the worst metric, and how much of its limit it takes. */
	enum gross { WITHIN, EXCUSED, BEYOND } gross;
	double used;
	char text[1024];
};

/* The runs that are judged together. */
struct batch {
	struct results **runs;
	int nr;
	/* Why too many of them are disturbed; NULL if not. */
	const char *disturbed;
};

static inline __printf(2, 3) void say(struct verdict *verdict, const char *format, ...)
{
	size_t len = strlen(verdict->text);
	va_list args;

	va_start(args, format);
	vsnprintf(verdict->text + len, sizeof(verdict->text) - len, format, args);
	va_end(args);
}

/* What follows is about something else. */
static inline void say_next(struct verdict *verdict)
{
	if (verdict->text[0])
		say(verdict, "; ");
}

static inline
const struct metric *rounds_of(struct results **runs, int run, const char *name)
{
	const struct metric *metric = name ? find_metric(runs[run], name) : NULL;

	return metric && metric->nr_rounds ? metric : NULL;
}

static inline void skip(struct verdict *verdict, struct results **runs, const char *name)
{
	const char *why = why_absent(runs[0], name);

	verdict->result = why ? KSFT_SKIP : KSFT_FAIL;
	if (why)
		say(verdict, "%s", why);
	else
		say(verdict, "%s was not measured", name);
}

static inline void judge_count(struct verdict *verdict, const struct test *test,
			       const struct batch *batch)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", test->metric ? test->metric : test->name,
		 test->metric ? "" : ".samples");
	for (int i = 0; i < batch->nr; i++) {
		const struct metric *metric = find_metric(batch->runs[i], name);

		if (!metric) {
			skip(verdict, batch->runs, name);
			return;
		}
		if (test->rule == NONE ? !metric->value : metric->value)
			continue;
		verdict->result = KSFT_FAIL;
		verdict->text[0] = '\0';
		say(verdict, "run %d: %s is %g %s", i + 1, metric->name, metric->value,
		    metric->unit);
	}
}

static inline void judge_ratio(struct verdict *verdict, const struct test *test,
			       const struct batch *batch)
{
	struct results **runs = batch->runs;
	const char *with = test->other;
	const char *made_up = made_up_topology();
	bool not_above = test->rule == NOT_ABOVE, found;
	int above = 0, nr = 0;

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
		say(verdict, "%s", made_up);
		return;
	}
	for (int i = 0; i < batch->nr; i++) {
		const struct metric *a = rounds_of(runs, i, test->metric);
		const struct metric *b = rounds_of(runs, i, with);

		for (int j = 0; a && b && j < a->nr_rounds && nr < MOST_SLICES; j++, nr++)
			above += a->rounds[j] > b->rounds[j];
	}
	if (nr < FEWEST_SLICES) {
		verdict->result = KSFT_SKIP;
		say(verdict, "%d slices are too few, %d are needed", nr, FEWEST_SLICES);
		return;
	}
	found = above >= least_slices(nr);
	if (found != not_above)
		return;
	if (!ksft_min_kernel_version(test->since_major, test->since_minor)) {
		verdict->result = KSFT_SKIP;
		say(verdict, "kernels before %u.%u lack this", test->since_major,
		    test->since_minor);
		return;
	}
	verdict->result = KSFT_FAIL;
	say(verdict, "%s %.4g is above %s %.4g in %s%d of %d slices", test->metric,
	    find_metric(runs[0], test->metric)->value, with, find_metric(runs[0], with)->value,
	    not_above ? "" : "only ", above, nr);
}

/* Gross breakage. */

/* A jiffy in ms: the coarse clock moves on with each. */
static inline double jiffy_ms(void)
{
	struct timespec grain = {};

	clock_getres(CLOCK_MONOTONIC_COARSE, &grain);
	return grain.tv_sec * 1e3 + grain.tv_nsec / 1e6;
}

/* A timer that is late by a jiffy fails, unless the kernel has no better ones. */
static inline double gross_limit(const struct test *test)
{
	struct timespec grain = {};

	if (test->most_ms != TIMER_MS)
		return test->most_ms;
	clock_getres(CLOCK_MONOTONIC, &grain);
	if (grain.tv_sec || grain.tv_nsec > 1)
		return 2 * jiffy_ms();
	return jiffy_ms() / 2 > TIMER_MS ? jiffy_ms() / 2 : TIMER_MS;
}

/* What something else had of the CPUs, in percent, as far as it was measured. */
static inline double share_of_others(const struct test *test, const struct results *results)
{
	const struct disturbance *found = &results->disturbance;

	return found->steal + found->irq + found->hidden + (test->realtime ? 0 : found->others) +
	       found->realtime / cpus_count(&common.cpus);
}

/*
 * What others must have had to be the reason, in percent. A real-time task that
 * is twice as late takes twice as much; a quarter is enough for all, because one
 * of two CPUs may be gone for half of the time. An ordinary task queues behind
 * others, and who had little can be in front of it all the time.
 */
static inline double excusing_share(bool proportional, double used)
{
	double share = proportional ? MOST_OTHERS * used : MOST_OTHERS;

	return share < MOST_EXCUSING ? share : MOST_EXCUSING;
}

/*
 * Beyond the limit, a run fails. It is a skip if others had so much of the CPUs
 * that they could be the reason. A share in percent has to be half or more.
 */
static inline void judge_one(struct verdict *verdict, const struct test *test,
			     const struct results *results, const struct metric *metric)
{
	static const int code[] = { KSFT_PASS, KSFT_SKIP, KSFT_FAIL };
	bool time = !strcmp(metric->unit, "ns");
	double others = share_of_others(test, results);
	double value = time ? metric->value / 1e6 : metric->value;
	double limit = time ? gross_limit(test) : 50;
	double used = time ? value / limit : value ? limit / value : INFINITY;
	bool excused = others > excusing_share(test->realtime, used);
	enum gross gross = used <= 1 ? WITHIN : excused ? EXCUSED : BEYOND;

	if (gross < verdict->gross ||
	    (gross == verdict->gross && used < verdict->used))
		return;
	verdict->gross = gross;
	verdict->used = used;
	verdict->result = code[gross];
	verdict->text[0] = '\0';
	say(verdict, "%s %.3g %s, at %s %g", metric->name, value, time ? "ms" : metric->unit,
	    time ? "most" : "least", limit);
	if (gross == EXCUSED)
		say(verdict, "; others had %.0f %% of the CPUs", others);
}

static inline void judge_gross(struct verdict *verdict, const struct test *test,
			       const struct batch *batch)
{
	const struct metric *metric;
	bool any = false;

	for (int i = 0; i < MOST_COMPARED && test->compared[i]; i++)
		for (int run = 0; run < batch->nr; run++) {
			metric = find_metric(batch->runs[run], test->compared[i]);
			if (metric)
				judge_one(verdict, test, batch->runs[run], metric);
			any |= !!metric;
		}
	if (!any)
		skip(verdict, batch->runs, test->compared[0]);
}

/* Baselines. */

/* How much worse a value is than the baseline: in percent of it, or in points. */
static inline double loss_of(const struct figure *figure, double value, double base)
{
	bool points = figure->aim == POINTS || figure->aim == CPU_POINTS;
	double worse = figure->direction == HIGHER ? base - value : value - base;

	if (points || !worse)
		return worse;
	return base > 0 ? 100 * worse / base : worse * INFINITY;
}

/* One metric, or one metric of each CPU, against the baseline. */
struct comparison {
	/* The first is the metric, and knows its unit; if of CPUs, the worst one. */
	struct figure figure;
	int nr_recorded;
	/* Of each recorded run; the lowest is that of its best CPU. */
	double losses[MOST_RECORDED], lowest[MOST_RECORDED];
	int sessions[MOST_RECORDED];
	/* The loss of the batch, and the loss above which it fails. */
	double loss, limit;
	/* The regression that fails although the batch is as good as a good recorded one. */
	double sees;
	/* Values of the metric, or of the worst CPU. */
	double base, value;
};

static inline int known_values(const struct series *series, int nr_runs, double *values)
{
	int nr = 0;

	for (int i = 0; i < nr_runs; i++)
		if (!isnan(series->values[i]))
			values[nr++] = series->values[i];
	return nr;
}

/* The losses of the recorded runs: of each run that of its worst CPU, if CPUs are compared. */
static inline void recorded_losses(struct comparison *found, const struct baseline *baseline,
				   const char *name, bool each_cpu)
{
	static double losses[MOST_RECORDED], lowest[MOST_RECORDED], values[MOST_RECORDED];
	static int sessions[MOST_RECORDED];

	for (int run = 0; run < MOST_RECORDED; run++) {
		losses[run] = -INFINITY;
		lowest[run] = INFINITY;
	}
	for (int i = 0; i < baseline->nr_series; i++) {
		const struct series *series = &baseline->series[i];
		bool of_cpu = series->cpu >= 0;
		int nr;

		if (strcmp(series->name, name) || of_cpu != each_cpu)
			continue;
		nr = known_values(series, baseline->nr_runs, values);
		sort_values(values, nr);
		for (int run = 0; run < baseline->nr_runs; run++) {
			double base, loss;

			if (isnan(series->values[run]) || nr < 2)
				continue;
			/*
			 * The ranks of one metric do not depend on its base. Those of the
			 * worst of many CPUs do: there, a run is compared with the others,
			 * as a new run is with all.
			 */
			base = each_cpu ? median_without(values, nr, series->values[run]) :
			       median_of(values, nr);
			loss = loss_of(&found->figure, series->values[run], base);
			losses[run] = loss > losses[run] ? loss : losses[run];
			lowest[run] = loss < lowest[run] ? loss : lowest[run];
		}
	}
	number_sessions(baseline, sessions);
	for (int run = 0; run < baseline->nr_runs; run++)
		if (losses[run] > -INFINITY) {
			found->sessions[found->nr_recorded] = sessions[run];
			found->lowest[found->nr_recorded] = lowest[run];
			found->losses[found->nr_recorded++] = losses[run];
		}
}

/* The values of one metric and CPU in the runs of the batch. */
static inline int batch_values(struct figure **figures, const int *nr_figures, int nr_runs,
			       const char *name, int cpu, int place, double *values)
{
	int nr = 0;

	for (int run = 0; run < nr_runs; run++)
		for (int i = 0; i < nr_figures[run]; i++) {
			const struct figure *figure = &figures[run][(place + i) % nr_figures[run]];

			if (figure->cpu != cpu || strcmp(figure->name, name))
				continue;
			values[nr++] = figure->value;
			break;
		}
	return nr;
}

/* The loss of the batch; false if there is nothing to compare. */
static inline bool batch_loss(struct comparison *found, const struct baseline *baseline,
			      struct figure **figures, const int *nr_figures, int nr_runs,
			      const char *name, bool each_cpu)
{
	static double worst[MOST_RUNS], recorded[MOST_RECORDED];
	double values[MOST_RUNS], most = -INFINITY;

	for (int run = 0; run < nr_runs; run++)
		worst[run] = -INFINITY;
	for (int i = 0; i < nr_figures[0]; i++) {
		const struct figure *figure = &figures[0][i];
		const struct series *series;
		bool of_cpu = figure->cpu >= 0;
		double base, loss;
		int nr;

		if (strcmp(figure->name, name) || of_cpu != each_cpu)
			continue;
		series = find_series(baseline, name, figure->cpu, i);
		nr = series ? known_values(series, baseline->nr_runs, recorded) : 0;
		if (!nr)
			continue;
		base = median_of(recorded, nr);
		nr = batch_values(figures, nr_figures, nr_runs, name, figure->cpu, i, values);
		/* A CPU may have had no sample; a metric that is gone proves nothing. */
		if (nr < nr_runs && !each_cpu)
			return false;
		for (int run = 0; run < nr; run++) {
			loss = loss_of(figure, values[run], base);
			worst[run] = loss > worst[run] ? loss : worst[run];
		}
		loss = loss_of(figure, median_of(values, nr), base);
		if (loss > most) {
			most = loss;
			found->figure = *figure;
			found->base = base;
			found->value = median_of(values, nr);
		}
	}
	if (most == -INFINITY)
		return false;
	found->loss = lower_median(worst, nr_runs);
	return true;
}

/* A CPU that each recorded run has, and no run of the batch: nothing ran there. -1 for none. */
static inline int lost_cpu(const struct baseline *baseline, struct figure **figures,
			   const int *nr_figures, int nr_runs, const char *name)
{
	static double recorded[MOST_RECORDED];
	double values[MOST_RUNS];

	for (int i = 0; i < baseline->nr_series; i++) {
		const struct series *series = &baseline->series[i];

		if (series->cpu >= 0 && !strcmp(series->name, name) &&
		    known_values(series, baseline->nr_runs, recorded) == baseline->nr_runs &&
		    !batch_values(figures, nr_figures, nr_runs, name, series->cpu, i, values))
			return series->cpu;
	}
	return -1;
}

/* How many comparisons share the chance of a false alarm. */
static inline int comparisons(const struct test *tests, int nr_tests)
{
	int nr = 0;

	for (int i = 0; i < nr_tests; i++)
		for (int j = 0; tests[i].rule == BASELINE && j < MOST_COMPARED; j++)
			nr += !!tests[i].compared[j];
	return nr;
}

static inline void print_value(struct verdict *verdict, const struct figure *figure, double value)
{
	bool time = !strcmp(figure->unit, "ns");

	if (time && value >= 1e6)
		say(verdict, "%.3g ms", value / 1e6);
	else if (time && value >= 1e3)
		say(verdict, "%.3g us", value / 1e3);
	else
		say(verdict, "%.4g %s", value, figure->unit);
}

/* " on CPU 17 (node of CPUs 0-31, LLC of CPUs 16-23)" */
static inline void print_cpu(struct verdict *verdict, int cpu)
{
	static const struct {
		enum sharing what;
		const char *name;
	} places[] = { { NODE, "node" }, { LLC, "LLC" } };
	struct cpus shared;
	bool any = false;

	say(verdict, " on CPU %d", cpu);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		if (!cpus_sharing(cpu, places[i].what, &shared))
			continue;
		say(verdict, "%s%s of CPUs %.64s", any ? ", " : " (", places[i].name,
		    cpus_list(&shared));
		any = true;
	}
	if (any)
		say(verdict, ")");
}

static inline void print_loss(struct verdict *verdict, const struct figure *figure, double loss)
{
	bool points = figure->aim == POINTS || figure->aim == CPU_POINTS;
	char sign = figure->direction == HIGHER ? '-' : '+';

	if (isinf(loss))
		say(verdict, "any factor");
	else
		say(verdict, "%c%.3g%s", loss < 0 ? '+' + '-' - sign : sign, fabs(loss),
		    points ? " points" : " %");
}

/* How many more recorded runs like these would let the aim be seen; 0 if none would. */
static inline int runs_lacking(const struct comparison *found, int nr_runs, double chance)
{
	int quiet = 0;

	for (int i = 0; i < found->nr_recorded; i++)
		quiet += found->losses[i] <= aims[found->figure.aim];
	for (int nr = found->nr_recorded + 1; nr <= MOST_RECORDED; nr++)
		if (rank_for(nr, nr_runs, chance) <= (long)quiet * nr / found->nr_recorded)
			return nr - found->nr_recorded;
	return 0;
}

static inline void print_noise(struct verdict *verdict, const struct baseline *baseline)
{
	static const char * const sources[] = { "noise.steal", "noise.interrupts", "noise.others" };
	static double values[MOST_RECORDED];
	const char *largest = NULL;
	double most = 0.1;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		const struct series *series = find_series(baseline, sources[i], -1, 0);
		double mean = 0;
		int nr = series ? known_values(series, baseline->nr_runs, values) : 0;

		for (int j = 0; j < nr; j++)
			mean += values[j] / nr;
		if (mean > most) {
			most = mean;
			largest = strchr(sources[i], '.') + 1;
		}
	}
	if (largest)
		say(verdict, " (%s took %.1f %% of the time when it was recorded)", largest, most);
}

static inline void say_too_noisy(struct verdict *verdict, const struct comparison *found,
				 const struct baseline *baseline, int more)
{
	say_next(verdict);
	say(verdict, "%s: too noisy to see ", found->figure.name);
	print_loss(verdict, &found->figure, aims[found->figure.aim]);
	say(verdict, ", sees ");
	print_loss(verdict, &found->figure, found->sees);
	if (more)
		say(verdict, ": record %d more runs, or use a quieter machine", more);
	else
		say(verdict, ": needs a quieter machine");
	print_noise(verdict, baseline);
}

static inline void say_compared(struct verdict *verdict, const struct comparison *found)
{
	const struct figure *figure = &found->figure;

	say_next(verdict);
	say(verdict, "%s ", figure->name);
	print_value(verdict, figure, found->value);
	if (figure->cpu >= 0)
		print_cpu(verdict, figure->cpu);
	say(verdict, ", baseline ");
	print_value(verdict, figure, found->base);
	say(verdict, "; ");
	if (found->loss > found->limit) {
		say(verdict, "worse by ");
		print_loss(verdict, figure, found->loss);
		say(verdict, ", and ");
		print_loss(verdict, figure, found->limit);
	} else {
		print_loss(verdict, figure, found->sees);
	}
	say(verdict, " would fail");
}

#define MOST_SESSIONS	5

/*
 * The registered least limit is a part of the aim: minutes and boots differ by
 * something even if the runs of a baseline, one after the other, do not. Tails
 * differ by more. On a machine where nothing had changed, p99 of the sleeps
 * rose by half within half an hour, and p50 of the timers by more than a tenth.
 * So one session excludes no regression of the aim, only one that is larger.
 * How much sessions differ is known the better the more there are. Missed
 * intervals do not drift.
 */
static inline double least_limit(const struct figure *figure, int nr_sessions)
{
	static const double median[MOST_SESSIONS] = { 2, 1, 0.75, 0.75, 0.5 };
	static const double tail[MOST_SESSIONS] = { 3, 1, 0.8, 0.8, 0.8 };
	int few = nr_sessions < MOST_SESSIONS ? nr_sessions - 1 : MOST_SESSIONS - 1;
	double share = median[few];

	if (figure->aim == POINTS || figure->aim == CPU_POINTS)
		share = 0.5;
	if (figure->aim == TAIL || figure->aim == CPU_TAIL)
		share = tail[few];
	return share * aims[figure->aim];
}

static inline void say_few_sessions(struct verdict *verdict, const struct comparison *found,
				    int nr_sessions)
{
	say_next(verdict);
	say(verdict, "%s: ", found->figure.name);
	if (nr_sessions > 1)
		say(verdict, "%d sessions see only ", nr_sessions);
	else
		say(verdict, "one session sees only ");
	print_loss(verdict, &found->figure, found->sees);
	say(verdict, ": record in another boot, or %d minutes later", SESSION_MINUTES);
}

/* The regression whose loss is at the limit if the batch was as good as this before. */
static inline double regression_seen(const struct figure *figure, double limit, double good)
{
	if (figure->aim == POINTS || figure->aim == CPU_POINTS)
		return limit - good;
	if (figure->direction == HIGHER)
		return 100 - 100 * (100 - limit) / (100 - good);
	return 100 * (100 + limit) / (100 + good) - 100;
}

/* KSFT_PASS if the aim would have been seen, KSFT_SKIP if not, KSFT_FAIL if it is worse. */
static inline int compare(struct verdict *verdict, const struct test *test,
			  const struct batch *batch, struct figure **figures,
			  const int *nr_figures, const struct baseline *baseline,
			  const char *name, double chance, int nr_sessions)
{
	static struct comparison found;
	double ranked, sessions, noise, least, aim;
	int rank, lost;

	memset(&found, 0, sizeof(found));
	if (!batch_loss(&found, baseline, figures, nr_figures, batch->nr, name, test->each_cpu)) {
		const char *why = why_absent(batch->runs[0], name);

		/* Other metrics of the test are often absent for the same reason. */
		if (!why || !strstr(verdict->text, why)) {
			say_next(verdict);
			say(verdict, "%s%s", why ? "" : name,
			    why ? why : ": not both measured and recorded");
		}
		return why ? KSFT_SKIP : KSFT_FAIL;
	}
	lost = test->each_cpu ?
	       lost_cpu(baseline, figures, nr_figures, batch->nr, name) : -1;
	if (lost >= 0) {
		say_next(verdict);
		say(verdict, "%s: no sample", name);
		print_cpu(verdict, lost);
		say(verdict, ", each recorded run has some");
		return KSFT_FAIL;
	}
	recorded_losses(&found, baseline, name, test->each_cpu);
	rank = rank_for(found.nr_recorded, batch->nr, chance);
	if (rank > found.nr_recorded) {
		say_next(verdict);
		say(verdict, "%s: %d runs against %d recorded ones prove nothing: ", name,
		    batch->nr, found.nr_recorded);
		found.limit = INFINITY;
		rank = runs_lacking(&found, batch->nr, chance);
		if (rank)
			say(verdict, "record %d more", rank);
		else
			say(verdict, "use more --runs");
		return KSFT_SKIP;
	}
	ranked = value_at(found.losses, found.nr_recorded, rank - 1);
	sessions = beyond_sessions(found.losses, found.sessions, found.nr_recorded);
	noise = ranked < sessions ? sessions : ranked;
	least = least_limit(&found.figure, nr_sessions);
	found.limit = noise < least ? least : noise;
	if (found.loss > found.limit) {
		say_compared(verdict, &found);
		return KSFT_FAIL;
	}
	found.sees = regression_seen(&found.figure, found.limit,
				     as_good(found.lowest, found.sessions, found.nr_recorded,
					     rank));
	aim = aims[found.figure.aim];
	if (found.sees > aim) {
		if (noise <= least && least > least_limit(&found.figure, MOST_SESSIONS))
			say_few_sessions(verdict, &found, nr_sessions);
		else
			say_too_noisy(verdict, &found, baseline, ranked > aim ?
				      runs_lacking(&found, batch->nr, chance) : 0);
		return KSFT_SKIP;
	}
	say_compared(verdict, &found);
	return KSFT_PASS;
}

/*
 * The test fails if one of its metrics does, and is skipped if none could have
 * failed at the aim. The text of a pass names what each of them excludes.
 */
static inline void judge_baseline(struct verdict *verdict, const struct test *test,
				  const struct batch *batch, const struct baseline *baseline,
				  double chance)
{
	struct figure **figures = calloc(batch->nr, sizeof(*figures));
	int *nr_figures = calloc(batch->nr, sizeof(*nr_figures)), passed = 0;
	static int sessions[MOST_RECORDED];
	int nr_sessions = number_sessions(baseline, sessions);

	verdict->result = KSFT_SKIP;
	if (!figures || !nr_figures)
		ksft_exit_fail_msg("no memory\n");
	if (baseline->missing[0] || batch->disturbed)
		say(verdict, "%s", baseline->missing[0] ? baseline->missing : batch->disturbed);
	for (int i = 0; i < batch->nr && !verdict->text[0]; i++)
		nr_figures[i] = figures_of(batch->runs[i], &figures[i]);
	for (int i = 0; i < MOST_COMPARED && test->compared[i] && nr_figures[batch->nr - 1]; i++) {
		int result;

		result = compare(verdict, test, batch, figures, nr_figures, baseline,
				 test->compared[i], chance, nr_sessions);
		passed += result == KSFT_PASS;
		verdict->failed |= (unsigned int)(result == KSFT_FAIL) << i;
	}
	if (verdict->failed)
		verdict->result = KSFT_FAIL;
	else if (passed)
		verdict->result = KSFT_PASS;
	if (verdict->result == KSFT_PASS && nr_sessions == 1)
		say(verdict, "; the baseline is of one session");
	for (int i = 0; i < batch->nr; i++)
		free(figures[i]);
	free(figures);
	free(nr_figures);
}

/* Limits. */

static inline void judge_limits(struct verdict *verdict, const struct batch *batch)
{
	if (!nr_limits) {
		verdict->result = KSFT_SKIP;
		say(verdict, "no --limit, and no %s", limits_path);
		return;
	}
	for (int i = 0; i < nr_limits; i++) {
		const struct limit *limit = &limits[i];

		for (int run = 0; run < batch->nr; run++) {
			const struct metric *metric = find_metric(batch->runs[run], limit->metric);
			const char *why = why_absent(batch->runs[run], limit->metric);
			double value;

			if (!metric && !why)
				ksft_exit_fail_msg("--limit %s: there is no such metric\n",
						   limit->text);
			value = metric ? limit_for(limit, metric) : 0;
			if (metric && (metric->direction == HIGHER ? metric->value >= value :
				       metric->value <= value))
				continue;
			verdict->result = KSFT_FAIL;
			say(verdict, "%s%s: ", verdict->text[0] ? "; " : "", limit->text);
			if (metric)
				say(verdict, "%.6g %s in run %d", metric->value, metric->unit,
				    run + 1);
			else
				say(verdict, "%s", why);
			break;
		}
	}
	if (verdict->result == KSFT_PASS)
		for (int i = 0; i < nr_limits; i++)
			say(verdict, "%s%s", i ? ", " : "", limits[i].text);
}

/* True if a failure has to be confirmed. */
static inline bool judge(struct verdict *verdicts, const struct test *tests, int nr_tests,
			 const struct batch *batch, const struct baseline *baseline)
{
	int nr = comparisons(tests, nr_tests);
	bool doubtful = false;

	memset(verdicts, 0, nr_tests * sizeof(*verdicts));
	for (int i = 0; i < nr_tests; i++) {
		enum rule rule = tests[i].rule;

		if (rule == WORK || rule == NONE)
			judge_count(&verdicts[i], &tests[i], batch);
		else if (rule == BASELINE)
			judge_baseline(&verdicts[i], &tests[i], batch, baseline,
				       FALSE_ALARMS / nr);
		else if (rule == GROSS)
			judge_gross(&verdicts[i], &tests[i], batch);
		else if (rule == LIMITS)
			judge_limits(&verdicts[i], batch);
		else
			judge_ratio(&verdicts[i], &tests[i], batch);
		if (rule >= NOT_ABOVE && rule <= GROSS && verdicts[i].result == KSFT_FAIL) {
			doubtful = true;
			ksft_print_msg("%s: %s\n", tests[i].name, verdicts[i].text);
		}
	}
	return doubtful;
}

/* Keep the failures of both batches; where nothing is compared, those of either. */
static inline void confirm(struct verdict *verdicts, const struct verdict *again,
			   const struct test *tests, int nr_tests)
{
	for (int i = 0; i < nr_tests; i++) {
		enum rule rule = tests[i].rule;

		if (rule < NOT_ABOVE || rule > GROSS) {
			if (again[i].result == KSFT_FAIL)
				verdicts[i] = again[i];
			continue;
		}
		if (verdicts[i].result != KSFT_FAIL)
			continue;
		/* If it failed once for one reason and once for another, neither is confirmed. */
		if (again[i].result == KSFT_FAIL && rule == BASELINE &&
		    !(verdicts[i].failed & again[i].failed)) {
			verdicts[i].result = KSFT_PASS;
			say(&verdicts[i], "; not confirmed: %.200s", again[i].text);
		} else {
			verdicts[i] = again[i];
		}
	}
}

static inline void print_verdicts(const struct verdict *verdicts, const struct test *tests,
				  int nr_tests, const char *command)
{
	for (int i = 0; i < nr_tests; i++) {
		const char *text = verdicts[i].text;

		if (verdicts[i].result == KSFT_SKIP) {
			ksft_test_result_code(KSFT_SKIP, tests[i].name, "%s", text);
			continue;
		}
		if (verdicts[i].result == KSFT_FAIL)
			ksft_print_msg("%s: %s; again: %s\n", tests[i].name, text, command);
		ksft_test_result(verdicts[i].result == KSFT_PASS, "%s%s%s\n", tests[i].name,
				 text[0] && verdicts[i].result == KSFT_PASS ? " # " : "",
				 verdicts[i].result == KSFT_PASS ? text : "");
	}
}

#endif
