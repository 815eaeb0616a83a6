// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of how sched domains are built and destroyed, with the domains of
 * emulated machines. Included in the compilation unit of topology.c, because
 * the functions are static there.
 */
#include <kunit/test.h>
#include <linux/cpu.h>

#include "sched_fake_topology.c"

#ifndef SCHED_KUNIT_EXPORTED
#include <linux/moduleparam.h>
#include "sched_kunit_expect.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched_topology_kunit."

static char *expect = "";
module_param(expect, charp, 0444);
MODULE_PARM_DESC(expect, "fixes that must be in this kernel, separated by commas");

/*
 * Skip the rest of a test if the kernel lacks a fix that nobody expects. Do not
 * skip after a failure, which the skip would hide.
 */
static void skip_without_fix(struct kunit *test, const char *fix, bool there, const char *defect)
{
	kunit_info(test, "change %s: %s\n", fix, there ? "present" : "absent");
	if (!there && !is_expected(expect, fix) && test->status != KUNIT_FAILURE)
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
		kunit_skip(test, "n/a: needs %d CPUs", nr);
}

static void install(struct kunit *test, const struct sched_fake_topology *t)
{
	int ret = sched_fake_topology_install(t);

	if (ret == -EOPNOTSUPP)
		kunit_skip(test, "n/a: this machine's threads or capacities are others");
	KUNIT_ASSERT_EQ(test, ret, 0);
}

#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
/*
 * CPUs 0 to 7 have clusters, the others have none. Splitting the partition of
 * the others must not change the cluster scan of CPUs 0 to 7.
 */
static void fix_cluster_key(struct kunit *test)
{
	static const struct sched_fake_topology half = {
		.name = "half clustered", .cluster = 4, .clustered = 8, .llc = 8,
	};
	static const int two[] = { 0, 8 }, three[] = { 0, 8, 12 };
	int built, split, rebuilt;
	bool still;

	skip_without_cpus(test, 16);
	install(test, &half);
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
	sched_fake_topology_remove();

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
 * Only CPUs 0 to 7 of the LLC have clusters. The others share resources with
 * each other, but not with the CPUs of a cluster.
 */
static void fix_share_id(struct kunit *test)
{
	static const struct sched_fake_topology mixed = {
		.name = "mixed LLC", .cluster = 4, .clustered = 8, .llc = 16,
	};
	bool cluster, other_cluster, others, second, first;

	skip_without_cpus(test, 16);
	install(test, &mixed);
	cluster = cpus_share_resources(0, 3);
	other_cluster = cpus_share_resources(0, 4);
	others = cpus_share_resources(8, 15);
	second = cpus_share_resources(4, 8);
	first = cpus_share_resources(0, 8);
	sched_fake_topology_remove();

	KUNIT_EXPECT_TRUE(test, cluster);
	KUNIT_EXPECT_FALSE(test, other_cluster);
	KUNIT_EXPECT_TRUE(test, others);
	KUNIT_EXPECT_FALSE(test, second);
#ifndef SCHED_KUNIT_EXPORTED
	skip_without_fix(test, "fix-share-id", !first,
			 "CPU 8, without a cluster, passes for one of the first cluster");
#endif
	KUNIT_EXPECT_FALSE_MSG(test, first,
			       "CPU 8, without a cluster, passes for one of the first cluster");
}
#endif

/*
 * Each LLC has big and little CPUs, but CPUs 16 to 23 are all little. Making a
 * partition of them, and splitting it, must not change the scan of the others.
 */
static void asym_key(struct kunit *test)
{
	static const struct sched_fake_topology asym = {
		.name = "big and little", .llc = 16, .little = 8,
	};
	static const int maps[][4] = { { 0, 16 }, { 0, 16, 24 }, { 0, 16, 20, 24 } };
	int count[ARRAY_SIZE(maps)], before = static_key_count(&sched_asym_cpucapacity.key);
	bool alike, differ;

	skip_without_cpus(test, 64);
	install(test, &asym);
	scoped_guard(cpus_read_lock) {
		scoped_guard(mutex, &sched_domains_mutex) {
			for (int i = 0; i < ARRAY_SIZE(maps); i++) {
				partition_at(maps[i], i + 2);
				count[i] = static_key_count(&sched_asym_cpucapacity.key);
			}
			alike = !rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 17));
			differ = rcu_access_pointer(per_cpu(sd_asym_cpucapacity, 1));
		}
	}
	sched_fake_topology_remove();

	for (int i = 0; i < ARRAY_SIZE(maps); i++)
		KUNIT_EXPECT_EQ_MSG(test, count[i], 2, "after partition %d", i);
	KUNIT_EXPECT_TRUE(test, alike);
	KUNIT_EXPECT_TRUE(test, differ);
	KUNIT_EXPECT_EQ(test, static_key_count(&sched_asym_cpucapacity.key), before);
}

#ifdef CONFIG_HOTPLUG_CPU
/*
 * CPU 7 has no cluster while CPUs 4 to 6 are offline, and has one again when
 * they are back.
 */
static void hotplug(struct kunit *test)
{
	static const struct sched_fake_topology clusters = {
		.name = "clusters", .cluster = 4, .llc = 8,
	};
	bool gone[4], alone, back;
	int share_id, key;

	skip_without_cpus(test, 8);
	for (int cpu = 4; cpu < 8; cpu++)
		if (!cpu_online(cpu))
			kunit_skip(test, "n/a: needs CPU %d online", cpu);
	install(test, &clusters);
	for (int cpu = 4; cpu < 7; cpu++)
		gone[cpu - 4] = !remove_cpu(cpu);
	alone = !has_clusters(7);
	share_id = per_cpu(sd_share_id, 1);
	key = cluster_key();
	for (int cpu = 4; cpu < 7; cpu++)
		if (gone[cpu - 4])
			add_cpu(cpu);
	back = has_clusters(7) && cpus_share_resources(4, 7);
	sched_fake_topology_remove();

	for (int i = 0; i < 3; i++)
		KUNIT_EXPECT_TRUE_MSG(test, gone[i], "CPU %d", i + 4);
	KUNIT_EXPECT_TRUE(test, alone);
	KUNIT_EXPECT_EQ_MSG(test, share_id, 0, "the other cluster's");
	KUNIT_EXPECT_EQ_MSG(test, key, 1, "the other cluster's");
	KUNIT_EXPECT_TRUE(test, back);
}
#else
static void hotplug(struct kunit *test)
{
	kunit_skip(test, "n/a: CPUs of this kernel stay online");
}
#endif

/* A fake topology must leave no trace after its removal. */
static void nothing_left_behind(struct kunit *test)
{
	static const struct sched_fake_topology clusters = {
		.name = "clusters", .cluster = 4, .llc = 8,
	};
	int key = cluster_key();
	int llc_id = per_cpu(sd_llc_id, 0), share_id = per_cpu(sd_share_id, 0);
	bool had = has_clusters(0);

	skip_without_cpus(test, 8);
	install(test, &clusters);
	KUNIT_EXPECT_TRUE(test, has_clusters(0));
	KUNIT_EXPECT_TRUE(test, static_branch_unlikely(&sched_cluster_active));
	KUNIT_EXPECT_EQ(test, per_cpu(sd_share_id, 5), 4);
	sched_fake_topology_remove();
	KUNIT_EXPECT_EQ(test, cluster_key(), key);
	KUNIT_EXPECT_EQ(test, per_cpu(sd_llc_id, 0), llc_id);
	KUNIT_EXPECT_EQ(test, per_cpu(sd_share_id, 0), share_id);
	KUNIT_EXPECT_EQ(test, has_clusters(0), had);
}

static struct kunit_case sched_topology_cases[] = {
	KUNIT_CASE(nothing_left_behind),
#ifndef SCHED_KUNIT_NO_FIX_CLUSTER_KEY
	KUNIT_CASE(fix_cluster_key),
#endif
#ifndef SCHED_KUNIT_NO_FIX_SHARE_ID
	KUNIT_CASE(fix_share_id),
#endif
	KUNIT_CASE(asym_key),
	KUNIT_CASE(hotplug),
	{}
};

static struct kunit_suite sched_topology_suite = {
	.name		= "sched_topology",
	.test_cases	= sched_topology_cases,
};

kunit_test_suite(sched_topology_suite);
