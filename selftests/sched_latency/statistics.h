/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All the statistics of the tests. Nothing here reads or prints.
 *
 * A baseline has m runs. A batch has n runs, and a second batch is run if the
 * first one looks worse. How much worse a run is than the baseline is its
 * loss; the loss of a batch is the lower median of its runs' losses. A batch
 * looks worse if its loss is above the j-th smallest loss of the baseline's
 * own runs, and a test fails if both batches look worse.
 *
 * If nothing has changed, all orders of the m + 2 n runs are equally probable,
 * whatever their distribution is. So the chance of a false alarm is exact: that
 * of both medians being above the j-th of m. rank_for() takes the smallest j
 * that is rare enough. Thus the noise is counted once, and m - j outliers of
 * the baseline do not matter.
 */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* How often a whole run of a workload may fail though nothing has changed. */
#define FALSE_ALARMS	0.01
/* A baseline has no more runs than this. */
#define MOST_RECORDED	400

static inline double choose(int n, int k)
{
	double ways = 1;

	for (int i = 1; i <= k; i++)
		ways = ways * (n - k + i) / i;
	return ways;
}

/* The chance that the lower medians of two batches of n are both above the j-th of m. */
static inline double chance_beyond(int m, int j, int n)
{
	double chance = 0;

	for (int a = n / 2 + 1; a <= n; a++)
		for (int b = n / 2 + 1; b <= n; b++) {
			/* a runs of one batch and b runs of the other are above. */
			double one = choose(n, a) * choose(n, b);

			for (int i = 0; i < a + b; i++)
				one *= (double)(m - j + 1 + i) / (m + 1 + i);
			for (int i = 0; i < 2 * n - a - b; i++)
				one *= (double)(j + i) / (m + 1 + a + b + i);
			chance += one;
		}
	return chance;
}

/* The smallest j with no more than this chance; m + 1 if there is none. */
static inline int rank_for(int m, int n, double chance)
{
	int j = m + 1;

	while (j > 1 && chance_beyond(m, j - 1, n) <= chance)
		j--;
	return j;
}

static inline int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void sort_values(double *values, int nr)
{
	qsort(values, nr, sizeof(*values), compare_values);
}

/* The value of this place, counted from 0, if the values were sorted. */
static inline double value_at(const double *values, int nr, int place)
{
	double sorted[MOST_RECORDED];

	memcpy(sorted, values, nr * sizeof(*values));
	sort_values(sorted, nr);
	return sorted[place];
}

/* The median; of an even number, the lower of the two. */
static inline double lower_median(const double *values, int nr)
{
	return value_at(values, nr, (nr - 1) / 2);
}

static inline double median_of(const double *values, int nr)
{
	return (lower_median(values, nr) + value_at(values, nr, nr / 2)) / 2;
}

/* The median of all values but this one. The values are sorted. */
static inline double median_without(const double *sorted, int nr, double value)
{
	int low = (nr - 2) / 2, high = (nr - 1) / 2, place = 0;

	while (place < nr - 1 && sorted[place] < value)
		place++;
	return (sorted[low + (low >= place)] + sorted[high + (high >= place)]) / 2;
}

/* The median of the losses of one session, counted from 0; NAN if it has none. */
static inline double median_of_session(const double *losses, const int *sessions, int nr,
				       int session)
{
	double of_one[MOST_RECORDED];
	int nr_of_one = 0;

	for (int i = 0; i < nr; i++)
		if (sessions[i] == session)
			of_one[nr_of_one++] = losses[i];
	return nr_of_one ? median_of(of_one, nr_of_one) : NAN;
}

/*
 * Sessions differ, too. If there are several in the baseline, a loss is no
 * failure until it is as far beyond the worst one as this is from the best.
 */
static inline double beyond_sessions(const double *losses, const int *sessions, int nr)
{
	double least = 0, most = 0;
	int nr_sessions = 0;

	for (int session = 0; session < MOST_RECORDED; session++) {
		double median = median_of_session(losses, sessions, nr, session);

		if (isnan(median))
			continue;
		least = !nr_sessions || median < least ? median : least;
		most = !nr_sessions || median > most ? median : most;
		nr_sessions++;
	}
	return nr_sessions > 1 ? most + (most - least) : 0;
}

/*
 * How good a batch may well be: as rare as a false alarm in the other
 * direction, or as the best session. The loss of a regression is less by that.
 */
static inline double as_good(const double *losses, const int *sessions, int nr, int rank)
{
	double good = value_at(losses, nr, nr - rank);

	for (int session = 0; session < MOST_RECORDED; session++) {
		double median = median_of_session(losses, sessions, nr, session);

		if (median < good)
			good = median;
	}
	return good < 0 ? good : 0;
}

/*
 * In how many of @nr slices one value has to be above another, so that equal
 * values do that in at most 1 % of cases; nr + 1 if there are too few.
 */
static inline int least_slices(int nr)
{
	double tail = 1;
	int least = nr + 1;

	for (int i = 0; i < nr; i++)
		tail /= 2;
	/* tail is the chance of exactly least - 1 slices; sum is that of more. */
	for (double sum = 0; least > 0; least--) {
		sum += choose(nr, least - 1) * tail;
		if (sum > FALSE_ALARMS)
			break;
	}
	return least;
}

#endif
