// SPDX-License-Identifier: GPL-2.0
/*
 * Replaces the tests of the cluster scan on kernels without it (8881e1639f1f),
 * where they would not compile. All cases are skipped, unless the expect
 * parameter names cluster-scan.
 */
#include <kunit/test.h>
#include <linux/moduleparam.h>

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched_cluster_kunit."

static char *expect = "";
module_param(expect, charp, 0444);
MODULE_PARM_DESC(expect, "changes that must be in this kernel, separated by commas");

static void no_cluster_scan(struct kunit *test)
{
	kunit_skip(test, "cluster-scan is not in this tree");
}

static void no_rows(struct kunit *test)
{
	kunit_info(test, "change cluster-scan: absent\n");
	if (!strstr(expect, "cluster-scan"))
		no_cluster_scan(test);
	KUNIT_FAIL(test, "cluster-scan is expected, and not in this tree");
}

static struct kunit_case sched_cluster_cases[] = {
	{ .name = "decision_table", .run_case = no_rows },
	{ .name = "random_situations", .run_case = no_cluster_scan },
	{ .name = "key_off_is_no_clusters", .run_case = no_cluster_scan },
	{ .name = "wakers_fill_their_clusters", .run_case = no_cluster_scan },
	{ .name = "equal_clusters_are_balanced", .run_case = no_cluster_scan },
	{}
};

static struct kunit_suite sched_cluster_suite = {
	.name		= "sched_cluster",
	.test_cases	= sched_cluster_cases,
};

static struct kunit_case sched_topology_cases[] = {
	{ .name = "fake_machine_leaves_no_trace", .run_case = no_cluster_scan },
	{ .name = "failed_install_leaves_no_trace", .run_case = no_cluster_scan },
	{ .name = "aborted_test_leaves_no_trace", .run_case = no_cluster_scan },
	{ .name = "cluster_key_survives_other_partitions", .run_case = no_cluster_scan },
	{ .name = "no_cluster_is_not_the_first_cluster", .run_case = no_cluster_scan },
	{ .name = "capacity_key_survives_other_partitions", .run_case = no_cluster_scan },
	{ .name = "clusters_follow_hotplug", .run_case = no_cluster_scan },
	{}
};

static struct kunit_suite sched_topology_suite = {
	.name		= "sched_topology",
	.test_cases	= sched_topology_cases,
};

static struct kunit_case sched_root_domain_cases[] = {
	{ .name = "leaves_by_group", .run_case = no_cluster_scan },
	{ .name = "overload_is_summed_up_to_two", .run_case = no_cluster_scan },
	{ .name = "partitions_while_rt_runs", .run_case = no_cluster_scan },
	{ .name = "hotplug_while_rt_runs", .run_case = no_cluster_scan },
	{ .name = "overloaded_cpus_are_counted", .run_case = no_cluster_scan },
	{}
};

static struct kunit_suite sched_root_domain_suite = {
	.name		= "sched_root_domain",
	.test_cases	= sched_root_domain_cases,
};

kunit_test_suites(&sched_cluster_suite, &sched_topology_suite, &sched_root_domain_suite);
