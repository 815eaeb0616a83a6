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
#include <linux/mmu_context.h>
#include <linux/sched/cputime.h>

#include "../sched.h"
#include "../cpupri.c"

/* The whole suite is registered by its own file. */
#undef kunit_test_suite
#define kunit_test_suite(suite) \
	static struct kunit_suite *registered_there __maybe_unused = &(suite)

#include "sched_cpupri_kunit.c"

static struct kunit_case sched_cpupri_private_test_cases[] = {
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
