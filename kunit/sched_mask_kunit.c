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
#define FEWEST_TURNS	20	/* of each thread, in a phase ... */
#define PHASE_NS	(10 * NSEC_PER_MSEC)	/* ... that takes so long at least */

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
	unsigned int	lost, rounds;
	bool		last;
	struct completion turn[2];	/* to clear, and to set */
} ____cacheline_aligned;

static struct seat *seats;
static struct cpumask taking_part;
static u64 deadline;

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

/* The first CPU of a group has its mask; returns how many groups there are, or an error. */
static int take_seats(enum mask_kind kind)
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
		if (!seat->mask)
			return -ENOMEM;
		if (!IS_ALIGNED((uintptr_t)seat->mask, SMP_CACHE_BYTES))
			return -EINVAL;
		groups++;
	}
	return groups;
}

static void leave_seats(void)
{
	int cpu;

	for_each_cpu(cpu, &taking_part) {
		if (!seats[cpu].place)
			kfree(seats[cpu].mask);
		seats[cpu].mask = NULL;
	}
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
	bool last;

	do {
		u64 start, end;

		wait_for_completion(&seat->turn[sets]);
		/* What the other thread did is still so, whatever other CPUs did. */
		seat->lost += seat->kind != MASK_NONE && is_set(seat) == sets;
		preempt_disable();
		start = ktime_get_ns();
		operate(seat, sets);
		end = ktime_get_ns();
		preempt_enable();
		seat->ns += end - start;
		if (sets)
			seat->last = ++seat->rounds >= FEWEST_TURNS && end >= deadline;
		last = seat->last;
		complete(&seat->turn[!sets]);
	} while (!last);
}

/* In each phase one kind of mask is measured, on all CPUs at the same time. */
static struct phase {
	enum mask_kind		kind;
	struct completion	begin, end;
	int			groups, lost;
	u64			ps;	/* mean of an operation */
} phases[3 * ROUNDS];

static atomic_t at_work;

static void work_through(struct seat *seat, bool sets)
{
	struct phase *p;

	for (p = phases; p < phases + ARRAY_SIZE(phases); p++) {
		wait_for_completion(&p->begin);
		if (p->groups > 0)
			take_turns(seat, sets);
		if (atomic_dec_and_test(&at_work))
			complete(&p->end);
	}
}

static void set_in_turn(void *data)
{
	work_through(data, true);
}

static void clear_in_turn(void *data)
{
	work_through(data, false);
}

static void conduct(void *data)
{
	struct phase *p;
	int cpu;

	for (p = phases; p < phases + ARRAY_SIZE(phases); p++) {
		u64 ns = 0;
		int turns = 0;

		p->groups = take_seats(p->kind);
		atomic_set(&at_work, 2 * cpumask_weight(&taking_part));
		deadline = ktime_get_ns() + PHASE_NS;
		complete_all(&p->begin);
		wait_for_completion(&p->end);
		for_each_cpu(cpu, &taking_part) {
			ns += seats[cpu].ns;
			turns += 2 * seats[cpu].rounds;
			p->lost += seats[cpu].lost;
			if (p->groups > 0 && p->kind != MASK_NONE)
				p->lost += is_set(&seats[cpu]);
		}
		p->ps = turns ? div_u64(ns * 1000, turns) : 0;
		leave_seats();
	}
}

static u64 less(u64 measured, u64 empty)
{
	return measured > empty ? measured - empty : 0;
}

static void choose_cpus(void)
{
	int cpu, nr = 0;

	cpumask_clear(&taking_part);
	for_each_online_cpu(cpu) {
		if (nr++ < max(cpus, 1U))
			cpumask_set_cpu(cpu, &taking_part);
	}
}

static int measure(struct kunit *test, enum mask_kind kind)
{
	const enum mask_kind kinds[] = { MASK_NONE, MASK_GLOBAL, kind };
	int nr = cpumask_weight(&taking_part), cpu, i = 0;
	struct cpupri_thread *threads = kunit_kcalloc(test, 2 * nr + 1, sizeof(*threads),
						      GFP_KERNEL);

	seats = kunit_kcalloc(test, nr_cpu_ids, sizeof(*seats), GFP_KERNEL);
	if (!threads || !seats)
		return -ENOMEM;
	/* The thread after the last CPU's is on the first CPU again. */
	for_each_cpu(cpu, &taking_part) {
		threads[i] = (struct cpupri_thread){ set_in_turn, &seats[cpu] };
		threads[nr + i++] = (struct cpupri_thread){ clear_in_turn, &seats[cpu] };
	}
	threads[2 * nr] = (struct cpupri_thread){ conduct, NULL };
	for (i = 0; i < ARRAY_SIZE(phases); i++) {
		phases[i] = (struct phase){ .kind = kinds[i % 3] };
		init_completion(&phases[i].begin);
		init_completion(&phases[i].end);
	}
	return cpupri_run_threads(threads, 2 * nr + 1, nr);
}

/* The ratio to a global mask is that of one round, in which both are measured. */
static void contention(struct kunit *test)
{
	const struct mask_case *variant = test->param_value;
	u64 lowest = U64_MAX, highest = 0;
	int nr, err, groups = 0;
	bool noise = false;
	struct phase *p;

	cpus_read_lock();
	choose_cpus();
	nr = cpumask_weight(&taking_part);
	err = measure(test, variant->kind);
	cpus_read_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
	for (p = phases; p < phases + ARRAY_SIZE(phases); p += 3) {
		u64 global = less(p[1].ps, p[0].ps), own = less(p[2].ps, p[0].ps);
		u64 permille = div64_u64(own * 1000, max(global, 1ULL));

		/* What the clock takes varies more than this. */
		noise |= global < p->ps / 10;
		groups = p[2].groups;
		KUNIT_EXPECT_EQ(test, p[1].groups, 1);
		KUNIT_EXPECT_GT(test, groups, 0);
		KUNIT_EXPECT_EQ_MSG(test, p[1].lost + p[2].lost, 0, "bits that CPUs overwrote");
		kunit_info(test, "%d CPUs, %d groups: empty %llu ps, global %llu ps, %s %llu ps\n",
			   nr, groups, p->ps, global, variant->name, own);
		lowest = min(lowest, permille);
		highest = max(highest, permille);
	}
	if (groups < 2 && variant->kind != MASK_LLC_BYTES)
		kunit_info(test, "one group: the masks are the same, there is nothing to compare\n");
	else if (nr < 4)
		kunit_info(test, "few CPUs: they hardly contend, a ratio would mean nothing\n");
	else if (noise)
		kunit_info(test, "an operation is lost in the noise, a ratio would mean nothing\n");
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
