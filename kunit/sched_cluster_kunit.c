// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit test of where a woken task is placed. Compares select_idle_sibling()
 * with a table and with a model, on the sched domains of machines with
 * clusters. Included in the compilation unit of fair.c, because the function is
 * static there.
 */
#include <kunit/test.h>
#include <linux/moduleparam.h>

#include "sched_cluster_calls.h"
#include "sched_cluster_random.h"
#include "sched_cluster_rows.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched_cluster_kunit."

static int random_machines = 8;
module_param_named(machines, random_machines, int, 0444);
MODULE_PARM_DESC(machines, "random machines for each property");

static int random_cases = 1000;
module_param_named(cases, random_cases, int, 0444);
MODULE_PARM_DESC(cases, "random cases on each of them");

static ulong random_seed = 1;
module_param_named(seed, random_seed, ulong, 0444);
MODULE_PARM_DESC(seed, "where random machines and cases come from");

/*
 * The results of a row: with its own limit, with a limit that is just enough,
 * and with one less.
 */
static struct cluster_result {
	struct cluster_outcome	out;
	int			enough;
	int			short_of;
} cluster_results[ARRAY_SIZE(cluster_rows)];

/* What sched_fake_topology_install() returned. */
static int cluster_machine_error[NR_MACHINES];

/* Selects the rows that are called in one stop_machine(). */
struct row_filter {
	enum cluster_machine	machine;
	bool			key_off;
};

static bool is_chosen(const struct cluster_row *row, const struct row_filter *filter)
{
	return row->machine == filter->machine && row->c.key_off == filter->key_off;
}

static bool any_row(const struct row_filter *filter)
{
	for (int i = 0; i < ARRAY_SIZE(cluster_rows); i++)
		if (is_chosen(&cluster_rows[i], filter))
			return true;
	return false;
}

static void call_rows(struct cluster_calls *calls)
{
	const struct row_filter *filter = calls->data;

	for (int i = 0; i < ARRAY_SIZE(cluster_rows); i++) {
		const struct cluster_row *row = &cluster_rows[i];
		struct cluster_result *result = &cluster_results[i];
		struct cluster_case c = row->c;

		if (!is_chosen(row, filter))
			continue;
		result->out = call_select_idle_sibling(&c);
		if (!row->examined)
			continue;
		c.limit = row->examined;
		result->enough = call_select_idle_sibling(&c).pick;
		c.limit = row->examined - 1;
		result->short_of = call_select_idle_sibling(&c).pick;
	}
}

static void print_case(struct kunit *test, const struct sched_fake_topology *machine,
		       const struct cluster_case *c)
{
	kunit_err(test, "  machine: %s, %u CPUs, LLCs of %u, clusters of %u, cores of %u%s%s\n",
		  machine->name, machine->cpus, machine->llc, machine->cluster,
		  machine->smt ? : 1, machine->apart ? ", apart" : "",
		  c->key_off ? ", key off" : "");
	kunit_err(test, "  isolated CPUs: %64pbl\n", &machine->isolated);
	kunit_err(test, "  target %d, prev %d, recently used %d\n", c->target, c->prev, c->recent);
	kunit_err(test, "  idle CPUs: %64pbl, with SCHED_IDLE tasks alone: %64pbl%s\n", &c->idle,
		  &c->sched_idle, c->hint ? ", said to have an idle core" : "");
	kunit_err(test, "  allowed: %64pbl%s, nr_idle_scan %u%s\n", &c->allowed,
		  c->idle_policy ? ", a SCHED_IDLE task" : "", c->limit,
		  c->kthread ? ", woken by a kthread that is alone" : "");
}

/* All online CPUs are stopped during the calls, which takes long on many. */
static bool can_stop_all(void)
{
	return cpu_online(CLUSTER_WAKER) && num_online_cpus() <= CLUSTER_MAX_ONLINE;
}

static void skip_without_machine(struct kunit *test, int cpus, int error)
{
	if (!can_stop_all())
		kunit_skip(test, "n/a: needs CPU %d and at most %d CPUs online: maxcpus=%d",
			   CLUSTER_WAKER, CLUSTER_MAX_ONLINE, CLUSTER_MAX_ONLINE);
	if (nr_cpu_ids < cpus)
		kunit_skip(test, "n/a: needs %d possible CPUs", cpus);
	KUNIT_ASSERT_EQ(test, error, 0);
}

static void decision_table(struct kunit *test)
{
	const struct cluster_row *row = test->param_value;
	const struct cluster_result *result = &cluster_results[row - cluster_rows];
	const struct sched_fake_topology *machine = &cluster_machines[row->machine];
	struct cluster_view *views;

	skip_without_machine(test, machine->cpus, cluster_machine_error[row->machine]);
	KUNIT_EXPECT_EQ_MSG(test, result->out.pick, row->pick, "the CPU that is picked");
	KUNIT_EXPECT_EQ_MSG(test, result->out.recent, row->early ? row->c.recent : row->c.prev,
			    "recent_used_cpu is left %s", row->early ? "alone" : "at prev");
	KUNIT_EXPECT_EQ_MSG(test, result->out.hint, row->c.hint && !row->clears_hint,
			    "the hint of an idle core afterwards");
	if (row->examined) {
		KUNIT_EXPECT_EQ_MSG(test, result->enough, row->pick,
				    "examining %u CPUs is enough", row->examined);
		KUNIT_EXPECT_EQ_MSG(test, result->short_of, row->short_of,
				    "examining %u CPUs is not", row->examined - 1);
	}
	if (!machine->little) {
		views = kunit_kcalloc(test, SCHED_FAKE_CPUS, sizeof(*views), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, views);
		view_of(machine, views);
		KUNIT_EXPECT_EQ_MSG(test, cluster_model(views, &row->c, CLUSTER_WAKER).pick,
				    row->pick, "the model differs from the table");
	}
	if (test->status == KUNIT_FAILURE) {
		kunit_err(test, "  %s\n", row->what);
		print_case(test, machine, &row->c);
	}
}

KUNIT_ARRAY_PARAM_DESC(cluster_rows, cluster_rows, what);

/* The domains are rebuilt once for each machine, not for each row. */
static int run_machine(struct cluster_calls *calls, struct row_filter *filter)
{
	const struct sched_fake_topology *machine = &cluster_machines[filter->machine];
	int ret = sched_fake_topology_install(machine);

	if (ret)
		return ret;
	/* Without SIS_UTIL, nr_idle_scan does not limit the scan. */
	if (!sched_feat(SIS_UTIL))
		ret = -EINVAL;
	for (int key_off = 0; key_off <= 1 && !ret; key_off++) {
		filter->key_off = key_off;
		if (any_row(filter))
			ret = call_with_key(calls, key_off);
	}
	sched_fake_topology_remove();
	return ret;
}

static int sched_cluster_init(struct kunit_suite *suite)
{
	struct row_filter filter = {};
	struct cluster_calls calls = { .make = call_rows, .data = &filter };
	int ret;

#ifndef SCHED_KUNIT_EXPORTED
	kunit_info(suite, "change cluster-scan: present\n");
#endif
	if (!can_stop_all())
		return 0;
	ret = make_cluster_task();
	for (int i = 0; i < NR_MACHINES && !ret; i++) {
		filter.machine = i;
		if (sched_fake_topology_fits(&cluster_machines[i]))
			cluster_machine_error[i] = run_machine(&calls, &filter);
	}
	return ret;
}

static void sched_cluster_exit(struct kunit_suite *suite)
{
	end_cluster_task();
}

static void random_situations(struct kunit *test)
{
	const struct random_property *property = test->param_value;
	struct random_run *run = kunit_kzalloc(test, sizeof(*run), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, run);
	run->property = property;
	skip_without_machine(test, 2, 0);
	KUNIT_ASSERT_EQ(test, run_random(run, random_seed, random_machines, random_cases), 0);
	if (run->broken) {
		KUNIT_FAIL(test, "%s: not with seed %lu and %u possible CPUs", property->what,
			   random_seed, nr_cpu_ids);
		print_case(test, &run->topology, &run->c);
		kunit_err(test, "  pick %d, recently used CPU afterwards %d, hint %d\n",
			  run->out.pick, run->out.recent, run->out.hint);
	}
}

KUNIT_ARRAY_PARAM_DESC(random_properties, random_properties, name);

static void key_off_is_no_clusters(struct kunit *test)
{
	struct kept_outcomes *kept = kunit_kzalloc(test, sizeof(*kept), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, kept);
	skip_without_machine(test, 2, 0);
	KUNIT_ASSERT_EQ(test, keep_both_outcomes(kept, random_seed), 0);
	for (int i = 0; i < KEPT_OUTCOMES; i++) {
		if (!memcmp(&kept->out[0][i], &kept->out[1][i], sizeof(kept->out[0][i])))
			continue;
		KUNIT_FAIL(test, "with the key off %d is picked, without clusters %d",
			   kept->out[1][i].pick, kept->out[0][i].pick);
		print_case(test, &kept->run.topology, &kept->c[i]);
		break;
	}
}

/*
 * In each round the last CPU of each cluster wakes a task. Each task must stay
 * in the cluster of its waker.
 */
static void wakers_fill_their_clusters(struct kunit *test)
{
	const struct sched_fake_topology *machine = &cluster_machines[CLUSTERS_OF_4];
	int rounds = machine->cluster - 1, clusters = machine->llc / machine->cluster;
	struct spread_run spread = { .machine = machine, .nr = rounds * clusters };
	struct cluster_calls calls = { .make = wake_tasks, .data = &spread };
	int ret;

	skip_without_machine(test, machine->cpus, 0);
	KUNIT_ASSERT_EQ(test, sched_fake_topology_install(machine), 0);
	for (int i = 0; i < spread.nr; i++)
		spread.wakers[i] = (i % clusters + 1) * machine->cluster - 1;
	for (int i = 0; i < clusters; i++)
		spread.taken |= BIT_ULL(spread.wakers[i]);
	ret = call_with_key(&calls, false);
	sched_fake_topology_remove();
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_EXPECT_FALSE_MSG(test, spread.twice, "a CPU was picked twice with others idle");
	KUNIT_EXPECT_FALSE_MSG(test, spread.away, "a task left a cluster that had an idle CPU");
	KUNIT_EXPECT_EQ_MSG(test, spread.taken, GENMASK_ULL(machine->llc - 1, 0),
			    "the LLC is not filled by as many tasks as it has CPUs");
}

#ifndef SCHED_KUNIT_LACKS_CLUSTER_EQUAL_CAP
/* The choice of the CPU from which @dst pulls the only task of @src. */
struct pull_run {
	int		dst;
	int		src;
	struct rq	*busiest;
};

static void find_busiest_queue(struct cluster_calls *calls)
{
	static struct cpumask source;
	struct pull_run *pull = calls->data;
	struct cfs_rq *cfs = &cpu_rq(pull->src)->cfs;
	unsigned int saved = cfs->h_nr_runnable;
	struct lb_env env = {
		.sd = rcu_dereference_check(per_cpu(sd_asym_cpucapacity, pull->dst), 1),
		.dst_cpu = pull->dst,
		.cpus = &source,
		.idle = CPU_NEWLY_IDLE,
		.fbq_type = all,
		.migration_type = migrate_task,
	};
	struct sched_group *group;

	pull->busiest = NULL;
	if (!env.sd)
		return;
	group = env.sd->groups;
	while (!cpumask_test_cpu(pull->src, sched_group_span(group)))
		group = group->next;
	cpumask_copy(&source, cpumask_of(pull->src));
	cfs->h_nr_runnable = 1;
	pull->busiest = sched_balance_find_src_rq(&env, group);
	cfs->h_nr_runnable = saved;
}

/*
 * Where capacities differ, a CPU pulls a queue's only task from another cluster
 * of the same capacity, but not if there are no clusters.
 */
static void equal_clusters_are_balanced(struct kunit *test)
{
	static const struct sched_fake_topology machine = {
		.name = "two big clusters", .cpus = 8, .cluster = 2, .llc = 8, .little = 4,
	};
	struct pull_run pull = { .dst = 4, .src = 6 };
	struct cluster_calls calls = { .make = find_busiest_queue, .data = &pull };
	struct rq *with_key;
	int ret;

	skip_without_machine(test, machine.cpus, 0);
	KUNIT_ASSERT_EQ(test, sched_fake_topology_install(&machine), 0);
	ret = call_with_key(&calls, false);
	with_key = pull.busiest;
	ret = ret ? : call_with_key(&calls, true);
	sched_fake_topology_remove();
	KUNIT_ASSERT_EQ(test, ret, 0);
	KUNIT_EXPECT_PTR_EQ(test, with_key, cpu_rq(pull.src));
	KUNIT_EXPECT_NULL(test, pull.busiest);
}
#else
static void equal_clusters_are_balanced(struct kunit *test)
{
	kunit_skip(test, "n/a: load balancing of this kernel does not ask for clusters");
}
#endif

static struct kunit_case sched_cluster_cases[] = {
	KUNIT_CASE_PARAM(decision_table, cluster_rows_gen_params),
	KUNIT_CASE_PARAM(random_situations, random_properties_gen_params),
	KUNIT_CASE(key_off_is_no_clusters),
	KUNIT_CASE(wakers_fill_their_clusters),
	KUNIT_CASE(equal_clusters_are_balanced),
	{}
};

static struct kunit_suite sched_cluster_suite = {
	.name		= "sched_cluster",
	.suite_init	= sched_cluster_init,
	.suite_exit	= sched_cluster_exit,
	.test_cases	= sched_cluster_cases,
};

kunit_test_suite(sched_cluster_suite);
