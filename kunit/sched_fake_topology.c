// SPDX-License-Identifier: GPL-2.0
/*
 * Sched domains of emulated machines. Included in the compilation unit of
 * topology.c, because the functions that build domains are static there.
 */
#include <linux/cpuset.h>

#include "sched_fake_topology.h"

/* What CPUs may share, closest first. */
enum fake_level { FAKE_SMT, FAKE_CLUSTER, FAKE_LLC, FAKE_NODE, NR_FAKE_LEVELS };

/* One span for each CPU: the kernel compares the spans and keeps no copies. */
static struct cpumask fake_spans[NR_FAKE_LEVELS][SCHED_FAKE_CPUS];

static const struct sched_fake_topology *fake_topology;
static struct sched_domain_topology_level *real_topology;
static int real_llc_id[SCHED_FAKE_CPUS];

/* For the test of what a failed installation leaves: which allocation fails, from 1. */
static int fake_alloc_fails;

static bool is_isolated(int cpu)
{
	return cpu < SCHED_FAKE_CPUS && fake_topology->isolated & BIT_ULL(cpu);
}

static const struct cpumask *fake_span(enum fake_level level, int cpu)
{
	return cpu < SCHED_FAKE_CPUS ? &fake_spans[level][cpu] : cpumask_of(cpu);
}

/* Kernels with SDTL_INIT() also pass the level to these functions. */
#ifdef SDTL_INIT
#define SPAN_OF(name)	name(struct sched_domain_topology_level *tl, int cpu)
#define LEVEL(span, flags, name)	SDTL_INIT(span, flags, name)
#else
#define SPAN_OF(name)	name(int cpu)
#define LEVEL(span, flags, name)	{ span, flags, SD_INIT_NAME(name) }
#endif

static const struct cpumask *SPAN_OF(fake_smt)
{
	return fake_span(FAKE_SMT, cpu);
}

static const struct cpumask *SPAN_OF(fake_cluster)
{
	return fake_span(FAKE_CLUSTER, cpu);
}

static const struct cpumask *SPAN_OF(fake_llc)
{
	return fake_span(FAKE_LLC, cpu);
}

static const struct cpumask *SPAN_OF(fake_node)
{
	return fake_span(FAKE_NODE, cpu);
}

static const struct cpumask *SPAN_OF(fake_machine)
{
	return cpu_possible_mask;
}

static int fake_smt_flags(void)
{
	return SD_SHARE_CPUCAPACITY | SD_SHARE_LLC;
}

static int fake_cluster_flags(void)
{
	return SD_CLUSTER | SD_SHARE_LLC;
}

static int fake_llc_flags(void)
{
	return SD_SHARE_LLC;
}

static struct sched_domain_topology_level fake_levels[] = {
	LEVEL(fake_smt, fake_smt_flags, SMT),
	LEVEL(fake_cluster, fake_cluster_flags, CLS),
	LEVEL(fake_llc, fake_llc_flags, MC),
	LEVEL(fake_node, NULL, PKG),
	LEVEL(fake_machine, NULL, NODE),
	{ NULL, },
};

static void fill_spans(enum fake_level level,
		       u64 (*span_of)(const struct sched_fake_topology *t, int cpu))
{
	for (int cpu = 0; cpu < SCHED_FAKE_CPUS; cpu++) {
		u64 span = span_of(fake_topology, cpu);

		cpumask_clear(&fake_spans[level][cpu]);
		for (int i = 0; i < min(nr_cpu_ids, SCHED_FAKE_CPUS); i++)
			if (span & BIT_ULL(i) && cpu_possible(i))
				cpumask_set_cpu(i, &fake_spans[level][cpu]);
	}
}

const struct cpumask *sched_fake_smt_mask(int cpu)
{
	return READ_ONCE(fake_topology) ? fake_span(FAKE_SMT, cpu) : sched_real_smt_mask(cpu);
}

unsigned long sched_fake_capacity(int cpu)
{
	const struct sched_fake_topology *t = READ_ONCE(fake_topology);

	return t ? sched_fake_capacity_of(t, cpu) : sched_real_capacity(cpu);
}

/* In a guest, a CPU that the host has preempted is not idle for the scheduler. */
bool sched_fake_vcpu_is_preempted(int cpu)
{
	return !READ_ONCE(fake_topology) && sched_real_vcpu_is_preempted(cpu);
}

/*
 * Have the kernel rebuild its domains for @nr maps of CPUs. Each map ends
 * before the first CPU of the next one; isolated CPUs are in none. Domains may
 * contain offline CPUs: the scheduler checks that a CPU is online before it
 * places a task there.
 */
static int partition_at(const int *first, int nr)
{
	cpumask_var_t *maps;

	lockdep_assert_held(&sched_domains_mutex);
	if (fake_alloc_fails && !--fake_alloc_fails)
		return -ENOMEM;
	maps = alloc_sched_domains(nr);
	if (!maps)
		return -ENOMEM;
	for (int i = 0; i < nr; i++) {
		int end = i + 1 < nr ? first[i + 1] : nr_cpu_ids;

		cpumask_clear(maps[i]);
		for (int cpu = first[i]; cpu < end; cpu++)
			if (cpu_possible(cpu) && !is_isolated(cpu))
				cpumask_set_cpu(cpu, maps[i]);
	}
	partition_sched_domains_locked(nr, maps, NULL);
	return 0;
}

/* Destroy all domains first: an unchanged map would keep its domains. */
static void drop_domains(void)
{
	partition_sched_domains_locked(0, alloc_sched_domains(0), NULL);
	asym_cpu_capacity_scan();
}

/* Back to this machine's own topology, without domains. */
static void forget_topology(void)
{
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++)
		if (cpu_possible(cpu))
			per_cpu(sd_llc_id, cpu) = real_llc_id[cpu];
	if (fake_topology->smt > 1)
		static_branch_dec_cpuslocked(&sched_smt_present);
	sched_domain_topology = real_topology;
	WRITE_ONCE(fake_topology, NULL);
	/* The scheduler may still be reading it: the caller frees it afterwards. */
	synchronize_rcu_expedited();
	drop_domains();
}

/**
 * sched_fake_topology_fits() - whether this machine has enough CPUs
 * @t: the other machine
 *
 * Return: true if all CPUs of @t are possible here. They need not be online.
 */
bool sched_fake_topology_fits(const struct sched_fake_topology *t)
{
	for (int cpu = 0; cpu < t->cpus; cpu++)
		if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
			return false;
	return true;
}

static int install_locked(const struct sched_fake_topology *t)
{
	const int all = 0;
	int ret;

	guard(cpus_read_lock)();
	guard(mutex)(&sched_domains_mutex);
	if (fake_topology)
		return -EBUSY;
	fake_topology = t;
	fill_spans(FAKE_SMT, sched_fake_siblings);
	fill_spans(FAKE_CLUSTER, sched_fake_cluster);
	fill_spans(FAKE_LLC, sched_fake_llc);
	fill_spans(FAKE_NODE, sched_fake_node);
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++)
		if (cpu_possible(cpu))
			real_llc_id[cpu] = per_cpu(sd_llc_id, cpu);
	if (t->smt > 1)
		static_branch_inc_cpuslocked(&sched_smt_present);
	real_topology = sched_domain_topology;
	sched_domain_topology = fake_levels;
	drop_domains();
	/* Building the domains keeps the ids, or overwrites those of CPUs in a domain. */
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++)
		if (cpu_possible(cpu))
			per_cpu(sd_llc_id, cpu) = LLC_ID_OF_DOMAIN && is_isolated(cpu) ?
						  cpu : sched_fake_llc_id(t, cpu);
	ret = partition_at(&all, 1);
	if (ret)
		forget_topology();
	return ret;
}

/**
 * sched_fake_topology_install() - give this machine another one's sched domains
 * @t: the other machine
 *
 * Return: 0, or -ENOMEM, or -EINVAL if this machine has too few CPUs, or -EBUSY
 * if another topology is installed. After an error nothing is changed.
 */
int sched_fake_topology_install(const struct sched_fake_topology *t)
{
	int ret;

	if (nr_cpu_ids < 2 || !sched_fake_topology_fits(t))
		return -EINVAL;
	ret = install_locked(t);
	if (ret == -ENOMEM)
		rebuild_sched_domains();
	return ret;
}

/**
 * sched_fake_topology_remove() - restore this machine's own sched domains
 *
 * They are those of its cpusets. Does nothing without a fake topology.
 */
void sched_fake_topology_remove(void)
{
	scoped_guard(cpus_read_lock) {
		guard(mutex)(&sched_domains_mutex);
		if (!fake_topology)
			return;
		forget_topology();
	}
	rebuild_sched_domains();
}

/**
 * sched_fake_key_off() - switch a static key off, whatever its count
 * @key: the key
 *
 * Return: the count, for sched_fake_key_restore().
 */
int sched_fake_key_off(struct static_key_false *key)
{
	int count = static_key_count(&key->key);

	for (int i = 0; i < count; i++)
		static_branch_dec(key);
	return count;
}

/**
 * sched_fake_key_restore() - give a static key its count back
 * @key: the key, which is off
 * @count: what sched_fake_key_off() returned
 */
void sched_fake_key_restore(struct static_key_false *key, int count)
{
	for (int i = 0; i < count; i++)
		static_branch_inc(key);
}
