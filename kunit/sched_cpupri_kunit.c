// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of kernel/sched/cpupri.c, through its public functions only.
 *
 * To repeat a failure of a random case: sched_cpupri_kunit.seed=N on the
 * kernel command line.
 */
#include <kunit/test.h>
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>

#include "../sched.h"

/*
 * Without CONFIG_SMP, kernels have cpupri only since they use the same
 * scheduler code as SMP kernels. Before that, ENQUEUE_MIGRATED is 0.
 * Link: https://lore.kernel.org/lkml/20250528080924.2273858-1-mingo@kernel.org/
 */
#if defined(CONFIG_SMP) || ENQUEUE_MIGRATED

static void change_active(struct rnd_state *rnd)
{
	/* use the machine's own active CPUs */
}

#include "sched_cpupri_cases.h"

static struct kunit_case sched_cpupri_test_cases[] = {
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
