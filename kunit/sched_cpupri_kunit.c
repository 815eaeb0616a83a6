// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kernel/sched/cpupri.c, through its public functions only. So
 * they hold for any layout of the masks and counts.
 *
 * They use all possible CPUs of this machine. A mask has several words only if
 * there are more than 64: in QEMU, -smp 8,maxcpus=240 is enough.
 *
 * To repeat a failure of a random case: sched_cpupri_kunit.seed=N on the
 * kernel command line.
 */
#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>
#include <linux/timekeeping.h>

#include "../sched.h"

/*
 * Without CONFIG_SMP, kernels have cpupri only since they use the same
 * scheduler code as SMP kernels. Before that, ENQUEUE_MIGRATED is 0.
 * Link: https://lore.kernel.org/lkml/20250528080924.2273858-1-mingo@kernel.org/
 */
#if defined(CONFIG_SMP) || ENQUEUE_MIGRATED

#include "sched_cpupri_cases.h"

static int first_cpu(void)
{
	return cpumask_first(cpu_active_mask);
}

static void needs_two_cpus(struct kunit *test)
{
	if (first_cpu() == last_cpu())
		kunit_skip(test, "needs two active CPUs");
}

/* ---- oracle: random operations against a model too simple to be wrong ---- */

#define ORACLE_OPS	100000
#define ORACLE_EPOCH	500	/* operations until other priorities are frequent */

static u32 below(struct cpupri_test *t, u32 limit)
{
	return prandom_u32_state(&t->rnd) % limit;
}

static unsigned long random_word(struct cpupri_test *t)
{
	unsigned long word;

	prandom_bytes_state(&t->rnd, &word, sizeof(word));
	return word;
}

static int random_cpu(struct cpupri_test *t)
{
	return cpumask_nth(below(t, cpumask_weight(cpu_possible_mask)), cpu_possible_mask);
}

static int random_prio(struct cpupri_test *t)
{
	static const int edges[] = { -1, 0, 1, 97, 98, 99, 100 };

	switch (below(t, 4)) {
	case 0:
		return edges[below(t, ARRAY_SIZE(edges))];
	case 1:
		return (int)below(t, 102) - 1;
	default:
		return t->crowd + below(t, 3);
	}
}

static void random_mask(struct cpupri_test *t, struct cpumask *mask)
{
	unsigned long *word = cpumask_bits(mask);
	u32 density = below(t, 8);
	int i;

	cpumask_clear(mask);
	switch (density) {
	case 0:
		return;
	case 1:
	case 2:
		cpumask_set_cpu(random_cpu(t), mask);
		return;
	case 3:
		cpumask_copy(mask, cpu_possible_mask);
		return;
	case 4:
		cpumask_copy(mask, cpu_possible_mask);
		cpumask_clear_cpu(random_cpu(t), mask);
		return;
	}
	for (i = 0; i < BITS_TO_LONGS(nr_cpu_ids); i++) {
		word[i] = random_word(t);
		if (density == 5)	/* one CPU in eight */
			word[i] &= random_word(t) & random_word(t);
		if (density == 6)	/* seven in eight */
			word[i] |= random_word(t) | random_word(t);
	}
	cpumask_and(mask, mask, cpu_possible_mask);
}

static bool task_fits(struct task_struct *p, int cpu)
{
	return cpumask_test_cpu(cpu, &container_of(p, struct cpupri_test, task)->fit);
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

static void oracle(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int op, found = 0, missed = 0, unfit = 0;

	kunit_info(test, "seed %lu, %u CPUs\n", seed, cpumask_weight(cpu_possible_mask));
	for (op = 0; op < ORACLE_OPS; op++) {
		bool mask, fitness, want, got;

		if (op % ORACLE_EPOCH == 0) {
			t->crowd = below(t, 98);
			cond_resched();
		}
		if (below(t, 3)) {
			set_prio(t, random_cpu(t), random_prio(t));
			continue;
		}
		mask = below(t, 4);
		fitness = below(t, 2);
		t->task.prio = random_prio(t);
		random_mask(t, &t->task.cpus_mask);
		random_mask(t, &t->fit);
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

		KUNIT_FAIL(test, "seed %lu, operation %d: wrong answer for prio %d",
			   seed, op, t->task.prio);
		kunit_err(test, "affinity: %*pbl\n", cpumask_pr_args(&t->task.cpus_mask));
		kunit_err(test, "active:   %*pbl\n", cpumask_pr_args(cpu_active_mask));
		if (fitness)
			kunit_err(test, "fit:      %*pbl\n", cpumask_pr_args(&t->fit));
		kunit_err(test, "expected: %d, CPUs %*pbl\n", want, cpumask_pr_args(&t->want));
		if (mask && got)
			kunit_err(test, "got:      1, CPUs %*pbl\n", cpumask_pr_args(&t->lowest));
		else
			kunit_err(test, "got:      %d%s\n",
				  got, mask ? "" : ", lowest_mask was NULL");
		return;
	}
	kunit_info(test, "%d finds found CPUs, %d of them unfit ones, %d found none\n",
		   found, unfit, missed);
	KUNIT_EXPECT_GT(test, found, 0);
	KUNIT_EXPECT_GT(test, unfit, 0);
	KUNIT_EXPECT_GT(test, missed, 0);
}

/* A task finds a CPU if and only if it is more urgent than what runs there. */
static void priority_pairs(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu = last_cpu();
	int runs, wakes;

	only(&t->affinity, cpu);
	for (runs = -1; runs <= 100; runs++) {
		set_prio(t, cpu, runs);
		for (wakes = -1; wakes <= 100; wakes++) {
			bool want = runs != -1 && level_of(runs) < level_of(wakes);

			if (find(t, wakes, &t->affinity) == want)
				continue;
			KUNIT_FAIL(test, "a CPU at prio %d %s found for prio %d",
				   runs, want ? "is not" : "is", wakes);
			break;	/* one line for each wrong priority is enough */
		}
		cond_resched();
	}
}

/* ---- directed cases: one property each, so that a failure has a name ---- */

static void expect_found(struct kunit *test, int prio, const struct cpumask *affinity,
			 const struct cpumask *want, const char *when)
{
	struct cpupri_test *t = test->priv;

	if (!find(t, prio, affinity))
		KUNIT_FAIL(test, "%s: no CPU found, expected %*pbl",
			   when, cpumask_pr_args(want));
	else if (!cpumask_equal(&t->lowest, want))
		KUNIT_FAIL(test, "%s: found CPUs %*pbl, expected %*pbl",
			   when, cpumask_pr_args(&t->lowest), cpumask_pr_args(want));
}

static void expect_none(struct kunit *test, int prio, const struct cpumask *affinity,
			const char *when)
{
	struct cpupri_test *t = test->priv;

	if (find(t, prio, affinity))
		KUNIT_FAIL(test, "%s: found CPUs %*pbl, expected none",
			   when, cpumask_pr_args(&t->lowest));
}

/* A CPU whose runqueue is offline is never found. */
static void invalid_never_found(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;

	expect_none(test, 100, cpu_possible_mask, "right after cpupri_init()");
	for_each_possible_cpu(cpu)
		set_prio(t, cpu, 99);
	expect_found(test, 98, cpu_active_mask, cpu_active_mask, "all CPUs set");
	for_each_possible_cpu(cpu)
		set_prio(t, cpu, CPUPRI_INVALID);
	expect_none(test, 100, cpu_possible_mask, "all CPUs set to CPUPRI_INVALID");
}

static void lowest_level_wins(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	needs_two_cpus(test);
	set_prio(t, first_cpu(), 50);
	set_prio(t, last_cpu(), 60);
	expect_found(test, 0, cpu_possible_mask, only(&t->want, last_cpu()), "prio 60 or 50");
	set_prio(t, first_cpu(), 70);
	expect_found(test, 0, cpu_possible_mask, only(&t->want, first_cpu()), "prio 60 or 70");
}

#define TIMED_SETS	20000
#define TIMED_FINDS	2000

/* Nothing limits these times. They tell ways to store the masks apart. */
static void print_times(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int nr = num_possible_cpus(), rounds = DIV_ROUND_UP(TIMED_SETS, nr);
	u64 start, set, one, all;
	int i, cpu;

	start = ktime_get_ns();
	for (i = 0; i < rounds; i++)
		for_each_possible_cpu(cpu)
			cpupri_set(&t->cp, cpu, 97 + i % 3);
	set = ktime_get_ns() - start;

	for_each_possible_cpu(cpu)
		set_prio(t, cpu, 98);
	start = ktime_get_ns();
	for (i = 0; i < TIMED_FINDS; i++)
		find(t, 0, cpu_possible_mask);
	all = ktime_get_ns() - start;

	only(&t->affinity, last_cpu());
	start = ktime_get_ns();
	for (i = 0; i < TIMED_FINDS; i++)
		find(t, 0, &t->affinity);
	one = ktime_get_ns() - start;

	kunit_info(test, "%d CPUs: set %llu ps, find one %llu ps, find all %llu ps\n", nr,
		   div_u64(set * 1000, rounds * nr), div_u64(one * 1000, TIMED_FINDS),
		   div_u64(all * 1000, TIMED_FINDS));
}

/* The caller chooses the nearest CPU of the level, so it needs all of them. */
static void whole_level_returned(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;

	needs_two_cpus(test);
	for_each_possible_cpu(cpu)
		set_prio(t, cpu, 40);
	expect_found(test, 0, cpu_active_mask, cpu_active_mask, "all CPUs at prio 40");
	set_prio(t, last_cpu(), 30);
	cpumask_copy(&t->want, cpu_active_mask);
	cpumask_clear_cpu(last_cpu(), &t->want);
	expect_found(test, 0, cpu_active_mask, &t->want, "the last CPU raised to prio 30");
	print_times(test);
}

static void inactive_never_returned(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	int cpu;

	if (cpumask_equal(cpu_active_mask, cpu_possible_mask))
		kunit_skip(test, "needs an inactive CPU: boot with maxcpus=");
	for_each_possible_cpu(cpu)
		set_prio(t, cpu, cpu_active(cpu) ? 50 : 99);
	expect_found(test, 0, cpu_possible_mask, cpu_active_mask, "only inactive CPUs at prio 99");
	set_prio(t, last_cpu(), 99);
	expect_found(test, 0, cpu_possible_mask, only(&t->want, last_cpu()),
		     "an active CPU among inactive ones at prio 99");
	cpumask_andnot(&t->affinity, cpu_possible_mask, cpu_active_mask);
	expect_none(test, 0, &t->affinity, "only inactive CPUs allowed");
}

/* Lower levels whose CPUs the task may not use do not end the search. */
static void affinity_respected(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	needs_two_cpus(test);
	set_prio(t, first_cpu(), 99);
	only(&t->affinity, last_cpu());
	expect_none(test, 0, &t->affinity, "the only CPU allowed takes no part");
	KUNIT_EXPECT_FALSE(test, cpupri_find(&t->cp, &t->task, NULL));
	set_prio(t, last_cpu(), 50);
	expect_found(test, 0, &t->affinity, &t->affinity, "the only CPU allowed is at prio 50");
	KUNIT_EXPECT_TRUE(test, cpupri_find(&t->cp, &t->task, NULL));
}

/* Setting the same priority again must not remove the CPU from its level. */
static void same_prio_set_twice(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	set_prio(t, last_cpu(), 50);
	set_prio(t, last_cpu(), 50);
	expect_found(test, 0, cpu_possible_mask, only(&t->want, last_cpu()), "prio 50, twice");
}

static void expect_fitting(struct kunit *test, const struct cpumask *want)
{
	struct cpupri_test *t = test->priv;

	t->task.prio = 0;
	cpumask_copy(&t->task.cpus_mask, cpu_possible_mask);
	KUNIT_EXPECT_TRUE(test, cpupri_find_fitness(&t->cp, &t->task, &t->lowest, task_fits));
	KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(&t->lowest, want),
			      "found CPUs %*pbl, expected %*pbl, the task fits %*pbl",
			      cpumask_pr_args(&t->lowest), cpumask_pr_args(want),
			      cpumask_pr_args(&t->fit));
}

static void fitness_before_level(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	needs_two_cpus(test);
	set_prio(t, first_cpu(), 99);
	set_prio(t, last_cpu(), 50);
	only(&t->fit, last_cpu());
	expect_fitting(test, &t->fit);
}

/* A task that fits on no CPU is placed as if fitness were not checked. */
static void fitness_falls_back(struct kunit *test)
{
	struct cpupri_test *t = test->priv;

	needs_two_cpus(test);
	set_prio(t, first_cpu(), 99);
	set_prio(t, last_cpu(), 50);
	expect_fitting(test, only(&t->want, first_cpu()));
}

/* ---- raise_never_missed: a CPU whose priority rises is always found ---- */

/*
 * cpupri_set() enters the new level before it leaves the old one. A find goes
 * up the levels, so it meets a rising CPU at one of them. A falling CPU may be
 * missed; a pull follows. The setter therefore makes seq odd before it lowers
 * the CPU, and a find during which seq changed does not count.
 *
 * The CPU rises by two levels at a time. No barrier orders the read of a
 * level's mask before the read of the next level's count. So where reads are
 * reordered, a rise by one level can be missed. In a rise by two, the read
 * barrier of the level in between orders the reads.
 *
 * The case ends after RAISE_OVERLAPS finds during which the CPU rose, and in
 * any case after RAISE_ROUNDS rounds. If the threads share a CPU of the host,
 * such a find is one that was preempted. So the setter waits for a find to end
 * before the next rise, but not for longer than RAISE_SPINS.
 */
#define RAISE_OVERLAPS	2000
#define RAISE_ROUNDS	200
#define RAISE_SPINS	10000

struct raise {
	struct cpupri_test	*t;
	int			cpu;
	unsigned int		seq;
	int			prio;
	bool			done;
	unsigned int		finds, checked, overlaps, missed, wrong;
};

static void raise_to(struct raise *r, int prio)
{
	preempt_disable();	/* as under the runqueue's lock */
	cpupri_set(&r->t->cp, r->cpu, prio);
	preempt_enable();
}

static void raise_wait(struct raise *r)
{
	unsigned int finds = READ_ONCE(r->finds);
	int spins;

	for (spins = RAISE_SPINS; spins && READ_ONCE(r->finds) == finds; spins--)
		cpu_relax();
	/* The next rise meets the next find at any of its levels. */
	for (spins = below(r->t, 16); spins; spins--)
		cpu_relax();
}

static void raise_set(void *data)
{
	struct raise *r = data;
	int round, prio;

	for (round = 0; round < RAISE_ROUNDS; round++) {
		if (READ_ONCE(r->overlaps) >= RAISE_OVERLAPS)
			break;
		WRITE_ONCE(r->seq, r->seq + 1);
		smp_mb(); /* seq is odd before the fall ... */
		raise_to(r, 99);
		smp_mb(); /* ... and until after it */
		WRITE_ONCE(r->seq, r->seq + 1);
		for (prio = 97; prio > 0; prio -= 2) {
			raise_to(r, prio);
			WRITE_ONCE(r->prio, prio);
			raise_wait(r);
		}
		cond_resched();
	}
	WRITE_ONCE(r->done, true);
}

static void raise_find(void *data)
{
	struct raise *r = data;
	struct cpupri_test *t = r->t;

	for (; !READ_ONCE(r->done); cond_resched()) {
		unsigned int seq = READ_ONCE(r->seq);
		int prio = READ_ONCE(r->prio);
		bool found;

		if (!seq || seq & 1) {
			cpu_relax();
			continue;
		}
		smp_mb(); /* seq is read before the levels ... */
		found = find(t, 0, &t->affinity);
		smp_mb(); /* ... and after them */
		WRITE_ONCE(r->finds, r->finds + 1);
		if (READ_ONCE(r->seq) != seq)
			continue;
		r->checked++;
		if (!found)
			r->missed++;
		else if (!cpumask_equal(&t->lowest, &t->affinity))
			r->wrong++;
		if (READ_ONCE(r->prio) != prio)
			WRITE_ONCE(r->overlaps, r->overlaps + 1);
	}
}

static void raise_never_missed(struct kunit *test)
{
	struct cpupri_test *t = test->priv;
	struct raise r = { .t = t, .cpu = last_cpu() };
	struct cpupri_thread threads[] = { { raise_set, &r }, { raise_find, &r } };

	if (cpupri_test_cpus() < 2)
		kunit_skip(test, "needs two online CPUs");
	only(&t->affinity, r.cpu);
	KUNIT_ASSERT_EQ(test, cpupri_run_threads(threads, 2, 2), 0);
	kunit_info(test, "%u rounds, %u finds, CPU rose during %u, %u missed\n",
		   r.seq / 2, r.checked, r.overlaps, r.missed);
	KUNIT_EXPECT_EQ(test, r.missed, 0);
	KUNIT_EXPECT_EQ_MSG(test, r.wrong, 0, "found other CPUs than the one there is");
	KUNIT_EXPECT_GT_MSG(test, r.overlaps, 0, "the CPU rose during no find");
}

static struct kunit_case sched_cpupri_test_cases[] = {
	KUNIT_CASE(oracle),
	KUNIT_CASE(priority_pairs),
	KUNIT_CASE(invalid_never_found),
	KUNIT_CASE(lowest_level_wins),
	KUNIT_CASE(whole_level_returned),
	KUNIT_CASE(inactive_never_returned),
	KUNIT_CASE(affinity_respected),
	KUNIT_CASE(same_prio_set_twice),
	KUNIT_CASE(fitness_before_level),
	KUNIT_CASE(fitness_falls_back),
	KUNIT_CASE(raise_never_missed),
	{}
};

static struct kunit_suite sched_cpupri_test_suite = {
	.name = "sched_cpupri",
	.init = cpupri_test_init,
	.exit = cpupri_test_exit,
	.test_cases = sched_cpupri_test_cases,
};

#else

static void needs_smp(struct kunit *test)
{
	kunit_skip(test, "this kernel has cpupri only with CONFIG_SMP");
}

static struct kunit_case sched_cpupri_test_cases[] = {
	KUNIT_CASE(needs_smp),
	{}
};

static struct kunit_suite sched_cpupri_test_suite = {
	.name = "sched_cpupri",
	.test_cases = sched_cpupri_test_cases,
};

#endif

kunit_test_suite(sched_cpupri_test_suite);
