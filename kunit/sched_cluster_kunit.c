// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit test of where a woken task goes: select_idle_sibling() on the domains
 * of machines with clusters. Belongs to the unit of fair.c, where it is static.
 *
 * The rows are called with every other CPU stopped, so that nobody sees what
 * they forge: which CPUs are idle, and what the task may use.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/stop_machine.h>

#include "sched_fake_topology.h"

#define CPU(n)		BIT_ULL(n)
#define CPUS(a, b)	GENMASK_ULL(b, a)
#define ALL		(~0ULL)
#define NO_LIMIT	100	/* more CPUs than any LLC here has */

enum cluster_machine { CLUSTERS_OF_4, TARGET_WITHOUT_CLUSTER, NO_LLC, NR_MACHINES };

/*
 * LLCs of 16 CPUs with clusters of 4, as on Kunpeng 920 and Jacobsville. On the
 * second one clusters end where the target's LLC begins. On all of them the
 * last CPU is left alone: from there the rows are called.
 */
static const struct sched_fake_topology cluster_machines[NR_MACHINES] = {
	[CLUSTERS_OF_4] = { .name = "clusters of 4", .cluster = 4, .llc = 16 },
	[TARGET_WITHOUT_CLUSTER] = {
		.name = "16 of 64 clustered", .cluster = 4, .clustered = 16, .llc = 16
	},
	[NO_LLC] = { .name = "no LLC" },
};

/**
 * struct cluster_row - a situation, and where the task has to go
 * @name:	public, never changed: "row-7b"
 * @what:	the property that it stands for
 * @machine:	enum cluster_machine
 * @key_off:	with sched_cluster_active off
 * @early:	returns before the recently used CPU is looked at
 * @kthread:	the waker is a kthread bound to @prev, which it is alone on
 * @target:	where the search begins
 * @prev:	where the task ran last
 * @recent:	where it ran before; @prev for none
 * @limit:	nr_idle_scan
 * @idle:	CPUs that are idle
 * @allowed:	CPUs that the task may use
 * @pick:	CPU to be returned
 * @examined:	CPUs that the scan has to look at for that; with a limit of one
 *		less the result is @short_of
 * @short_of:	see @examined
 */
struct cluster_row {
	char	name[12];
	char	what[72];
	u8	machine;
	bool	key_off;
	bool	early;
	bool	kthread;
	s8	target;
	s8	prev;
	s8	recent;
	u8	limit;
	u64	idle;
	u64	allowed;
	s8	pick;
	u8	examined;
	s8	short_of;
};

/* The default of every row: target 5, prev 9, no other, no limit. */
#define ROW(id, text, idle_, pick_, ...) \
	{ .name = id, .what = text, .target = 5, .prev = 9, .recent = 9, .limit = NO_LIMIT, \
	  .allowed = ALL, .idle = idle_, .pick = pick_, __VA_ARGS__ }
#define SCANS(nr, other)	.examined = nr, .short_of = other

static const struct cluster_row cluster_rows[] = {
	ROW("row-1", "an idle target wins", CPU(5) | CPU(6) | CPU(9), 5, .recent = 13,
	    .early = true),
	ROW("row-2", "an idle prev in the cluster is taken without a scan",
	    CPU(4) | CPU(6) | CPU(7), 6, .prev = 6, .recent = 13, .early = true),
	ROW("row-3", "prev in another cluster yields to the cluster scan",
	    CPU(7) | CPU(9), 7, SCANS(2, 9)),
	ROW("row-3b", "without the key prev is taken at once",
	    CPU(7) | CPU(9), 9, .key_off = true, .recent = 13, .early = true),
	ROW("row-3c", "without a cluster the LLC is what is shared",
	    CPU(23) | CPU(25), 25, .machine = TARGET_WITHOUT_CLUSTER, .target = 21, .prev = 25,
	    .recent = 29, .early = true),
	ROW("row-3d", "without the key the LLC is scanned, not the cluster",
	    CPU(0) | CPU(12), 0, .key_off = true, .target = 15, .prev = 13, .recent = 13,
	    SCANS(1, 15)),
	ROW("row-3e", "where the LLC has no cluster its groups are no clusters",
	    CPU(23), 23, .machine = TARGET_WITHOUT_CLUSTER, .target = 21, .prev = 25, .recent = 25,
	    SCANS(2, 21)),
	ROW("row-4", "the cluster busy, the LLC is scanned in order: prev is not preferred",
	    CPU(8) | CPU(9), 8, SCANS(5, 9)),
	ROW("row-4b", "prev is found by the scan", CPU(9), 9, SCANS(6, 9)),
	ROW("row-5", "the scan refused, prev is taken although the cluster has an idle CPU",
	    CPU(6) | CPU(9), 9, .limit = 0),
	ROW("row-6", "the cluster uses up the limit: prev", CPU(8) | CPU(9), 9, .limit = 4),
	ROW("row-7", "one more, and the LLC is reached", CPU(8) | CPU(9), 8, .limit = 5),
	ROW("row-7b", "the third of the cluster is within a limit of three",
	    CPU(4) | CPU(9), 4, .limit = 3),
	ROW("row-7c", "and not within two", CPU(4) | CPU(9), 9, .limit = 2),
	ROW("row-7d", "with nothing to fall back on the target is returned", CPU(4), 5, .limit = 2),
	ROW("row-8", "a recently used CPU in the cluster is taken without a scan",
	    CPU(6) | CPU(7), 6, .recent = 6),
	ROW("row-8b", "even if the scan would come to another one first",
	    CPU(6) | CPU(7), 7, .recent = 7),
	ROW("row-9", "and before prev in another cluster", CPU(6) | CPU(9), 6, .recent = 6),
	ROW("row-10", "a recently used CPU in another cluster yields",
	    CPU(7) | CPU(13), 7, .recent = 13, SCANS(2, 13)),
	ROW("row-11", "the recently used CPU is the last resort",
	    CPU(13), 13, .recent = 13, .limit = 0),
	ROW("row-12", "but prev comes first", CPU(9) | CPU(13), 9, .recent = 13, .limit = 0),
	ROW("row-13", "a recently used CPU that is not allowed is none",
	    CPU(13), 5, .recent = 13, .limit = 0, .allowed = ALL & ~CPU(13)),
	ROW("row-14", "prev below another LLC is never taken",
	    CPU(20), 5, .prev = 20, .recent = 20, SCANS(16, 5)),
	ROW("row-14b", "nor does it stop the scan",
	    CPU(0) | CPU(20), 0, .prev = 20, .recent = 20, SCANS(13, 5)),
	ROW("row-15", "what is not allowed in the cluster is passed over",
	    CPU(6) | CPU(7) | CPU(8), 8, .allowed = CPU(5) | CPUS(8, 15), SCANS(2, 5)),
	ROW("row-15b", "only what is allowed counts: one is the target itself",
	    CPU(6) | CPU(7) | CPU(8), 5, .allowed = CPU(5) | CPUS(8, 15), .limit = 1),
	ROW("row-15c", "and the second is found",
	    CPU(6) | CPU(7) | CPU(8), 8, .allowed = CPU(5) | CPUS(8, 15), .limit = 2),
	ROW("row-16", "the walk begins behind the target",
	    CPU(4) | CPU(6) | CPU(7), 6, SCANS(1, 5)),
	ROW("row-16b", "and wraps within the cluster", CPU(4), 4, SCANS(3, 5)),
	ROW("row-17", "the LLC is walked from behind the target, too",
	    CPU(3) | CPU(12), 12, SCANS(9, 5)),
	ROW("row-17b", "and wraps",
	    CPU(0) | CPU(9), 0, .target = 14, .prev = 13, .recent = 13, SCANS(5, 14)),
	ROW("row-17c", "the cluster comes before what is nearer in the walk",
	    CPU(0) | CPU(12), 12, .target = 15, .prev = 13, .recent = 13, SCANS(1, 15)),
	ROW("row-18", "with all busy the target is returned", 0, 5, SCANS(16, 5)),
	ROW("row-21", "a kthread bound to prev has the task behind itself",
	    CPU(6), 63, .prev = 63, .recent = 13, .kthread = true, .early = true),
	ROW("row-23", "without an LLC there is nothing to scan",
	    CPU(6), 5, .machine = NO_LLC, .prev = 6, .recent = 6),
};

/* What came of a row: with its own limit, with one that is just enough, with one less. */
static struct cluster_result {
	int	pick;
	int	recent;
	int	enough;
	int	short_of;
} cluster_results[ARRAY_SIZE(cluster_rows)];

/* The rows that are called in one go. */
struct cluster_calls {
	struct task_struct	*task;
	enum cluster_machine	machine;
	bool			key_off;
};

/* Of a CPU whose rq is forged. */
struct saved_rq {
	struct task_struct	*curr;
	unsigned int		nr_running;
	unsigned int		ttwu_pending;
};

static struct saved_rq saved_rqs[SCHED_FAKE_CPUS];

static struct sched_domain_shared *shared_of(int cpu)
{
	struct sched_domain *sd = rcu_dereference_check(per_cpu(sd_llc, cpu), 1);

	return sd ? sd->shared : NULL;
}

static void forge(const struct cluster_row *row, int cpu)
{
	struct rq *rq = cpu_rq(cpu);
	bool idle = row->idle & CPU(cpu), alone = row->kthread && cpu == row->prev;

	RCU_INIT_POINTER(rq->curr, idle ? rq->idle : rq->stop);
	rq->nr_running = idle ? 0 : alone ? 1 : 2;
	rq->ttwu_pending = 0;
}

static int pick_of(const struct cluster_row *row, struct task_struct *p, int limit)
{
	struct sched_domain_shared *shared = shared_of(row->target);
	int pick, saved = 0;

	p->recent_used_cpu = row->recent;
	if (shared) {
		saved = shared->nr_idle_scan;
		shared->nr_idle_scan = limit;
	}
	pick = select_idle_sibling(p, row->prev, row->target);
	if (shared)
		shared->nr_idle_scan = saved;
	return pick;
}

static void call_row(const struct cluster_row *row, struct task_struct *p,
		     struct cluster_result *result)
{
	int cpu;

	cpumask_clear(&p->cpus_mask);
	for_each_online_cpu(cpu) {
		forge(row, cpu);
		if (row->allowed & CPU(cpu))
			cpumask_set_cpu(cpu, &p->cpus_mask);
	}
	result->pick = pick_of(row, p, row->limit);
	result->recent = p->recent_used_cpu;
	if (!row->examined)
		return;
	result->enough = pick_of(row, p, row->examined);
	result->short_of = pick_of(row, p, row->examined - 1);
}

/*
 * Runs with all CPUs stopped and interrupts off. The rqs are forged behind
 * their owners' backs, and are as they were when the owners go on.
 */
static int call_rows(void *data)
{
	const struct cluster_calls *calls = data;
	struct task_struct *p = calls->task;
	struct cpumask allowed;
	int cpu;

	cpumask_copy(&allowed, &p->cpus_mask);
	for_each_online_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		saved_rqs[cpu] = (struct saved_rq) {
			rcu_dereference_check(rq->curr, 1), rq->nr_running, rq->ttwu_pending
		};
	}
	for (int i = 0; i < ARRAY_SIZE(cluster_rows); i++) {
		const struct cluster_row *row = &cluster_rows[i];

		if (row->machine == calls->machine && row->key_off == calls->key_off)
			call_row(row, p, &cluster_results[i]);
	}
	for_each_online_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);
		const struct saved_rq *saved = &saved_rqs[cpu];

		RCU_INIT_POINTER(rq->curr, saved->curr);
		rq->nr_running = saved->nr_running;
		rq->ttwu_pending = saved->ttwu_pending;
	}
	cpumask_copy(&p->cpus_mask, &allowed);
	return 0;
}

static int last_cpu(void)
{
	return cpumask_last(cpu_online_mask);
}

static void picture(struct kunit *test, const struct cluster_row *row)
{
	const struct sched_fake_topology *machine = &cluster_machines[row->machine];
	u64 mask = row->idle;

	kunit_err(test, "  %s: %s\n", row->name, row->what);
	kunit_err(test, "  machine: %s, LLCs of %u CPUs, clusters of %u%s\n", machine->name,
		  machine->llc, machine->cluster, row->key_off ? ", key off" : "");
	kunit_err(test, "  idle CPUs: %64pbl, target %d, prev %d, recently used %d\n", &mask,
		  row->target, row->prev, row->recent);
	mask = row->allowed;
	kunit_err(test, "  allowed: %64pbl, nr_idle_scan %u\n", &mask, row->limit);
}

static void rows(struct kunit *test)
{
	const struct cluster_row *row = test->param_value;
	const struct cluster_result *result = &cluster_results[row - cluster_rows];

	if (num_online_cpus() != SCHED_FAKE_CPUS)
		kunit_skip(test, "n/a: needs %d CPUs", SCHED_FAKE_CPUS);
	KUNIT_EXPECT_EQ_MSG(test, result->pick, row->pick, "%s", row->what);
	KUNIT_EXPECT_EQ_MSG(test, result->recent, row->early ? row->recent : row->prev,
			    "recent_used_cpu is left %s", row->early ? "alone" : "at prev");
	if (row->examined) {
		KUNIT_EXPECT_EQ_MSG(test, result->enough, row->pick,
				    "examining %u CPUs is enough", row->examined);
		KUNIT_EXPECT_EQ_MSG(test, result->short_of, row->short_of,
				    "examining %u CPUs is not", row->examined - 1);
	}
	if (test->status == KUNIT_FAILURE)
		picture(test, row);
}

KUNIT_ARRAY_PARAM_DESC(cluster_rows, cluster_rows, name);

static int never_run(void *unused)
{
	return 0;
}

/* The domains are rebuilt once for each machine, not for each row. */
static int run_machine(struct cluster_calls *calls)
{
	const struct sched_fake_topology *machine = &cluster_machines[calls->machine];
	int ret = sched_fake_topology_install(machine);

	if (ret)
		return ret;
	calls->key_off = false;
	/* With either of them otherwise the rows would say nothing. */
	if (static_key_enabled(&sched_cluster_active.key) != !!machine->cluster ||
	    !sched_feat(SIS_UTIL))
		ret = -EINVAL;
	if (!ret)
		ret = stop_machine(call_rows, calls, cpumask_of(last_cpu()));
	if (!ret && machine->cluster) {
		calls->key_off = true;
		static_branch_disable(&sched_cluster_active);
		ret = stop_machine(call_rows, calls, cpumask_of(last_cpu()));
		static_branch_enable(&sched_cluster_active);
	}
	sched_fake_topology_remove();
	return ret;
}

static int sched_cluster_init(struct kunit_suite *suite)
{
	struct cluster_calls calls;
	int ret = 0;

	if (num_online_cpus() != SCHED_FAKE_CPUS)
		return 0;
	calls.task = kthread_create(never_run, NULL, "cluster_row");
	if (IS_ERR(calls.task))
		return PTR_ERR(calls.task);
	for (calls.machine = 0; calls.machine < NR_MACHINES && !ret; calls.machine++)
		ret = run_machine(&calls);
	kthread_stop(calls.task);
	return ret;
}

static struct kunit_case sched_cluster_cases[] = {
	KUNIT_CASE_PARAM(rows, cluster_rows_gen_params),
	{}
};

static struct kunit_suite sched_cluster_suite = {
	.name		= "sched_cluster",
	.suite_init	= sched_cluster_init,
	.test_cases	= sched_cluster_cases,
};

kunit_test_suite(sched_cluster_suite);
