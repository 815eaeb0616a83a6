// SPDX-License-Identifier: GPL-2.0
/*
 * Sched domains of emulated machines. Included in the compilation unit of
 * topology.c, because the functions that build domains are static there.
 */
#include "sched_fake_topology.h"

/* What CPUs may share, closest first. */
enum fake_level { FAKE_SMT, FAKE_CLUSTER, FAKE_LLC, FAKE_NODE, NR_FAKE_LEVELS };

/* One span for each CPU: the kernel compares the spans and keeps no copies. */
static struct cpumask fake_spans[NR_FAKE_LEVELS][SCHED_FAKE_CPUS];

static const struct sched_fake_topology *fake_topology;
static struct sched_domain_topology_level *real_topology;
static int real_llc_id[SCHED_FAKE_CPUS];

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
	return fake_topology ? fake_span(FAKE_SMT, cpu) : arch_smt_mask(cpu);
}

unsigned long sched_fake_capacity(int cpu)
{
	const struct sched_fake_topology *t = READ_ONCE(fake_topology);

	return t ? sched_fake_capacity_of(t, cpu) : arch_capacity(cpu);
}

/*
 * The kernel also asks the architecture for threads and capacities, not only
 * the domains, so both must say the same.
 */
static bool arch_agrees(void)
{
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++) {
		if (!cpumask_equal(cpu_smt_mask(cpu), fake_span(FAKE_SMT, cpu)) ||
		    arch_scale_cpu_capacity(cpu) != sched_fake_capacity_of(fake_topology, cpu))
			return false;
	}
	return true;
}

/*
 * Have the kernel rebuild its domains for @nr maps of CPUs. Each map ends
 * before the first CPU of the next one. Domains may contain offline CPUs: the
 * scheduler checks that a CPU is online before it places a task there.
 */
static int partition_at(const int *first, int nr)
{
	cpumask_var_t *maps = alloc_sched_domains(nr);

	lockdep_assert_held(&sched_domains_mutex);
	if (!maps)
		return -ENOMEM;
	for (int i = 0; i < nr; i++) {
		int end = i + 1 < nr ? first[i + 1] : nr_cpu_ids;

		cpumask_clear(maps[i]);
		for (int cpu = first[i]; cpu < end; cpu++)
			if (cpu_possible(cpu))
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

/**
 * sched_fake_topology_install() - give this machine another one's sched domains
 * @t: the other machine; it has all possible CPUs of this one
 *
 * Return: 0, or -ENOMEM, or -EINVAL on a machine with one CPU, or -EOPNOTSUPP if
 * the architecture has other threads or capacities than @t and cannot be faked.
 */
int sched_fake_topology_install(const struct sched_fake_topology *t)
{
	const int all = 0;

	if (nr_cpu_ids < 2)
		return -EINVAL;

	guard(cpus_read_lock)();
	guard(mutex)(&sched_domains_mutex);
	fake_topology = t;
	fill_spans(FAKE_SMT, sched_fake_siblings);
	fill_spans(FAKE_CLUSTER, sched_fake_cluster);
	fill_spans(FAKE_LLC, sched_fake_llc);
	fill_spans(FAKE_NODE, sched_fake_node);
	if (!arch_agrees()) {
		fake_topology = NULL;
		return -EOPNOTSUPP;
	}
	/*
	 * In 7.3 the LLC id comes from the hardware, and is kept unless it is
	 * -1. In 6.12 building the domains overwrites what is set here.
	 */
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++) {
		real_llc_id[cpu] = per_cpu(sd_llc_id, cpu);
		per_cpu(sd_llc_id, cpu) = t->llc ? sched_fake_place(t, cpu) / t->llc : cpu;
	}
	if (t->smt > 1)
		static_branch_inc_cpuslocked(&sched_smt_present);
	real_topology = sched_domain_topology;
	sched_domain_topology = fake_levels;
	drop_domains();
	return partition_at(&all, 1);
}

/**
 * sched_fake_topology_remove() - restore this machine's own sched domains
 */
void sched_fake_topology_remove(void)
{
	if (!fake_topology)
		return;

	guard(cpus_read_lock)();
	guard(mutex)(&sched_domains_mutex);
	for (int cpu = 0; cpu < min(nr_cpu_ids, SCHED_FAKE_CPUS); cpu++)
		per_cpu(sd_llc_id, cpu) = real_llc_id[cpu];
	if (fake_topology->smt > 1)
		static_branch_dec_cpuslocked(&sched_smt_present);
	sched_domain_topology = real_topology;
	fake_topology = NULL;
	drop_domains();
	partition_sched_domains_locked(1, NULL, NULL);
}
