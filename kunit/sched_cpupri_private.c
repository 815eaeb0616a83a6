// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of a private copy of kernel/sched/cpupri.c. It is the kernel's
 * code under other names, with steps in it: a test can run code of its own at
 * each barrier, and make each allocation fail. Another reason for a copy is
 * KCSAN, which kernel/sched/ is exempt from and this file is not.
 *
 * To repeat a failure of a random case: sched_cpupri_private.seed=N on the
 * kernel command line.
 */

/* before sched.h, which declares them */
#define cpupri_find		private_cpupri_find
#define cpupri_find_fitness	private_cpupri_find_fitness
#define cpupri_set		private_cpupri_set
#define cpupri_init		private_cpupri_init
#define cpupri_cleanup		private_cpupri_cleanup

#include <kunit/test.h>
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>

#include "../sched.h"

#if defined(CONFIG_SMP) || ENQUEUE_MIGRATED	/* see sched_cpupri_kunit.c */

/*
 * At each barrier of the code under test a function can run on the same CPU,
 * and do what another CPU could do at this point. This tests interleavings that
 * concurrent threads meet only by luck. The barriers stay as they are.
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

static __always_inline void private_smp_rmb(void)
{
	smp_rmb(); /* see cpupri.c */
	step();
}

static __always_inline void private_smp_mb__before_atomic(void)
{
	smp_mb__before_atomic(); /* see cpupri.c */
	step();
}

static __always_inline void private_smp_mb__after_atomic(void)
{
	smp_mb__after_atomic(); /* see cpupri.c */
	step();
}

/*
 * The allocation with the number fail_at fails, and live is the number of those
 * that are not freed. CONFIG_FAILSLAB is off in most kernels, and does not show
 * what is never freed.
 */
static int allocations, fail_at, live;

static bool may_allocate(void)
{
	return ++allocations != fail_at;
}

static __maybe_unused void *private_kzalloc(size_t size, gfp_t gfp)
{
	void *mem = may_allocate() ? kzalloc(size, gfp) : NULL;

	live += !!mem;
	return mem;
}

static __maybe_unused void *private_kcalloc(size_t n, size_t size, gfp_t gfp)
{
	return private_kzalloc(size_mul(n, size), gfp);
}

static void private_kfree(const void *mem)
{
	live -= !!mem;
	kfree(mem);
}

static __maybe_unused bool private_zalloc_cpumask_var(cpumask_var_t *mask, gfp_t gfp)
{
	bool allocated = may_allocate() && zalloc_cpumask_var(mask, gfp);

	live += allocated;
	return allocated;
}

static __maybe_unused void private_free_cpumask_var(cpumask_var_t mask)
{
	live--;
	free_cpumask_var(mask);
}

#if defined(CONFIG_SCHED_CPUPRI_SPLIT) || defined(CONFIG_SCHED_CPUPRI_SBM)
/*
 * Made-up LLCs and nodes; -1 stands for unknown. CPUs belong to them in turn,
 * so each word of a mask has CPUs of several. LLC 2 has none in the first word.
 */
#define FORGED_GROUPS	3

static DEFINE_PER_CPU(int, private_llc_id);
static DEFINE_PER_CPU(int, private_node);

static void forge_topology(int turn)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		int llc = (cpu + turn) % 4 - 1;

		per_cpu(private_llc_id, cpu) = cpu < BITS_PER_LONG ? min(llc, 1) : llc;
		per_cpu(private_node, cpu) = (cpu + turn) % 3 - 1;
	}
}

static int group_of(int cpu)
{
	return IS_ENABLED(CONFIG_SCHED_CPUPRI_NODE) ? per_cpu(private_node, cpu) :
						      per_cpu(private_llc_id, cpu);
}

/* A node may be one that this machine does not have. */
static void *private_kzalloc_node(size_t size, gfp_t gfp, int node)
{
	return private_kzalloc(size, gfp);
}

#define sd_llc_id		private_llc_id
#define cpupri_llc_id		private_llc_id	/* its name on 6.12 */
#undef cpu_to_node
#define cpu_to_node(cpu)	per_cpu(private_node, cpu)
#undef kzalloc_node
#define kzalloc_node		private_kzalloc_node
#else
static void forge_topology(int turn) { }
static int group_of(int cpu) { return 0; }
#endif

#ifdef CONFIG_SCHED_CPUPRI_SPLIT
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
#endif

#undef smp_rmb
#define smp_rmb			private_smp_rmb
#undef smp_mb__before_atomic
#define smp_mb__before_atomic	private_smp_mb__before_atomic
#undef smp_mb__after_atomic
#define smp_mb__after_atomic	private_smp_mb__after_atomic
#undef kzalloc
#define kzalloc			private_kzalloc
#undef kcalloc
#define kcalloc			private_kcalloc
#undef kfree
#define kfree			private_kfree
#define zalloc_cpumask_var	private_zalloc_cpumask_var
#define free_cpumask_var	private_free_cpumask_var

#include "../cpupri.c"

#include "sched_cpupri_cases.h"
#include "sched_cpupri_holds.h"

static int private_test_init(struct kunit *test)
{
	fail_at = 0;
	at_step = NULL;
	forge_topology(0);
	return cpupri_test_init(test);
}

/* ---- memory ---- */

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
	int before = live;
	bool failed;
	int n = 0;

	KUNIT_ASSERT_NOT_NULL(test, cp);
	do {
		int err;

		allocations = 0;
		fail_at = ++n;
		err = cpupri_init(cp);
		failed = allocations >= n;
		KUNIT_ASSERT_EQ_MSG(test, err, failed ? -ENOMEM : 0, "allocation %d", n);
		if (!failed)
			cpupri_cleanup(cp);
		KUNIT_ASSERT_EQ_MSG(test, live, before, "allocation %d", n);
	} while (failed);
	KUNIT_EXPECT_GT_MSG(test, n, nr_masks(&t->cp), "the masks are allocated elsewhere");
}

static void cleanup_frees_all(struct kunit *test)
{
	struct cpupri *cp = kunit_kzalloc(test, sizeof(*cp), GFP_KERNEL);
	int before = live;
	int cpu;

	KUNIT_ASSERT_NOT_NULL(test, cp);
	KUNIT_ASSERT_EQ(test, cpupri_init(cp), 0);
	for_each_possible_cpu(cpu)
		cpupri_set(cp, cpu, cpu % 100);
	cpupri_cleanup(cp);
	KUNIT_EXPECT_EQ(test, live, before);
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
		cond_resched();
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
		cond_resched();
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

#define SETS_PER_THREAD	100000

/* CPUs that share words or lines of bytes. Each is set by one thread. */
static int neighbours[BITS_PER_LONG];
static int nr_neighbours, nr_racers;

static void find_neighbours(void)
{
	int cpu;

	nr_neighbours = 0;
	for_each_possible_cpu(cpu) {
		if (group_of(cpu) == group_of(cpumask_first(cpu_possible_mask)) &&
		    nr_neighbours < ARRAY_SIZE(neighbours))
			neighbours[nr_neighbours++] = cpu;
	}
	nr_racers = min(nr_neighbours, cpupri_test_cpus());
}

/* A thread that sets priorities and, if finds is true, also finds CPUs. */
struct racer {
	struct cpupri_test	*t;
	struct rnd_state	rnd;
	int			first;
	struct task_struct	task;
	struct cpumask		lowest;
	bool			finds;
	unsigned int		found, empty, forbidden, lost;
};

static int random_neighbour(struct racer *r, int first, int nr)
{
	int own = DIV_ROUND_UP(nr_neighbours - first, nr);

	return neighbours[first + (int)(prandom_u32_state(&r->rnd) % own) * nr];
}

static void find_any(struct racer *r)
{
	int i, n = prandom_u32_state(&r->rnd) % 3;

	cpumask_clear(&r->task.cpus_mask);
	for (i = 0; i <= n; i++)
		cpumask_set_cpu(random_neighbour(r, 0, 1), &r->task.cpus_mask);
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
		u32 prio = 97 + prandom_u32_state(&r->rnd) % 4;	/* often the same level */
		int cpu = random_neighbour(r, r->first, nr_racers);
		int level = r->t->level[cpu];

		r->lost += level >= 0 && !cpupri_has_cpu(&r->t->cp, level, cpu);
		preempt_disable();
		set_prio(r->t, cpu, prio);
		preempt_enable();
		r->lost += level >= 0 && level != r->t->level[cpu] &&
			   cpupri_has_cpu(&r->t->cp, level, cpu);
		if (r->finds)
			find_any(r);
		if (i % 64 == 0)
			cond_resched();
	}
}

/* Returns the racers when all of them have run. */
static struct racer *run_racers(struct kunit *test, bool find)
{
	struct cpupri_thread *threads;
	struct racer *racers;
	int i;

	find_neighbours();
	threads = kunit_kcalloc(test, nr_racers, sizeof(*threads), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, threads);
	racers = kunit_kcalloc(test, nr_racers, sizeof(*racers), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, racers);
	for (i = 0; i < nr_racers; i++) {
		racers[i].t = test->priv;
		racers[i].finds = find;
		racers[i].task.cpus_ptr = &racers[i].task.cpus_mask;
		racers[i].first = i;
		prandom_seed_state(&racers[i].rnd, seed + i);
		threads[i] = (struct cpupri_thread){ race, &racers[i] };
	}
	kunit_info(test, "seed %lu, %d threads\n", seed, nr_racers);
	KUNIT_ASSERT_EQ(test, cpupri_run_threads(threads, nr_racers, nr_racers), 0);
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

	for (i = 0; i < nr_racers; i++) {
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
	for (cpu = 0; cpu < nr_racers; cpu++)
		KUNIT_EXPECT_EQ_MSG(test, racers[cpu].lost, 0, "changes that did not last");
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++) {
		int weight = 0;

		for_each_possible_cpu(cpu) {
			bool want = t->level[cpu] == level;

			KUNIT_ASSERT_EQ_MSG(test, cpupri_has_cpu(&t->cp, level, cpu), want,
					    "level %d, CPU %d", level, cpu);
			weight += want;
		}
		KUNIT_EXPECT_EQ_MSG(test, atomic_read(cpupri_count(&t->cp, level)), weight,
				    "the count of level %d", level);
	}
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

	for (group = -1; group < FORGED_GROUPS; group++) {
		int nr = 0, last = -1;

		for_each_possible_cpu(cpu) {
			if (group_of(cpu) != group)
				continue;
			nr += cpu / BITS_PER_LONG != last;
			last = cpu / BITS_PER_LONG;
		}
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

/*
 * No line is written by two nodes or LLCs: a CPU writes only the leaf that it
 * had from the start, also if the topology is seen to be another one later.
 */
static void leaf_ownership(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;
	unsigned int i;

	forge_topology(1);
	for_each_possible_cpu(cpu) {
		set_prio(t, cpu, cpu % 100);
		for (i = 0; i < t->cp.nr_leaves; i++) {
			struct cpupri_leaf *leaf = t->cp.leaves[i];
			bool written = memchr_inv(leaf->line, 0, sizeof(leaf->line));

			KUNIT_ASSERT_EQ_MSG(test, written, i == t->cp.place[cpu].leaf,
					    "CPU %d, leaf %u", cpu, i);
		}
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
	for (i = 0; i <= first_leaf && i < cp->nr_leaves; i++) {
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
 * word without an allowed CPU. In the last search no CPU is allowed.
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
	for (i = 0; i <= t->cp.nr_leaves; i++) {
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
		KUNIT_EXPECT_EQ_MSG(test, looks, words_to_look_at(&t->cp, &t->affinity),
				    "leaf %u", i);
	}
	looks_count = false;
}
#elif defined(CONFIG_SCHED_CPUPRI_SBM)
/* Each CPU has a bit in a leaf of its group, and a group has no leaf too many. */
static void leaves_by_group(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct sbm_map *map = &t->cp.map;
	int group, cpu, level, leaves = 0;
	unsigned int i;

	for (group = -1; group < FORGED_GROUPS; group++) {
		int nr = 0;

		for_each_possible_cpu(cpu)
			nr += group_of(cpu) == group;
		leaves += DIV_ROUND_UP(nr, BITS_PER_LONG);
	}
	KUNIT_EXPECT_EQ(test, map->nr_groups, leaves);
	for_each_possible_cpu(cpu) {
		unsigned int idx = map->cpu_to_idx[cpu];

		KUNIT_ASSERT_LT_MSG(test, idx / BITS_PER_LONG, map->nr_groups, "CPU %d", cpu);
		KUNIT_ASSERT_EQ_MSG(test, map->groups[idx / BITS_PER_LONG]->id, group_of(cpu),
				    "CPU %d", cpu);
		KUNIT_ASSERT_EQ_MSG(test, sbm_cpu(map, idx), cpu, "CPU %d", cpu);
	}

	KUNIT_EXPECT_EQ(test, sizeof(struct sbm_leaf), SMP_CACHE_BYTES);
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++) {
		struct sbm *sbm = t->cp.sbm[level];

		KUNIT_ASSERT_EQ(test, sbm->nr_leaves, map->nr_groups);
		KUNIT_EXPECT_TRUE(test, IS_ALIGNED((uintptr_t)sbm, SMP_CACHE_BYTES));
		for (i = 0; i < sbm->nr_leaves; i++)
			KUNIT_EXPECT_TRUE_MSG(test, IS_ALIGNED((uintptr_t)sbm->leaves[i],
							       SMP_CACHE_BYTES),
					      "leaf %u of level %d does not begin a line",
					      i, level);
	}
}

/* A CPU writes only the leaf that it had from the start, whatever the topology is later. */
static void leaf_ownership(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	unsigned int i, level;
	int cpu;

	forge_topology(1);
	for_each_possible_cpu(cpu) {
		unsigned int idx = t->cp.map.cpu_to_idx[cpu];

		set_prio(t, cpu, cpu % 100);
		level = t->level[cpu];
		for (i = 0; i < t->cp.map.nr_groups; i++) {
			bool own = i == idx / BITS_PER_LONG;

			KUNIT_ASSERT_EQ_MSG(test, t->cp.sbm[level]->leaves[i]->bits,
					    own ? BIT(idx % BITS_PER_LONG) : 0,
					    "CPU %d, leaf %u", cpu, i);
		}
		set_prio(t, cpu, CPUPRI_INVALID);
	}
}

/*
 * From each bit on, the next one that is set is found: the first hit counts, in
 * whatever leaf it is, and nothing behind the last one.
 */
static void leaf_search_stops(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct sbm *sbm = t->cp.sbm[CPUPRI_HIGHER];
	int bits = sbm->nr_leaves * BITS_PER_LONG;
	unsigned int step;
	int cpu, idx, next;

	for (step = 1; step <= 3; step++) {
		for_each_possible_cpu(cpu) {
			if (cpu % step == 0)
				sbm_cpu_set(sbm, &t->cp.map, cpu);
		}
		next = -1;
		for (idx = bits; idx >= 0; idx--) {
			if (idx < bits && test_bit(idx % BITS_PER_LONG,
						   &sbm->leaves[idx / BITS_PER_LONG]->bits))
				next = idx;
			KUNIT_ASSERT_EQ_MSG(test, sbm_find_next_bit(sbm, idx), next,
					    "every CPU of %u, from bit %d", step, idx);
		}
		for_each_possible_cpu(cpu)
			sbm_cpu_clear(sbm, &t->cp.map, cpu);
		KUNIT_ASSERT_EQ(test, sbm_find_next_bit(sbm, 0), -1);
	}
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
	KUNIT_CASE(init_failure_frees_all),
	KUNIT_CASE(cleanup_frees_all),
	KUNIT_CASE(raise_found_at_every_step),
	KUNIT_CASE(raise_during_find),
	KUNIT_CASE(empty_level_passed_by_count),
	KUNIT_CASE(found_is_allowed),
	KUNIT_CASE(counts_match_masks),
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
