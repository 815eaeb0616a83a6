/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of where a woken task is placed. It was written from the description
 * of the cluster scan, not from its code: it first lists the CPUs in order of
 * preference, and then takes the first usable one.
 *
 * It does not model asymmetric capacity or core scheduling.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CLUSTER_MODEL_H
#define _KERNEL_SCHED_TESTS_SCHED_CLUSTER_MODEL_H

#include <linux/bits.h>
#include <linux/bitops.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define MODEL_CPUS	64

/* More CPUs than any LLC here has. */
#define CLUSTER_NO_LIMIT	100

/*
 * On some kernels a CPU that runs only SCHED_IDLE tasks counts as idle for a
 * SCHED_IDLE task, too.
 */
#ifndef SCHED_IDLE_CPU_FOR_ALL
#define SCHED_IDLE_CPU_FOR_ALL	0
#endif

/**
 * struct cluster_view - what a CPU shares, one bit for each CPU
 * @siblings:	threads of its core, itself and isolated ones included
 * @near:	CPUs of the same cluster; of the same LLC if it has no cluster; those
 *		of @cache if the machine has no cluster
 * @first:	CPUs that are scanned before the rest of the LLC, 0 if none
 * @llc:	CPUs of the same LLC, 0 for a CPU without domains
 * @cache:	CPUs with the same LLC id, itself included: @llc, and on most
 *		kernels also the isolated CPUs of the LLC
 */
struct cluster_view {
	u64	siblings;
	u64	near;
	u64	first;
	u64	llc;
	u64	cache;
};

/**
 * struct cluster_case - a situation in which a task is woken
 * @idle:	CPUs that are idle
 * @sched_idle:	CPUs on which only SCHED_IDLE tasks run
 * @allowed:	CPUs that the task may use
 * @target:	where the search begins
 * @prev:	where the task ran last
 * @recent:	where it ran before; @prev for none
 * @limit:	nr_idle_scan
 * @key_off:	with sched_cluster_active off
 * @hint:	the LLC is said to have an idle core
 * @idle_policy: the task is SCHED_IDLE
 * @kthread:	the waker is a per-CPU kthread, the only task on its CPU
 * @util:	the task's utilization
 */
struct cluster_case {
	u64	idle;
	u64	sched_idle;
	u64	allowed;
	s8	target;
	s8	prev;
	s8	recent;
	u8	limit;
	bool	key_off;
	bool	hint;
	bool	idle_policy;
	bool	kthread;
	u16	util;
};

/**
 * struct cluster_outcome - the result of a wake-up
 * @pick:	the CPU where the task is to run
 * @recent:	its recently used CPU afterwards
 * @hint:	whether the LLC is still said to have an idle core
 */
struct cluster_outcome {
	s8	pick;
	s8	recent;
	bool	hint;
};

static inline bool model_has(u64 mask, int cpu)
{
	return mask & BIT_ULL(cpu);
}

/* Append the CPUs of a set, starting after @from and wrapping around. */
static inline int model_append(u8 *order, int nr, u64 set, int from)
{
	for (int i = 1; i <= MODEL_CPUS; i++)
		if (model_has(set, (from + i) % MODEL_CPUS))
			order[nr++] = (from + i) % MODEL_CPUS;
	return nr;
}

/*
 * Look for a core that is fully idle. If none exists, clear the hint and take
 * the first usable CPU, from the first core that has one.
 */
static inline int model_core(const struct cluster_view *views, u64 idle, u64 usable,
			     const u8 *order, int nr, bool *hint)
{
	int best = -1;
	u64 seen = 0;

	for (int i = 0; i < nr; i++) {
		u64 core = views[order[i]].siblings;

		if (model_has(seen, order[i]))
			continue;
		if ((idle & core) == core)
			return order[i];
		if (best < 0 && usable & core)
			best = __ffs64(usable & core);
		seen |= core;
	}
	*hint = false;
	return best;
}

/**
 * cluster_model() - where a woken task goes
 * @views:	of MODEL_CPUS CPUs
 * @c:		the situation
 * @waker:	the CPU that wakes it up
 *
 * Return: the outcome.
 */
static inline struct cluster_outcome
cluster_model(const struct cluster_view *views, const struct cluster_case *c, int waker)
{
	struct cluster_outcome out = { .pick = c->target, .recent = c->recent, .hint = c->hint };
	const struct cluster_view *target = &views[c->target];
	u64 usable = c->idle | (c->idle_policy && !SCHED_IDLE_CPU_FOR_ALL ? 0 : c->sched_idle);
	u64 near = c->key_off ? target->cache : target->near;
	/* prev and the recently used CPU are taken in the target's LLC only. */
	u64 warm = usable & target->cache & ~BIT_ULL(c->target);
	u64 first = c->key_off ? 0 : target->first;
	u8 order[MODEL_CPUS];
	int nr, last_resort = c->target;

	if (model_has(usable, c->target))
		return out;
	if (model_has(warm & near, c->prev)) {
		out.pick = c->prev;
		return out;
	}
	/* The waker is about to sleep: its CPU counts as idle. */
	if (c->prev == waker && (c->kthread || model_has(c->idle | c->sched_idle, waker))) {
		out.pick = c->prev;
		return out;
	}
	out.recent = c->prev;
	if (c->recent != c->prev && model_has(warm & c->allowed, c->recent)) {
		last_resort = c->recent;
		if (model_has(near, c->recent)) {
			out.pick = c->recent;
			return out;
		}
	}
	if (model_has(warm, c->prev))
		last_resort = c->prev;
	if (!target->llc)
		return out;
	if (!c->hint && model_has(target->cache, c->prev)) {
		u64 others = views[c->prev].siblings & ~BIT_ULL(c->prev);

		others &= usable & c->allowed & target->llc;
		if (others) {
			out.pick = __ffs64(others);
			return out;
		}
	}
	nr = model_append(order, 0, first & c->allowed, c->target);
	nr = model_append(order, nr, target->llc & c->allowed & ~first, c->target);
	if (c->limit && nr && c->hint) {
		int pick = model_core(views, c->idle, usable & target->llc & c->allowed, order, nr,
				      &out.hint);

		out.pick = pick < 0 ? last_resort : pick;
		return out;
	}
	for (int i = 0; i < nr && i < c->limit; i++) {
		if (model_has(usable, order[i])) {
			out.pick = order[i];
			return out;
		}
	}
	out.pick = last_resort;
	return out;
}

#endif /* _KERNEL_SCHED_TESTS_SCHED_CLUSTER_MODEL_H */
