// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of how sched domains are built and destroyed. Included at the end
 * of topology.c, because the functions are static there.
 */
#include <kunit/resource.h>
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/arch_topology.h>
#include <linux/cpu.h>
#include <linux/cpuset.h>

#include "sched_test_topology.h"

/* ---- the domains of another machine ---- */

static const struct sched_test_topology *test_topology;
static struct sched_domain_topology_level *topology_before;

/* One mask for each group, as an architecture has them. */
static struct cpumask *cluster_masks, *llc_masks;
static unsigned long *capacities;	/* to be set, or to be put back */

#ifdef SCHED_KUNIT_LACKS_SDTL_INIT
/* In 7.2, and not in 6.12, where a level passes only the CPU to its function. */
#define SDTL_INIT(mask, flags, name)	{ mask, flags, SD_INIT_NAME(name) }
#define MASK_OF(name)	name(int cpu)
#else
#define MASK_OF(name)	name(struct sched_domain_topology_level *tl, int cpu)
#endif

#ifdef SCHED_KUNIT_LACKS_SMT_MASK
#ifndef CONFIG_SCHED_SMT
#define cpu_smt_mask(cpu)	cpumask_of(cpu)
#endif
#endif

static const struct cpumask *MASK_OF(test_smt_mask)
{
	return cpu_smt_mask(cpu);
}

static int test_smt_flags(void)
{
	return SD_SHARE_CPUCAPACITY | SD_SHARE_LLC;
}

static const struct cpumask *MASK_OF(test_cluster_mask)
{
	const struct sched_test_topology *t = test_topology;
	bool clustered = t->cluster && (!t->clustered || cpu < t->clustered);

	return clustered ? &cluster_masks[cpu / t->cluster] : cpu_smt_mask(cpu);
}

static int test_cluster_flags(void)
{
	return SD_CLUSTER | SD_SHARE_LLC;
}

static const struct cpumask *llc_of(int cpu)
{
	return &llc_masks[cpu / test_topology->llc];
}

static const struct cpumask *MASK_OF(test_llc_mask)
{
	return llc_of(cpu);
}

static int test_llc_flags(void)
{
	return SD_SHARE_LLC | (test_topology->packing ? SD_ASYM_PACKING : 0);
}

static const struct cpumask *MASK_OF(test_machine_mask)
{
	return test_topology->no_machine ? llc_of(cpu) : cpu_possible_mask;
}

static struct sched_domain_topology_level test_levels[] = {
	SDTL_INIT(test_smt_mask, test_smt_flags, SMT),
	SDTL_INIT(test_cluster_mask, test_cluster_flags, CLS),
	SDTL_INIT(test_llc_mask, test_llc_flags, MC),
	SDTL_INIT(test_machine_mask, NULL, PKG),
	{ }
};

static struct cpumask *make_masks(struct kunit *test, unsigned int size)
{
	struct cpumask *masks = kunit_kcalloc(test, nr_cpu_ids, sizeof(*masks), GFP_KERNEL);
	int cpu;

	KUNIT_ASSERT_NOT_NULL(test, masks);
	for_each_possible_cpu(cpu)
		if (size)
			cpumask_set_cpu(cpu, &masks[cpu / size]);
	return masks;
}

/* What cpusets hold while they change domains. */
DEFINE_LOCK_GUARD_0(domains,
		    cpus_read_lock(); cpuset_lock(); mutex_lock(&sched_domains_mutex),
		    mutex_unlock(&sched_domains_mutex); cpuset_unlock(); cpus_read_unlock())

/*
 * The next domains are built from nothing: an equal partition would keep its
 * domains, and a CPU with an LLC id would keep that.
 */
static void drop_domains(void)
{
	partition_sched_domains_locked(0, alloc_sched_domains(0), NULL);
#ifndef SCHED_KUNIT_LACKS_LLC_ID_ALLOC
	for (int cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (cpu_possible(cpu))
			__sched_domains_free_llc_id(cpu);
#endif
}

static void swap_capacities(void)
{
#ifdef CONFIG_GENERIC_ARCH_TOPOLOGY
	int cpu;

	for_each_possible_cpu(cpu) {
		unsigned long before = topology_get_cpu_scale(cpu);

		topology_set_cpu_scale(cpu, capacities[cpu]);
		capacities[cpu] = before;
	}
#endif
}

static void remove_test_topology(void *unused)
{
	scoped_guard(domains) {
		drop_domains();
		sched_domain_topology = topology_before;
		if (test_topology->little)
			swap_capacities();
		asym_cpu_capacity_scan();
	}
	/* The partitions are those of cpusets again. */
	rebuild_sched_domains();
	test_topology = NULL;
}

/* Skips the test unless the first @nr CPUs are online, and tasks may move between them. */
void sched_test_needs_cpus(struct kunit *test, int nr)
{
	for (int cpu = 0; cpu < nr; cpu++) {
		if (cpu >= nr_cpu_ids || !cpu_online(cpu))
			kunit_skip(test, "n/a: needs %d CPUs online", nr);
		if (!housekeeping_cpu(cpu, HK_TYPE_DOMAIN) || cpu_rq(cpu)->rd != cpu_rq(0)->rd)
			kunit_skip(test, "n/a: CPU %d is isolated, or in another partition", cpu);
	}
}

static void skip_without(struct kunit *test, const struct sched_test_topology *t)
{
	unsigned int threads = t->smt ? : 1;

	sched_test_needs_cpus(test, t->cpus);
	for (int cpu = 0; cpu < t->cpus; cpu++)
		if (cpumask_weight(cpu_smt_mask(cpu)) != threads ||
		    cpumask_last(cpu_smt_mask(cpu)) / threads != cpu / threads)
			kunit_skip(test, "n/a: needs cores of %u threads", threads);
	if (t->little && !IS_ENABLED(CONFIG_GENERIC_ARCH_TOPOLOGY))
		kunit_skip(test, "n/a: this architecture's capacities cannot be set");
}

/**
 * sched_test_install() - let the kernel build the domains of another machine
 * @test: the test, at whose end this machine has its own domains again
 * @t: the other machine
 *
 * Skips the test where this machine cannot have such domains.
 */
void sched_test_install(struct kunit *test, const struct sched_test_topology *t)
{
	skip_without(test, t);
	KUNIT_ASSERT_NULL_MSG(test, test_topology, "another test's topology is installed");
	cluster_masks = make_masks(test, t->cluster);
	llc_masks = make_masks(test, t->llc);
	capacities = kunit_kcalloc(test, nr_cpu_ids, sizeof(*capacities), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, capacities);
	for (int cpu = 0; cpu < nr_cpu_ids; cpu++)
		capacities[cpu] = cpu % t->llc < t->little ? SCHED_TEST_LITTLE : SCHED_TEST_BIG;
	scoped_guard(domains) {
		drop_domains();
		topology_before = sched_domain_topology;
		test_topology = t;
		sched_domain_topology = test_levels;
		if (t->little)
			swap_capacities();
		asym_cpu_capacity_scan();
	}
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, remove_test_topology, NULL), 0);
#ifndef SCHED_KUNIT_LACKS_LLC_ID_ALLOC
	kunit_activate_static_stub(test, llc_mask, llc_of);
#endif
	rebuild_sched_domains();
}

/* Before the end of the test. */
static void remove_early(struct kunit *test)
{
#ifndef SCHED_KUNIT_LACKS_LLC_ID_ALLOC
	kunit_deactivate_static_stub(test, llc_mask);
#endif
	kunit_release_action(test, remove_test_topology, NULL);
}

#ifndef SCHED_KUNIT_LACKS_SWITCHED_FEATURES
/* As debugfs does it. */
static void flip_feature(void *feature)
{
	unsigned long nr = (unsigned long)feature;

	sysctl_sched_features ^= BIT(nr);
#ifdef CONFIG_JUMP_LABEL
	if (sysctl_sched_features & BIT(nr))
		static_key_enable(&sched_feat_keys[nr]);
	else
		static_key_disable(&sched_feat_keys[nr]);
#endif
}
#endif

/**
 * sched_test_set_feature() - switch a feature of features.h on or off
 * @test: the test, at whose end the feature is as before
 * @feature: its number, __SCHED_FEAT_<name>
 * @on: whether it is switched on
 */
void sched_test_set_feature(struct kunit *test, unsigned int feature, bool on)
{
	void __maybe_unused *flips = (void *)(unsigned long)feature;

	if (!!(sysctl_sched_features & BIT(feature)) == on)
		return;
#ifdef SCHED_KUNIT_LACKS_SWITCHED_FEATURES
	kunit_skip(test, "n/a: features of this kernel can be constants");
#else
	flip_feature(flips);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, flip_feature, flips), 0);
#endif
}

/**
 * sched_test_allow() - let a task run on some CPUs alone
 * @test: the test, which fails if that is refused
 * @p: the task
 * @cpus: a bit for each of the first CPUs
 */
void sched_test_allow(struct kunit *test, struct task_struct *p, unsigned long cpus)
{
	static struct cpumask allowed;

	cpumask_clear(&allowed);
	for (int cpu = 0; cpu < BITS_PER_LONG && cpu < nr_cpu_ids; cpu++)
		if (cpus & BIT(cpu))
			cpumask_set_cpu(cpu, &allowed);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(p, &allowed), 0);
}

/* ---- partitions ---- */

/* Each partition ends before the first CPU of the next one. */
static int partition_at(const unsigned int *first, int nr)
{
	cpumask_var_t *masks = alloc_sched_domains(nr);

	if (!masks)
		return -ENOMEM;
	for (int i = 0; i < nr; i++) {
		unsigned int end = i + 1 < nr ? first[i + 1] : nr_cpu_ids;

		cpumask_clear(masks[i]);
		for (unsigned int cpu = first[i]; cpu < end; cpu++)
			if (cpu_active(cpu))
				cpumask_set_cpu(cpu, masks[i]);
	}
	guard(domains)();
	partition_sched_domains_locked(nr, masks, NULL);
	return 0;
}

static bool has_clusters(int cpu)
{
	guard(rcu)();
	return lowest_flag_domain(cpu, SD_CLUSTER);
}

static int cluster_key(void)
{
	return static_key_count(&sched_cluster_active.key);
}

/* ---- what the scheduler derives from a machine ---- */

static const struct sched_test_topology machines[] = {
	{ .name = "no_llc", .cpus = 2, .llc = 1 },
	{ .name = "llc_of_2", .cpus = 2, .llc = 2 },
	{ .name = "llcs_of_4", .cpus = 8, .llc = 4 },
	{ .name = "clusters_of_2", .cpus = 8, .cluster = 2, .llc = 8 },
	{ .name = "clusters_of_2_in_llcs_of_4", .cpus = 8, .cluster = 2, .llc = 4 },
	{ .name = "clusters_of_4", .cpus = 8, .cluster = 4, .llc = 8 },
	{ .name = "cores_of_2_in_clusters_of_4", .cpus = 8, .cluster = 4, .llc = 8, .smt = 2 },
};

KUNIT_ARRAY_PARAM_DESC(machines, machines, name);

static void cpus_share_what_the_machine_says(struct kunit *test)
{
	const struct sched_test_topology *t = test->param_value;
	unsigned int shared = t->cluster ? : t->llc;	/* by the closest CPUs */

	sched_test_install(test, t);
	for (int a = 0; a < t->cpus; a++) {
		for (int b = 0; b < t->cpus; b++) {
			KUNIT_ASSERT_EQ_MSG(test, cpus_share_cache(a, b), a / t->llc == b / t->llc,
					    "the LLC of CPUs %d and %d", a, b);
			KUNIT_ASSERT_EQ_MSG(test, cpus_share_resources(a, b),
					    a / shared == b / shared,
					    "the cluster of CPUs %d and %d", a, b);
		}
	}
	KUNIT_EXPECT_EQ_MSG(test, cluster_key(), !!t->cluster, "the key of the cluster scan");
}

static void llc_pointers_are_those_of_the_llc(struct kunit *test)
{
	const struct sched_test_topology *t = test->param_value;

	sched_test_install(test, t);
	guard(mutex)(&sched_domains_mutex);
	for (int cpu = 0; cpu < t->cpus; cpu++) {
		struct sched_domain *sd = rcu_dereference_sched_domain(per_cpu(sd_llc, cpu));
		struct sched_domain_shared *own, *zeroth, *firsts;
		int first = cpu / t->llc * t->llc, size = per_cpu(sd_llc_size, cpu);
		const void *numa = rcu_access_pointer(per_cpu(sd_numa, cpu));

		KUNIT_EXPECT_EQ_MSG(test, size, t->llc, "CPU %d", cpu);
		KUNIT_EXPECT_EQ_MSG(test, !!sd, t->llc > 1, "CPU %d has an LLC domain", cpu);
		KUNIT_EXPECT_NULL_MSG(test, numa, "CPU %d: no domain spans nodes", cpu);
		if (!sd)
			continue;
		KUNIT_EXPECT_TRUE_MSG(test, cpumask_equal(sched_domain_span(sd), llc_of(cpu)),
				      "CPU %d: the LLC domain has CPUs %*pbl", cpu,
				      cpumask_pr_args(sched_domain_span(sd)));
		own = rcu_dereference_sched_domain(per_cpu(sd_llc_shared, cpu));
		firsts = rcu_dereference_sched_domain(per_cpu(sd_llc_shared, first));
		zeroth = rcu_dereference_sched_domain(per_cpu(sd_llc_shared, 0));
		KUNIT_EXPECT_PTR_EQ(test, own, sd->shared);
		KUNIT_EXPECT_PTR_EQ_MSG(test, firsts, sd->shared, "CPUs %d and %d have one LLC",
					first, cpu);
		KUNIT_EXPECT_EQ_MSG(test, zeroth == sd->shared, !first, "CPUs 0 and %d", cpu);
	}
}

#ifndef SCHED_KUNIT_LACKS_LLC_ID_ALLOC
/* Arrays have a place for each id, so ids begin at 0 again when all were freed. */
static void llc_ids_are_used_again(struct kunit *test)
{
	static const struct sched_test_topology t = { .name = "LLCs of 2", .cpus = 4, .llc = 2 };
	unsigned int most = DIV_ROUND_UP(nr_cpu_ids, t.llc);

	for (int i = 0; i < 2; i++) {
		sched_test_install(test, &t);
		for (int cpu = 0; cpu < t.cpus; cpu++) {
			unsigned int id = per_cpu(sd_llc_id, cpu);

			KUNIT_EXPECT_LT_MSG(test, id, most, "CPU %d, time %d", cpu, i);
		}
		remove_early(test);
	}
}
#elif !defined(SCHED_KUNIT_EXPORTED)
static void llc_ids_are_used_again(struct kunit *test)
{
	kunit_skip(test, "n/a: LLCs of this kernel have no ids of their own");
}
#endif

/* ---- partitions and hotplug ---- */

#ifndef SCHED_KUNIT_EXPORTED
#include <linux/moduleparam.h>
#include "sched_kunit_expect.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched_topology_kunit."

static char *expected_fixes = "";
module_param_named(expect, expected_fixes, charp, 0444);
MODULE_PARM_DESC(expect, "fixes that must be in this kernel, separated by commas");

/* Before the last line of a test: skips if the kernel lacks a fix that nobody expects. */
static void skip_unless_fixed(struct kunit *test, const char *fix, bool there)
{
	kunit_info(test, "change %s: %s\n", fix, there ? "present" : "absent");
	if (!there && !is_expected(expected_fixes, fix) && test->status != KUNIT_FAILURE)
		kunit_skip(test, "known defect: %s", fix);
}
#endif

/* A key that counts partitions is on while one of them has clusters. */
static void cluster_key_counts_partitions(struct kunit *test)
{
	static const struct sched_test_topology t = { .cpus = 8, .cluster = 2, .llc = 8 };
	static const unsigned int two[] = { 0, 4 };
	int before = cluster_key();

	sched_test_install(test, &t);
	KUNIT_EXPECT_EQ(test, cluster_key(), 1);
	KUNIT_ASSERT_EQ(test, partition_at(two, 2), 0);
	KUNIT_EXPECT_EQ(test, cluster_key(), 2);
	KUNIT_ASSERT_EQ(test, partition_at(&two[1], 1), 0);
	KUNIT_EXPECT_EQ(test, cluster_key(), 1);
	KUNIT_EXPECT_FALSE_MSG(test, has_clusters(0), "CPU 0 is in no partition");
	remove_early(test);
	KUNIT_EXPECT_EQ(test, cluster_key(), before);
}

#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
/* CPUs 0 to 3 have clusters. A split of the others must not end their scan. */
static void cluster_key_survives_other_partitions(struct kunit *test)
{
	static const struct sched_test_topology t = {
		.name = "half clustered", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 4,
	};
	static const unsigned int two[] = { 0, 4 }, three[] = { 0, 4, 6 };

	sched_test_install(test, &t);
	KUNIT_ASSERT_EQ(test, partition_at(two, 2), 0);
	KUNIT_ASSERT_EQ(test, cluster_key(), 1);
	KUNIT_ASSERT_EQ(test, partition_at(three, 3), 0);
	KUNIT_EXPECT_TRUE(test, has_clusters(1));
#ifndef SCHED_KUNIT_EXPORTED
	skip_unless_fixed(test, "fix-cluster-key", cluster_key() == 1);
#endif
	KUNIT_EXPECT_EQ_MSG(test, cluster_key(), 1,
			    "a rebuild elsewhere ends CPU 1's cluster scan");
}
#endif

#ifndef SCHED_KUNIT_NO_FIX_SHARE_ID
/* Only CPUs 0 to 3 of the LLC have clusters. */
static void no_cluster_is_not_the_first_cluster(struct kunit *test)
{
	static const struct sched_test_topology t = {
		.name = "mixed LLC", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 8,
	};

	sched_test_install(test, &t);
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(0, 1));
	KUNIT_EXPECT_FALSE(test, cpus_share_resources(0, 2));
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(4, 7));
	KUNIT_EXPECT_FALSE(test, cpus_share_resources(2, 4));
#ifndef SCHED_KUNIT_EXPORTED
	skip_unless_fixed(test, "fix-share-id", !cpus_share_resources(0, 4));
#endif
	KUNIT_EXPECT_FALSE_MSG(test, cpus_share_resources(0, 4),
			       "CPU 4, without a cluster, passes for one of the first cluster");
}
#endif

/* Each LLC has two little and two big CPUs, so CPUs 0 and 1 are little. */
static void capacity_key_survives_other_partitions(struct kunit *test)
{
	static const struct sched_test_topology t = { .cpus = 8, .llc = 4, .little = 2 };
	static const unsigned int maps[][3] = { { 0 }, { 0, 2 }, { 0, 1, 2 } };
	const void *little, *big;

	sched_test_install(test, &t);
	for (int i = 0; i < ARRAY_SIZE(maps); i++) {
		KUNIT_ASSERT_EQ(test, partition_at(maps[i], i + 1), 0);
		KUNIT_EXPECT_EQ_MSG(test, static_key_count(&sched_asym_cpucapacity.key), 1,
				    "with %d partitions", i + 1);
	}
	little = rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 0));
	big = rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 3));
	KUNIT_EXPECT_NULL(test, little);
	KUNIT_EXPECT_NOT_NULL(test, big);
}

KUNIT_DEFINE_ACTION_WRAPPER(bring_back, add_cpu, long)

/* CPU 3 has no cluster while CPU 2 is offline, and has one again when it is back. */
static void clusters_follow_hotplug(struct kunit *test)
{
	static const struct sched_test_topology t = { .cpus = 4, .cluster = 2, .llc = 4 };

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU))
		kunit_skip(test, "n/a: CPUs of this kernel stay online");
	sched_test_install(test, &t);
	KUNIT_ASSERT_EQ(test, remove_cpu(2), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, bring_back, (void *)2L), 0);
	KUNIT_EXPECT_FALSE(test, has_clusters(3));
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(0, 1));
	KUNIT_EXPECT_EQ_MSG(test, cluster_key(), 1, "for the other cluster");
	kunit_release_action(test, bring_back, (void *)2L);
	KUNIT_EXPECT_TRUE(test, has_clusters(3));
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(2, 3));
}

/* ---- what a test leaves behind ---- */

/* How many CPUs the domains of CPU 0 span, and with whom it shares caches. */
static u32 trace_of_machine(void)
{
	u32 trace = 2 * cpus_share_cache(0, 1) + cpus_share_resources(0, 1);
	struct sched_domain *sd;

	guard(rcu)();
	for (sd = rcu_dereference(cpu_rq(0)->sd); sd; sd = rcu_dereference(sd->parent))
		trace = trace * 31 + cpumask_weight(sched_domain_span(sd));
	return trace;
}

static void topology_is_put_back_at_the_end_of_a_test(struct kunit *test)
{
	static const struct sched_test_topology t = { .name = "LLC of 2", .cpus = 2, .llc = 2 };
	static const unsigned int apart[] = { 0, 1 };
	unsigned int features = sysctl_sched_features;
	bool domains = rcu_access_pointer(cpu_rq(0)->sd);
	int key = cluster_key();
	struct kunit *aborted;
	u32 before;

	skip_without(test, &t);
	before = trace_of_machine();
	KUNIT_EXPECT_TRUE_MSG(test, domains, "an earlier test left CPU 0 without domains");
	aborted = kunit_kzalloc(test, sizeof(*aborted), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, aborted);
	kunit_init_test(aborted, "aborted", NULL);
	aborted->try_catch = test->try_catch;
	current->kunit_test = aborted;
	sched_test_install(aborted, &t);
	KUNIT_EXPECT_EQ(test, partition_at(apart, 2), 0);
#ifndef SCHED_KUNIT_LACKS_SWITCHED_FEATURES
	sched_test_set_feature(aborted, __SCHED_FEAT_SIS_UTIL, !sched_feat(SIS_UTIL));
	KUNIT_EXPECT_NE(test, sysctl_sched_features, features);
#endif
	/* What KUnit does at the end of a test, whether an assertion failed or not. */
	kunit_cleanup(aborted);
	current->kunit_test = test;
	KUNIT_EXPECT_EQ(test, sysctl_sched_features, features);
	KUNIT_EXPECT_EQ(test, cluster_key(), key);
	KUNIT_EXPECT_EQ_MSG(test, trace_of_machine(), before, "the domains of CPU 0");
}

static struct kunit_case sched_topology_cases[] = {
	KUNIT_CASE_PARAM(cpus_share_what_the_machine_says, machines_gen_params),
	KUNIT_CASE_PARAM(llc_pointers_are_those_of_the_llc, machines_gen_params),
#if !defined(SCHED_KUNIT_LACKS_LLC_ID_ALLOC) || !defined(SCHED_KUNIT_EXPORTED)
	KUNIT_CASE(llc_ids_are_used_again),
#endif
	KUNIT_CASE(cluster_key_counts_partitions),
#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
	KUNIT_CASE(cluster_key_survives_other_partitions),
#endif
#ifndef SCHED_KUNIT_NO_FIX_SHARE_ID
	KUNIT_CASE(no_cluster_is_not_the_first_cluster),
#endif
	KUNIT_CASE(capacity_key_survives_other_partitions),
	KUNIT_CASE(clusters_follow_hotplug),
	KUNIT_CASE(topology_is_put_back_at_the_end_of_a_test),
	{}
};

static struct kunit_suite sched_topology_suite = {
	.name		= "sched_topology",
	.test_cases	= sched_topology_cases,
};

kunit_test_suite(sched_topology_suite);
