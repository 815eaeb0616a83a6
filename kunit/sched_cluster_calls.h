/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls select_idle_sibling() in made-up situations. Included in the
 * compilation unit of fair.c, because the function is static there.
 *
 * All other CPUs are stopped during the calls, so that none of them sees the
 * forged state: which CPUs are idle, and which CPUs the task may use.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CLUSTER_CALLS_H
#define _KERNEL_SCHED_TESTS_SCHED_CLUSTER_CALLS_H

#include <linux/kthread.h>
#include <linux/stop_machine.h>

#include "sched_cluster_model.h"
#include "sched_fake_topology.h"

/* The fields of a CPU's rq that are forged, as they were before. */
struct saved_rq {
	struct task_struct	*curr;
	unsigned int		nr_running;
	unsigned int		nr_idle;
	unsigned int		ttwu_pending;
};

static struct saved_rq saved_rqs[SCHED_FAKE_CPUS];

/* The wakee. It never runs. */
static struct task_struct *cluster_task;

static_assert(MODEL_CPUS == SCHED_FAKE_CPUS);

/*
 * The CPU that makes the calls. The machine's other CPUs need not be online,
 * because the calls only ask whether a CPU is idle. With fewer CPUs online,
 * fewer have to be stopped.
 */
#define CLUSTER_WAKER		0
#define CLUSTER_MAX_ONLINE	16

static void save_rqs(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		if (cpu >= SCHED_FAKE_CPUS)
			break;
		saved_rqs[cpu] = (struct saved_rq) {
			.curr = rcu_dereference_check(rq->curr, 1),
			.nr_running = rq->nr_running,
			.nr_idle = rq->cfs.h_nr_idle,
			.ttwu_pending = rq->ttwu_pending,
		};
	}
}

static void restore_rqs(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);
		const struct saved_rq *saved = &saved_rqs[cpu];

		if (cpu >= SCHED_FAKE_CPUS)
			break;
		RCU_INIT_POINTER(rq->curr, saved->curr);
		rq->nr_running = saved->nr_running;
		rq->cfs.h_nr_idle = saved->nr_idle;
		rq->ttwu_pending = saved->ttwu_pending;
	}
}

static void forge_rq(const struct cluster_case *c, int cpu)
{
	bool idle = c->idle & BIT_ULL(cpu), sched_idle = !idle && c->sched_idle & BIT_ULL(cpu);
	bool alone = c->kthread && cpu == CLUSTER_WAKER;
	struct rq *rq = cpu_rq(cpu);

	RCU_INIT_POINTER(rq->curr, idle ? rq->idle : rq->stop);
	rq->nr_running = idle ? 0 : sched_idle || alone ? 1 : 2;
	rq->cfs.h_nr_idle = sched_idle;
	rq->ttwu_pending = 0;
}

static void forge_task(const struct cluster_case *c)
{
	struct task_struct *p = cluster_task;
	int cpu;

	cpumask_clear(&p->cpus_mask);
	for_each_possible_cpu(cpu)
		if (cpu < SCHED_FAKE_CPUS && c->allowed & BIT_ULL(cpu))
			cpumask_set_cpu(cpu, &p->cpus_mask);
	p->policy = c->idle_policy ? SCHED_IDLE : SCHED_NORMAL;
	p->se.avg.util_est = c->util;
	p->recent_used_cpu = c->recent;
}

/*
 * The scan reads its limit from here: the LLC's, or that of the domain that
 * spans all capacities.
 */
static struct sched_domain_shared *scanned_shared(int cpu)
{
	struct sched_domain *sd = NULL;

	if (sched_asym_cpucap_active())
		sd = rcu_dereference_check(per_cpu(sd_asym_cpucapacity, cpu), 1);
	if (!sd)
		sd = rcu_dereference_check(per_cpu(sd_llc, cpu), 1);
	return sd ? sd->shared : NULL;
}

/**
 * call_select_idle_sibling() - call the kernel in a situation
 * @c: the situation
 *
 * The caller has stopped the machine and saved its rqs.
 *
 * Return: the outcome.
 */
static struct cluster_outcome call_select_idle_sibling(const struct cluster_case *c)
{
	struct sched_domain_shared *shared = scanned_shared(c->target);
	struct cluster_outcome out = {};
	int cpu;

	for_each_possible_cpu(cpu)
		if (cpu < SCHED_FAKE_CPUS)
			forge_rq(c, cpu);
	forge_task(c);
	set_idle_cores(c->target, c->hint);
	if (shared)
		shared->nr_idle_scan = c->limit;
	out.pick = select_idle_sibling(cluster_task, c->prev, c->target);
	out.recent = cluster_task->recent_used_cpu;
	out.hint = test_idle_cores(c->target);
	return out;
}

/**
 * struct cluster_calls - calls that are made in one stop_machine()
 * @make:	makes the calls, with the machine stopped
 * @data:	argument for @make
 */
struct cluster_calls {
	void			(*make)(struct cluster_calls *calls);
	void			*data;
};

/*
 * The rqs are forged while their CPUs are stopped, and restored before the CPUs
 * continue. Changes to the sched domains are not restored: the domains are
 * destroyed afterwards.
 */
static int make_calls(void *data)
{
	struct cluster_calls *calls = data;
	struct task_struct *p = cluster_task;
	struct cpumask allowed;

	cpumask_copy(&allowed, &p->cpus_mask);
	save_rqs();
	calls->make(calls);
	restore_rqs();
	cpumask_copy(&p->cpus_mask, &allowed);
	p->policy = SCHED_NORMAL;
	p->se.avg.util_est = 0;
	return 0;
}

static int call_with_key(struct cluster_calls *calls, bool key_off)
{
	int count = key_off ? sched_fake_key_off(&sched_cluster_active) : 0;
	int ret = stop_machine(make_calls, calls, cpumask_of(CLUSTER_WAKER));

	sched_fake_key_restore(&sched_cluster_active, count);
	return ret;
}

static int never_run(void *unused)
{
	return 0;
}

static int make_cluster_task(void)
{
	struct task_struct *p = kthread_create(never_run, NULL, "cluster_task");

	if (IS_ERR(p))
		return PTR_ERR(p);
	cluster_task = p;
	return 0;
}

static void end_cluster_task(void)
{
	if (cluster_task)
		kthread_stop(cluster_task);
	cluster_task = NULL;
}

/* What each CPU shares, derived from the machine's shape, not its domains. */
static void view_of(const struct sched_fake_topology *t, struct cluster_view *views)
{
	bool any = false;

	for (int cpu = 0; cpu < SCHED_FAKE_CPUS; cpu++) {
		u64 siblings = sched_fake_siblings(t, cpu);
		bool isolated = t->isolated & BIT_ULL(cpu);
		u64 cluster = isolated ? 0 : sched_fake_cluster(t, cpu) & ~t->isolated;
		u64 llc = isolated ? 0 : sched_fake_llc(t, cpu) & ~t->isolated;
		/* One core is not a cluster, and one CPU shares no LLC. */
		bool clustered = cluster & ~siblings;

		if (llc == BIT_ULL(cpu))
			llc = 0;
		views[cpu] = (struct cluster_view) {
			.siblings = siblings,
			.near = clustered ? cluster : llc,
			.first = clustered && cluster != llc ? cluster : 0,
			.llc = llc,
			.cache = LLC_ID_OF_DOMAIN ? llc | BIT_ULL(cpu) :
						    sched_fake_span(t, t->llc, cpu),
		};
		any |= clustered;
	}
	/* Without any cluster the key is off. */
	for (int cpu = 0; cpu < SCHED_FAKE_CPUS && !any; cpu++)
		views[cpu].near = views[cpu].cache;
}

#endif /* _KERNEL_SCHED_TESTS_SCHED_CLUSTER_CALLS_H */
