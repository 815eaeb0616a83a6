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

static int machines = 6;
module_param(machines, int, 0444);
MODULE_PARM_DESC(machines, "random machines for each property");

static int cases = 1000;
module_param(cases, int, 0444);
MODULE_PARM_DESC(cases, "random cases on each of them");

static ulong seed = 1;
module_param(seed, ulong, 0444);
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

static void call_rows(struct cluster_calls *calls)
{
	const struct row_filter *filter = calls->data;

	for (int i = 0; i < ARRAY_SIZE(cluster_rows); i++) {
		const struct cluster_row *row = &cluster_rows[i];
		struct cluster_result *result = &cluster_results[i];
		struct cluster_case c = row->c;

		if (row->machine != filter->machine || c.key_off != filter->key_off)
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

static void picture(struct kunit *test, const struct sched_fake_topology *machine,
		    const struct cluster_case *c)
{
	kunit_err(test, "  machine: %s, LLCs of %u CPUs, clusters of %u, cores of %u%s%s\n",
		  machine->name, machine->llc, machine->cluster, machine->smt ? : 1,
		  machine->apart ? ", apart" : "", c->key_off ? ", key off" : "");
	kunit_err(test, "  target %d, prev %d, recently used %d\n", c->target, c->prev, c->recent);
	kunit_err(test, "  idle CPUs: %64pbl, with SCHED_IDLE tasks alone: %64pbl%s\n", &c->idle,
		  &c->sched_idle, c->hint ? ", said to have an idle core" : "");
	kunit_err(test, "  allowed: %64pbl%s, nr_idle_scan %u%s\n", &c->allowed,
		  c->idle_policy ? ", a SCHED_IDLE task" : "", c->limit,
		  c->kthread ? ", woken by a kthread that is alone" : "");
}

static bool enough_cpus(void)
{
	return num_possible_cpus() == SCHED_FAKE_CPUS && cpu_online(CLUSTER_WAKER) &&
	       num_online_cpus() <= CLUSTER_MAX_ONLINE;
}

static void skip_without_machine(struct kunit *test, int error)
{
	if (!enough_cpus())
		kunit_skip(test, "n/a: needs %d CPUs, %d to %d of them online", SCHED_FAKE_CPUS,
			   CLUSTER_WAKER + 1, CLUSTER_MAX_ONLINE);
	if (error == -EOPNOTSUPP)
		kunit_skip(test, "n/a: this machine's threads or capacities are others");
	KUNIT_ASSERT_EQ(test, error, 0);
}

static void rows(struct kunit *test)
{
	const struct cluster_row *row = test->param_value;
	const struct cluster_result *result = &cluster_results[row - cluster_rows];
	const struct sched_fake_topology *machine = &cluster_machines[row->machine];
	struct cluster_view *views;

	skip_without_machine(test, cluster_machine_error[row->machine]);
	KUNIT_EXPECT_EQ_MSG(test, result->out.pick, row->pick, "%s", row->what);
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
		kunit_err(test, "  %s: %s\n", row->name, row->what);
		picture(test, machine, &row->c);
	}
}

KUNIT_ARRAY_PARAM_DESC(cluster_rows, cluster_rows, name);

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
	if (!enough_cpus())
		return 0;
	ret = make_cluster_task();
	for (int i = 0; i < NR_MACHINES && !ret; i++) {
		filter.machine = i;
		cluster_machine_error[i] = run_machine(&calls, &filter);
	}
	return ret;
}

static void sched_cluster_exit(struct kunit_suite *suite)
{
	end_cluster_task();
}

static void random_cases(struct kunit *test)
{
	const struct random_property *property = test->param_value;
	struct random_run *run = kunit_kzalloc(test, sizeof(*run), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, run);
	run->property = property;
	skip_without_machine(test, 0);
	skip_without_machine(test, run_random(run, seed, machines, cases));
	if (run->broken) {
		KUNIT_FAIL(test, "%s: not with seed %lu", property->what, seed);
		picture(test, &run->topology, &run->c);
		kunit_err(test, "  pick %d, recently used CPU afterwards %d, hint %d\n",
			  run->out.pick, run->out.recent, run->out.hint);
	}
}

KUNIT_ARRAY_PARAM_DESC(random_properties, random_properties, name);

static void key_off_is_no_clusters(struct kunit *test)
{
	struct kept_outcomes *kept = kunit_kzalloc(test, sizeof(*kept), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, kept);
	skip_without_machine(test, 0);
	skip_without_machine(test, keep_both_outcomes(kept, seed));
	for (int i = 0; i < KEPT_OUTCOMES; i++) {
		if (!memcmp(&kept->out[0][i], &kept->out[1][i], sizeof(kept->out[0][i])))
			continue;
		KUNIT_FAIL(test, "with the key off %d is picked, without clusters %d",
			   kept->out[1][i].pick, kept->out[0][i].pick);
		picture(test, &kept->run.topology, &kept->c[i]);
		break;
	}
}

/*
 * In each round the last CPU of each cluster wakes a task. Each task must stay
 * in the cluster of its waker.
 */
static void load_spreads(struct kunit *test)
{
	const struct sched_fake_topology *machine = &cluster_machines[KUNPENG_920];
	int rounds = machine->cluster - 1, clusters = machine->llc / machine->cluster;
	struct spread_run spread = { .machine = machine, .nr = rounds * clusters };
	struct cluster_calls calls = { .make = wake_tasks, .data = &spread };
	int ret;

	skip_without_machine(test, 0);
	skip_without_machine(test, sched_fake_topology_install(machine));
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

static struct kunit_case sched_cluster_cases[] = {
	KUNIT_CASE_PARAM(rows, cluster_rows_gen_params),
	KUNIT_CASE_PARAM(random_cases, random_properties_gen_params),
	KUNIT_CASE(key_off_is_no_clusters),
	KUNIT_CASE(load_spreads),
	{}
};

static struct kunit_suite sched_cluster_suite = {
	.name		= "sched_cluster",
	.suite_init	= sched_cluster_init,
	.suite_exit	= sched_cluster_exit,
	.test_cases	= sched_cluster_cases,
};

kunit_test_suite(sched_cluster_suite);
