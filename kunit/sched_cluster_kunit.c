// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of where a woken task is placed. Included in the compilation unit
 * of fair.c, because select_idle_sibling() is static there.
 *
 * Each situation is real: the CPUs that shall be busy run a task, the others
 * are idle, and the domains are those that the kernel builds for the machine of
 * the situation. The function is called when the CPUs have come to rest.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <uapi/linux/sched/types.h>

#include "sched_test_topology.h"

#define ANY		(~0UL)

/* On slow emulated CPUs the other CPUs need this long to come to rest. */
#define REST_SECONDS	60

static const struct sched_test_topology
no_llc = { .name = "no LLC", .cpus = 2, .llc = 1 },
llc_of_2 = { .name = "LLC of 2", .cpus = 2, .llc = 2 },
cluster_is_llc = { .name = "cluster is LLC", .cpus = 2, .cluster = 2, .llc = 2 },
llc_of_8 = { .name = "LLC of 8", .cpus = 8, .llc = 8 },
clusters_of_4 = { .name = "clusters of 4", .cpus = 8, .cluster = 4, .llc = 8 },
two_llcs = { .name = "two LLCs", .cpus = 8, .cluster = 2, .llc = 4 },
mixed_llc = { .name = "mixed LLC", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 8 },
smt_clusters = { .name = "clusters of 2 cores", .cpus = 8, .cluster = 4, .llc = 8, .smt = 2 },
smt_two_llcs = { .name = "LLCs of 2 cores", .cpus = 8, .llc = 4, .smt = 2 },
big_little = { .name = "big and little", .cpus = 8, .llc = 8, .little = 4 },
smt_big_little = { .name = "big and little cores", .cpus = 8, .llc = 8, .smt = 2, .little = 4 };

/* Who calls: which task, and from where. */
enum caller {
	ORDINARY_KTHREAD,	/* may run on several CPUs */
	PER_CPU_KTHREAD,
	INTERRUPT,		/* of a per-CPU kthread */
};

/* What the LLC of the target is known for. */
enum hint { NOT_ASKED, NO_IDLE_CORE, IDLE_CORE };

/* A wake-up. */
struct situation {
	char		name[96];	/* the property that it stands for */
	const struct sched_test_topology *machine;
	unsigned long	idle;		/* the idle CPUs of the machine; all others are busy */
	unsigned long	sched_idle;	/* CPUs that are busy with a SCHED_IDLE task */
	int		target;		/* the CPU that the wake-up has chosen so far */
	int		prev;		/* where the task ran last */
	int		recent;		/* where it ran before that */
	int		waker;		/* one more than the CPU that calls, 0 for the target */
	enum caller	caller;
	bool		crowded;	/* the caller's CPU has one more task */
	enum hint	hint;		/* whether an idle core is said to exist */
	unsigned long	occupied;	/* that core; it becomes busy before the call */
	unsigned int	demand;		/* the least capacity that the task asks for, 0 for none */
	bool		heavy;		/* the task has run so much that no CPU is big enough */
	unsigned long	allowed;	/* CPUs that the task may use, 0 for all */
	unsigned long	pick;		/* each of these CPUs is right */
	bool		at_once;	/* the recently used CPU is not looked at, and kept */
	bool		limited;	/* the kernel may limit the scan, and does not */
};

#define TPR(t, p, r)	.target = t, .prev = p, .recent = r

static const struct situation situations[] = {
	/* Two CPUs: no cluster, or a cluster that is the LLC. */
	{ "idle_target_wins", &llc_of_2, .idle = CPU(0), TPR(0, 1, 1), .waker = 1 + 1,
	  .pick = CPU(0), .at_once = true },
	{ "idle_prev_of_the_llc_is_taken", &llc_of_2, .idle = CPU(1), TPR(0, 1, 0), .pick = CPU(1),
	  .at_once = true },
	{ "busy_prev_is_not_taken", &llc_of_2, TPR(0, 1, 0), .pick = CPU(0) },
	{ "scan_finds_the_idle_cpu", &llc_of_2, .idle = CPU(1), .pick = CPU(1) },
	{ "nothing_idle_keeps_the_target", &llc_of_2, TPR(1, 1, 1), .pick = CPU(1) },
	{ "scan_respects_affinity", &llc_of_2, .idle = CPU(1), .allowed = CPU(0), .pick = CPU(0) },
	{ "recently_used_cpu_respects_affinity", &llc_of_2, .idle = CPU(1), TPR(0, 0, 1),
	  .allowed = CPU(0), .pick = CPU(0) },
	{ "cpu_of_another_llc_is_not_taken", &no_llc, .idle = CPU(1), TPR(0, 1, 1),
	  .pick = CPU(0) },
	{ "recently_used_cpu_of_another_llc_is_not_taken", &no_llc, .idle = CPU(1), TPR(0, 0, 1),
	  .pick = CPU(0) },
	{ "where_the_cluster_is_the_llc_prev_is_near", &cluster_is_llc, .idle = CPU(1),
	  TPR(0, 1, 0), .pick = CPU(1), .at_once = true },
	{ "where_the_cluster_is_the_llc_it_is_scanned", &cluster_is_llc, .idle = CPU(1),
	  .pick = CPU(1) },
	{ "cpu_with_sched_idle_tasks_alone_is_as_good_as_idle", &llc_of_2, .sched_idle = CPU(1),
	  .pick = CPU(1) },

	/* A per-CPU kthread that wakes a task of its CPU has nothing more to do there. */
	{ "per_cpu_kthread_keeps_the_task_of_its_cpu", &llc_of_2, TPR(1, 0, 0), .waker = 0 + 1,
	  .caller = PER_CPU_KTHREAD, .pick = CPU(0), .at_once = true },
	{ "other_task_does_not_keep_the_task_of_its_cpu", &llc_of_2, TPR(1, 0, 0), .waker = 0 + 1,
	  .pick = CPU(1) },
	{ "interrupt_does_not_keep_the_task_of_its_cpu", &llc_of_2, TPR(1, 0, 0), .waker = 0 + 1,
	  .caller = INTERRUPT, .pick = CPU(1) },
	{ "per_cpu_kthread_beside_a_task_does_not_keep_another", &llc_of_2, TPR(1, 0, 0),
	  .waker = 0 + 1, .caller = PER_CPU_KTHREAD, .crowded = true, .pick = CPU(1) },
	{ "per_cpu_kthread_does_not_keep_the_task_of_another_cpu", &llc_of_2, TPR(1, 1, 0),
	  .waker = 0 + 1, .caller = PER_CPU_KTHREAD, .pick = CPU(1) },

	/* Without clusters all CPUs of the LLC are as near. */
	{ "without_clusters_prev_comes_before_the_scan", &llc_of_8, .idle = CPU(1) | CPUS(6, 7),
	  TPR(5, 1, 1), .pick = CPU(1), .at_once = true },
	{ "without_clusters_recently_used_cpu_comes_before_the_scan", &llc_of_8,
	  .idle = CPU(1) | CPUS(6, 7), TPR(5, 5, 1), .pick = CPU(1) },
	{ "without_clusters_the_llc_is_scanned", &llc_of_8, .idle = CPU(2), TPR(5, 5, 5),
	  .pick = CPU(2) },

	/* The cluster first, the LLC next. A walk of the LLC begins behind the target. */
	{ "cluster_comes_before_the_llc", &clusters_of_4, .idle = CPUS(0, 3) | CPU(4),
	  TPR(7, 7, 7), .pick = CPU(4) },
	{ "any_idle_cpu_of_the_cluster_will_do", &clusters_of_4, .idle = CPUS(0, 3) | CPUS(4, 5),
	  TPR(7, 7, 7), .pick = CPUS(4, 5) },
	{ "with_the_cluster_busy_the_llc_is_scanned", &clusters_of_4, .idle = CPUS(1, 2),
	  TPR(5, 5, 5), .pick = CPUS(1, 2) },
	{ "nothing_idle_in_the_llc_keeps_the_target", &clusters_of_4, TPR(5, 1, 1),
	  .pick = CPU(5) },
	{ "idle_prev_of_the_cluster_is_taken_without_a_scan", &clusters_of_4,
	  .idle = CPU(4) | CPUS(6, 7), TPR(5, 7, 3), .pick = CPU(7), .at_once = true },
	{ "prev_of_another_cluster_yields_to_the_cluster", &clusters_of_4, .idle = CPU(1) | CPU(4),
	  TPR(5, 1, 1), .pick = CPU(4) },
	{ "prev_of_another_cluster_is_better_than_none", &clusters_of_4, .idle = CPU(1),
	  TPR(5, 1, 1), .pick = CPU(1) },
	{ "recently_used_cpu_of_the_cluster_is_taken_without_a_scan", &clusters_of_4,
	  .idle = CPU(4) | CPUS(6, 7), TPR(5, 1, 6), .pick = CPU(6) },
	{ "recently_used_cpu_of_the_cluster_comes_before_prev_of_another", &clusters_of_4,
	  .idle = CPU(1) | CPU(6), TPR(5, 1, 6), .pick = CPU(6) },
	{ "recently_used_cpu_of_another_cluster_yields_to_the_cluster", &clusters_of_4,
	  .idle = CPU(3) | CPU(4), TPR(5, 1, 3), .pick = CPU(4) },
	{ "busy_recently_used_cpu_is_not_taken", &clusters_of_4, TPR(5, 1, 3), .pick = CPU(5) },
	{ "scan_of_the_cluster_respects_affinity", &clusters_of_4, .idle = CPU(0) | CPUS(6, 7),
	  TPR(5, 5, 5), .allowed = CPUS(0, 3) | CPU(5), .pick = CPU(0) },
	{ "scan_of_the_llc_respects_affinity", &clusters_of_4, .idle = CPUS(0, 2), TPR(5, 5, 5),
	  .allowed = CPU(2) | CPUS(4, 7), .pick = CPU(2) },
	{ "sched_idle_cpu_of_the_cluster_comes_before_the_llc", &clusters_of_4, .idle = CPU(0),
	  .sched_idle = CPU(4), TPR(5, 5, 5), .pick = CPU(4) },
	{ "limit_of_the_scan_leaves_an_idle_llc_alone", &clusters_of_4,
	  .idle = CPUS(0, 4) | CPUS(6, 7), TPR(5, 5, 5), .pick = CPU(4) | CPUS(6, 7),
	  .limited = true },

	/* The other LLC is never scanned. */
	{ "prev_of_another_llc_does_not_stop_the_scan", &two_llcs, .idle = CPU(3) | CPU(6),
	  TPR(1, 6, 6), .pick = CPU(3) },
	{ "another_llc_is_not_scanned", &two_llcs, .idle = CPUS(4, 7), TPR(1, 6, 5),
	  .pick = CPU(1) },

	/* Some CPUs of the LLC have no cluster. */
	{ "prev_without_a_cluster_yields_to_the_cluster", &mixed_llc, .idle = CPU(2) | CPU(5),
	  TPR(3, 5, 5), .pick = CPU(2) },
	{ "cpus_without_a_cluster_are_near_each_other", &mixed_llc, .idle = CPUS(6, 7),
	  TPR(5, 7, 4), .pick = CPU(7), .at_once = true },
	{ "target_without_a_cluster_scans_the_llc", &mixed_llc, .idle = CPU(1), TPR(5, 5, 5),
	  .pick = CPU(1) },

	/* Threads of a core. */
	{ "idle_core_comes_before_an_idle_thread", &smt_clusters, .idle = CPUS(5, 7), TPR(4, 4, 4),
	  .hint = IDLE_CORE, .pick = CPUS(6, 7) },
	{ "idle_core_of_the_cluster_comes_first", &smt_clusters, .idle = CPUS(0, 1) | CPUS(4, 5),
	  TPR(7, 7, 7), .hint = IDLE_CORE, .pick = CPUS(4, 5) },
	{ "idle_core_of_the_llc_comes_before_an_idle_thread_of_the_cluster", &smt_clusters,
	  .idle = CPUS(2, 3) | CPU(6), TPR(4, 4, 4), .hint = IDLE_CORE, .pick = CPUS(2, 3) },
	{ "idle_sibling_of_prev_is_taken_without_a_scan", &smt_clusters, .idle = CPU(0) | CPU(6),
	  TPR(4, 1, 1), .hint = NO_IDLE_CORE, .pick = CPU(0) },
	{ "sibling_of_prev_respects_affinity", &smt_clusters, .idle = CPU(0) | CPU(6),
	  TPR(4, 1, 1), .hint = NO_IDLE_CORE, .allowed = CPUS(1, 7), .pick = CPU(6) },
	{ "sibling_of_prev_of_another_llc_is_not_taken", &smt_two_llcs, .idle = CPU(1) | CPU(6),
	  TPR(4, 0, 0), .hint = NO_IDLE_CORE, .pick = CPU(6) },
	{ "idle_thread_of_the_cluster_comes_before_the_llc", &smt_clusters,
	  .idle = CPU(0) | CPU(4), TPR(7, 7, 7), .hint = NO_IDLE_CORE, .pick = CPU(4) },
	{ "hint_of_an_llc_that_the_task_may_not_use_is_kept", &smt_two_llcs, .idle = CPUS(6, 7),
	  TPR(4, 4, 4), .hint = IDLE_CORE, .allowed = CPUS(0, 3), .pick = CPU(4) },

	/* The last idle core is no longer idle, and the hint does not say so yet. */
	{ "after_the_last_idle_core_an_idle_thread_of_the_cluster_comes_first", &smt_clusters,
	  .idle = CPU(0) | CPU(4), TPR(7, 7, 7), .hint = IDLE_CORE, .occupied = CPUS(2, 3),
	  .pick = CPU(4) },
	{ "after_the_last_idle_core_an_idle_thread_of_the_llc_is_taken", &smt_clusters,
	  .idle = CPU(1), TPR(7, 7, 7), .hint = IDLE_CORE, .occupied = CPUS(2, 3),
	  .pick = CPU(1) },
	{ "after_the_last_idle_core_an_idle_thread_respects_affinity", &smt_clusters,
	  .idle = CPU(0) | CPU(4), TPR(7, 7, 7), .hint = IDLE_CORE, .occupied = CPUS(2, 3),
	  .allowed = CPUS(0, 3) | CPUS(5, 7), .pick = CPU(0) },
	{ "after_the_last_idle_core_a_thread_with_sched_idle_tasks_is_taken", &smt_clusters,
	  .sched_idle = CPU(1), TPR(7, 7, 7), .hint = IDLE_CORE, .occupied = CPUS(2, 3),
	  .pick = CPU(1) },
	{ "after_the_last_idle_core_sched_idle_threads_respect_affinity", &smt_clusters,
	  .idle = CPU(0), .sched_idle = CPU(4), TPR(7, 7, 7), .hint = IDLE_CORE,
	  .occupied = CPUS(2, 3), .allowed = CPUS(0, 3) | CPUS(5, 7), .pick = CPU(0) },

	/* Little CPUs are 0 to 3. */
	{ "task_that_fits_goes_to_any_idle_cpu", &big_little, .idle = CPUS(1, 2), TPR(5, 5, 5),
	  .pick = CPUS(1, 2) },
	{ "little_target_is_too_small", &big_little, .idle = CPU(1) | CPU(6), TPR(1, 5, 5),
	  .waker = 4 + 1, .demand = 800, .pick = CPU(6) },
	{ "little_prev_is_too_small", &big_little, .idle = CPU(1) | CPU(6), TPR(5, 1, 1),
	  .demand = 800, .pick = CPU(6) },
	{ "little_recently_used_cpu_is_too_small", &big_little, .idle = CPU(1) | CPU(6),
	  TPR(5, 4, 1), .demand = 800, .pick = CPU(6) },
	{ "little_cpu_of_the_kthread_is_too_small", &big_little, .idle = CPU(6), TPR(5, 1, 1),
	  .waker = 1 + 1, .caller = PER_CPU_KTHREAD, .demand = 800, .pick = CPU(6) },
	{ "bigger_cpu_comes_before_a_nearer_little_one", &big_little, .idle = CPUS(2, 3) | CPU(4),
	  TPR(1, 0, 0), .demand = 800, .pick = CPU(4) },
	{ "little_cpu_is_better_than_a_busy_one", &big_little, .idle = CPUS(2, 3), TPR(5, 5, 5),
	  .demand = 800, .pick = CPUS(2, 3) },
	{ "first_cpu_that_fits_is_taken", &big_little, .idle = CPU(2) | CPU(6), TPR(1, 1, 1),
	  .pick = CPU(2) },
	{ "where_the_task_fits_nowhere_the_biggest_cpu_is_taken", &big_little,
	  .idle = CPU(2) | CPU(6), TPR(5, 5, 5), .heavy = true, .pick = CPU(6) },

	/* Little cores are 0 to 3. An idle core comes before a thread that fits better. */
	{ "big_idle_core_comes_before_a_little_one", &smt_big_little,
	  .idle = CPUS(2, 3) | CPUS(6, 7), .demand = 800, .hint = IDLE_CORE, .pick = CPUS(6, 7) },
	{ "little_idle_core_comes_before_a_big_thread", &smt_big_little,
	  .idle = CPUS(2, 3) | CPU(5), TPR(4, 4, 4), .demand = 800, .hint = IDLE_CORE,
	  .pick = CPUS(2, 3) },
	{ "after_the_last_idle_core_a_big_thread_is_taken", &smt_big_little,
	  .idle = CPU(1) | CPU(5), .demand = 800, .hint = IDLE_CORE, .occupied = CPUS(2, 3),
	  .pick = CPU(5) },
	{ "without_an_idle_core_a_big_thread_is_taken", &smt_big_little, .idle = CPU(1) | CPU(5),
	  .demand = 800, .hint = NO_IDLE_CORE, .pick = CPU(5) },
};

KUNIT_ARRAY_PARAM_DESC(situations, situations, name);

static int waker_of(const struct situation *s)
{
	return s->waker ? s->waker - 1 : s->target;
}

/* ---- tasks that keep CPUs busy ---- */

/* They are busy while @busy is set, and sleep otherwise. */
struct crowd {
	struct task_struct	*task[BITS_PER_LONG + 1];
	int			nr;
	bool			busy;
};

static int keep_busy(void *data)
{
	struct crowd *crowd = data;

	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!READ_ONCE(crowd->busy) && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		while (READ_ONCE(crowd->busy) && !kthread_should_stop()) {
			cpu_relax();
			cond_resched();
		}
	}
	return 0;
}

static void set_busy(struct crowd *crowd, bool busy)
{
	if (crowd->busy == busy)
		return;
	WRITE_ONCE(crowd->busy, busy);
	for (int i = 0; busy && i < crowd->nr; i++)
		wake_up_process(crowd->task[i]);
}

static void end_crowd(void *data)
{
	struct crowd *crowd = data;

	while (crowd->nr)
		kthread_stop(crowd->task[--crowd->nr]);
}

static void make_busy(struct kunit *test, struct crowd *crowd, int cpu, bool sched_idle)
{
	struct task_struct *task = kthread_create_on_cpu(keep_busy, crowd, cpu, "busy/%u");
	struct sched_attr idle = { .size = sizeof(idle), .sched_policy = SCHED_IDLE };

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	crowd->task[crowd->nr++] = task;
	if (sched_idle)
		KUNIT_ASSERT_EQ(test, sched_setattr_nocheck(task, &idle), 0);
	wake_up_process(task);
}

static int do_nothing(void *started)
{
	complete(started);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(MAX_SCHEDULE_TIMEOUT);
	return 0;
}

/* More than the four fifths of a big CPU that a task may need to fit there. */
#define HEAVY	(SCHED_TEST_BIG * 5 / 6)
#define LIGHT	(SCHED_TEST_LITTLE / 4)

static int become_heavy(void *started)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;

	while (task_util(current) < HEAVY && time_before(jiffies, until))
		cond_resched();
	return do_nothing(started);
}

/* A new task is taken for one that needs half of a CPU. */
static int become_light(void *started)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;

	while (task_util_est(current) > LIGHT && time_before(jiffies, until))
		schedule_timeout_interruptible(HZ / 25 + 1);
	return do_nothing(started);
}

KUNIT_DEFINE_ACTION_WRAPPER(end_task, kthread_stop, struct task_struct *)

/* A CPU tells that its core is idle when it becomes idle itself. */
static void visit(struct kunit *test, int cpu)
{
	DECLARE_COMPLETION_ONSTACK(started);
	struct task_struct *task = kthread_create_on_cpu(do_nothing, &started, cpu, "visitor/%u");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wake_up_process(task);
	wait_for_completion(&started);
	kthread_stop(task);
}

/* The task that is woken. It sleeps during the test. */
static struct task_struct *sleeping_task(struct kunit *test, const struct situation *s)
{
	DECLARE_COMPLETION_ONSTACK(started);
	int (*begin)(void *) = s->heavy ? become_heavy :
			       s->machine->little ? become_light : do_nothing;
	struct task_struct *p = kthread_create(begin, &started, "wakee");
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_NORMAL,
		.sched_flags = SCHED_FLAG_UTIL_CLAMP_MIN,
		.sched_util_min = s->demand,
	};

	KUNIT_ASSERT_FALSE(test, IS_ERR(p));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_task, p), 0);
	if (s->heavy)
		sched_test_allow(test, p, s->pick);
	wake_up_process(p);
	wait_for_completion(&started);
	if (s->allowed || s->heavy)
		sched_test_allow(test, p, s->allowed ? : ANY);
	if (s->demand) {
		if (!IS_ENABLED(CONFIG_UCLAMP_TASK))
			kunit_skip(test, "n/a: needs CONFIG_UCLAMP_TASK");
		KUNIT_ASSERT_EQ(test, sched_setattr_nocheck(p, &attr), 0);
	}
	return p;
}

/* ---- the call ---- */

/* What came of a call, and what was seen before it. */
struct call {
	const struct situation	*s;
	struct task_struct	*p;
	struct crowd		*late;
	bool			made;
	int			pick;
	int			recent;
	bool			hint;
	unsigned long		idle;
	u64			changes;
	struct irq_work		work;
};

static bool is_at_rest(struct call *c)
{
	const struct situation *s = c->s;

	c->idle = 0;
	c->changes = 0;
	for (int cpu = 0; cpu < s->machine->cpus; cpu++) {
		if (available_idle_cpu(cpu))
			c->idle |= CPU(cpu);
		else if (!!sched_idle_rq(cpu_rq(cpu)) != !!(s->sched_idle & CPU(cpu)))
			return false;
		if (!(s->idle & CPU(cpu)))
			continue;
		/* A task may run there for a moment between two looks, or be queued and pulled. */
		c->changes += READ_ONCE(cpu_rq(cpu)->nr_switches) + READ_ONCE(cpu_rq(cpu)->clock);
		/* Interrupts may take so much of a CPU that a light task does not fit. */
		if (s->machine->little && !s->heavy &&
		    !fits_capacity(task_util_est(c->p), capacity_of(cpu)))
			return false;
	}
	return c->idle == s->idle && this_rq()->nr_running == 1 + s->crowded;
}

/* It ends behind one CPU of the target's cluster, or does not begin. */
static bool scan_ends_early(int cpu)
{
	struct sched_domain *sd;

	guard(rcu)();
	sd = rcu_dereference(per_cpu(sd_llc, cpu));
	return sd && READ_ONCE(sd->shared->nr_idle_scan) <= 1;
}

static bool is_hinted(const struct situation *s)
{
	guard(rcu)();
	return s->hint == NOT_ASKED || test_idle_cores(s->target) == (s->hint == IDLE_CORE);
}

/*
 * With interrupts off. A call counts if nothing changed meanwhile. One that finds
 * no idle core, although one is said to exist, makes the next one count.
 */
static void call_if_at_rest(struct call *c)
{
	const struct situation *s = c->s;
	bool hinted = is_hinted(s);
	u64 changes;

	if (smp_processor_id() != waker_of(s) || !is_at_rest(c))
		return;
	if (s->limited && scan_ends_early(s->target))
		return;
	changes = c->changes;
	guard(rcu)();
	c->p->recent_used_cpu = s->recent;
	c->pick = select_idle_sibling(c->p, s->prev, s->target);
	c->recent = c->p->recent_used_cpu;
	c->hint = test_idle_cores(s->target);
	c->made = hinted && is_at_rest(c) && c->changes == changes;
}

static void call_in_interrupt(struct irq_work *work)
{
	call_if_at_rest(container_of(work, struct call, work));
}

static void call_once(struct call *c)
{
	if (c->s->caller == INTERRUPT) {
		irq_work_queue(&c->work);
		while (irq_work_is_busy(&c->work))
			cpu_relax();	/* stays the current task */
		return;
	}
	guard(irqsave)();
	call_if_at_rest(c);
}

/* A kthread that may run on one CPU alone is a per-CPU kthread. */
static void go_to_waker(struct kunit *test, const struct situation *s)
{
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(waker_of(s))), 0);
	if (s->caller == ORDINARY_KTHREAD)
		set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void call_at_rest(struct kunit *test, struct call *c)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;
	const struct situation *s = c->s;

	while (!c->made && time_before(jiffies, until)) {
		go_to_waker(test, s);
		set_busy(c->late, is_hinted(s));
		if (!is_hinted(s) && s->hint == IDLE_CORE)
			for (int cpu = 0; cpu < s->machine->cpus; cpu++)
				if (s->idle & CPU(cpu))
					visit(test, cpu);
		call_once(c);
		cond_resched();
	}
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	KUNIT_ASSERT_TRUE_MSG(test, c->made,
			      "in %d seconds CPUs did not come to rest: idle are %*pbl, not %*pbl",
			      REST_SECONDS, BITS_PER_LONG, &c->idle, BITS_PER_LONG, &s->idle);
}

static struct crowd *new_crowd(struct kunit *test, bool busy)
{
	struct crowd *crowd = kunit_kzalloc(test, sizeof(*crowd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, crowd);
	crowd->busy = busy;
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, end_crowd, crowd), 0);
	return crowd;
}

/* Returns the tasks that make CPUs busy later. */
static struct crowd *make_situation(struct kunit *test, const struct situation *s)
{
	struct crowd *crowd, *late;

	sched_test_install(test, s->machine);
	/* Otherwise the scan does not end early. */
	sched_test_set_feature(test, __SCHED_FEAT_SIS_UTIL, s->limited);
	crowd = new_crowd(test, true);
	late = new_crowd(test, false);
	for (int cpu = 0; cpu < s->machine->cpus; cpu++)
		if (!(s->idle & CPU(cpu)) && (cpu != waker_of(s) || s->crowded))
			make_busy(test, s->occupied & CPU(cpu) ? late : crowd, cpu,
				  s->sched_idle & CPU(cpu));
	return late;
}

static void expect_pick(struct kunit *test, const struct call *c)
{
	const struct situation *s = c->s;

	KUNIT_EXPECT_TRUE_MSG(test, s->pick & CPU(c->pick), "%s: CPU %d is picked, right is %*pbl",
			      s->name, c->pick, BITS_PER_LONG, &s->pick);
	KUNIT_EXPECT_EQ_MSG(test, c->recent, s->at_once ? s->recent : s->prev,
			    "%s: the recently used CPU of the task afterwards", s->name);
	if (!(s->pick & CPU(c->pick)))
		kunit_err(test, "%s: idle %*pbl, target %d, prev %d, recently used %d, waker %d\n",
			  s->machine->name, BITS_PER_LONG, &s->idle, s->target, s->prev,
			  s->recent, waker_of(s));
}

static void select_idle_sibling_picks(struct kunit *test)
{
	const struct situation *s = test->param_value;
	struct call c = { .s = s, .work = IRQ_WORK_INIT_HARD(call_in_interrupt) };

	c.late = make_situation(test, s);
	c.p = sleeping_task(test, s);
	call_at_rest(test, &c);
	/* The hint is written by who searched for a core in vain, and by nobody else. */
	if (s->hint != NOT_ASKED)
		KUNIT_EXPECT_EQ(test, c.hint, s->hint == IDLE_CORE && !s->occupied);
	expect_pick(test, &c);
}

/* ---- an LLC that is too busy to be scanned ---- */

/* Which CPU of the target's cluster is looked at does not matter: all are busy. */
#define BUSY_LLC(name_, prev_, recent_, pick_) \
	{ name_, &clusters_of_4, .idle = CPU(1) | CPU(3), TPR(5, prev_, recent_), .pick = pick_ }

static const struct situation busy_llc[] = {
	BUSY_LLC("prev of another cluster is taken", 1, 1, CPU(1)),
	BUSY_LLC("the recently used CPU of another cluster is taken", 2, 3, CPU(3)),
	BUSY_LLC("prev comes before the recently used CPU", 1, 3, CPU(1)),
	BUSY_LLC("with neither the target is kept", 2, 2, CPU(5)),
};

/*
 * The kernel limits the scan once all CPUs were busy for some time, and finds
 * out later that some no longer are. Between these, the calls are made.
 */
static void busy_llc_is_not_scanned(struct kunit *test)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;
	const struct situation *s = &busy_llc[0];
	struct call c = { .s = s };
	struct crowd *crowd;

	make_situation(test, s);
	crowd = new_crowd(test, true);
	sched_test_set_feature(test, __SCHED_FEAT_SIS_UTIL, true);
	c.p = sleeping_task(test, s);
	while (s < busy_llc + ARRAY_SIZE(busy_llc) && time_before(jiffies, until)) {
		if (!scan_ends_early(s->target)) {
			KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(5)), 0);
			for (int cpu = 0; !crowd->nr && cpu < s->machine->cpus; cpu++)
				if (s->idle & CPU(cpu))
					make_busy(test, crowd, cpu, false);
			cond_resched();
			continue;
		}
		end_crowd(crowd);
		go_to_waker(test, s);
		scoped_guard(irqsave) {
			if (scan_ends_early(s->target))
				call_if_at_rest(&c);
			c.made &= scan_ends_early(s->target);
		}
		if (c.made) {
			expect_pick(test, &c);
			c = (struct call){ .s = ++s, .p = c.p };
		}
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, s - busy_llc, ARRAY_SIZE(busy_llc), "in %d seconds",
			    REST_SECONDS);
}

/* ---- whole wake-ups ---- */

#define WAKE_UPS	20

/* Sleeps on a CPU of its own, and may be woken to any. */
static int sleep_on(void *cpu)
{
	while (!kthread_should_stop()) {
		set_cpus_allowed_ptr(current, cpumask_of((long)cpu));
		set_cpus_allowed_ptr(current, cpu_possible_mask);
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

/* Whether the task was woken. If so, it went to @cpu, or that was not idle. */
static bool wake_up_if_at_rest(struct call *c, int *cpu)
{
	const struct situation *s = c->s;
	u64 changes;

	guard(irqsave)();
	if (smp_processor_id() != waker_of(s) || READ_ONCE(c->p->on_cpu) ||
	    READ_ONCE(c->p->on_rq) || READ_ONCE(c->p->__state) != TASK_INTERRUPTIBLE)
		return false;
	if (task_cpu(c->p) != s->prev) {
		/* It was moved before it slept, and goes back. */
		wake_up_process(c->p);
		return false;
	}
	if (!is_at_rest(c))
		return false;
	changes = c->changes;
	wake_up_process(c->p);
	*cpu = task_cpu(c->p);
	return s->pick & CPU(*cpu) || (is_at_rest(c) && c->changes == changes);
}

/* One CPU is idle, in the cluster of the waker, and the task slept in another one. */
static void woken_task_goes_to_the_idle_cpu(struct kunit *test)
{
	static const struct situation s = {
		.machine = &clusters_of_4, .idle = CPU(7), .target = 5, .prev = 1, .pick = CPU(7),
	};
	unsigned long until = jiffies + REST_SECONDS * HZ;
	struct call c = { .s = &s };
	int woken = 0;

	make_situation(test, &s);
	c.p = kthread_run(sleep_on, (void *)(long)s.prev, "wakee");
	KUNIT_ASSERT_FALSE(test, IS_ERR(c.p));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_task, c.p), 0);
	while (woken < WAKE_UPS && time_before(jiffies, until)) {
		int cpu = -1;

		go_to_waker(test, &s);
		if (wake_up_if_at_rest(&c, &cpu)) {
			KUNIT_ASSERT_EQ_MSG(test, cpu, 7, "wake-up %d, with CPU 7 idle", woken);
			woken++;
		}
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, woken, WAKE_UPS, "in %d seconds", REST_SECONDS);
}

static struct kunit_case sched_cluster_cases[] = {
	KUNIT_CASE_PARAM(select_idle_sibling_picks, situations_gen_params),
	KUNIT_CASE(busy_llc_is_not_scanned),
	KUNIT_CASE(woken_task_goes_to_the_idle_cpu),
	{}
};

static struct kunit_suite sched_cluster_suite = {
	.name		= "sched_cluster",
	.test_cases	= sched_cluster_cases,
};

kunit_test_suite(sched_cluster_suite);
