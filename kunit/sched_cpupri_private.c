// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of a private copy of kernel/sched/cpupri.c. On any machine they
 * run the cases of sched_cpupri on 480 CPUs, some of them inactive. Further
 * cases read or forge state that is hidden in the kernel's own copy.
 *
 * This file is compiled with its own NR_CPUS, so every object that contains a
 * cpumask has another size here, task_struct included. It passes no such object
 * to other files, takes none from them, and calls no outside function that
 * walks a mask up to nr_cpu_ids.
 *
 * To repeat a failure of a random case: sched_cpupri_private.seed=N on the
 * kernel command line.
 */
#undef CONFIG_NR_CPUS
#define CONFIG_NR_CPUS		480
#undef CONFIG_FORCE_NR_CPUS
#define CONFIG_FORCE_NR_CPUS	1	/* nr_cpu_ids is the constant 480 */
#undef CONFIG_CPUMASK_OFFSTACK
#define CONFIG_CPUMASK_OFFSTACK	1	/* every mask of cpupri is an allocation, which can fail */

/* before sched.h, which declares them */
#define cpupri_find		private_cpupri_find
#define cpupri_find_fitness	private_cpupri_find_fitness
#define cpupri_set		private_cpupri_set
#define cpupri_init		private_cpupri_init
#define cpupri_cleanup		private_cpupri_cleanup

#include <kunit/test.h>
#include <linux/mmu_context.h>
#include <linux/prandom.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "../sched.h"

#if defined(CONFIG_SMP) || ENQUEUE_MIGRATED	/* see sched_cpupri_kunit.c */

static struct cpumask forged_possible, forged_active;

#undef cpu_possible_mask
#define cpu_possible_mask	((const struct cpumask *)&forged_possible)
#undef cpu_active_mask
#define cpu_active_mask		((const struct cpumask *)&forged_active)

/*
 * An allocator that tracks its allocations and can be made to fail. The
 * kernel's own would also size masks for the CPUs of this machine.
 */
static struct {
	void *live[4 * CPUPRI_NR_PRIORITIES];
	int nr_live, nr_calls, fail_at, bad_frees;
} heap;

static void *forged_alloc(size_t size, gfp_t gfp)
{
	int i;

	if (++heap.nr_calls == heap.fail_at)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(heap.live); i++) {
		if (heap.live[i])
			continue;
		heap.live[i] = kmalloc(size, gfp & ~__GFP_ZERO);
		if (!heap.live[i])
			return NULL;
		memset(heap.live[i], gfp & __GFP_ZERO ? 0 : 0xa5, size);
		heap.nr_live++;
		return heap.live[i];
	}
	return NULL;
}

static void forged_free(const void *mem)
{
	int i;

	if (!mem)
		return;
	for (i = 0; i < ARRAY_SIZE(heap.live); i++) {
		if (heap.live[i] != mem)
			continue;
		kfree(heap.live[i]);
		heap.live[i] = NULL;
		heap.nr_live--;
		return;
	}
	heap.bad_frees++;
}

static bool __maybe_unused forged_mask(cpumask_var_t *mask, gfp_t gfp)
{
	*mask = forged_alloc(cpumask_size(), gfp);
	return *mask;
}

#define alloc_cpumask_var(mask, gfp)		forged_mask(mask, gfp)
#define alloc_cpumask_var_node(mask, gfp, ...)	forged_mask(mask, gfp)
#define zalloc_cpumask_var(mask, gfp)		forged_mask(mask, (gfp) | __GFP_ZERO)
#define zalloc_cpumask_var_node(mask, gfp, ...)	forged_mask(mask, (gfp) | __GFP_ZERO)
#define free_cpumask_var(mask)			forged_free(mask)
#undef kzalloc
#define kzalloc(size, gfp)			forged_alloc(size, (gfp) | __GFP_ZERO)
#undef kcalloc
#define kcalloc(n, size, gfp)			kzalloc(size_mul(n, size), gfp)
#undef kzalloc_node
#define kzalloc_node(size, gfp, ...)		kzalloc(size, gfp)
#undef kfree
#define kfree(mem)				forged_free(mem)

#ifdef CONFIG_SCHED_CPUPRI_SPLIT
/*
 * LLCs of different sizes. Two LLCs form a node. The id -1 stands for unknown.
 * The CPUs are assigned to the LLCs in turn, so most words of a mask contain
 * CPUs of several LLCs, and the larger LLCs have CPUs in more words than fit in
 * a line of bytes. One LLC has no CPU in the first words.
 */
#define FORGED_LLCS	6
#define FORGED_LARGEST	(IS_ENABLED(CONFIG_SCHED_CPUPRI_NODE) ? 4 : 5)

static const struct {
	int nr, first;
} forged_llcs[FORGED_LLCS] = { { 8 }, { 16 }, { 100 }, { 1 }, { 64, 150 }, { 250 } };

static int forged_sd_llc_id[NR_CPUS];
#define forged_cpupri_llc_id	forged_sd_llc_id	/* its name on 6.12 */
static int forged_node[NR_CPUS];

static void forge_topology(void)
{
	int left[FORGED_LLCS];
	int cpu, llc, i;

	for (llc = 0; llc < FORGED_LLCS; llc++)
		left[llc] = forged_llcs[llc].nr;
	llc = 0;
	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		for (i = 0; i < FORGED_LLCS; i++) {
			llc = (llc + 1) % FORGED_LLCS;
			if (left[llc] && cpu >= forged_llcs[llc].first)
				break;
		}
		forged_sd_llc_id[cpu] = i < FORGED_LLCS && cpu % 11 ? llc : -1;
		if (forged_sd_llc_id[cpu] >= 0)
			left[llc]--;
		forged_node[cpu] = cpu % 13 ? (llc / 2) * 2 : NUMA_NO_NODE;
	}
}

/* Change the LLC and node of CPUs. An existing cpupri must not be affected. */
static void change_topology(struct rnd_state *rnd)
{
	int cpu;

	for (cpu = prandom_u32_state(rnd) % 5; cpu < nr_cpu_ids; cpu += 5) {
		forged_sd_llc_id[cpu] = (int)(prandom_u32_state(rnd) % (FORGED_LLCS + 1)) - 1;
		forged_node[cpu] = (int)(prandom_u32_state(rnd) % 4) - 1;
	}
}

static int group_of(int cpu)
{
	return IS_ENABLED(CONFIG_SCHED_CPUPRI_NODE) ? forged_node[cpu] : forged_sd_llc_id[cpu];
}

#undef cpu_to_node
#define cpu_to_node(cpu)	(forged_node[cpu])
#undef per_cpu
#define per_cpu(var, cpu)	(forged_##var[cpu])

/*
 * A search reads words of lines. If bytes are stored, it reads a word in parts,
 * which count as one look.
 */
#define LOOK_BYTES	(CPUPRI_LINE_BYTES / CPUPRI_LEAF_WORDS)

static bool looks_count;
static int looks;
static uintptr_t last_look;

static void look(uintptr_t at)
{
	uintptr_t word = at / LOOK_BYTES;

	if (!looks_count)
		return;		/* threads may be racing */
	looks += word != last_look;
	last_look = word;
}

#undef READ_ONCE
#define READ_ONCE(x)		({ typeof(x) *_x = &(x); look((uintptr_t)_x); __READ_ONCE(*_x); })
#else
static void forge_topology(void) { }
static void change_topology(struct rnd_state *rnd) { }
#endif

/*
 * Each barrier of the code under test is a step, at which a function can run on
 * the same CPU and do what another CPU could do at this point. This tests
 * interleavings that concurrent threads meet only by luck.
 */
static void (*at_step)(void);
static int steps;

static void step(void)
{
	void (*fn)(void) = at_step;

	if (!fn)
		return;
	at_step = NULL;		/* fn goes through barriers itself */
	steps++;
	fn();
	at_step = fn;
}

/* The barriers themselves stay as they are. */
static __always_inline void real_smp_rmb(void)
{
	smp_rmb(); /* see cpupri.c */
}

static __always_inline void real_smp_mb__before_atomic(void)
{
	smp_mb__before_atomic(); /* see cpupri.c */
}

static __always_inline void real_smp_mb__after_atomic(void)
{
	smp_mb__after_atomic(); /* see cpupri.c */
}

#undef smp_rmb
#undef smp_mb__before_atomic
#undef smp_mb__after_atomic
#define smp_rmb()		({ real_smp_rmb(); step(); })			/* see above */
#define smp_mb__before_atomic()	({ real_smp_mb__before_atomic(); step(); })	/* see above */
#define smp_mb__after_atomic()	({ real_smp_mb__after_atomic(); step(); })	/* see above */

#include "../cpupri.c"

static void change_active(struct rnd_state *rnd)
{
	int cpu;

	cpumask_copy(&forged_active, cpu_possible_mask);
	for (cpu = prandom_u32_state(rnd) % 7; cpu < nr_cpu_ids; cpu += 7)
		cpumask_clear_cpu(cpu, &forged_active);
	change_topology(rnd);
}

#include "sched_cpupri_cases.h"
#include "sched_cpupri_holds.h"

static void read_level(struct cpupri *cp, int level, int *count, struct cpumask *mask)
{
	int cpu;

	*count = atomic_read(&cp->pri_to_cpu[level].count);
	cpumask_clear(mask);
	for_each_possible_cpu(cpu) {
		if (cpupri_holds(cp, level, cpu))
			cpumask_set_cpu(cpu, mask);
	}
}

static int private_test_init(struct kunit *test)
{
	struct rnd_state rnd;

	heap.fail_at = 0;
	heap.bad_frees = 0;
	at_step = NULL;
	steps = 0;
	cpumask_setall(&forged_possible);
	prandom_seed_state(&rnd, seed);
	change_active(&rnd);
	forge_topology();
	return cpupri_test_init(test);
}

static void inactive_never_returned(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;

	for_each_possible_cpu(cpu)
		set_prio(t, cpu, cpumask_test_cpu(cpu, cpu_active_mask) ? 50 : 99);
	expect_found(test, 0, cpu_possible_mask, cpu_active_mask, "only inactive CPUs at prio 99");
	set_prio(t, last_cpu(), 99);
	expect_found(test, 0, cpu_possible_mask, only(&t->want, last_cpu()),
		     "an active CPU among inactive ones at prio 99");
	cpumask_andnot(&t->affinity, cpu_possible_mask, cpu_active_mask);
	expect_none(test, 0, &t->affinity, "only inactive CPUs allowed");
}

static int nr_masks(struct cpupri *cp)
{
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
	return cp->nr_leaves;
#else
	return CPUPRI_NR_PRIORITIES;
#endif
}

/* For each allocation: when it fails, those before it are freed, once. */
static void init_failure_frees_all(struct kunit *test)
{
	struct cpupri *cp = kunit_kzalloc(test, sizeof(*cp), GFP_KERNEL);
	struct cpupri_test *t = test->priv;
	int masks = nr_masks(&t->cp);
	int before = heap.nr_live;
	bool failed;
	int n = 0;

	KUNIT_ASSERT_NOT_NULL(test, cp);
	do {
		int err;

		heap.nr_calls = 0;
		heap.fail_at = ++n;
		err = cpupri_init(cp);
		failed = heap.nr_calls >= n;
		KUNIT_ASSERT_EQ_MSG(test, err, failed ? -ENOMEM : 0, "allocation %d", n);
		if (!failed)
			cpupri_cleanup(cp);
		KUNIT_ASSERT_EQ_MSG(test, heap.nr_live, before, "allocation %d", n);
		KUNIT_ASSERT_EQ_MSG(test, heap.bad_frees, 0, "allocation %d", n);
	} while (failed);
	KUNIT_EXPECT_GT_MSG(test, n, masks, "the masks are allocated elsewhere");
}

static void cleanup_frees_all(struct kunit *test)
{
	struct cpupri *cp = kunit_kzalloc(test, sizeof(*cp), GFP_KERNEL);
	int before = heap.nr_live;
	int cpu;

	KUNIT_ASSERT_NOT_NULL(test, cp);
	KUNIT_ASSERT_EQ(test, cpupri_init(cp), 0);
	for_each_possible_cpu(cpu)
		cpupri_set(cp, cpu, cpu % 100);
	cpupri_cleanup(cp);
	KUNIT_EXPECT_EQ(test, heap.nr_live, before);
	KUNIT_EXPECT_EQ(test, heap.bad_frees, 0);
}

/* ---- what another CPU may see, or do, at each barrier ---- */

static struct cpupri_test *stepped;
static int step_level, step_prio;
static bool step_missed;

static void find_at_step(void)
{
	if (!find(stepped, 0, &stepped->affinity))
		step_missed = true;
}

/* raise_never_missed without luck: find the CPU at each step of a rise. */
static void raise_found_at_every_step(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu();
	int from, to;

	stepped = t;
	only(&t->affinity, cpu);
	for (from = 99; from > 1; from--) {
		for (to = from - 1; to > 0; to--) {
			set_prio(t, cpu, from);
			steps = 0;
			step_missed = false;
			at_step = find_at_step;
			set_prio(t, cpu, to);
			at_step = NULL;
			KUNIT_ASSERT_FALSE_MSG(test, step_missed, "from prio %d to %d", from, to);
			/* between new mask and count, old count and mask */
			KUNIT_ASSERT_GE_MSG(test, steps, 3, "a barrier is missing in between");
		}
	}
}

/* The n-th step of a find lies between count and mask of the n-th level. */
static void set_at_step(void)
{
	if (steps == step_level + 1)
		set_prio(stepped, last_cpu(), step_prio);
}

static bool find_while_set(struct cpupri_test *t, int level, int prio)
{
	bool found;

	stepped = t;
	step_level = level;
	step_prio = prio;
	steps = 0;
	at_step = set_at_step;
	found = find(t, 0, &t->affinity);
	at_step = NULL;
	return found;
}

/*
 * A CPU that leaves its level while a find looks at this level is found at its
 * new level.
 */
static void raise_during_find(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu();
	int from, to;

	only(&t->affinity, cpu);
	for (from = 99; from > 1; from--) {
		for (to = from - 1; to > 0; to--) {
			bool found;

			set_prio(t, cpu, from);
			found = find_while_set(t, level_of(from), to);
			KUNIT_ASSERT_EQ_MSG(test, t->level[cpu], level_of(to),
					    "no barrier between count and mask");
			KUNIT_ASSERT_TRUE_MSG(test, found, "from prio %d to %d", from, to);
			KUNIT_ASSERT_TRUE(test, cpumask_equal(&t->lowest, &t->affinity));
		}
	}
}

/*
 * For an empty level a find reads only the count, and not the mask, which other
 * CPUs write. This is why count and mask have lines of their own.
 */
static void empty_level_passed_by_count(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu();
	int prio;

	only(&t->affinity, cpu);
	for (prio = 99; prio > 0; prio--) {
		bool found;

		set_prio(t, cpu, CPUPRI_INVALID);
		found = find_while_set(t, level_of(prio), prio);
		KUNIT_ASSERT_EQ_MSG(test, t->level[cpu], level_of(prio),
				    "no barrier between count and mask");
		KUNIT_ASSERT_FALSE_MSG(test, found, "prio %d: mask read after a count of 0", prio);
	}
}

/* ---- threads that set while others find ---- */

#define SETS_PER_THREAD	50000
#define CPUS_PER_THREAD	8	/* so that nearly all bits lie in one word */

/* A thread that sets priorities and, if finds is true, also finds CPUs. */
struct racer {
	struct cpupri_test	*t;
	struct rnd_state	rnd;
	int			first, nr;
	struct task_struct	task;
	struct cpumask		lowest;
	bool			finds;
	unsigned int		found, empty, forbidden, lost;
};

/* CPUs whose bits, or bytes, are neighbours; 8 threads share them. */
static int neighbours[8 * CPUS_PER_THREAD];

static void find_neighbours(void)
{
	int i = 0, cpu;

	/* backwards: the last CPUs were all assigned to the largest LLC */
	for (cpu = round_down(nr_cpu_ids, BITS_PER_LONG) - 1; i < ARRAY_SIZE(neighbours); cpu--) {
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
		if (group_of(cpu) != FORGED_LARGEST)
			continue;
#endif
		neighbours[i++] = cpu;
	}
}

static void find_any(struct racer *r)
{
	int i, n = prandom_u32_state(&r->rnd) % 3;

	cpumask_clear(&r->task.cpus_mask);
	for (i = 0; i <= n; i++)
		cpumask_set_cpu(neighbours[prandom_u32_state(&r->rnd) % ARRAY_SIZE(neighbours)],
				&r->task.cpus_mask);
	r->task.prio = 97 - (int)(prandom_u32_state(&r->rnd) % 3);
	cpumask_setall(&r->lowest);	/* to be overwritten */
	if (!cpupri_find(&r->t->cp, &r->task, &r->lowest))
		return;
	r->found++;
	r->empty += cpumask_empty(&r->lowest);
	r->forbidden += !cpumask_subset(&r->lowest, &r->task.cpus_mask) ||
			!cpumask_subset(&r->lowest, cpu_active_mask);
}

/*
 * Every CPU has one setter; in the kernel, that is the holder of its runqueue's
 * lock. So the setter must find the CPU at the level where it left it, whatever
 * happens to the neighbouring bits.
 */
static void race(void *data)
{
	struct racer *r = data;
	int i;

	for (i = 0; i < SETS_PER_THREAD; i++) {
		u32 n = prandom_u32_state(&r->rnd) % CPUS_PER_THREAD;
		u32 prio = 97 + prandom_u32_state(&r->rnd) % 4;	/* often the same level */
		int cpu = neighbours[r->first + n * r->nr];
		int level = r->t->level[cpu];

		r->lost += level >= 0 && !cpupri_holds(&r->t->cp, level, cpu);
		preempt_disable();
		set_prio(r->t, cpu, prio);
		preempt_enable();
		r->lost += level >= 0 && level != r->t->level[cpu] &&
			   cpupri_holds(&r->t->cp, level, cpu);
		if (r->finds)
			find_any(r);
		if (i % 64 == 0)
			cond_resched();
	}
}

/* Returns the racers when all of them have run. */
static struct racer *run_racers(struct kunit *test, bool find)
{
	struct cpupri_test *t = test->priv;
	int nr = cpupri_test_cpus();
	struct cpupri_thread *threads = kunit_kcalloc(test, nr, sizeof(*threads), GFP_KERNEL);
	struct racer *racers = kunit_kcalloc(test, nr, sizeof(*racers), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, threads);
	KUNIT_ASSERT_NOT_NULL(test, racers);
	find_neighbours();
	for (i = 0; i < nr; i++) {
		racers[i].t = t;
		racers[i].finds = find;
		racers[i].task.cpus_ptr = &racers[i].task.cpus_mask;
		racers[i].first = i;
		racers[i].nr = nr;
		prandom_seed_state(&racers[i].rnd, seed + i);
		threads[i] = (struct cpupri_thread){ race, &racers[i] };
	}
	kunit_info(test, "seed %lu, %d threads\n", seed, nr);
	KUNIT_ASSERT_EQ(test, cpupri_run_threads(threads, nr, nr), 0);
	return racers;
}

/*
 * While other threads change priorities, a find returns at least one CPU, and
 * only CPUs that are allowed and active.
 */
static void found_is_allowed(struct kunit *test)
{
	struct racer *racers = run_racers(test, true);
	int i;

	for (i = 0; i < cpupri_test_cpus(); i++) {
		KUNIT_EXPECT_GT(test, racers[i].found, 0);
		KUNIT_EXPECT_EQ_MSG(test, racers[i].empty, 0, "of %u answers", racers[i].found);
		KUNIT_EXPECT_EQ_MSG(test, racers[i].forbidden, 0, "of %u answers", racers[i].found);
	}
}

/* Once all threads have ended, every count is the weight of its mask. */
static void counts_match_masks(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct racer *racers;
	int cpu, level;

	racers = run_racers(test, false);
	for (cpu = 0; cpu < cpupri_test_cpus(); cpu++)
		KUNIT_EXPECT_EQ_MSG(test, racers[cpu].lost, 0, "changes that did not last");
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++) {
		int count;

		cpumask_clear(&t->want);
		for_each_possible_cpu(cpu) {
			if (t->level[cpu] == level)
				cpumask_set_cpu(cpu, &t->want);
		}
		read_level(&t->cp, level, &count, &t->lowest);
		KUNIT_EXPECT_EQ_MSG(test, count, cpumask_weight(&t->want), "level %d", level);
		KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(&t->lowest, &t->want),
				      "level %d: CPUs %*pbl, expected %*pbl", level,
				      cpumask_pr_args(&t->lowest), cpumask_pr_args(&t->want));
	}
}

/* ---- the cost of set and find, for schedline bench; there is no limit ---- */

#define COST_SETS	20000
#define COST_FINDS	2000

static void cost_of(struct kunit *test, int nr)
{
	struct cpupri_test *t = test->priv;
	u64 start, set, one, all;
	int cpu, i;

	cpupri_cleanup(&t->cp);
	cpumask_clear(&forged_possible);
	for (cpu = 0; cpu < nr; cpu++)
		cpumask_set_cpu(cpu, &forged_possible);
	cpumask_copy(&forged_active, &forged_possible);
	KUNIT_ASSERT_EQ(test, cpupri_init(&t->cp), 0);

	start = ktime_get_ns();
	for (i = 0; i < COST_SETS; i++)
		cpupri_set(&t->cp, i % nr, 97 + i / nr % 3);
	set = ktime_get_ns() - start;

	for (cpu = 0; cpu < nr; cpu++)
		cpupri_set(&t->cp, cpu, 98);
	start = ktime_get_ns();
	for (i = 0; i < COST_FINDS; i++)
		find(t, 0, cpu_possible_mask);
	all = ktime_get_ns() - start;
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&t->lowest, cpu_possible_mask));

	only(&t->affinity, nr - 1);
	start = ktime_get_ns();
	for (i = 0; i < COST_FINDS; i++)
		find(t, 0, &t->affinity);
	one = ktime_get_ns() - start;
	KUNIT_EXPECT_TRUE(test, cpumask_equal(&t->lowest, &t->affinity));

	kunit_info(test, "%d CPUs: set %llu ps, find one %llu ps, find all %llu ps\n", nr,
		   div_u64(set * 1000, COST_SETS), div_u64(one * 1000, COST_FINDS),
		   div_u64(all * 1000, COST_FINDS));
}

static void cost(struct kunit *test)
{
	cost_of(test, 8);
	cost_of(test, 64);
	cost_of(test, 256);
	cost_of(test, nr_cpu_ids);
}

#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
/* ---- leaves: lines that only the CPUs of one node or LLC write ---- */

#ifdef CONFIG_SCHED_CPUPRI_SPLIT
/* A group has as many leaves as its words need, and each word is in one of them. */
static void leaves_by_group(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct cpupri *cp = &t->cp;
	int group, cpu, leaves = 0, words = 0;
	unsigned int i;

	for (group = -1; group < FORGED_LLCS; group++) {
		DECLARE_BITMAP(used, BITS_TO_LONGS(nr_cpu_ids)) = { };
		int nr;

		for_each_possible_cpu(cpu) {
			if (group_of(cpu) == group)
				__set_bit(BIT_WORD(cpu), used);
		}
		nr = bitmap_weight(used, BITS_TO_LONGS(nr_cpu_ids));
		words += nr;
		leaves += DIV_ROUND_UP(nr, (int)CPUPRI_LEAF_WORDS);
	}
	kunit_info(test, "%u leaves of %zu bytes and %zu bytes for each root_domain\n",
		   cp->nr_leaves, sizeof(struct cpupri_leaf), sizeof(*cp) + nr_cpu_ids *
		   (sizeof(*cp->cpu_to_pri) + sizeof(*cp->place) + sizeof(*cp->leaves)));
	KUNIT_EXPECT_EQ(test, cp->nr_leaves, leaves);
	KUNIT_EXPECT_EQ(test, sizeof(struct cpupri_line), CPUPRI_LINE_BYTES);
	KUNIT_EXPECT_EQ(test, __alignof__(struct cpupri_line), SMP_CACHE_BYTES);

	for (i = 0; i < cp->nr_leaves; i++) {
		KUNIT_EXPECT_TRUE_MSG(test, IS_ALIGNED((uintptr_t)cp->leaves[i], SMP_CACHE_BYTES),
				      "leaf %u does not begin a line", i);
		KUNIT_ASSERT_LE(test, cp->leaves[i]->nr_words, CPUPRI_LEAF_WORDS);
		words -= cp->leaves[i]->nr_words;
	}
	KUNIT_EXPECT_EQ(test, words, 0);

	for_each_possible_cpu(cpu) {
		struct cpupri_place place = cp->place[cpu];
		struct cpupri_leaf *leaf = cp->leaves[place.leaf];
		unsigned int word = place.pos / BITS_PER_LONG;

		KUNIT_ASSERT_EQ_MSG(test, leaf->group, group_of(cpu), "CPU %d", cpu);
		KUNIT_ASSERT_LT_MSG(test, word, leaf->nr_words, "CPU %d", cpu);
		KUNIT_ASSERT_EQ_MSG(test, leaf->mask_word[word], BIT_WORD(cpu), "CPU %d", cpu);
		KUNIT_ASSERT_EQ_MSG(test, place.pos % BITS_PER_LONG, cpu % BITS_PER_LONG,
				    "CPU %d", cpu);
	}
}

/* No line is written by two nodes or LLCs: a CPU writes one leaf of its own. */
static void leaf_ownership(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;
	unsigned int i;

	for_each_possible_cpu(cpu) {
		int written = 0;

		set_prio(t, cpu, cpu % 100);
		for (i = 0; i < t->cp.nr_leaves; i++) {
			struct cpupri_leaf *leaf = t->cp.leaves[i];

			if (!memchr_inv(leaf->line, 0, sizeof(leaf->line)))
				continue;
			written++;
			KUNIT_ASSERT_EQ_MSG(test, leaf->group, group_of(cpu),
					    "CPU %d writes leaf %u", cpu, i);
		}
		KUNIT_ASSERT_EQ_MSG(test, written, 1, "leaves that CPU %d writes", cpu);
		set_prio(t, cpu, CPUPRI_INVALID);
	}
}

/*
 * The number of words that contain an allowed CPU, up to the word in which the
 * search finds the first one. All CPUs are at the same level.
 */
static int words_to_look_at(struct cpupri *cp, const struct cpumask *allowed)
{
	unsigned int i, word, first_leaf = U16_MAX, first_word = 0;
	int cpu, words = 0;

	for_each_cpu(cpu, allowed) {
		if (cp->place[cpu].leaf < first_leaf) {
			first_leaf = cp->place[cpu].leaf;
			first_word = cp->place[cpu].pos / BITS_PER_LONG;
		}
	}
	for (i = 0; i <= first_leaf; i++) {
		for (word = 0; word < cp->leaves[i]->nr_words; word++) {
			words += cpumask_bits(allowed)[cp->leaves[i]->mask_word[word]] != 0;
			if (i == first_leaf && word == first_word)
				break;
		}
	}
	return words;
}

/*
 * A search that needs only one CPU reads no word after the first match, and no
 * word without an allowed CPU.
 */
static void leaf_search_stops(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		set_prio(t, cpu, 50);
	t->task.prio = 0;
	looks_count = true;
	for (i = 0; i < t->cp.nr_leaves; i++) {
		cpumask_clear(&t->affinity);
		for_each_possible_cpu(cpu) {
			if (t->cp.place[cpu].leaf >= i && cpu % (2 * BITS_PER_LONG) < BITS_PER_LONG)
				cpumask_set_cpu(cpu, &t->affinity);
		}
		cpumask_copy(&t->task.cpus_mask, &t->affinity);
		looks = 0;
		last_look = 0;
		KUNIT_EXPECT_EQ_MSG(test, cpupri_find(&t->cp, &t->task, NULL),
				    !cpumask_empty(&t->affinity), "leaf %u", i);
		if (!cpumask_empty(&t->affinity))
			KUNIT_EXPECT_EQ_MSG(test, looks, words_to_look_at(&t->cp, &t->affinity),
					    "leaf %u", i);
	}
	looks_count = false;
}
#else
static void needs_leaves(struct kunit *test)
{
	kunit_skip(test, "the masks are not split");
}

#define leaves_by_group		needs_leaves
#define leaf_ownership		needs_leaves
#define leaf_search_stops	needs_leaves
#endif
#endif /* SCHED_KUNIT_NO_CPUPRI_SPLIT */

static struct kunit_case sched_cpupri_private_test_cases[] = {
	KUNIT_CASE(oracle),
	KUNIT_CASE(priority_pairs),
	KUNIT_CASE(invalid_never_found),
	KUNIT_CASE(lowest_level_wins),
	KUNIT_CASE(whole_level_returned),
	KUNIT_CASE(affinity_respected),
	KUNIT_CASE(same_prio_set_twice),
	KUNIT_CASE(fitness_before_level),
	KUNIT_CASE(fitness_falls_back),
	KUNIT_CASE(raise_never_missed),
	KUNIT_CASE(inactive_never_returned),
	KUNIT_CASE(init_failure_frees_all),
	KUNIT_CASE(cleanup_frees_all),
	KUNIT_CASE(raise_found_at_every_step),
	KUNIT_CASE(raise_during_find),
	KUNIT_CASE(empty_level_passed_by_count),
	KUNIT_CASE(found_is_allowed),
	KUNIT_CASE(counts_match_masks),
	KUNIT_CASE(cost),
#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
	KUNIT_CASE(leaves_by_group),
	KUNIT_CASE(leaf_ownership),
	KUNIT_CASE(leaf_search_stops),
#endif
	{}
};

static struct kunit_suite sched_cpupri_private_test_suite = {
	.name = "sched_cpupri_private",
	.init = private_test_init,
	.exit = cpupri_test_exit,
	.test_cases = sched_cpupri_private_test_cases,
};

#else

static void needs_smp(struct kunit *test)
{
	kunit_skip(test, "this kernel has cpupri only with CONFIG_SMP");
}

static struct kunit_case sched_cpupri_private_test_cases[] = {
	KUNIT_CASE(needs_smp),
	{}
};

static struct kunit_suite sched_cpupri_private_test_suite = {
	.name = "sched_cpupri_private",
	.test_cases = sched_cpupri_private_test_cases,
};

#endif

kunit_test_suite(sched_cpupri_private_test_suite);
