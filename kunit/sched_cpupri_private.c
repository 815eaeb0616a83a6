// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of sched_cpupri_kunit.c on a private copy of kernel/sched/cpupri.c. It
 * is the kernel's code under other names. KCSAN sees the copy: kernel/sched/
 * is exempt from it, and this file is not.
 */

/* before sched.h, which declares them */
#define cpupri_find		private_cpupri_find
#define cpupri_find_fitness	private_cpupri_find_fitness
#define cpupri_set		private_cpupri_set
#define cpupri_init		private_cpupri_init
#define cpupri_cleanup		private_cpupri_cleanup

#include <kunit/test.h>
#include <linux/math64.h>
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>
#include <linux/timekeeping.h>

#include "../sched.h"
#include "../cpupri.c"

/* The whole suite is registered by its own file. */
#undef kunit_test_suite
#define kunit_test_suite(suite) \
	static struct kunit_suite *registered_there __maybe_unused = &(suite)

#include "sched_cpupri_kunit.c"

#define TIMED_SETS	20000
#define TIMED_FINDS	2000

/* Nothing limits these times. They tell ways to store the masks apart. */
static void cost(struct kunit *test)
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

static struct kunit_case sched_cpupri_private_test_cases[] = {
	KUNIT_CASE(cost),
	KUNIT_CASE(counts_are_the_weights_of_the_masks),
	KUNIT_CASE(rising_cpu_is_never_missed),
	{}
};

static struct kunit_suite sched_cpupri_private_test_suite = {
	.name = "sched_cpupri_private",
	.init = cpupri_test_init,
	.exit = cpupri_test_exit,
	.test_cases = sched_cpupri_private_test_cases,
};

kunit_test_suites(&sched_cpupri_private_test_suite);
