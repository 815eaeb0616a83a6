/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of cpupri share: a cpupri, and a model of it. Include
 * <kunit/test.h> and "../sched.h" first.
 */
#include <linux/cpumask.h>
#include <linux/moduleparam.h>
#include <linux/prandom.h>

#include "sched_cpupri_threads.h"

static unsigned long seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random cases: the same seed repeats the same operations");

struct cpupri_test {
	struct cpupri		cp;
	int			level[NR_CPUS];	/* model: each CPU's level */
	struct rnd_state	rnd;
	int			crowd;		/* lowest frequent prio */
	struct cpumask		lowest;		/* the answer of cpupri */
	struct cpumask		want;
	struct cpumask		affinity;
	struct cpumask		fit;
	struct task_struct	task;		/* has prio and affinity only */
};

/*
 * The order of p->prio, least urgent first: -1 (takes no part), 99 (not RT),
 * 98 ... 0 (RT1 ... RT99), 100 (deadline).
 */
static int level_of(int prio)
{
	if (prio == -1 || prio == 100)
		return prio;
	return 99 - prio;
}

static void set_prio(struct cpupri_test *t, int cpu, int prio)
{
	cpupri_set(&t->cp, cpu, prio);
	t->level[cpu] = level_of(prio);
}

static bool find(struct cpupri_test *t, int prio, const struct cpumask *affinity)
{
	t->task.prio = prio;
	cpumask_copy(&t->task.cpus_mask, affinity);
	cpumask_setall(&t->lowest);	/* to be overwritten */
	return cpupri_find(&t->cp, &t->task, &t->lowest);
}

static const struct cpumask *only(struct cpumask *mask, int cpu)
{
	cpumask_clear(mask);
	cpumask_set_cpu(cpu, mask);
	return mask;
}

static int last_cpu(void)
{
	return cpumask_last(cpu_active_mask);
}

static int cpupri_test_init(struct kunit *test)
{
	struct cpupri_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	/* Poison, to catch fields that cpupri_init() does not set. */
	memset(&t->cp, 0xa5, sizeof(t->cp));
	KUNIT_ASSERT_EQ(test, cpupri_init(&t->cp), 0);
	for (i = 0; i < ARRAY_SIZE(t->level); i++)
		t->level[i] = CPUPRI_INVALID;
	t->task.cpus_ptr = &t->task.cpus_mask;
	prandom_seed_state(&t->rnd, seed);
	test->priv = t;
	return 0;
}

static void cpupri_test_exit(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	if (t)
		cpupri_cleanup(&t->cp);
}
