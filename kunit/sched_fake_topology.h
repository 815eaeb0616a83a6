/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sched domains as another machine would have them.
 *
 * The kernel's own code builds them, so that sd_llc, sd_share_id, sd->shared
 * and sched_cluster_active are the real ones. Only what the architecture
 * reports about the machine is made up.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H
#define _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H

#include <linux/bits.h>
#include <linux/types.h>

/* The most CPUs that a topology describes. */
#define SCHED_FAKE_CPUS		64

/* Capacities of big and little CPUs. */
#define SCHED_FAKE_BIG		1024
#define SCHED_FAKE_LITTLE	446

/*
 * On some kernels the CPUs that share a cache are those of a sched domain, and
 * not those of the hardware, which may be isolated from each other.
 */
#ifndef LLC_ID_OF_DOMAIN
#define LLC_ID_OF_DOMAIN	false
#endif

/**
 * struct sched_fake_topology - the shape of a machine
 * @name:	for messages
 * @cpus:	number of CPUs; all others share nothing
 * @smt:	threads of a core, 0 for one
 * @apart:	the threads of a core are numbered far apart: all first threads
 *		come before all second threads
 * @cluster:	CPUs in a cluster, 0 for a machine without
 * @clustered:	CPUs from 0 on that have clusters, 0 for all
 * @llc:	CPUs below a last level cache, 0 for a machine without
 * @node:	CPUs of a node, 0 for all
 * @little:	number of little CPUs in each LLC; they are its first CPUs
 * @isolated:	CPUs in no sched domain, as in an isolated partition of cpusets
 *
 * Each size is a multiple of the one before it.
 */
struct sched_fake_topology {
	char	name[24];
	u8	cpus;
	u8	smt;
	bool	apart;
	u8	cluster;
	u8	clustered;
	u8	llc;
	u8	node;
	u8	little;
	u64	isolated;
};

/* A CPU's physical position. Neighbouring positions share most. */
static inline int sched_fake_place(const struct sched_fake_topology *t, int cpu)
{
	int cores = t->cpus / (t->smt ? : 1);

	return t->apart && cpu < t->cpus ? cpu % cores * t->smt + cpu / cores : cpu;
}

/* The CPUs of the same group, if groups have @size CPUs; one bit for each. */
static inline u64 sched_fake_span(const struct sched_fake_topology *t, int size, int cpu)
{
	int place = sched_fake_place(t, cpu);
	u64 span = 0;

	if (!size || cpu >= t->cpus)
		return BIT_ULL(cpu);
	for (int i = 0; i < t->cpus; i++)
		if (sched_fake_place(t, i) / size == place / size)
			span |= BIT_ULL(i);
	return span;
}

static inline u64 sched_fake_siblings(const struct sched_fake_topology *t, int cpu)
{
	return sched_fake_span(t, t->smt, cpu);
}

/* A CPU without a cluster shares only its core. */
static inline u64 sched_fake_cluster(const struct sched_fake_topology *t, int cpu)
{
	bool has = t->cluster && (!t->clustered || sched_fake_place(t, cpu) < t->clustered);

	return sched_fake_span(t, has ? t->cluster : t->smt, cpu);
}

static inline u64 sched_fake_llc(const struct sched_fake_topology *t, int cpu)
{
	return t->llc ? sched_fake_span(t, t->llc, cpu) : sched_fake_cluster(t, cpu);
}

static inline u64 sched_fake_node(const struct sched_fake_topology *t, int cpu)
{
	return sched_fake_span(t, t->node ? : t->cpus, cpu);
}

/* CPUs with the same id share an LLC. */
static inline int sched_fake_llc_id(const struct sched_fake_topology *t, int cpu)
{
	return t->llc && cpu < t->cpus ? sched_fake_place(t, cpu) / t->llc : cpu;
}

static inline unsigned long sched_fake_capacity_of(const struct sched_fake_topology *t, int cpu)
{
	bool little = t->little && cpu < t->cpus && sched_fake_place(t, cpu) % t->llc < t->little;

	return little ? SCHED_FAKE_LITTLE : SCHED_FAKE_BIG;
}

/* Whether this machine has enough CPUs for a topology, online or not. */
bool sched_fake_topology_fits(const struct sched_fake_topology *t);

/* Both rebuild the sched domains, and must not race with hotplug or cpusets. */
int sched_fake_topology_install(const struct sched_fake_topology *t);
void sched_fake_topology_remove(void);

/* For tests of static keys: switches a key off, whatever its count; returns the count. */
int sched_fake_key_off(struct static_key_false *key);
void sched_fake_key_restore(struct static_key_false *key, int count);

#endif /* _KERNEL_SCHED_TESTS_SCHED_FAKE_TOPOLOGY_H */
