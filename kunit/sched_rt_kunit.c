// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of where RT tasks go: which CPU they are sent to, that they are
 * pushed and pulled, and the push IPI. Included at the end of rt.c, because the
 * functions are static there.
 *
 * All tasks are real. Those that occupy a CPU spin at a priority of their own.
 */
#include <kunit/resource.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>

#include "sched_test_topology.h"

/* Real-time priorities, as user space counts them. */
#define URGENT		80
#define MIDDLE		50
#define LOW		10

/* On slow emulated CPUs a task needs long to get where it has to go. */
#define rt_wait_for(condition)							\
({										\
	unsigned long until = jiffies + 20 * HZ;				\
	bool met;								\
										\
	while (!(met = (condition)) && time_before(jiffies, until))		\
		cond_resched();							\
	met;									\
})

/* ---- tasks ---- */

/* What may not happen on a CPU: a switch of tasks, or an interrupt, too. */
enum rt_hold { RT_NO_HOLD, RT_NO_SWITCH, RT_NO_IRQ };

/* A task that spins while it is told to. */
struct rt_actor {
	struct task_struct	*task;
	struct completion	asleep;	/* it has begun, and is about to sleep */
	bool			go;	/* it shall spin */
	bool			stays;	/* it lets no one move it meanwhile */
	enum rt_hold		hold;	/* it shall let nothing else run there meanwhile */
	bool			held;	/* it does */
	int			cpu;	/* where it spins, or -1 */
};

static void rt_spin(struct rt_actor *me)
{
	WRITE_ONCE(me->held, true);
	while (READ_ONCE(me->hold))
		cpu_relax();
	WRITE_ONCE(me->held, false);
}

static void rt_hold(struct rt_actor *me)
{
	guard(preempt)();
	if (READ_ONCE(me->hold) == RT_NO_IRQ)
		scoped_guard(irqsave)
			rt_spin(me);
	else
		rt_spin(me);
}

static int rt_act(void *data)
{
	struct rt_actor *me = data;

	complete(&me->asleep);
	while (!kthread_should_stop()) {
		WRITE_ONCE(me->cpu, -1);
		set_current_state(TASK_INTERRUPTIBLE);
		if (!READ_ONCE(me->go) && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		if (me->stays)
			migrate_disable();
		while (READ_ONCE(me->go) && !kthread_should_stop()) {
			WRITE_ONCE(me->cpu, raw_smp_processor_id());
			if (READ_ONCE(me->hold))
				rt_hold(me);
			cpu_relax();
			cond_resched();
		}
		if (me->stays)
			migrate_enable();
	}
	return 0;
}

static void rt_set_priority(struct task_struct *p, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	WARN_ON(sched_setscheduler_nocheck(p, priority ? SCHED_FIFO : SCHED_NORMAL, &param));
}

/* A test has this many tasks. They exist before a CPU is occupied: kthreadd may run there. */
#define RT_ACTORS	10

struct rt_actors {
	struct rt_actor	actor[RT_ACTORS];
	int		nr;
	int		used;
};

static int rt_test_init(struct kunit *test)
{
	struct rt_actors *actors = kunit_kzalloc(test, sizeof(*actors), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, actors);
	test->priv = actors;
	for (; actors->nr < RT_ACTORS; actors->nr++) {
		struct rt_actor *a = &actors->actor[actors->nr];

		init_completion(&a->asleep);
		a->task = kthread_run(rt_act, a, "rt_actor/%d", actors->nr);
		KUNIT_ASSERT_FALSE(test, IS_ERR(a->task));
		wait_for_completion(&a->asleep);
	}
	return 0;
}

/*
 * All leave their CPUs. A test does so itself, because what ends it runs in a
 * new thread: kthreadd may have to wait for one of those CPUs.
 */
static void rt_leave_cpus(struct kunit *test)
{
	struct rt_actors *actors = test->priv;

	for (int i = 0; i < actors->nr; i++) {
		WRITE_ONCE(actors->actor[i].hold, RT_NO_HOLD);
		WRITE_ONCE(actors->actor[i].go, false);
	}
}

/* Behind a failed assertion a new thread runs, so the CPUs have to be free before. */
static void rt_must(struct kunit *test, bool ok, int cpu, const char *what)
{
	if (!ok)
		rt_leave_cpus(test);
	KUNIT_ASSERT_TRUE_MSG(test, ok, "CPU %d: %s", cpu, what);
}

static void rt_test_exit(struct kunit *test)
{
	struct rt_actors *actors = test->priv;

	if (!actors)
		return;
	rt_leave_cpus(test);
	for (int i = 0; i < actors->nr; i++)
		kthread_stop(actors->actor[i].task);
}

/* A task that sleeps, and may run on @cpu alone. */
static struct rt_actor *rt_actor(struct kunit *test, int cpu, int priority)
{
	struct rt_actors *actors = test->priv;
	struct rt_actor *a = &actors->actor[actors->used++];

	rt_must(test, actors->used <= RT_ACTORS, cpu, "the test has too many tasks");
	sched_test_allow(test, a->task, CPU(cpu));
	rt_set_priority(a->task, priority);
	return a;
}

static void rt_start(struct rt_actor *a)
{
	WRITE_ONCE(a->go, true);
	wake_up_process(a->task);
}

static void rt_stop(struct rt_actor *a)
{
	WRITE_ONCE(a->go, false);
}

static void rt_start_on(struct kunit *test, struct rt_actor *a, int cpu)
{
	rt_start(a);
	rt_must(test, rt_wait_for(READ_ONCE(a->cpu) == cpu), cpu, "the task does not get it");
}

/* A task that sleeps where it ran last, on @cpu. */
static struct rt_actor *rt_sleeper(struct kunit *test, int cpu, int priority)
{
	struct rt_actor *a = rt_actor(test, cpu, priority);

	rt_start_on(test, a, cpu);
	rt_stop(a);
	rt_must(test, rt_wait_for(READ_ONCE(a->cpu) == -1 && !READ_ONCE(a->task->on_rq)), cpu,
		"the task does not sleep");
	return a;
}

/* A task that occupies @cpu. */
static struct rt_actor *rt_occupy(struct kunit *test, int cpu, int priority)
{
	struct rt_actor *a = rt_actor(test, cpu, priority);

	rt_start_on(test, a, cpu);
	return a;
}

/* Whatever moves a task from there now is not that CPU's own scheduling. */
static void rt_hold_cpu(struct kunit *test, struct rt_actor *a, enum rt_hold how)
{
	WRITE_ONCE(a->hold, how);
	rt_must(test, rt_wait_for(READ_ONCE(a->held)), a->cpu, "the task does not hold it");
}

/* A task that waits for the occupied @cpu, and may go to @others. */
static struct rt_actor *rt_waiter(struct kunit *test, int cpu, unsigned long others)
{
	struct rt_actor *a = rt_actor(test, cpu, MIDDLE);

	rt_start(a);
	rt_must(test, rt_wait_for(task_on_rq_queued(a->task)), cpu, "the task is not queued");
	sched_test_allow(test, a->task, CPU(cpu) | others);
	rt_must(test, rt_wait_for(READ_ONCE(cpu_rq(cpu)->rt.overloaded)), cpu, "not overloaded");
	rt_must(test, READ_ONCE(a->cpu) == -1, cpu, "the task runs beside a more urgent one");
	return a;
}

/* The test's own task. The priority comes first: an RT task may keep it from the CPU. */
static void rt_stay_on(struct kunit *test, int cpu, int priority)
{
	rt_set_priority(current, priority);
	rt_must(test, !set_cpus_allowed_ptr(current, cpumask_of(cpu)), cpu, "the test may not run");
}

/* ---- the CPU that a task is sent to ---- */

static const struct sched_test_topology
rt_two_cpus = { .name = "LLC of 2", .cpus = 2, .llc = 2 },
rt_clusters = { .name = "clusters of 2 in LLCs of 4", .cpus = 8, .cluster = 2, .llc = 4 },
rt_islands = { .name = "no domains", .cpus = 4, .llc = 1, .no_machine = true },
rt_big_little = { .name = "big and little", .cpus = 8, .llc = 8, .little = 4 };

/* Where an RT task shall go. */
struct rt_choice {
	char		name[72];	/* the property that it stands for */
	const struct sched_test_topology *machine;
	int		cpu;		/* where the task ran last */
	int		waker;		/* the CPU that looks for one */
	bool		waker_free;	/* no RT task runs there; otherwise an urgent one does */
	unsigned long	free;		/* CPUs without an RT task, besides */
	unsigned long	low;		/* CPUs with a less urgent one */
	unsigned long	equal;		/* as urgent; all other CPUs have an urgent one */
	unsigned long	allowed;	/* CPUs that the task may use, 0 for all of the machine */
	unsigned long	pick;		/* each of these CPUs is right, 0 for none */
};

#define FROM(c, w)	.cpu = c, .waker = w

static const struct rt_choice rt_choices[] = {
	{ "own_cpu_is_kept", &rt_two_cpus, FROM(0, 1), .waker_free = true, .free = CPU(0),
	  .pick = CPU(0) },
	{ "free_waker_is_preempted", &rt_two_cpus, FROM(0, 1), .waker_free = true,
	  .pick = CPU(1) },
	{ "with_urgent_tasks_everywhere_there_is_no_cpu", &rt_two_cpus, FROM(0, 1), .pick = 0 },
	{ "equal_priority_is_not_preempted", &rt_two_cpus, FROM(0, 1), .equal = CPU(0),
	  .pick = 0 },
	{ "less_urgent_task_is_preempted", &rt_two_cpus, FROM(0, 1), .low = CPU(0),
	  .pick = CPU(0) },
	{ "task_bound_to_one_cpu_goes_nowhere", &rt_two_cpus, FROM(0, 1), .waker_free = true,
	  .allowed = CPU(0), .pick = 0 },
	{ "own_cpu_comes_before_the_waker", &rt_clusters, FROM(3, 2), .waker_free = true,
	  .free = CPU(3) | CPU(5), .pick = CPU(3) },
	{ "urgent_waker_is_not_preempted", &rt_clusters, FROM(0, 1), .free = CPU(5),
	  .pick = CPU(5) },
	{ "free_waker_comes_before_others_of_its_domain", &rt_clusters, FROM(0, 3),
	  .waker_free = true, .free = CPU(2), .pick = CPU(3) },
	{ "free_waker_of_a_wider_domain_yields_to_a_nearer_cpu", &rt_clusters, FROM(0, 3),
	  .waker_free = true, .free = CPU(1), .pick = CPU(1) },
	{ "cluster_comes_first", &rt_clusters, FROM(4, 0), .free = CPUS(1, 3) | CPUS(5, 7),
	  .pick = CPU(5) },
	{ "llc_comes_next", &rt_clusters, FROM(4, 0), .free = CPUS(1, 3) | CPUS(6, 7),
	  .pick = CPUS(6, 7) },
	{ "another_llc_comes_last", &rt_clusters, FROM(4, 0), .free = CPUS(2, 3),
	  .pick = CPUS(2, 3) },
	{ "free_cpu_far_away_comes_before_a_less_urgent_task_nearby", &rt_clusters, FROM(4, 0),
	  .free = CPU(2), .low = CPU(5), .pick = CPU(2) },
	{ "affinity_is_respected", &rt_clusters, FROM(4, 0), .free = CPUS(1, 3) | CPUS(5, 7),
	  .allowed = CPU(3) | CPU(4), .pick = CPU(3) },
	{ "without_domains_the_free_waker_is_preempted", &rt_islands, FROM(0, 3),
	  .waker_free = true, .free = CPU(2), .pick = CPU(3) },
	{ "without_domains_any_free_cpu_will_do", &rt_islands, FROM(0, 3), .free = CPUS(1, 2),
	  .pick = CPUS(1, 2) },
	/* An RT task asks for a big CPU, unless somebody says less. */
	{ "big_cpu_comes_before_a_little_one", &rt_big_little, FROM(0, 1), .waker_free = true,
	  .free = CPUS(2, 3) | CPU(6), .pick = CPU(6) },
	{ "little_cpu_is_better_than_none", &rt_big_little, FROM(0, 7), .free = CPUS(2, 3),
	  .pick = CPUS(2, 3) },
};

KUNIT_ARRAY_PARAM_DESC(rt_choices, rt_choices, name);

static int rt_priority_on(const struct rt_choice *c, int cpu)
{
	if (cpu == c->waker)
		return c->waker_free ? 0 : URGENT;
	if (c->free & CPU(cpu))
		return 0;
	if (c->low & CPU(cpu))
		return LOW;
	return c->equal & CPU(cpu) ? MIDDLE : URGENT;
}

/* Other RT tasks of the kernel may come and go. */
static bool rt_is_at_rest(const struct rt_choice *c)
{
	for (int cpu = 0; cpu < c->machine->cpus; cpu++) {
		int priority = rt_priority_on(c, cpu);
		struct rq *rq = cpu_rq(cpu);

		/* The deadline server has a level of cpupri, too. */
		if (READ_ONCE(rq->rt.highest_prio.curr) != MAX_RT_PRIO - 1 - priority ||
		    READ_ONCE(rq->rd->cpupri.cpu_to_pri[cpu]) != priority)
			return false;
	}
	return true;
}

static bool rt_choose(const struct rt_choice *c, struct task_struct *p, int *pick)
{
	guard(irqsave)();
	if (!rt_is_at_rest(c))
		return false;
	*pick = find_lowest_rq(p);
	return rt_is_at_rest(c);
}

static void find_lowest_rq_picks(struct kunit *test)
{
	const struct rt_choice *c = test->param_value;
	struct rt_actor *a;
	int pick = -1;
	bool at_rest;

	if (c->machine->little && !IS_ENABLED(CONFIG_UCLAMP_TASK))
		kunit_skip(test, "n/a: needs CONFIG_UCLAMP_TASK");
	sched_test_install(test, c->machine);
	a = rt_sleeper(test, c->cpu, MIDDLE);
	sched_test_allow(test, a->task, c->allowed ? : CPUS(0, c->machine->cpus - 1));
	rt_stay_on(test, c->waker, rt_priority_on(c, c->waker));
	for (int cpu = 0; cpu < c->machine->cpus; cpu++)
		if (cpu != c->waker && rt_priority_on(c, cpu))
			rt_occupy(test, cpu, rt_priority_on(c, cpu));
	at_rest = rt_wait_for(rt_choose(c, a->task, &pick));
	rt_leave_cpus(test);
	KUNIT_ASSERT_TRUE_MSG(test, at_rest, "CPUs did not come to rest");
	KUNIT_EXPECT_EQ_MSG(test, rcu_preempt_depth(), 0, "RCU read locks are left");
	if (!c->pick)
		KUNIT_EXPECT_EQ_MSG(test, pick, -1, "no CPU is right");
	else
		KUNIT_EXPECT_TRUE_MSG(test, pick >= 0 && c->pick & CPU(pick),
				      "CPU %d is found, right is %*pbl",
				      pick, BITS_PER_LONG, &c->pick);
}

/* ---- tasks that move ---- */

/* CPU 0 runs the test; 1 to 3 are occupied. */
static void rt_begin(struct kunit *test, bool push_ipi)
{
	sched_test_needs_cpus(test, 4);
	sched_test_set_feature(test, __SCHED_FEAT_RT_PUSH_IPI, push_ipi);
	rt_stay_on(test, 0, 0);
}

static void rt_expect_on(struct kunit *test, const struct rt_actor *a, int cpu, const char *what)
{
	bool there = rt_wait_for(READ_ONCE(a->cpu) == cpu);

	KUNIT_EXPECT_TRUE_MSG(test, there,
			      "%s: the task runs on CPU %d, not %d; it is queued on %d", what,
			      READ_ONCE(a->cpu), cpu, task_cpu(a->task));
}

static void woken_task_goes_to_the_free_cpu(struct kunit *test)
{
	struct rt_actor *a, *urgent;

	rt_begin(test, true);
	a = rt_sleeper(test, 1, MIDDLE);
	urgent = rt_occupy(test, 1, URGENT);
	rt_occupy(test, 2, URGENT);
	sched_test_allow(test, a->task, CPUS(1, 3));
	rt_hold_cpu(test, urgent, RT_NO_IRQ);
	rt_start(a);
	rt_expect_on(test, a, 3, "woken on CPU 1, beside an urgent task");
	rt_leave_cpus(test);
}

static void preempted_task_is_pushed(struct kunit *test)
{
	struct rt_actor *a;

	rt_begin(test, true);
	a = rt_occupy(test, 1, MIDDLE);
	rt_occupy(test, 2, URGENT);
	sched_test_allow(test, a->task, CPUS(1, 3));
	rt_occupy(test, 1, URGENT);
	rt_expect_on(test, a, 3, "preempted on CPU 1");
	rt_leave_cpus(test);
}

static void rt_pull(struct kunit *test, bool push_ipi)
{
	struct rt_actor *a, *urgent, *leaves;
	atomic_t *asked;	/* how often a CPU has asked for the IPI */
	int before;

	rt_begin(test, push_ipi);
	urgent = rt_occupy(test, 1, URGENT);
	leaves = rt_occupy(test, 2, URGENT);
	a = rt_waiter(test, 1, CPU(2));
	rt_hold_cpu(test, urgent, push_ipi ? RT_NO_SWITCH : RT_NO_IRQ);
	asked = &cpu_rq(0)->rd->rto_loop_next;
	before = atomic_read(asked);
	rt_stop(leaves);
	rt_expect_on(test, a, 2, "CPU 2 has nothing more urgent");
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(asked) != before, push_ipi, "the IPI was asked for");
	rt_leave_cpus(test);
}

/* Two tasks wait for CPU 1. The first one may not use CPU 2. */
static void pulled_task_may_use_the_cpu(struct kunit *test)
{
	struct rt_actor *first, *second, *urgent, *leaves;

	rt_begin(test, false);
	urgent = rt_occupy(test, 1, URGENT);
	leaves = rt_occupy(test, 2, URGENT);
	rt_occupy(test, 3, URGENT);
	first = rt_waiter(test, 1, CPU(3));
	second = rt_waiter(test, 1, CPU(2));
	rt_hold_cpu(test, urgent, RT_NO_IRQ);
	rt_stop(leaves);
	rt_expect_on(test, second, 2, "CPU 2 has nothing more urgent");
	KUNIT_EXPECT_EQ(test, task_cpu(first->task), 1);
	rt_leave_cpus(test);
}

/* CPU 2 looks at CPU 1 first. */
static void most_urgent_waiting_task_is_pulled(struct kunit *test)
{
	struct rt_actor *less, *more, *urgent, *leaves;

	rt_begin(test, false);
	rt_occupy(test, 1, URGENT);
	leaves = rt_occupy(test, 2, URGENT);
	urgent = rt_occupy(test, 3, URGENT);
	less = rt_waiter(test, 1, CPU(2));
	rt_set_priority(less->task, LOW);
	more = rt_waiter(test, 3, CPU(2));
	rt_hold_cpu(test, urgent, RT_NO_IRQ);
	rt_stop(leaves);
	rt_expect_on(test, more, 2, "a less urgent task waits for CPU 1");
	rt_leave_cpus(test);
}

/* A task that must stay on CPU 1, although it may use CPU 2, too. */
static struct rt_actor *rt_staying(struct kunit *test)
{
	struct rt_actor *a = rt_actor(test, 1, MIDDLE);

	a->stays = true;
	rt_start_on(test, a, 1);
	sched_test_allow(test, a->task, CPUS(1, 2));
	return a;
}

/* It cannot be pulled, so the urgent one that keeps it from CPU 1 is moved in its place. */
static void room_is_made_for_a_task_that_must_stay(struct kunit *test)
{
	struct rt_actor *stays, *urgent, *leaves;

	rt_begin(test, false);
	leaves = rt_occupy(test, 2, URGENT);
	stays = rt_staying(test);
	urgent = rt_occupy(test, 1, URGENT);
	sched_test_allow(test, urgent->task, CPUS(1, 2));
	rt_stop(leaves);
	rt_expect_on(test, urgent, 2, "a task that must stay waits for CPU 1");
	KUNIT_EXPECT_EQ(test, task_cpu(stays->task), 1);
	rt_leave_cpus(test);
}

static void waiting_task_is_pulled(struct kunit *test)
{
	rt_pull(test, false);
}

/* The task of CPU 2 goes on running, so it has to be told to make room. */
static void task_that_becomes_less_urgent_makes_room(struct kunit *test)
{
	struct rt_actor *a, *urgent, *yields;

	rt_begin(test, false);
	urgent = rt_occupy(test, 1, URGENT);
	yields = rt_occupy(test, 2, URGENT);
	a = rt_waiter(test, 1, CPU(2));
	rt_hold_cpu(test, urgent, RT_NO_IRQ);
	rt_set_priority(yields->task, LOW);
	rt_expect_on(test, a, 2, "CPU 2 runs a less urgent task");
	rt_leave_cpus(test);
}

/* ---- CPUs that go offline ---- */

/* What hotplug does. */
static void rt_take_offline(struct rq *rq)
{
	guard(rq_lock_irqsave)(rq);
	set_rq_offline(rq);
}

static void rt_bring_online(void *rq)
{
	guard(rq_lock_irqsave)(rq);
	set_rq_online(rq);
}

static int rt_nr_overloaded(void)
{
#ifdef CONFIG_SCHED_RTO_COUNT_SPLIT
	return cpumask_weight(cpu_rq(0)->rd->rto_mask);
#else
	return atomic_read(&cpu_rq(0)->rd->rto_count);
#endif
}

/* A task that cannot be moved in time waits for CPU 1. Nobody shall look for it there. */
static void offline_cpu_is_not_overloaded(struct kunit *test)
{
	struct rq *rq = cpu_rq(1);
	struct rt_actor *a;

	rt_begin(test, false);
	rt_occupy(test, 1, URGENT);
	rt_occupy(test, 3, URGENT);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, rt_bring_online, rq), 0);
	rt_take_offline(rq);
	a = rt_waiter(test, 1, CPU(3));
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 0, "a task waits for an offline CPU");
	rt_bring_online(rq);
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 1, "the CPU is back");
	rt_take_offline(rq);
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 0, "the CPU is offline again");
	sched_test_allow(test, a->task, CPU(1));
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 0, "the task may run nowhere else");
	rt_bring_online(rq);
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 0, "the CPU is back without such a task");
	rt_leave_cpus(test);
}

static void push_ipi_moves_a_waiting_task(struct kunit *test)
{
	rt_pull(test, true);
}

static bool push_ipi_is_over(struct root_domain *rd)
{
	guard(raw_spinlock_irqsave)(&rd->rto_lock);
	return rd->rto_cpu == -1 && !irq_work_is_busy(&rd->rto_push_work) &&
	       !atomic_read(&rd->rto_loop_start);
}

/* The task that must stay is the first one of CPU 1's list. */
static void push_ipi_passes_by_a_task_that_must_stay(struct kunit *test)
{
	struct rt_actor *a, *leaves;

	rt_begin(test, true);
	leaves = rt_occupy(test, 3, URGENT);
	rt_staying(test);
	rt_occupy(test, 1, URGENT);
	a = rt_waiter(test, 1, CPU(3));
	rt_stop(leaves);
	rt_expect_on(test, a, 3, "a task that must stay waits before it");
	rt_leave_cpus(test);
}

/* With so many references to the root domain, unless that is 0. */
static bool push_ipi_ends(struct root_domain *rd, int refcount)
{
	return rt_wait_for(push_ipi_is_over(rd) &&
			   (!refcount || atomic_read(&rd->refcount) == refcount));
}

/*
 * CPUs 1 and 3 are overloaded. The task that waits for CPU 1 may go to CPU 3
 * alone, and the other one to CPU 2.
 */
static void push_ipi_goes_on_to_the_next_cpu(struct kunit *test)
{
	struct root_domain *rd;
	struct rt_actor *a, *urgent, *leaves;
	int before;

	rt_begin(test, true);
	rt_occupy(test, 1, URGENT);
	leaves = rt_occupy(test, 2, URGENT);
	urgent = rt_occupy(test, 3, URGENT);
	rt_waiter(test, 1, CPU(3));
	a = rt_waiter(test, 3, CPU(2));
	rd = cpu_rq(0)->rd;
	rt_must(test, push_ipi_ends(rd, 0), 0, "the IPI does not end");
	before = atomic_read(&rd->refcount);
	rt_hold_cpu(test, urgent, RT_NO_SWITCH);
	rt_stop(leaves);
	rt_expect_on(test, a, 2, "CPU 2 has nothing more urgent");
	KUNIT_EXPECT_TRUE_MSG(test, push_ipi_ends(rd, before), "references: %d, before %d",
			      atomic_read(&rd->refcount), before);
	rt_leave_cpus(test);
}

/*
 * A CPU that pulls while the loop runs prolongs it, and does not start another:
 * nor where the loop stands at CPU 0.
 */
static void one_push_ipi_at_a_time(struct kunit *test)
{
	struct root_domain *rd;
	struct rt_actor *urgent;
	int before, first, second, next, cpu[2], tries = 100;

	rt_begin(test, true);
	rt_stay_on(test, 3, 0);
	urgent = rt_occupy(test, 0, URGENT);
	rt_occupy(test, 2, URGENT);
	rt_waiter(test, 0, CPU(2));
	rd = cpu_rq(0)->rd;
	/* CPU 0 does not take the IPI yet. Another CPU may have pulled by itself meanwhile. */
	do {
		WRITE_ONCE(urgent->hold, RT_NO_HOLD);
		rt_must(test, rt_wait_for(!READ_ONCE(urgent->held) && push_ipi_is_over(rd)), 0,
			"the IPI does not end");
		rt_hold_cpu(test, urgent, RT_NO_IRQ);
	} while (!push_ipi_is_over(rd) && --tries);
	scoped_guard(irqsave) {
		before = atomic_read(&rd->refcount);
		next = atomic_read(&rd->rto_loop_next);
		tell_cpu_to_push(this_rq());
		first = atomic_read(&rd->refcount);
		cpu[0] = READ_ONCE(rd->rto_cpu);
		tell_cpu_to_push(this_rq());
		second = atomic_read(&rd->refcount);
		cpu[1] = READ_ONCE(rd->rto_cpu);
		next = atomic_read(&rd->rto_loop_next) - next;
	}
	WRITE_ONCE(urgent->hold, RT_NO_HOLD);
	KUNIT_EXPECT_EQ_MSG(test, cpu[0], 0, "the first pull tells CPU 0");
	KUNIT_EXPECT_EQ_MSG(test, cpu[1], 0, "the second pull leaves the loop alone");
	KUNIT_EXPECT_EQ_MSG(test, first, before + 1, "the loop holds a reference");
	KUNIT_EXPECT_EQ_MSG(test, second, before + 1, "and one only");
	KUNIT_EXPECT_EQ_MSG(test, next, 2, "each pull asks for one more round");
	KUNIT_EXPECT_TRUE(test, push_ipi_ends(rd, before));
	rt_leave_cpus(test);
}

/* ---- which CPUs the IPI visits ---- */

/* The CPUs in turn, with a pull after the first one; at most @most. */
static int rt_visit(struct root_domain *rd, int *cpu, int most)
{
	int nr = 0;

	guard(raw_spinlock_irqsave)(&rd->rto_lock);
	if (rd->rto_cpu != -1)
		return -1;
	while (nr < most) {
		cpu[nr] = rto_next_cpu(rd);
		if (cpu[nr++] < 0)
			break;
		if (nr == 1)
			atomic_inc(&rd->rto_loop_next);
	}
	rd->rto_cpu = -1;
	return nr;
}

static void rt_expect_visits(struct kunit *test, const int *want, int nr)
{
	struct root_domain *rd = cpu_rq(0)->rd;
	int cpu[8], got = -1;

	rt_must(test, rt_wait_for(push_ipi_is_over(rd) &&
				  (got = rt_visit(rd, cpu, ARRAY_SIZE(cpu))) >= 0), 0,
		"the IPI does not end");
	rt_leave_cpus(test);
	KUNIT_ASSERT_EQ_MSG(test, got, nr, "the number of CPUs, with -1 at the end");
	for (int i = 0; i < nr; i++)
		KUNIT_EXPECT_EQ_MSG(test, cpu[i], want[i], "visit %d", i);
}

static void rt_overload_two(struct kunit *test)
{
	/* The loop goes where the test sends it. */
	rt_begin(test, false);
	rt_occupy(test, 1, URGENT);
	rt_occupy(test, 3, URGENT);
	rt_waiter(test, 1, CPU(3));
	rt_waiter(test, 3, CPU(1));
	KUNIT_EXPECT_EQ_MSG(test, rt_nr_overloaded(), 2, "the number of overloaded CPUs");
}

static void each_overloaded_cpu_is_visited_once_in_a_round(struct kunit *test)
{
	static const int want[] = { 1, 3, 1, 3, -1 };

	rt_overload_two(test);
	rt_expect_visits(test, want, ARRAY_SIZE(want));
}

/* A CPU that sends itself the IPI again and again locks up: 94894c9c477e. */
static void cpu_never_sends_the_ipi_to_itself(struct kunit *test)
{
	static const int want[] = { 3, 3, -1 };

	rt_overload_two(test);
	rt_stay_on(test, 1, 90);
	rt_expect_visits(test, want, ARRAY_SIZE(want));
}

static void only_overloaded_cpu_has_nobody_to_tell(struct kunit *test)
{
	static const int want[] = { -1 };

	rt_begin(test, false);
	rt_occupy(test, 1, URGENT);
	rt_occupy(test, 3, URGENT);
	rt_waiter(test, 1, CPU(3));
	rt_stay_on(test, 1, 90);
	atomic_inc(&cpu_rq(1)->rd->rto_loop_next);
	rt_expect_visits(test, want, ARRAY_SIZE(want));
}

static struct kunit_case sched_rt_cases[] = {
	KUNIT_CASE_PARAM(find_lowest_rq_picks, rt_choices_gen_params),
	KUNIT_CASE(woken_task_goes_to_the_free_cpu),
	KUNIT_CASE(preempted_task_is_pushed),
	KUNIT_CASE(waiting_task_is_pulled),
	KUNIT_CASE(task_that_becomes_less_urgent_makes_room),
	KUNIT_CASE(pulled_task_may_use_the_cpu),
	KUNIT_CASE(most_urgent_waiting_task_is_pulled),
	KUNIT_CASE(room_is_made_for_a_task_that_must_stay),
	KUNIT_CASE(offline_cpu_is_not_overloaded),
	KUNIT_CASE(push_ipi_moves_a_waiting_task),
	KUNIT_CASE(push_ipi_passes_by_a_task_that_must_stay),
	KUNIT_CASE(push_ipi_goes_on_to_the_next_cpu),
	KUNIT_CASE(one_push_ipi_at_a_time),
	KUNIT_CASE(each_overloaded_cpu_is_visited_once_in_a_round),
	KUNIT_CASE(cpu_never_sends_the_ipi_to_itself),
	KUNIT_CASE(only_overloaded_cpu_has_nobody_to_tell),
	{}
};

static struct kunit_suite sched_rt_suite = {
	.name		= "sched_rt",
	.init		= rt_test_init,
	.exit		= rt_test_exit,
	.test_cases	= sched_rt_cases,
};

kunit_test_suite(sched_rt_suite);

/* Other files of the scheduler follow rt.c in its compilation unit. */
#undef URGENT
#undef MIDDLE
#undef LOW
#undef FROM
#undef CPU
#undef CPUS
