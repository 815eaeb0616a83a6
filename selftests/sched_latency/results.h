/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one run measured. A metric is a number with its unit, not a verdict. A
 * run is a process of its own, so the results are in memory that it shares with
 * the process that judges them.
 */
#ifndef RESULTS_H
#define RESULTS_H

#include <sys/mman.h>
#include <time.h>

#include "disturbance.h"
#include "fingerprint.h"
#include "histogram.h"

/* wakeup_pingpong has 207 if all pairs exist. */
#define MOST_METRICS	256
#define MOST_ABSENT	64
#define MOST_ROUNDS	100
#define MOST_ROWS	10240
#define MOST_RUNS	100
#define MOST_BARS	8192

enum direction { LOWER, HIGHER, NEITHER };
enum kind { EXACT, QUANTILE, RATE, EXCEEDANCE };

/*
 * Whether a metric is compared with the baseline, and how large a regression
 * the test is there to see. POINTS is for metrics in percent: the aim is in
 * points, not in percent of the value. The last three are for one CPU, whose
 * figures come from fewer samples.
 */
enum aim { NOT_COMPARED, MEDIAN, TAIL, POINTS, CPU_MEDIAN, CPU_TAIL, CPU_POINTS, AIMS };
static double aims[AIMS] = {
	[MEDIAN] = 20, [TAIL] = 50, [POINTS] = 2,
	[CPU_MEDIAN] = 50, [CPU_TAIL] = 200, [CPU_POINTS] = 10,
};

struct metric {
	char name[56];
	const char *unit;
	enum direction direction;
	enum kind kind;
	double value;
	__u64 n;
	enum aim aim;
	/* One value for each slice of the run, where slices are compared. */
	int nr_rounds;
	double rounds[MOST_ROUNDS];
};

/* What this machine cannot measure: a prefix of metric names, and why. */
struct absent {
	char name[56];
	char reason[160];
};

struct row {
	char group[32];
	int cpu;
	__u64 n;
	double p50, p99, most;
	/* In percent of the intervals; below 0 if it is not counted. */
	double missed;
	/* Compared with the baseline of this CPU. */
	bool compared;
};

/* What one bucket of a histogram counted. */
struct bar {
	char name[40];
	__u64 from, width, count;
};

struct results {
	struct timespec started;
	double uptime;
	int nr_metrics, nr_absent, nr_rows, nr_bars;
	bool done;
	/* Why the run has no results, and whether the machine's limits are the reason. */
	char error[256];
	bool refused;
	/* What disturbed the run, and whether it may have spoiled the figures. */
	struct disturbance disturbance;
	struct metric metrics[MOST_METRICS];
	struct absent absent[MOST_ABSENT];
	struct row rows[MOST_ROWS];
	struct bar bars[MOST_BARS];
};

static inline double seconds_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Pages are allocated when they are written, and most rows never are. */
static inline struct results *results_new(void)
{
	struct results *results = mmap(NULL, sizeof(*results), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (results == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	clock_gettime(CLOCK_REALTIME, &results->started);
	results->uptime = seconds_of(CLOCK_BOOTTIME);
	return results;
}

static inline void results_free(struct results *results)
{
	munmap(results, sizeof(*results));
}

static inline __printf(6, 7)
struct metric *add_metric(struct results *results, enum kind kind, enum direction direction,
			  const char *unit, double value, const char *format, ...)
{
	struct metric *metric = &results->metrics[results->nr_metrics];
	va_list args;

	if (results->nr_metrics == MOST_METRICS)
		ksft_exit_fail_msg("more than %d metrics\n", MOST_METRICS);
	results->nr_metrics++;
	va_start(args, format);
	vsnprintf(metric->name, sizeof(metric->name), format, args);
	va_end(args);
	metric->unit = unit;
	metric->direction = direction;
	metric->kind = kind;
	metric->value = value;
	metric->n = 1;
	return metric;
}

static inline __printf(3, 4)
void add_absent(struct results *results, const char *name, const char *format, ...)
{
	struct absent *absent = &results->absent[results->nr_absent];
	va_list args;

	if (results->nr_absent == MOST_ABSENT)
		ksft_exit_fail_msg("more than %d metrics are missing\n", MOST_ABSENT);
	results->nr_absent++;
	snprintf(absent->name, sizeof(absent->name), "%s", name);
	va_start(args, format);
	vsnprintf(absent->reason, sizeof(absent->reason), format, args);
	va_end(args);
}

static inline
const struct metric *find_metric(const struct results *results, const char *name)
{
	for (int i = 0; i < results->nr_metrics; i++)
		if (!strcmp(results->metrics[i].name, name))
			return &results->metrics[i];
	return NULL;
}

/* Why a metric is absent: its name, or only its prefix, is in the list. */
static inline
const char *why_absent(const struct results *results, const char *name)
{
	for (int i = 0; i < results->nr_absent; i++) {
		size_t len = strlen(results->absent[i].name);

		if (!strncmp(results->absent[i].name, name, len) &&
		    (!name[len] || name[len] == '.'))
			return results->absent[i].reason;
	}
	return NULL;
}

static inline void add_bars(struct results *results, const char *name,
			    const struct histogram *histogram)
{
	for (int i = 0; i < BUCKETS && results->nr_bars < MOST_BARS; i++) {
		struct bar *bar = &results->bars[results->nr_bars];

		if (!histogram->buckets[i])
			continue;
		results->nr_bars++;
		snprintf(bar->name, sizeof(bar->name), "%s", name);
		bar->from = bucket_start(i);
		bar->width = bucket_width(i);
		bar->count = histogram->buckets[i];
	}
}

/* @compared: p50, p99 and p99.9 are compared with the baseline, or only p50. */
enum compared { NONE_COMPARED, P50_COMPARED, ALL_COMPARED };

static inline void add_quantiles(struct results *results, const char *name,
				 const struct histogram *histogram, enum compared compared)
{
	static const struct {
		const char *name;
		double share;
		enum aim aim;
	} quantiles[] = {
		{ "p50", 0.5, MEDIAN },
		{ "p90", 0.9, NOT_COMPARED },
		{ "p99", 0.99, TAIL },
		{ "p99_9", 0.999, TAIL },
		{ "max", 1, NOT_COMPARED },
	};
	struct metric *metric;

	metric = add_metric(results, EXACT, NEITHER, "samples", histogram->n, "%s.samples", name);
	metric->n = histogram->n;
	metric = add_metric(results, EXCEEDANCE, LOWER, "samples", histogram->overflow,
			    "%s.overflow", name);
	metric->n = histogram->n;
	if (!histogram->n)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++) {
		metric = add_metric(results, QUANTILE, LOWER, "ns",
				    quantiles[i].share == 1 ? histogram->most :
				    histogram_quantile(histogram, quantiles[i].share),
				    "%s.%s", name, quantiles[i].name);
		metric->n = histogram->n;
		if (compared == ALL_COMPARED ||
		    (compared == P50_COMPARED && quantiles[i].aim == MEDIAN))
			metric->aim = quantiles[i].aim;
	}
	add_bars(results, name, histogram);
}

/* Returns a row that is not kept if there is nothing to say about the CPU. */
static inline struct row *add_row(struct results *results, const char *group, int cpu,
				  const struct histogram *histogram)
{
	static struct row none;
	struct row *row = &results->rows[results->nr_rows];

	if (!histogram->n || results->nr_rows == MOST_ROWS)
		return &none;
	results->nr_rows++;
	snprintf(row->group, sizeof(row->group), "%s", group);
	row->cpu = cpu;
	row->n = histogram->n;
	row->p50 = histogram_quantile(histogram, 0.5);
	row->p99 = histogram_quantile(histogram, 0.99);
	row->most = histogram->most;
	row->missed = -1;
	return row;
}

#endif
