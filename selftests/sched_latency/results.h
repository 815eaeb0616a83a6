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

#include "fingerprint.h"
#include "histogram.h"

/* wakeup_pingpong has 207 if all pairs exist. */
#define MOST_METRICS	256
#define MOST_ABSENT	64
#define MOST_ROUNDS	100
#define MOST_ROWS	10240
#define MOST_RUNS	100

enum direction { LOWER, HIGHER, NEITHER };
enum kind { EXACT, QUANTILE, RATE, EXCEEDANCE };

struct metric {
	char name[56];
	const char *unit;
	enum direction direction;
	enum kind kind;
	double value;
	__u64 n;
	/* Compared with the budget; only few are, so false alarms are rare. */
	bool gated;
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
};

struct results {
	struct timespec started;
	double uptime;
	int nr_metrics, nr_absent, nr_rows;
	bool done;
	/* Why the run has no results. */
	char error[256];
	struct metric metrics[MOST_METRICS];
	struct absent absent[MOST_ABSENT];
	struct row rows[MOST_ROWS];
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

/* Which of p50 and p99 are compared with the budget. */
#define GATE_P50	1
#define GATE_P99	2

static inline void add_quantiles(struct results *results, const char *name,
				 const struct histogram *histogram, int gates)
{
	static const struct {
		const char *name;
		double share;
		int gate;
	} quantiles[] = {
		{ "p50", 0.5, GATE_P50 },
		{ "p90", 0.9, 0 },
		{ "p99", 0.99, GATE_P99 },
		{ "p99_9", 0.999, 0 },
		{ "max", 1, 0 },
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
		metric->gated = gates & quantiles[i].gate;
	}
}

static inline void add_row(struct results *results, const char *group, int cpu,
			   const struct histogram *histogram)
{
	struct row *row = &results->rows[results->nr_rows];

	if (!histogram->n || results->nr_rows == MOST_ROWS)
		return;
	results->nr_rows++;
	snprintf(row->group, sizeof(row->group), "%s", group);
	row->cpu = cpu;
	row->n = histogram->n;
	row->p50 = histogram_quantile(histogram, 0.5);
	row->p99 = histogram_quantile(histogram, 0.99);
	row->most = histogram->most;
}

#endif
