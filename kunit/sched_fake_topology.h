/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sched domains as another machine would have them.
 *
 * The kernel's own code builds them, so that sd_llc, sd_share_id, sd->shared
 * and sched_cluster_active are the real ones. Only what the architecture would
 * say of the machine is made up.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H
#define _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H

#include <linux/types.h>

/* CPUs that a topology may describe; of the others each is on its own. */
#define SCHED_FAKE_CPUS		64

/**
 * struct sched_fake_topology - the shape of a machine
 * @name:	for messages
 * @cluster:	CPUs in a cluster, 0 for a machine without
 * @clustered:	CPUs from 0 on that have clusters, 0 for all
 * @llc:	CPUs below a last level cache, 0 for a machine without
 */
struct sched_fake_topology {
	char	name[24];
	u8	cluster;
	u8	clustered;
	u8	llc;
};

/* Both rebuild the sched domains, and must not race with hotplug or cpusets. */
int sched_fake_topology_install(const struct sched_fake_topology *t);
void sched_fake_topology_remove(void);

#endif /* _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H */
