/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sched domains as another machine would have them, for KUnit tests.
 *
 * A test says which CPUs share what. The kernel's own code builds the domains
 * from that, and nothing that it computes is changed afterwards.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H
#define _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H

#include <linux/bits.h>
#include <linux/types.h>

struct kunit;

/* Sets of the first CPUs: one, or from @a to @b. */
#define CPU(n)		BIT(n)
#define CPUS(a, b)	GENMASK(b, a)

/*
 * Who shares what with whom. A size counts neighbouring CPUs: CPUs with the same
 * cpu / size belong together. Each size is a multiple of the smaller ones.
 */
struct sched_test_topology {
	const char	*name;		/* for messages */
	unsigned int	cpus;		/* the test needs the CPUs below this one */
	unsigned int	cluster;	/* CPUs in a cluster, 0 for no clusters */
	unsigned int	clustered;	/* only the CPUs below this one have clusters, 0 for all */
	unsigned int	llc;		/* CPUs below a last level cache */
	unsigned int	smt;		/* threads that a core of this machine must have, 0 for 1 */
	bool		no_machine;	/* no domain has the CPUs of more than one LLC */
	unsigned int	little;		/* the first CPUs of each LLC have less capacity */
	bool		packing;	/* an LLC fills its better CPUs first */
};

/* Capacities of big and little CPUs. */
#define SCHED_TEST_BIG		1024
#define SCHED_TEST_LITTLE	512

/*
 * They last until the end of the test. It is skipped where this machine cannot
 * have the topology.
 */
void sched_test_needs_cpus(struct kunit *test, int nr);
void sched_test_install(struct kunit *test, const struct sched_test_topology *t);
void sched_test_set_feature(struct kunit *test, unsigned int feature, bool on);

/* Which of the first CPUs a task may use: the test fails if it may not. */
void sched_test_allow(struct kunit *test, struct task_struct *p, unsigned long cpus);

#endif /* _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H */
