/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that reads cpupri's masks and counts. Include "../sched.h"
 * first.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H
#define _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H

#ifndef SCHED_KUNIT_EXPORTED
/* A kernel with cpupri-split sets one of these, and has these functions. */
#endif
#if !defined(CONFIG_SCHED_CPUPRI_SPLIT) && !defined(CONFIG_SCHED_CPUPRI_SBM)
#if !defined(CONFIG_SCHED_CPUPRI_GLOBAL) && !defined(CONFIG_SCHED_CPUPRI_ARRAYS)
static bool cpupri_has_cpu(struct cpupri *cp, int level, int cpu)
{
	return cpumask_test_cpu(cpu, cp->pri_to_cpu[level].mask);
}

static atomic_t *cpupri_count(struct cpupri *cp, int level)
{
	return &cp->pri_to_cpu[level].count;
}

#ifndef SCHED_KUNIT_EXPORTED
static __maybe_unused atomic_t *rd_rto_count(struct root_domain *rd, int cpu)
{
	return &rd->rto_count;
}
#endif
#endif
#endif

#endif
