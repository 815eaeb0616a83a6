/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that reads cpupri's masks and counts. Include "../sched.h"
 * first.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H
#define _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H

static bool cpupri_holds(struct cpupri *cp, int level, int cpu)
{
#if defined(CONFIG_SCHED_CPUPRI_GLOBAL) || defined(CONFIG_SCHED_CPUPRI_ARRAYS) || \
	defined(CONFIG_SCHED_CPUPRI_SPLIT)
	/* A kernel with cpupri-split sets one of these. */
	return cpupri_has_cpu(cp, level, cpu);
#else
	return cpumask_test_cpu(cpu, cp->pri_to_cpu[level].mask);
#endif
}

static int cpupri_counted(struct cpupri *cp, int level)
{
#if defined(CONFIG_SCHED_CPUPRI_GLOBAL) || defined(CONFIG_SCHED_CPUPRI_ARRAYS) || \
	defined(CONFIG_SCHED_CPUPRI_SPLIT)
	return atomic_read(cpupri_count(cp, level));
#else
	return atomic_read(&cp->pri_to_cpu[level].count);
#endif
}

#endif
