/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A histogram of nanoseconds: 64 buckets for each power of two, so that a
 * quantile is off by less than 1.6 %, up to 18 minutes. Longer times are
 * counted separately. The least and the most are exact.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <linux/types.h>
#include <stdbool.h>
#include <string.h>

#define STEPS_BITS	6
#define STEPS		64
/* 4800 processes on two CPUs may each wait for half a minute. */
#define TOP_BITS	40
#define BUCKETS		((TOP_BITS - STEPS_BITS + 1) << STEPS_BITS)

struct histogram {
	__u64 n, overflow, least, most;
	__u64 buckets[BUCKETS];
};

static inline int bucket_of(__u64 ns)
{
	int shift;

	if (ns < STEPS)
		return ns;
	shift = 63 - __builtin_clzll(ns) - STEPS_BITS;
	return (shift << STEPS_BITS) + (ns >> shift);
}

static inline __u64 bucket_width(int bucket)
{
	return bucket < 2 * STEPS ? 1 : 1ULL << ((bucket >> STEPS_BITS) - 1);
}

static inline __u64 bucket_start(int bucket)
{
	if (bucket < 2 * STEPS)
		return bucket;
	return (__u64)(STEPS + bucket % STEPS) << ((bucket >> STEPS_BITS) - 1);
}

static inline void histogram_add(struct histogram *histogram, __u64 ns)
{
	if (!histogram->n++ || ns < histogram->least)
		histogram->least = ns;
	if (ns > histogram->most)
		histogram->most = ns;
	if (ns >> TOP_BITS)
		histogram->overflow++;
	else
		histogram->buckets[bucket_of(ns)]++;
}

/*
 * For a histogram that many tasks add to. Until it is settled, its least is one
 * too high, and 0 means that there is none yet.
 */
static inline void histogram_add_shared(struct histogram *histogram, __u64 ns)
{
	__u64 had = __atomic_load_n(&histogram->most, __ATOMIC_RELAXED);

	while (ns > had && !__atomic_compare_exchange_n(&histogram->most, &had, ns, true,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	had = __atomic_load_n(&histogram->least, __ATOMIC_RELAXED);
	while ((!had || ns + 1 < had) &&
	       !__atomic_compare_exchange_n(&histogram->least, &had, ns + 1, true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (ns >> TOP_BITS)
		__atomic_add_fetch(&histogram->overflow, 1, __ATOMIC_RELAXED);
	else
		__atomic_add_fetch(&histogram->buckets[bucket_of(ns)], 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&histogram->n, 1, __ATOMIC_RELAXED);
}

static inline void histogram_settle(struct histogram *histogram)
{
	histogram->least -= !!histogram->least;
}

static inline void histogram_merge(struct histogram *into, const struct histogram *from)
{
	if (!from->n)
		return;
	if (!into->n || from->least < into->least)
		into->least = from->least;
	if (from->most > into->most)
		into->most = from->most;
	into->n += from->n;
	into->overflow += from->overflow;
	for (int i = 0; i < BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

/*
 * The sample of this rank, interpolated within its bucket; the most if the rank
 * is in the overflow.
 */
static inline double histogram_quantile(const struct histogram *histogram, double share)
{
	double rank = share * histogram->n, before = 0, value;

	for (int i = 0; i < BUCKETS; i++) {
		if (!histogram->buckets[i])
			continue;
		if (before + histogram->buckets[i] >= rank) {
			value = bucket_start(i) +
				(rank - before) / histogram->buckets[i] * (bucket_width(i) - 1);
			return value < histogram->least ? histogram->least :
			       value > histogram->most ? histogram->most : value;
		}
		before += histogram->buckets[i];
	}
	return histogram->most;
}

#endif
