// SPDX-License-Identifier: GPL-2.0
/*
 * What does it cost to keep a CPU's bit in a mask that other CPUs write, too?
 * The experiment behind cpupri-split, in the kernel; cpumask_contention in
 * tools/testing/selftests/sched_latency/ is its twin in user space.
 *
 * On each CPU two threads take turns, of which one sets the bit of its CPU and
 * the other one clears it. The mask is one for all CPUs or one for each
 * node or last level cache, or the cache has a byte for each CPU, which needs
 * no locked instruction. The figures are for the log: no machine is too slow.
 * What is judged is that no bit gets lost, and that groups share no line.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/math64.h>
#include <linux/mmu_context.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>

#include "../sched.h"
#include "sched_cpupri_threads.h"

static unsigned int cpus = 16;
module_param(cpus, uint, 0444);
MODULE_PARM_DESC(cpus, "how many CPUs take part; on a machine with many, all of them are wanted");

#define ROUNDS		3
#define ALL_TURNS	1000	/* of all threads that set, in a round */

enum mask_kind { MASK_NONE, MASK_GLOBAL, MASK_NODE, MASK_LLC, MASK_LLC_BYTES };

static const struct mask_case {
	char		name[16];
	enum mask_kind	kind;
} mask_cases[] = {
	{ "node", MASK_NODE },
	{ "llc", MASK_LLC },
	{ "llc-bytes", MASK_LLC_BYTES },
};

static void mask_case_desc(const struct mask_case *variant, char *desc)
{
	strscpy(desc, variant->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mask_cases, mask_cases, mask_case_desc);

/* One CPU: where its bit is, and whose turn it is of its two threads. */
struct seat {
	enum mask_kind	kind;
	unsigned long	*mask;
	int		place;
	u64		ns;
	unsigned int	lost;
	struct completion turn[2];	/* to clear, and to set */
} ____cacheline_aligned;

static struct seat *seats;
static struct cpumask taking_part;
static int nr_turns;	/* of each thread */

static int group_of(enum mask_kind kind, int cpu)
{
	switch (kind) {
	case MASK_NODE:
		return cpu_to_node(cpu);
#ifdef CONFIG_SMP
	case MASK_LLC:
	case MASK_LLC_BYTES:
		return per_cpu(sd_llc_id, cpu);
#endif
	default:
		return 0;
	}
}

/* The first CPU of a group has its mask; returns how many groups there are. */
static int take_seats(struct kunit *test, enum mask_kind kind)
{
	size_t size = roundup(nr_cpu_ids, SMP_CACHE_BYTES);
	int cpu, other, groups = 0;

	for_each_cpu(cpu, &taking_part) {
		struct seat *seat = &seats[cpu];

		*seat = (struct seat){ .kind = kind };
		init_completion(&seat->turn[false]);
		init_completion(&seat->turn[true]);
		complete(&seat->turn[true]);
		for_each_cpu(other, &taking_part) {
			if (other == cpu)
				break;
			if (group_of(kind, other) != group_of(kind, cpu))
				continue;
			seat->mask = seats[other].mask;
			seat->place++;
		}
		if (seat->mask)
			continue;
		/* Of at least a line, so it begins one. */
		seat->mask = kzalloc_node(size, GFP_KERNEL, cpu_to_node(cpu));
		KUNIT_ASSERT_NOT_NULL(test, seat->mask);
		KUNIT_ASSERT_TRUE(test, IS_ALIGNED((uintptr_t)seat->mask, SMP_CACHE_BYTES));
		groups++;
	}
	return groups;
}

static bool is_set(const struct seat *seat)
{
	if (seat->kind == MASK_LLC_BYTES)
		return ((u8 *)seat->mask)[seat->place];
	return test_bit(seat->place, seat->mask);
}

static void operate(struct seat *seat, bool sets)
{
	switch (seat->kind) {
	case MASK_NONE:
		break;
	case MASK_LLC_BYTES:
		WRITE_ONCE(((u8 *)seat->mask)[seat->place], sets);
		break;
	default:
		if (sets)
			set_bit(seat->place, seat->mask);
		else
			clear_bit(seat->place, seat->mask);
	}
}

static void take_turns(struct seat *seat, bool sets)
{
	int turn;

	for (turn = 0; turn < nr_turns; turn++) {
		u64 start;

		wait_for_completion(&seat->turn[sets]);
		/* What the other thread did is still so, whatever other CPUs did. */
		seat->lost += seat->kind != MASK_NONE && is_set(seat) == sets;
		preempt_disable();
		start = ktime_get_ns();
		operate(seat, sets);
		seat->ns += ktime_get_ns() - start;
		preempt_enable();
		complete(&seat->turn[!sets]);
	}
}

static void set_in_turn(void *data)
{
	take_turns(data, true);
}

static void clear_in_turn(void *data)
{
	take_turns(data, false);
}

/* Mean time of an operation in ps, over all CPUs; groups of @kind in *@groups. */
static u64 measure(struct kunit *test, enum mask_kind kind, int *groups)
{
	int nr = cpumask_weight(&taking_part), cpu, i = 0, lost = 0;
	struct cpupri_thread *threads = kunit_kcalloc(test, 2 * nr, sizeof(*threads), GFP_KERNEL);
	u64 ns = 0;

	KUNIT_ASSERT_NOT_NULL(test, threads);
	*groups = take_seats(test, kind);
	/* The thread after the last CPU's is on the first CPU again. */
	for_each_cpu(cpu, &taking_part) {
		threads[i] = (struct cpupri_thread){ set_in_turn, &seats[cpu] };
		threads[nr + i++] = (struct cpupri_thread){ clear_in_turn, &seats[cpu] };
	}
	KUNIT_ASSERT_EQ(test, cpupri_run_threads(threads, 2 * nr, nr), 0);
	for_each_cpu(cpu, &taking_part) {
		ns += seats[cpu].ns;
		lost += seats[cpu].lost + (kind != MASK_NONE && is_set(&seats[cpu]));
	}
	for_each_cpu(cpu, &taking_part) {
		if (!seats[cpu].place)
			kfree(seats[cpu].mask);
	}
	KUNIT_EXPECT_EQ_MSG(test, lost, 0, "bits that another CPU overwrote");
	kunit_kfree(test, threads);
	return div_u64(ns * 1000, 2 * nr * nr_turns);
}

static u64 less(u64 measured, u64 empty)
{
	return measured > empty ? measured - empty : 0;
}

/* The ratio to a global mask is that of one round, in which both are measured. */
static void contention(struct kunit *test)
{
	const struct mask_case *variant = test->param_value;
	u64 lowest = U64_MAX, highest = 0;
	int cpu, nr = 0, groups, round;

	seats = kunit_kcalloc(test, nr_cpu_ids, sizeof(*seats), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seats);
	cpus_read_lock();
	cpumask_clear(&taking_part);
	for_each_online_cpu(cpu) {
		if (nr == max(cpus, 1U))
			break;
		cpumask_set_cpu(cpu, &taking_part);
		nr++;
	}
	nr_turns = max(20, ALL_TURNS / nr);
	for (round = 0; round < ROUNDS; round++) {
		u64 empty = measure(test, MASK_NONE, &groups);
		u64 global = less(measure(test, MASK_GLOBAL, &groups), empty);
		u64 own = less(measure(test, variant->kind, &groups), empty);
		u64 permille = div64_u64(own * 1000, max(global, 1ULL));

		kunit_info(test, "%d CPUs, %d groups: empty %llu ps, global %llu ps, %s %llu ps\n",
			   nr, groups, empty, global, variant->name, own);
		lowest = min(lowest, permille);
		highest = max(highest, permille);
	}
	cpus_read_unlock();
	if (groups < 2 && variant->kind != MASK_LLC_BYTES)
		kunit_info(test, "one group: the masks are the same, there is nothing to compare\n");
	else if (nr < 4)
		kunit_info(test, "few CPUs: they hardly contend, a ratio would mean nothing\n");
	else
		kunit_info(test, "%s takes %llu to %llu per mille of the global mask\n",
			   variant->name, lowest, highest);
}

static struct kunit_case sched_mask_cases[] = {
	/* 39e92cb1e4a1 ("kunit: Add test attributes API structure") */
#ifdef KUNIT_CASE_PARAM_ATTR
	KUNIT_CASE_PARAM_ATTR(contention, mask_cases_gen_params, { .speed = KUNIT_SPEED_SLOW }),
#else
	KUNIT_CASE_PARAM(contention, mask_cases_gen_params),
#endif
	{}
};

static struct kunit_suite sched_mask_suite = {
	.name		= "sched_mask",
	.test_cases	= sched_mask_cases,
};

kunit_test_suite(sched_mask_suite);
