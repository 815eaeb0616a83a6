/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wrapped scheduler files include this first. It lets a fake topology
 * override what the architecture reports about a CPU.
 */
#ifndef _KERNEL_SCHED_TESTS_WRAP_ARCH_H
#define _KERNEL_SCHED_TESTS_WRAP_ARCH_H

#include <linux/sched.h>
#include <linux/sched/topology.h>
#include <linux/topology.h>

const struct cpumask *sched_fake_smt_mask(int cpu);
unsigned long sched_fake_capacity(int cpu);
bool sched_fake_vcpu_is_preempted(int cpu);

static inline const struct cpumask *arch_smt_mask(int cpu)
{
	return cpu_smt_mask(cpu);
}

static inline unsigned long arch_capacity(int cpu)
{
	return arch_scale_cpu_capacity(cpu);
}

static inline bool arch_vcpu_is_preempted(int cpu)
{
	return vcpu_is_preempted(cpu);
}

#undef cpu_smt_mask
#define cpu_smt_mask(cpu)		sched_fake_smt_mask(cpu)
#undef arch_scale_cpu_capacity
#define arch_scale_cpu_capacity(cpu)	sched_fake_capacity(cpu)
#undef vcpu_is_preempted
#define vcpu_is_preempted(cpu)		sched_fake_vcpu_is_preempted(cpu)

#endif /* _KERNEL_SCHED_TESTS_WRAP_ARCH_H */
