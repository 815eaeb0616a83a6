/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random machines and situations, to test properties that must hold everywhere.
 * A situation that breaks a property is reduced to a minimal one.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CLUSTER_RANDOM_H
#define _KERNEL_SCHED_TESTS_SCHED_CLUSTER_RANDOM_H

#include <linux/prandom.h>

#include "sched_cluster_calls.h"

/* A random number below @end. */
static u32 random_below(struct rnd_state *rnd, u32 end)
{
	return prandom_u32_state(rnd) % end;
}

static bool random_one_in(struct rnd_state *rnd, u32 nr)
{
	return !random_below(rnd, nr);
}

static u64 random_cpus(struct rnd_state *rnd)
{
	return (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);
}

/* One of a set that is not empty. */
static int random_cpu(struct rnd_state *rnd, u64 set)
{
	int skip = random_below(rnd, hweight64(set));

	while (skip--)
		set &= set - 1;
	return __ffs64(set);
}

/* The sizes of a random machine with at most @cpus CPUs, two or more. */
static void random_sizes(struct rnd_state *rnd, struct sched_fake_topology *t, int cpus)
{
	static const u8 smt[] = { 1, 1, 2, 2, 4 }, some[] = { 1, 2, 3, 4, 6, 8, 16 };
	int size;

	*t = (struct sched_fake_topology) { .name = "random" };
	do {
		t->smt = smt[random_below(rnd, ARRAY_SIZE(smt))];
	} while (t->smt > cpus);
	t->cpus = rounddown(cpus, t->smt);
	t->apart = t->smt > 1 && random_one_in(rnd, 2);
	size = t->smt;
	if (!random_one_in(rnd, 8)) {
		do {
			t->cluster = size * some[random_below(rnd, 5)];
		} while (t->cluster > t->cpus);
		size = t->cluster;
	}
	size *= some[random_below(rnd, ARRAY_SIZE(some))];
	while (size > t->cpus)
		size /= 2;
	/* After halving, the size may not be a multiple of the cluster or core. */
	if (size % (t->cluster ? : t->smt))
		size = t->cluster ? : t->smt;
	t->llc = size;
	if (t->cluster && random_one_in(rnd, 4))
		t->clustered = size * (1 + random_below(rnd, t->cpus / size));
	if (random_one_in(rnd, 3))
		t->isolated = random_cpus(rnd) & random_cpus(rnd) &
			      GENMASK_ULL(t->cpus - 1, 1);
}

/*
 * Whether an LLC has both CPUs with and CPUs without a cluster. The defect on
 * such LLCs has a test of its own (sched_topology: no_cluster_is_not_the_first_cluster).
 */
static bool mixed_llc(const struct cluster_view *views)
{
	for (int cpu = 0; cpu < SCHED_FAKE_CPUS; cpu++)
		for (int i = 0; i < SCHED_FAKE_CPUS && views[cpu].first; i++)
			if (model_has(views[cpu].llc, i) && !views[i].first)
				return true;
	return false;
}

struct random_run;

/**
 * struct random_property - a property that must hold everywhere
 * @name:	public, never changed
 * @what:	the property in words, for messages
 * @holds:	whether it holds for an outcome
 */
struct random_property {
	char	name[24];
	char	what[64];
	bool	(*holds)(const struct random_run *run, const struct cluster_case *c,
			 struct cluster_outcome out);
};

/**
 * struct random_run - random cases on one machine
 * @property:	the property to test
 * @topology:	the machine
 * @views:	what its CPUs share
 * @rnd:	state of the random numbers
 * @cases:	number of cases
 * @key_off:	with sched_cluster_active off
 * @broken:	the property does not hold
 * @c:		the case that breaks it
 * @out:	the outcome of that case
 */
struct random_run {
	const struct random_property	*property;
	struct sched_fake_topology	topology;
	struct cluster_view		views[SCHED_FAKE_CPUS];
	struct rnd_state		rnd;
	int				cases;
	bool				key_off;
	bool				broken;
	struct cluster_case		c;
	struct cluster_outcome		out;
};

/* A CPU that shares something with another one, or any. */
static int random_friend(struct random_run *run, int cpu)
{
	const struct cluster_view *view = &run->views[cpu];
	u64 share[] = { view->near, view->cache, view->cache, 0 };
	u64 set = share[random_below(&run->rnd, ARRAY_SIZE(share))];

	return random_cpu(&run->rnd, set ? : GENMASK_ULL(run->topology.cpus - 1, 0));
}

static void random_case(struct random_run *run, struct cluster_case *c)
{
	const struct cluster_view *views = run->views;
	struct rnd_state *rnd = &run->rnd;

	*c = (struct cluster_case) {
		.idle = random_cpus(rnd),
		.allowed = ~0ULL,
		.target = random_below(rnd, run->topology.cpus),
		.limit = CLUSTER_NO_LIMIT,
		.key_off = run->key_off,
		.idle_policy = random_one_in(rnd, 8),
		.kthread = random_one_in(rnd, 4),
	};
	for (int i = random_below(rnd, 6); i; i--)
		c->idle &= random_cpus(rnd);
	if (random_one_in(rnd, 4))
		c->sched_idle = random_cpus(rnd) & random_cpus(rnd);
	if (!random_one_in(rnd, 16)) {
		c->idle &= ~BIT_ULL(c->target);
		c->sched_idle &= ~BIT_ULL(c->target);
	}
	if (random_one_in(rnd, 4))
		c->allowed = random_cpus(rnd);
	if (random_one_in(rnd, 2))
		c->limit = random_below(rnd, hweight64(views[c->target].llc) + 2);
	c->prev = random_one_in(rnd, 32) ? CLUSTER_WAKER : random_friend(run, c->target);
	c->recent = random_one_in(rnd, 2) ? c->prev : random_friend(run, c->target);
	c->hint = run->topology.smt > 1 && views[c->target].llc && random_one_in(rnd, 2);
}

static bool still_broken(struct random_run *run, const struct cluster_case *c)
{
	struct cluster_outcome out = call_select_idle_sibling(c);

	if (run->property->holds(run, c, out))
		return false;
	memcpy(&run->c, c, sizeof(run->c));
	run->out = out;
	return true;
}

#define SIMPLER_STEPS	(7 + 3 * SCHED_FAKE_CPUS)

static void make_simpler(struct cluster_case *c, int step)
{
	u64 cpu = step < 7 ? 0 : BIT_ULL((step - 7) / 3);

	switch (step < 7 ? step : 7 + (step - 7) % 3) {
	case 0:
		c->hint = false;
		break;
	case 1:
		c->kthread = false;
		break;
	case 2:
		c->idle_policy = false;
		break;
	case 3:
		c->allowed = ~0ULL;
		break;
	case 4:
		c->limit = CLUSTER_NO_LIMIT;
		break;
	case 5:
		c->recent = c->prev;
		break;
	case 6:
		c->sched_idle = 0;
		break;
	case 7:
		c->idle &= ~cpu;
		break;
	case 8:
		c->sched_idle &= ~cpu;
		break;
	case 9:
		c->allowed |= cpu;
		break;
	}
}

/* Simplify the case by one step that keeps the property broken, if possible. */
static bool shrink_once(struct random_run *run)
{
	for (int step = 0; step < SIMPLER_STEPS; step++) {
		struct cluster_case simpler;

		memcpy(&simpler, &run->c, sizeof(simpler));
		make_simpler(&simpler, step);
		if (memcmp(&simpler, &run->c, sizeof(simpler)) && still_broken(run, &simpler))
			return true;
	}
	return false;
}

static void call_random_cases(struct cluster_calls *calls)
{
	struct random_run *run = calls->data;

	for (int i = 0; i < run->cases; i++) {
		struct cluster_case c;

		random_case(run, &c);
		if (still_broken(run, &c)) {
			run->broken = true;
			while (shrink_once(run))
				;
			return;
		}
	}
}

static void random_machine(struct random_run *run)
{
	do {
		random_sizes(&run->rnd, &run->topology, min(nr_cpu_ids, SCHED_FAKE_CPUS));
		view_of(&run->topology, run->views);
	} while (mixed_llc(run->views));
}

/**
 * run_random() - test a property with random cases
 * @run:	has the property; afterwards also the case that breaks it
 * @seed:	seed of the random machines and cases
 * @machines:	number of machines
 * @cases:	number of cases on each machine
 *
 * Return: 0, or what sched_fake_topology_install() returned.
 */
static int run_random(struct random_run *run, u64 seed, int machines, int cases)
{
	struct cluster_calls calls = { .make = call_random_cases, .data = run };
	int ret = 0;

	prandom_seed_state(&run->rnd, seed);
	run->cases = cases;
	for (int i = 0; i < machines && !ret && !run->broken; i++) {
		random_machine(run);
		ret = sched_fake_topology_install(&run->topology);
		if (ret)
			break;
		run->key_off = i % 4 == 3;
		ret = call_with_key(&calls, run->key_off);
		sched_fake_topology_remove();
	}
	return ret;
}

/* Cases on one machine whose outcomes are kept. */
#define KEPT_OUTCOMES	1000

struct kept_outcomes {
	struct random_run	run;
	struct cluster_case	c[KEPT_OUTCOMES];
	struct cluster_outcome	out[2][KEPT_OUTCOMES];
	bool			clusters;
};

static void keep_outcomes(struct cluster_calls *calls)
{
	struct kept_outcomes *kept = calls->data;

	for (int i = 0; i < KEPT_OUTCOMES; i++) {
		if (kept->clusters)
			random_case(&kept->run, &kept->c[i]);
		kept->out[kept->clusters][i] = call_select_idle_sibling(&kept->c[i]);
	}
}

/*
 * Make the same calls with the key off twice: on a machine with clusters, and
 * on the same machine without them.
 */
static int keep_both_outcomes(struct kept_outcomes *kept, u64 seed)
{
	struct cluster_calls calls = { .make = keep_outcomes, .data = kept };
	struct random_run *run = &kept->run;
	int ret = 0;

	prandom_seed_state(&run->rnd, seed);
	run->key_off = true;
	do {
		random_machine(run);
	} while (!run->topology.cluster);
	for (int clusters = 1; clusters >= 0 && !ret; clusters--) {
		struct sched_fake_topology topology = run->topology;

		kept->clusters = clusters;
		if (!clusters)
			topology.cluster = 0;
		ret = sched_fake_topology_install(&topology);
		if (!ret)
			ret = call_with_key(&calls, true);
		sched_fake_topology_remove();
	}
	return ret;
}

/* Wake tasks one after the other. Each one stays on the CPU that is picked. */
struct spread_run {
	const struct sched_fake_topology	*machine;
	u64					taken;
	bool					twice;
	bool					away;
	int					wakers[SCHED_FAKE_CPUS];
	int					nr;
};

static void wake_tasks(struct cluster_calls *calls)
{
	struct spread_run *spread = calls->data;

	for (int i = 0; i < spread->nr; i++) {
		int waker = spread->wakers[i];
		struct cluster_case c = {
			.idle = ~(spread->taken | BIT_ULL(waker)), .allowed = ~0ULL,
			.target = waker, .prev = waker, .recent = waker, .limit = CLUSTER_NO_LIMIT,
		};
		int pick = call_select_idle_sibling(&c).pick;

		spread->twice |= model_has(spread->taken, pick);
		spread->away |= !model_has(sched_fake_cluster(spread->machine, waker), pick);
		spread->taken |= BIT_ULL(pick);
	}
}

/*
 * The kernel does what the model says. The hint is not compared if the LLC has
 * no allowed CPU: row-26e tests that.
 */
static bool holds_model(const struct random_run *run, const struct cluster_case *c,
			struct cluster_outcome out)
{
	struct cluster_outcome model = cluster_model(run->views, c, CLUSTER_WAKER);

	return out.pick == model.pick && out.recent == model.recent &&
	       (out.hint == model.hint || !(c->allowed & run->views[c->target].llc));
}

/* The task stays on the CPU of its waker, which is about to sleep. */
static bool stays_with_waker(const struct cluster_case *c, struct cluster_outcome out)
{
	return out.pick == c->prev && c->prev == CLUSTER_WAKER;
}

/*
 * select_idle_sibling() does not check whether prev is allowed: that is up to
 * its callers.
 */
static bool holds_allowed(const struct random_run *run, const struct cluster_case *c,
			  struct cluster_outcome out)
{
	u64 may = run->views[c->target].cache & (c->allowed | BIT_ULL(c->prev));

	return model_has(may | BIT_ULL(c->target), out.pick) || stays_with_waker(c, out);
}

/* With a limit, the scan may have ended before it reached an idle CPU. */
static bool holds_no_busy(const struct random_run *run, const struct cluster_case *c,
			  struct cluster_outcome out)
{
	u64 idle = c->idle & c->allowed & run->views[c->target].llc;

	return model_has(c->idle | c->sched_idle, out.pick) || stays_with_waker(c, out) ||
	       c->limit != CLUSTER_NO_LIMIT || !idle;
}

static const struct random_property random_properties[] = {
	{ "model", "the kernel and the model agree", holds_model },
	{ "allowed", "the pick is allowed, and in the LLC, or is the target", holds_allowed },
	{ "no-busy", "no busy CPU while an idle one was looked at", holds_no_busy },
};

#endif /* _KERNEL_SCHED_TESTS_SCHED_CLUSTER_RANDOM_H */
