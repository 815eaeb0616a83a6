// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit test that wakes real tasks, and compares where they go with the model
 * of the wake-up path. Uses this machine's clusters, or made-up ones if it has
 * none.
 *
 * In each round this CPU wakes a sleeping task that last ran on another CPU.
 * The test notes which CPUs are idle when the wake-up begins. They may change
 * before the scheduler looks, so not every round can agree with the model, but
 * most must.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mmu_context.h>
#include <linux/prandom.h>
#include <linux/wait.h>
#include <trace/events/sched.h>

#include "../sched.h"
#include "sched_cluster_model.h"
#include "sched_fake_topology.h"

#define ROUNDS	100

/* KUnit gives a case 300 s. */
#define MOST_SECONDS	60

/**
 * struct wakeup_run - rounds of wake-ups
 * @wakee:	the task that is woken
 * @queue:	where it sleeps
 * @go:		tells the task to leave its sleep
 * @armed:	the next wake-up belongs to a round
 * @here:	the CPU that wakes it up
 * @there:	the CPU where it ran last
 * @views:	what the CPUs of this machine share
 * @by_model:	where it goes according to the model
 * @before:	where it would go without the cluster scan
 * @pick:	where it goes
 * @rounds:	number of rounds
 * @agree:	number of rounds in which it went to @by_model
 * @differ:	number of rounds in which @by_model and @before differ, and it
 *		went to one of them
 * @clustered:	number of these rounds in which it went to @by_model
 */
struct wakeup_run {
	struct task_struct	*wakee;
	wait_queue_head_t	queue;
	bool			go;
	bool			armed;
	int			here;
	int			there;
	struct cluster_view	views[MODEL_CPUS];
	int			by_model;
	int			before;
	int			pick;
	int			rounds;
	int			agree;
	int			differ;
	int			clustered;
};

static u64 mask_of(const struct cpumask *mask)
{
	u64 bits = 0;
	int cpu;

	for_each_cpu(cpu, mask)
		if (cpu < MODEL_CPUS)
			bits |= BIT_ULL(cpu);
	return bits;
}

static void view_domains(struct cluster_view *views)
{
	int cpu;

	guard(rcu)();
	for_each_online_cpu(cpu) {
		struct sched_domain *sd, *llc = rcu_dereference(per_cpu(sd_llc, cpu));
		struct cluster_view *view = &views[cpu];

		*view = (struct cluster_view) {
			.siblings = mask_of(cpu_smt_mask(cpu)),
			.cache = BIT_ULL(cpu),
		};
		if (!llc)
			continue;
		view->llc = mask_of(sched_domain_span(llc));
		view->cache = view->llc;
		view->near = view->llc;
		for (sd = rcu_dereference(cpu_rq(cpu)->sd); sd; sd = rcu_dereference(sd->parent))
			if (sd->flags & SD_CLUSTER)
				view->near = mask_of(sched_domain_span(sd));
		if (view->near != view->llc)
			view->first = view->near;
	}
}

/* The first CPU whose LLC has online CPUs outside of its cluster, or -1. */
static int first_clustered(const struct cluster_view *views)
{
	u64 online = mask_of(cpu_online_mask);
	int cpu;

	for_each_online_cpu(cpu)
		if (views[cpu].first && views[cpu].llc & online & ~views[cpu].first)
			return cpu;
	return -1;
}

/*
 * Reset the limit of the scan to the whole LLC. On an idle machine, load
 * balancing would arrive at the same limit later.
 */
static void forget_limit(int cpu)
{
	struct sched_domain *sd;

	guard(rcu)();
	sd = rcu_dereference(per_cpu(sd_llc, cpu));
	if (sd && sd->shared)
		WRITE_ONCE(sd->shared->nr_idle_scan, sd->span_weight);
}

static void probe_waking(void *data, struct task_struct *p)
{
	struct wakeup_run *run = data;
	struct cluster_case c = { .target = run->here, .limit = CLUSTER_NO_LIMIT };
	struct sched_domain *sd;
	int cpu;

	if (p != run->wakee || !READ_ONCE(run->armed))
		return;
	for_each_online_cpu(cpu)
		if (idle_cpu(cpu))
			c.idle |= BIT_ULL(cpu);
	c.prev = task_cpu(p);
	c.recent = p->recent_used_cpu;
	c.allowed = mask_of(p->cpus_ptr);
	rcu_read_lock();
	sd = rcu_dereference(per_cpu(sd_llc, run->here));
	c.hint = sd && sd->shared && READ_ONCE(sd->shared->has_idle_cores);
	rcu_read_unlock();
	run->by_model = cluster_model(run->views, &c, run->here).pick;
	c.key_off = true;
	run->before = cluster_model(run->views, &c, run->here).pick;
}

static void probe_wakeup(void *data, struct task_struct *p)
{
	struct wakeup_run *run = data;

	if (p != run->wakee || !READ_ONCE(run->armed))
		return;
	run->pick = task_cpu(p);
	smp_store_release(&run->armed, false);	/* pairs with wait_woken_up() */
}

/*
 * Runs on run->there, so that this is where it ran last, and then sleeps with
 * all online CPUs allowed.
 */
static int sleeper(void *data)
{
	struct wakeup_run *run = data;

	while (!kthread_should_stop()) {
		set_cpus_allowed_ptr(current, cpumask_of(READ_ONCE(run->there)));
		set_cpus_allowed_ptr(current, cpu_online_mask);
		wait_event_interruptible(run->queue, READ_ONCE(run->go) || kthread_should_stop());
		WRITE_ONCE(run->go, false);
	}
	return 0;
}

/* Wait until the task sleeps and the CPU that it left is idle. */
static bool wait_asleep(struct wakeup_run *run)
{
	unsigned long end = jiffies + HZ;

	while (READ_ONCE(run->go) || !wait_task_inactive(run->wakee, TASK_INTERRUPTIBLE) ||
	       !idle_cpu(run->there)) {
		if (time_after(jiffies, end))
			return false;
		cond_resched();
	}
	return true;
}

/* Wait for the wake-up: the target CPU may complete it asynchronously. */
static bool wait_woken_up(struct wakeup_run *run)
{
	unsigned long end = jiffies + HZ;

	while (smp_load_acquire(&run->armed)) {	/* pairs with probe_wakeup() */
		if (time_after(jiffies, end))
			return false;
		cond_resched();
	}
	return true;
}

static void count_round(struct wakeup_run *run)
{
	run->rounds++;
	run->agree += run->pick == run->by_model;
	if (run->by_model == run->before)
		return;
	run->differ += run->pick == run->by_model || run->pick == run->before;
	run->clustered += run->pick == run->by_model;
}

/* Any CPU but @here. */
static int random_other(struct rnd_state *rnd, int here)
{
	int nr = prandom_u32_state(rnd) % (num_online_cpus() - 1), cpu;

	for_each_online_cpu(cpu)
		if (cpu != here && !nr--)
			break;
	return cpu;
}

static void wake_rounds(struct wakeup_run *run)
{
	unsigned long end = jiffies + MOST_SECONDS * HZ;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 1);
	for (int i = 0; i < ROUNDS && time_before(jiffies, end); i++) {
		if (!wait_asleep(run))
			continue;
		forget_limit(run->here);
		/* Once awake, it runs on run->there and sleeps again. */
		WRITE_ONCE(run->there, random_other(&rnd, run->here));
		WRITE_ONCE(run->go, true);
		WRITE_ONCE(run->armed, true);
		/* Sync: if the waker is alone, its CPU is the target. */
		wake_up_interruptible_sync(&run->queue);
		if (wait_woken_up(run))
			count_round(run);
	}
}

/* Probe the wake-up tracepoints while the rounds run. */
static int run_rounds(struct wakeup_run *run)
{
	int ret = register_trace_sched_waking(probe_waking, run);

	if (ret)
		return ret;
	ret = register_trace_sched_wakeup(probe_wakeup, run);
	if (!ret) {
		wake_rounds(run);
		unregister_trace_sched_wakeup(probe_wakeup, run);
	}
	unregister_trace_sched_waking(probe_waking, run);
	tracepoint_synchronize_unregister();
	return ret;
}

static int wake_from(struct wakeup_run *run, int here)
{
	int ret;

	run->here = here;
	run->there = here ? 0 : 1;
	init_waitqueue_head(&run->queue);
	run->wakee = kthread_run(sleeper, run, "sched_wakeup");
	if (IS_ERR(run->wakee))
		return PTR_ERR(run->wakee);
	set_cpus_allowed_ptr(current, cpumask_of(here));
	ret = run_rounds(run);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	kthread_stop(run->wakee);
	return ret;
}

static void remove_clusters(void *unused)
{
	sched_fake_topology_remove();
}

/* On this machine's clusters or, if it has none, on made-up ones. */
static void run_case(struct kunit *test, bool key_off)
{
	static const struct sched_fake_topology clusters = {
		.name = "clusters", .cpus = 8, .cluster = 4, .llc = 8,
	};
	struct wakeup_run *run = kunit_kzalloc(test, sizeof(*run), GFP_KERNEL);
	int here, ret, count = 0;
	bool fake;

	KUNIT_ASSERT_NOT_NULL(test, run);
	if (num_online_cpus() < 8 || nr_cpu_ids > MODEL_CPUS)
		kunit_skip(test, "n/a: needs 8 to %d CPUs online", MODEL_CPUS);
	view_domains(run->views);
	here = first_clustered(run->views);
	fake = here < 0;
	if (fake) {
		KUNIT_ASSERT_EQ(test, sched_fake_topology_install(&clusters), 0);
		ret = kunit_add_action_or_reset(test, remove_clusters, NULL);
		KUNIT_ASSERT_EQ(test, ret, 0);
		view_domains(run->views);
		here = first_clustered(run->views);
	}
	KUNIT_ASSERT_GE(test, here, 0);
	if (key_off)
		count = sched_fake_key_off(&sched_cluster_active);
	ret = wake_from(run, here);
	sched_fake_key_restore(&sched_cluster_active, count);

	KUNIT_ASSERT_EQ(test, ret, 0);
	kunit_info(test, "%s, from CPU %d: %d wake-ups, %d by the model%s\n",
		   fake ? "made-up clusters" : "this machine's clusters", here, run->rounds,
		   run->agree, key_off ? " with the key on" : "");
	kunit_info(test, "where the cluster scan decides: %d to its CPU, %d as before it\n",
		   run->clustered, run->differ - run->clustered);
	KUNIT_EXPECT_GT(test, run->differ, 0);
	if (key_off) {
		KUNIT_EXPECT_LT(test, 2 * run->clustered, run->differ);
	} else {
		KUNIT_EXPECT_GT(test, 2 * run->clustered, run->differ);
		KUNIT_EXPECT_GT(test, 2 * run->agree, run->rounds);
	}
}

static void cluster_first(struct kunit *test)
{
	run_case(test, false);
}

/*
 * With the key off, the same wake-ups must go elsewhere. Else cluster_first
 * would prove nothing.
 */
static void prev_first_with_key_off(struct kunit *test)
{
	run_case(test, true);
}

static struct kunit_case sched_wakeup_cases[] = {
	KUNIT_CASE(cluster_first),
	KUNIT_CASE(prev_first_with_key_off),
	{}
};

static struct kunit_suite sched_wakeup_suite = {
	.name		= "sched_wakeup",
	.test_cases	= sched_wakeup_cases,
};

kunit_test_suite(sched_wakeup_suite);
