/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that reads cpupri's masks. Include "../sched.h" first.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H
#define _KERNEL_SCHED_TESTS_SCHED_CPUPRI_HOLDS_H

static bool cpupri_holds(struct cpupri *cp, int level, int cpu)
{
#if defined(CONFIG_SCHED_CPUPRI_GLOBAL) || defined(CONFIG_SCHED_CPUPRI_SPLIT)
	/* A kernel with cpupri-split sets one of these. */
	return cpupri_has_cpu(cp, level, cpu);
#else
	return cpumask_test_cpu(cpu, cp->pri_to_cpu[level].mask);
#endif
}

#endif
