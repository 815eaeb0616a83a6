/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sched domains as another machine would have them, for KUnit tests.
 *
 * A test says which CPUs share what. The kernel's own code builds the domains
 * from that, and nothing that it computes is changed afterwards.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H
#define _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H

#include <linux/types.h>

struct kunit;

/**
 * struct sched_test_topology - who shares what with whom
 * @name:	for messages
 * @cpus:	the test needs the CPUs from 0 on up to this number
 * @cluster:	CPUs in a cluster, 0 for no clusters
 * @clustered:	only the CPUs below this one have clusters, 0 for all
 * @llc:	CPUs below a last level cache
 * @smt:	threads of a core that the machine itself must have, 0 for one
 * @no_machine:	no domain has the CPUs of more than one LLC
 * @little:	the first CPUs of each LLC, this many, have less capacity
 *
 * A size counts neighbouring CPUs: CPUs with the same cpu / size belong
 * together. Each size is a multiple of the one above it.
 */
struct sched_test_topology {
	const char	*name;
	unsigned int	cpus;
	unsigned int	cluster;
	unsigned int	clustered;
	unsigned int	llc;
	unsigned int	smt;
	bool		no_machine;
	unsigned int	little;
};

/* Capacities of big and little CPUs. */
#define SCHED_TEST_BIG		1024
#define SCHED_TEST_LITTLE	512

/*
 * They last until the end of the test. It is skipped where this machine cannot
 * have the topology.
 */
void sched_test_install(struct kunit *test, const struct sched_test_topology *t);
void sched_test_set_feature(struct kunit *test, unsigned int feature, bool on);

/* Which of the first CPUs a task may use: the test fails if it may not. */
void sched_test_allow(struct kunit *test, struct task_struct *p, unsigned long cpus);

#endif /* _KERNEL_SCHED_TESTS_SCHED_TEST_TOPOLOGY_H */
