/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets a fake topology replace what the architecture reports about a CPU: its
 * SMT siblings, its capacity, and whether the host has preempted it.
 * kernel/sched/sched.h includes this file, so the whole scheduler asks the fake
 * topology. While none is installed, it gets
 * the architecture's answer.
 *
 * KUNIT_STATIC_STUB_REDIRECT() cannot do this. The scheduler asks in contexts
 * that do not belong to a test, such as the stopper threads, where
 * current->kunit_test is not set. And the functions are inlines in headers of
 * other subsystems.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_FAKE_ARCH_H
#define _KERNEL_SCHED_TESTS_SCHED_FAKE_ARCH_H

#include <linux/sched.h>
#include <linux/sched/topology.h>
#include <linux/topology.h>

const struct cpumask *sched_fake_smt_mask(int cpu);
unsigned long sched_fake_capacity(int cpu);
bool sched_fake_vcpu_is_preempted(int cpu);

static inline const struct cpumask *sched_real_smt_mask(int cpu)
{
	return cpu_smt_mask(cpu);
}

static inline unsigned long sched_real_capacity(int cpu)
{
	return arch_scale_cpu_capacity(cpu);
}

static inline bool sched_real_vcpu_is_preempted(int cpu)
{
	return vcpu_is_preempted(cpu);
}

#undef cpu_smt_mask
#define cpu_smt_mask(cpu)		sched_fake_smt_mask(cpu)
#undef arch_scale_cpu_capacity
#define arch_scale_cpu_capacity(cpu)	sched_fake_capacity(cpu)
#undef vcpu_is_preempted
#define vcpu_is_preempted(cpu)		sched_fake_vcpu_is_preempted(cpu)

#endif /* _KERNEL_SCHED_TESTS_SCHED_FAKE_ARCH_H */
