// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of how sched domains are built and destroyed, with the domains of
 * emulated machines. Included in the compilation unit of topology.c, because
 * the functions are static there.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/cpu.h>

#include "sched_fake_topology.c"

#ifndef SCHED_KUNIT_EXPORTED
#include <linux/moduleparam.h>
#include "sched_kunit_expect.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched_topology_kunit."

static char *expected_fixes = "";
module_param_named(expect, expected_fixes, charp, 0444);
MODULE_PARM_DESC(expect, "fixes that must be in this kernel, separated by commas");

/*
 * Skip the rest of a test if the kernel lacks a fix that nobody expects. Do not
 * skip after a failure, which the skip would hide.
 */
static void skip_without_fix(struct kunit *test, const char *fix, bool there, const char *defect)
{
	kunit_info(test, "change %s: %s\n", fix, there ? "present" : "absent");
	if (!there && !is_expected(expected_fixes, fix) && test->status != KUNIT_FAILURE)
		kunit_skip(test, "known defect: %s", defect);
}
#endif

static bool has_clusters(int cpu)
{
	guard(rcu)();
	return lowest_flag_domain(cpu, SD_CLUSTER);
}

static int cluster_key(void)
{
	return static_key_count(&sched_cluster_active.key);
}

static void skip_without_cpus(struct kunit *test, int nr)
{
	if (num_possible_cpus() < nr)
		kunit_skip(test, "n/a: needs %d possible CPUs", nr);
}

static void remove_fake_topology(void *unused)
{
	sched_fake_topology_remove();
}

/* Until the end of the test, or until it removes the topology itself. */
static void install_for_test(struct kunit *test, const struct sched_fake_topology *t)
{
	skip_without_cpus(test, t->cpus);
	KUNIT_ASSERT_EQ(test, sched_fake_topology_install(t), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, remove_fake_topology, NULL), 0);
}

#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
/*
 * CPUs 0 to 3 have clusters, the others have none. Splitting the partition of
 * the others must not change the cluster scan of CPUs 0 to 3.
 */
static void cluster_key_survives_other_partitions(struct kunit *test)
{
	static const struct sched_fake_topology half = {
		.name = "half clustered", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 4,
	};
	static const int two[] = { 0, 4 }, three[] = { 0, 4, 6 };
	int built, split, rebuilt;
	bool still;

	install_for_test(test, &half);
	scoped_guard(cpus_read_lock) {
		scoped_guard(mutex, &sched_domains_mutex) {
			partition_at(two, 2);
			built = cluster_key();
			partition_at(three, 3);
			split = cluster_key();
			still = has_clusters(1);
			drop_domains();
			partition_at(three, 3);
			rebuilt = cluster_key();
		}
	}

	KUNIT_EXPECT_EQ(test, built, 1);
	KUNIT_EXPECT_TRUE(test, still);
	KUNIT_EXPECT_EQ(test, rebuilt, 1);
#ifndef SCHED_KUNIT_EXPORTED
	skip_without_fix(test, "fix-cluster-key", split == 1,
			 "a rebuild elsewhere ends CPU 1's cluster scan");
#endif
	KUNIT_EXPECT_EQ_MSG(test, split, 1, "a rebuild elsewhere ends CPU 1's cluster scan");
}
#endif

#ifndef SCHED_KUNIT_NO_FIX_SHARE_ID
/*
 * Only CPUs 0 to 3 of the LLC have clusters. The others share resources with
 * each other, but not with the CPUs of a cluster.
 */
static void no_cluster_is_not_the_first_cluster(struct kunit *test)
{
	static const struct sched_fake_topology mixed = {
		.name = "mixed LLC", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 8,
	};

	install_for_test(test, &mixed);
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(0, 1));
	KUNIT_EXPECT_FALSE(test, cpus_share_resources(0, 2));
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(4, 7));
	KUNIT_EXPECT_FALSE(test, cpus_share_resources(2, 4));
#ifndef SCHED_KUNIT_EXPORTED
	skip_without_fix(test, "fix-share-id", !cpus_share_resources(0, 4),
			 "CPU 4, without a cluster, passes for one of the first cluster");
#endif
	KUNIT_EXPECT_FALSE_MSG(test, cpus_share_resources(0, 4),
			       "CPU 4, without a cluster, passes for one of the first cluster");
}
#endif

/*
 * Each LLC has two little and two big CPUs, so CPUs 0 and 1 are little. Making
 * a partition of them, and splitting it, must not change the scan of the others.
 */
static void capacity_key_survives_other_partitions(struct kunit *test)
{
	static const struct sched_fake_topology asym = {
		.name = "big and little", .cpus = 8, .llc = 4, .little = 2,
	};
	static const int maps[][3] = { { 0 }, { 0, 2 }, { 0, 1, 2 } };
	int count[ARRAY_SIZE(maps)], before = static_key_count(&sched_asym_cpucapacity.key);
	bool alike, differ;

	install_for_test(test, &asym);
	scoped_guard(cpus_read_lock) {
		scoped_guard(mutex, &sched_domains_mutex) {
			for (int i = 0; i < ARRAY_SIZE(maps); i++) {
				partition_at(maps[i], i + 1);
				count[i] = static_key_count(&sched_asym_cpucapacity.key);
			}
			alike = !rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 0));
			differ = rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 3));
		}
	}
	sched_fake_topology_remove();

	for (int i = 0; i < ARRAY_SIZE(maps); i++)
		KUNIT_EXPECT_EQ_MSG(test, count[i], 1, "after partition %d", i);
	KUNIT_EXPECT_TRUE(test, alike);
	KUNIT_EXPECT_TRUE(test, differ);
	KUNIT_EXPECT_EQ(test, static_key_count(&sched_asym_cpucapacity.key), before);
}

/* With core scheduling, a CPU that comes back joins the core that it is told. */
static bool may_take_offline(int cpu)
{
	return IS_ENABLED(CONFIG_HOTPLUG_CPU) && cpu_online(cpu) &&
	       !(IS_ENABLED(CONFIG_SCHED_CORE) && sched_smt_active());
}

static void bring_back(void *cpu)
{
	add_cpu((long)cpu);
}

/* Until the end of the test, or until it brings the CPU back itself. */
static void take_offline(struct kunit *test, long cpu)
{
	KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, bring_back, (void *)cpu), 0);
}

/* CPU 3 has no cluster while CPU 2 is offline, and has one again when it is back. */
static void clusters_follow_hotplug(struct kunit *test)
{
	static const struct sched_fake_topology clusters = {
		.name = "clusters", .cpus = 4, .cluster = 2, .llc = 4,
	};

	skip_without_cpus(test, clusters.cpus);
	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU))
		kunit_skip(test, "n/a: CPUs of this kernel stay online");
	for (int cpu = 0; cpu < clusters.cpus; cpu++)
		if (!may_take_offline(cpu))
			kunit_skip(test, "n/a: needs CPU %d online, and no core scheduling", cpu);
	install_for_test(test, &clusters);
	take_offline(test, 2);
	KUNIT_EXPECT_FALSE(test, has_clusters(3));
	KUNIT_EXPECT_EQ_MSG(test, per_cpu(sd_share_id, 1), 0, "the other cluster's");
	KUNIT_EXPECT_EQ_MSG(test, cluster_key(), 1, "the other cluster's");
	KUNIT_EXPECT_EQ(test, add_cpu(2), 0);
	KUNIT_EXPECT_TRUE(test, has_clusters(3));
	KUNIT_EXPECT_TRUE(test, cpus_share_resources(2, 3));
}

/* What a fake topology changes. */
struct machine_trace {
	int	cluster_key;
	int	smt_key;
	int	llc_id;
	int	share_id;
	bool	clusters;
	u32	span;
};

static struct machine_trace trace_of_machine(void)
{
	struct machine_trace trace = {
		.cluster_key = cluster_key(),
		.smt_key = static_key_count(&sched_smt_present.key),
		.llc_id = per_cpu(sd_llc_id, 0),
		.share_id = per_cpu(sd_share_id, 0),
		.clusters = has_clusters(0),
	};
	struct sched_domain *sd;

	guard(rcu)();
	for (sd = rcu_dereference(cpu_rq(0)->sd); sd; sd = rcu_dereference(sd->parent))
		trace.span = trace.span * 31 + cpumask_weight(sched_domain_span(sd));
	return trace;
}

static void expect_same_machine(struct kunit *test, const struct machine_trace *before)
{
	struct machine_trace now = trace_of_machine();

	KUNIT_EXPECT_EQ(test, now.cluster_key, before->cluster_key);
	KUNIT_EXPECT_EQ(test, now.smt_key, before->smt_key);
	KUNIT_EXPECT_EQ(test, now.llc_id, before->llc_id);
	KUNIT_EXPECT_EQ(test, now.share_id, before->share_id);
	KUNIT_EXPECT_EQ(test, now.clusters, before->clusters);
	KUNIT_EXPECT_EQ_MSG(test, now.span, before->span, "the spans of CPU 0's domains");
}

static void fake_machine_leaves_no_trace(struct kunit *test)
{
	static const struct sched_fake_topology clusters = {
		.name = "clusters", .cpus = 8, .smt = 2, .cluster = 4, .llc = 8,
	};
	struct machine_trace before = trace_of_machine();

	install_for_test(test, &clusters);
	KUNIT_EXPECT_TRUE(test, has_clusters(0));
	KUNIT_EXPECT_TRUE(test, static_branch_unlikely(&sched_cluster_active));
	KUNIT_EXPECT_EQ(test, per_cpu(sd_share_id, 5), 4);
	KUNIT_EXPECT_EQ(test, sched_fake_topology_install(&clusters), -EBUSY);
	sched_fake_topology_remove();
	expect_same_machine(test, &before);
}

static const struct sched_fake_topology two_threads = {
	.name = "two threads", .cpus = 2, .smt = 2, .llc = 2,
};

static void failed_install_leaves_no_trace(struct kunit *test)
{
	struct machine_trace before = trace_of_machine();

	skip_without_cpus(test, two_threads.cpus);
	fake_alloc_fails = 1;
	KUNIT_EXPECT_EQ(test, sched_fake_topology_install(&two_threads), -ENOMEM);
	KUNIT_EXPECT_EQ(test, fake_alloc_fails, 0);
	expect_same_machine(test, &before);
}

/* A test that ends after some of its steps. */
static void abort_after(struct kunit *test, int steps)
{
	static const int apart[] = { 0, 1 };
	bool hotplug = may_take_offline(1);

	install_for_test(test, &two_threads);
	if (steps < 2)
		return;
	scoped_guard(cpus_read_lock)
		scoped_guard(mutex, &sched_domains_mutex)
			partition_at(apart, 2);
	if (steps > 2 && hotplug)
		take_offline(test, 1);
}

static void aborted_test_leaves_no_trace(struct kunit *test)
{
	struct machine_trace before = trace_of_machine();
	struct kunit *aborted = kunit_kzalloc(test, sizeof(*aborted), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, aborted);
	skip_without_cpus(test, two_threads.cpus);
	for (int steps = 1; steps <= 3; steps++) {
		kunit_init_test(aborted, "aborted", NULL);
		abort_after(aborted, steps);
		kunit_cleanup(aborted);
		current->kunit_test = test;
		expect_same_machine(test, &before);
	}
}

static struct kunit_case sched_topology_cases[] = {
	KUNIT_CASE(fake_machine_leaves_no_trace),
	KUNIT_CASE(failed_install_leaves_no_trace),
	KUNIT_CASE(aborted_test_leaves_no_trace),
#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
	KUNIT_CASE(cluster_key_survives_other_partitions),
#endif
#ifndef SCHED_KUNIT_NO_FIX_SHARE_ID
	KUNIT_CASE(no_cluster_is_not_the_first_cluster),
#endif
	KUNIT_CASE(capacity_key_survives_other_partitions),
	KUNIT_CASE(clusters_follow_hotplug),
	{}
};

static struct kunit_suite sched_topology_suite = {
	.name		= "sched_topology",
	.test_cases	= sched_topology_cases,
};

kunit_test_suite(sched_topology_suite);
