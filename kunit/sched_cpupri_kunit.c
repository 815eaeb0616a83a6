// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kernel/sched/cpupri.c, through its public functions, on a
 * cpupri of their own. They use all possible CPUs of this machine. A mask has
 * several words only if there are more than 64: in QEMU, -smp 8,maxcpus=240 is
 * enough.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/prandom.h>

#include "../sched.h"
#include "sched_cpupri_holds.h"

#define first_cpu()	((int)cpumask_first(cpu_active_mask))
#define last_cpu()	((int)cpumask_last(cpu_active_mask))

struct cpupri_test {
	struct cpupri		cp;
	int			level[NR_CPUS];	/* of each CPU, as it was set */
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

static void needs_two_cpus(struct kunit *test)
{
	if (first_cpu() == last_cpu())
		kunit_skip(test, "needs two active CPUs");
}

static bool task_fits(struct task_struct *p, int cpu)
{
	return cpumask_test_cpu(cpu, &container_of(p, struct cpupri_test, task)->fit);
}

#ifndef SCHED_KUNIT_EXPORTED
/* ---- random operations against a model too simple to be wrong ---- */

#include <linux/moduleparam.h>

/* To repeat a failure: sched_cpupri_kunit.seed=N on the kernel command line. */
static unsigned long seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random case: the same seed repeats the same operations");

#define MODEL_OPS	100000
#define MODEL_EPOCH	500	/* operations until other priorities are frequent */

static struct rnd_state model_rnd;

static u32 below(u32 limit)
{
	return prandom_u32_state(&model_rnd) % limit;
}

static int random_cpu(void)
{
	return cpumask_nth(below(cpumask_weight(cpu_possible_mask)), cpu_possible_mask);
}

/* Half of them among three neighbours, so that levels have several CPUs. */
static int random_prio(int crowd)
{
	return below(2) ? crowd + below(3) : (int)below(102) - 1;
}

/* Nothing, one CPU, all, all but one, or each with a chance of 1 in 8 or 7 in 8. */
static void random_mask(struct cpumask *mask)
{
	u32 kind = below(8), in_eight = kind < 5 ? 0 : kind == 5 ? 1 : 7;
	int cpu;

	cpumask_clear(mask);
	for_each_possible_cpu(cpu) {
		if (kind == 3 || kind == 4 || below(8) < in_eight)
			cpumask_set_cpu(cpu, mask);
	}
	if (kind == 1 || kind == 2)
		cpumask_set_cpu(random_cpu(), mask);
	if (kind == 4)
		cpumask_clear_cpu(random_cpu(), mask);
}

/*
 * The CPUs that cpupri_find_fitness() must return: of the CPUs that the task
 * may use and that are below its level, those at the lowest level. Without a
 * mask to fill, it checks neither whether CPUs are active nor whether the task
 * fits.
 */
static bool model_find(struct cpupri_test *t, bool mask, bool fitness)
{
	int best = level_of(t->task.prio) - 1;
	int cpu;

	cpumask_clear(&t->want);
	for_each_cpu(cpu, &t->task.cpus_mask) {
		int level = t->level[cpu];

		if (level == CPUPRI_INVALID || level > best)
			continue;
		if (mask && !cpumask_test_cpu(cpu, cpu_active_mask))
			continue;
		if (mask && fitness && !cpumask_test_cpu(cpu, &t->fit))
			continue;
		if (level < best)
			cpumask_clear(&t->want);
		best = level;
		cpumask_set_cpu(cpu, &t->want);
	}
	return !cpumask_empty(&t->want);
}

static void answers_match_a_simple_model(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int op, found = 0, missed = 0, unfit = 0;

	prandom_seed_state(&model_rnd, seed);
	for (op = 0; op < MODEL_OPS; op++) {
		bool mask, fitness, want, got;
		int crowd = op / MODEL_EPOCH % 98;

		if (op % MODEL_EPOCH == 0)
			cond_resched();
		if (below(3)) {
			set_prio(t, random_cpu(), random_prio(crowd));
			continue;
		}
		mask = below(4);
		fitness = below(2);
		t->task.prio = random_prio(crowd);
		random_mask(&t->task.cpus_mask);
		random_mask(&t->fit);
		cpumask_setall(&t->lowest);

		want = model_find(t, mask, fitness);
		if (!want && mask && fitness) {
			/* better a CPU that does not fit than none */
			want = model_find(t, mask, false);
			unfit += want;
		}
		found += want;
		missed += !want;
		got = cpupri_find_fitness(&t->cp, &t->task, mask ? &t->lowest : NULL,
					  fitness ? task_fits : NULL);
		if (got == want && (!mask || !want || cpumask_equal(&t->lowest, &t->want)))
			continue;

		kunit_err(test, "seed %lu, operation %d, prio %d, allowed %*pbl, fit %*pbl\n",
			  seed, op, t->task.prio, cpumask_pr_args(&t->task.cpus_mask),
			  cpumask_pr_args(&t->fit));
		KUNIT_FAIL_AND_ABORT(test, "expected %d, CPUs %*pbl, got %d, CPUs %*pbl",
				     want, cpumask_pr_args(&t->want), got,
				     cpumask_pr_args(&t->lowest));
	}
	KUNIT_EXPECT_GT(test, found, 0);
	KUNIT_EXPECT_GT(test, unfit, 0);
	KUNIT_EXPECT_GT(test, missed, 0);
}
#endif

static void only_less_urgent_cpus_are_found(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu();
	int runs, wakes;

	only(&t->affinity, cpu);
	for (runs = -1; runs <= 100; runs++) {
		set_prio(t, cpu, runs);
		for (wakes = -1; wakes <= 100; wakes++) {
			bool want = runs != -1 && level_of(runs) < level_of(wakes);

			KUNIT_ASSERT_EQ_MSG(test, find(t, wakes, &t->affinity), want,
					    "the CPU runs prio %d, prio %d wakes up", runs, wakes);
		}
		cond_resched();
	}
}

/* ---- one property each, so that a failure has a name ---- */

enum { NONE, FIRST, LAST, BOTH };	/* the first and the last active CPU */

static const struct cpupri_row {
	const char *name;
	int first, last;	/* what runs there, as a prio */
	int wakes, allowed, fits, finds;
} cpupri_rows[] = {
	{ "no_cpu_is_online",			 -1, -1, 100, BOTH, BOTH, NONE },
	{ "less_urgent_cpu_comes_first",	 50, 60,   0, BOTH, BOTH, LAST },
	{ "cpu_without_rt_task_comes_first",	 99, 98,   0, BOTH, BOTH, FIRST },
	{ "all_cpus_of_the_level_are_found",	 40, 40,   0, BOTH, BOTH, BOTH },
	{ "equal_priority_is_not_found",	 30, 30,  30, BOTH, BOTH, NONE },
	{ "deadline_task_finds_rt99",		100,  0, 100, BOTH, BOTH, LAST },
	{ "forbidden_cpu_is_not_found",		 99, 50,   0, LAST, BOTH, LAST },
	{ "only_allowed_cpu_is_offline",	 99, -1,   0, LAST, BOTH, NONE },
	{ "fitness_comes_before_level",		 99, 50,   0, BOTH, LAST, LAST },
	{ "fitting_nowhere_is_ignored",		 99, 50,   0, BOTH, NONE, FIRST },
};

KUNIT_ARRAY_PARAM_DESC(cpupri_rows, cpupri_rows, name);

static void set_ends(struct cpumask *mask, int ends)
{
	cpumask_clear(mask);
	if (ends & FIRST)
		cpumask_set_cpu(first_cpu(), mask);
	if (ends & LAST)
		cpumask_set_cpu(last_cpu(), mask);
}

static void check_row(struct kunit *test, bool inactive)
{
	const struct cpupri_row *row = test->param_value;
	bool found = row->finds != NONE;
	struct cpupri_test *t = test->priv;
	int cpu;

	needs_two_cpus(test);
	set_prio(t, first_cpu(), row->first);
	set_prio(t, last_cpu(), row->last);
	set_ends(&t->task.cpus_mask, row->allowed);
	set_ends(&t->fit, row->fits);
	set_ends(&t->want, row->finds);
	t->task.prio = row->wakes;
	for_each_possible_cpu(cpu) {
		if (!inactive || cpu_active(cpu))
			continue;
		set_prio(t, cpu, 99);
		cpumask_set_cpu(cpu, &t->task.cpus_mask);
		cpumask_set_cpu(cpu, &t->fit);
	}
	if (!inactive)
		KUNIT_EXPECT_EQ(test, found, cpupri_find(&t->cp, &t->task, NULL));
	KUNIT_EXPECT_EQ(test, found, cpupri_find(&t->cp, &t->task, &t->lowest));
	KUNIT_ASSERT_EQ(test, found, cpupri_find_fitness(&t->cp, &t->task, &t->lowest, task_fits));
	if (found)
		KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(&t->lowest, &t->want),
				      "found CPUs %*pbl, expected %*pbl",
				      cpumask_pr_args(&t->lowest), cpumask_pr_args(&t->want));
}

static void find_returns(struct kunit *test)
{
	check_row(test, false);
}

/* Where a mask is filled, CPUs that are not active are never found. */
static void find_passes_by_inactive_cpus(struct kunit *test)
{
	if (cpumask_equal(cpu_possible_mask, cpu_active_mask))
		kunit_skip(test, "n/a: all possible CPUs are active");
	check_row(test, true);
}

/*
 * A search passes by a level whose count is 0 without a look at its mask, which
 * other CPUs write. So a CPU that is in the mask, and not counted yet, is not
 * found.
 */
static void level_with_count_0_is_passed_by(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu(), prio;

	only(&t->affinity, cpu);
	for (prio = 99; prio > 0; prio--) {
		atomic_t *count = cpupri_count(&t->cp, level_of(prio));

		set_prio(t, cpu, prio);
		atomic_dec(count);
		KUNIT_EXPECT_FALSE_MSG(test, find(t, 0, &t->affinity), "prio %d", prio);
		atomic_inc(count);
		KUNIT_EXPECT_TRUE_MSG(test, find(t, 0, &t->affinity), "prio %d", prio);
	}
}

/* ---- threads ---- */

static struct task_struct *run_elsewhere(struct kunit *test, int (*fn)(void *), void *data)
{
	int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct task_struct *p = kthread_create_on_cpu(fn, data, cpu, "cpupri_test/%u");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p);
	wake_up_process(p);
	return p;
}

#define RACE_ROUNDS	(400000 / nr_cpu_ids)

/* Each CPU has one setter; in the kernel, that is the holder of its runqueue's lock. */
static void set_every_other_cpu(struct cpupri_test *t, int odd)
{
	struct rnd_state rnd;
	int round, cpu;

	prandom_seed_state(&rnd, odd);
	for (round = 0; round < RACE_ROUNDS; round++) {
		for_each_possible_cpu(cpu) {
			if (cpu % 2 != odd)
				continue;
			preempt_disable();	/* as under the runqueue's lock */
			set_prio(t, cpu, 97 + prandom_u32_state(&rnd) % 4);
			preempt_enable();
		}
		cond_resched();
	}
}

static int set_odd_cpus(void *data)
{
	set_every_other_cpu(data, 1);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

/* Bits of CPUs share words and lines. Setting one must not lose another. */
static void counts_are_the_weights_of_the_masks(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct task_struct *other;
	int cpu, level;

	needs_two_cpus(test);
	other = run_elsewhere(test, set_odd_cpus, t);
	set_every_other_cpu(t, 0);
	kthread_stop(other);
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++) {
		int weight = 0;

		for_each_possible_cpu(cpu) {
			bool want = t->level[cpu] == level;

			KUNIT_ASSERT_EQ_MSG(test, cpupri_has_cpu(&t->cp, level, cpu), want,
					    "level %d, CPU %d", level, cpu);
			weight += want;
		}
		KUNIT_ASSERT_EQ_MSG(test, atomic_read(cpupri_count(&t->cp, level)), weight,
				    "the count of level %d", level);
	}
}

/*
 * cpupri_set() enters the new level before it leaves the old one. A search goes
 * up the levels, so it meets a rising CPU at one of them. A falling CPU may be
 * missed; a pull follows. The CPU rises by two levels at a time: no barrier
 * orders the read of a level's mask before the read of the next level's count,
 * so where reads are reordered, a rise by one level can be missed.
 */
#define RISE_ROUNDS	50
#define RISE_SPINS	10000

struct rise {
	struct cpupri_test	*t;
	unsigned int		round;	/* odd while the CPU falls */
	unsigned int		finds, missed;
};

static int find_rising_cpu(void *data)
{
	struct rise *r = data;

	for (; !kthread_should_stop(); cond_resched()) {
		unsigned int round = READ_ONCE(r->round);
		bool found;

		smp_mb(); /* round is read before the levels ... */
		found = find(r->t, 0, &r->t->affinity);
		smp_mb(); /* ... and after them */
		if (!found && !(round & 1) && READ_ONCE(r->round) == round)
			r->missed++;
		WRITE_ONCE(r->finds, r->finds + 1);
	}
	return 0;
}

static void rise_to(struct rise *r, int prio)
{
	unsigned int finds, spins;

	preempt_disable();	/* as under the runqueue's lock */
	cpupri_set(&r->t->cp, last_cpu(), prio);
	preempt_enable();
	/* Threads that share a CPU of the host do not run at the same time. */
	finds = READ_ONCE(r->finds);
	for (spins = RISE_SPINS; spins && READ_ONCE(r->finds) == finds; spins--)
		cpu_relax();
	/* The next rise meets the next search at any of its levels. */
	for (spins = finds % 16; spins; spins--)
		cpu_relax();
}

static void rising_cpu_is_never_missed(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct rise r = { .t = t, .round = 1 };
	struct task_struct *finder;
	int round, prio;

	needs_two_cpus(test);
	only(&t->affinity, last_cpu());
	finder = run_elsewhere(test, find_rising_cpu, &r);
	for (round = 0; round < RISE_ROUNDS; round++) {
		WRITE_ONCE(r.round, 2 * round + 1);
		smp_mb(); /* round is odd before the fall ... */
		rise_to(&r, 99);
		smp_mb(); /* ... and until after it */
		WRITE_ONCE(r.round, 2 * round + 2);
		for (prio = 97; prio > 0; prio -= 2)
			rise_to(&r, prio);
		cond_resched();
	}
	kthread_stop(finder);
	KUNIT_EXPECT_EQ_MSG(test, r.missed, 0, "of %u searches", r.finds);
	KUNIT_EXPECT_GT(test, r.finds, 0);
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
	test->priv = t;
	return 0;
}

static void cpupri_test_exit(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	if (t)
		cpupri_cleanup(&t->cp);
}

static struct kunit_case sched_cpupri_test_cases[] = {
#ifndef SCHED_KUNIT_EXPORTED
	KUNIT_CASE(answers_match_a_simple_model),
#endif
	KUNIT_CASE(only_less_urgent_cpus_are_found),
	KUNIT_CASE_PARAM(find_returns, cpupri_rows_gen_params),
	KUNIT_CASE_PARAM(find_passes_by_inactive_cpus, cpupri_rows_gen_params),
	KUNIT_CASE(level_with_count_0_is_passed_by),
	KUNIT_CASE(counts_are_the_weights_of_the_masks),
	KUNIT_CASE(rising_cpu_is_never_missed),
	{}
};

static struct kunit_suite sched_cpupri_test_suite = {
	.name = "sched_cpupri",
	.init = cpupri_test_init,
	.exit = cpupri_test_exit,
	.test_cases = sched_cpupri_test_cases,
};

kunit_test_suite(sched_cpupri_test_suite);
