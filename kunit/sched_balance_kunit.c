// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of when CPUs balance for others: overutilized follows the CPUs
 * that are too busy, and idle CPUs whose tick is stopped are kicked. Included
 * in the compilation unit of fair.c, behind sched_cluster_kunit.c, because the
 * functions are static there.
 */
#include <linux/delay.h>
#include <linux/stop_machine.h>

#define SKIPPED(name, why)						\
static void name(struct kunit *test)					\
{									\
	kunit_skip(test, "n/a: " why);					\
}

#ifdef SCHED_KUNIT_LACKS_RD_OVERLOADED
#define OLD_KERNEL	"this suite is for 6.12 and later kernels"
SKIPPED(without_energy_model_nobody_writes_overutilized, OLD_KERNEL)
SKIPPED(busy_cpu_is_told_until_a_balance, OLD_KERNEL)
SKIPPED(idle_cpus_wait_to_be_kicked, OLD_KERNEL)
SKIPPED(cpu_that_becomes_idle_again_updates_nothing, OLD_KERNEL)
SKIPPED(cpu_without_domains_does_not_wait, OLD_KERNEL)
SKIPPED(offline_cpu_is_not_kicked, OLD_KERNEL)
SKIPPED(first_idle_core_is_kicked, OLD_KERNEL)
SKIPPED(second_kick_is_left_to_the_first, OLD_KERNEL)
SKIPPED(tick_asks_an_idle_cpu, OLD_KERNEL)
SKIPPED(tick_without_an_llc_asks_if_a_task_waits, OLD_KERNEL)
SKIPPED(tick_asks_if_a_better_cpu_of_the_llc_waits, OLD_KERNEL)
SKIPPED(little_cpu_asks_if_a_task_is_too_big, OLD_KERNEL)
#else
static void balance_test_run_on(struct kunit *test, int cpu)
{
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(cpu)), 0);
}

/* On a machine whose cores have two threads, an LLC has two of these cores or more, or one CPU. */
static const struct sched_test_topology *balance_test_machine(const struct sched_test_topology *t)
{
	static struct sched_test_topology machine;

	if (!sched_smt_active() || t->llc < 2)
		return t;
	machine = *t;
	machine.cpus = max(t->cpus, 4U);
	machine.cluster = 0;
	machine.llc = max(t->llc, 4U);
	machine.smt = 2;
	return &machine;
}

/* CPU 0 is the test's. It sleeps for jiffies, so it balances when it is idle. */
static struct crowd *balance_test_begin(struct kunit *test, const struct sched_test_topology *t)
{
	for (int cpu = 0; cpu < 8 && cpu < nr_cpu_ids; cpu++)
		if (!housekeeping_cpu(cpu, HK_TYPE_TICK))
			kunit_skip(test, "n/a: CPU %d has no tick and is not kicked", cpu);
	sched_test_install(test, balance_test_machine(t));
	balance_test_run_on(test, 0);
	/* One whose tick stopped while it had no domain waits for nothing until it wakes. */
	wake_up_all_idle_cpus();
	return new_crowd(test, true);
}

/* ---- a root domain with a CPU that is too busy ---- */

static int balance_test_is_overutilized(void)
{
	return READ_ONCE(cpu_rq(0)->rd->overutilized);
}

/* CPU 0 has balanced the whole machine. */
static void balance_test_wait_for_balance(struct kunit *test)
{
	unsigned long until = jiffies + REST_SECONDS * HZ, before, now;

	for (int i = 0; time_before(jiffies, until); i++) {
		scoped_guard(rcu) {
			struct sched_domain *sd = rcu_dereference(cpu_rq(0)->sd), *parent;

			while ((parent = rcu_dereference(sd->parent)))
				sd = parent;
			now = sd->last_balance;
		}
		if (i && now != before)
			return;
		before = now;
		schedule_timeout_uninterruptible(1);
	}
	KUNIT_FAIL(test, "CPU 0 balances nothing in %d seconds", REST_SECONDS);
}

static void balance_test_clear(void *unused)
{
	WRITE_ONCE(cpu_rq(0)->rd->overutilized, false);
}

static void without_energy_model_nobody_writes_overutilized(struct kunit *test)
{
	struct crowd *crowd;

	if (sched_energy_enabled())
		kunit_skip(test, "n/a: this machine has an energy model");
	crowd = balance_test_begin(test, &llc_of_2);
	make_busy(test, crowd, 1, false);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, balance_test_clear, NULL), 0);
	for (int flag = 0; flag < 2; flag++) {
		WRITE_ONCE(cpu_rq(0)->rd->overutilized, flag);
		balance_test_wait_for_balance(test);
		KUNIT_EXPECT_EQ(test, balance_test_is_overutilized(), flag);
	}
}

#if defined(CONFIG_ENERGY_MODEL) && defined(CONFIG_CPU_FREQ_GOV_SCHEDUTIL) && \
	defined(CONFIG_TRACEPOINTS)
static bool balance_test_turns(int flag)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;

	while (balance_test_is_overutilized() != flag && time_before(jiffies, until))
		schedule_timeout_uninterruptible(1);
	return balance_test_is_overutilized() == flag;
}

static int balance_test_writes;
static bool balance_test_too_busy;

static void balance_test_count(void *unused, struct root_domain *rd, bool overutilized)
{
	balance_test_writes++;
}

static void balance_test_end_count(void *unused)
{
	unregister_trace_sched_overutilized_tp(balance_test_count, NULL);
	tracepoint_synchronize_unregister();
}

/* With all CPUs stopped: how often two ticks of a CPU set it. */
static int balance_test_tells(void *rq)
{
	balance_test_clear(NULL);
	balance_test_writes = 0;
	balance_test_too_busy = cpu_overutilized(cpu_of(rq));
	check_update_overutilized_status(rq);
	check_update_overutilized_status(rq);
	return balance_test_writes;
}

static void balance_test_end_energy(void *unused)
{
	static_branch_disable(&sched_energy_present);
}

/* Without perf domains nothing but the flag is energy-aware. */
static void busy_cpu_is_told_until_a_balance(struct kunit *test)
{
	struct crowd *crowd;
	int told, forgotten = 0;

	if (sched_energy_enabled())
		kunit_skip(test, "n/a: this machine has an energy model");
	crowd = balance_test_begin(test, &two_llcs);
	static_branch_enable(&sched_energy_present);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, balance_test_end_energy, NULL), 0);
	KUNIT_ASSERT_EQ(test, register_trace_sched_overutilized_tp(balance_test_count, NULL), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, balance_test_end_count, NULL), 0);
	KUNIT_ASSERT_TRUE_MSG(test, balance_test_turns(0), "overutilized, and no CPU is busy");
	told = stop_machine(balance_test_tells, cpu_rq(7), NULL);
	KUNIT_EXPECT_EQ_MSG(test, told, 0, "told by an idle CPU");
	balance_test_too_busy = false;
	make_busy(test, crowd, 6, false);
	/* It needs some time until it has run too much. */
	for (int i = 0; i < REST_SECONDS * HZ && !balance_test_too_busy; i++) {
		if (cpu_overutilized(6))
			told = stop_machine(balance_test_tells, cpu_rq(6), NULL);
		schedule_timeout_uninterruptible(1);
	}
	KUNIT_ASSERT_TRUE_MSG(test, balance_test_too_busy, "CPU 6 never is too busy");
	/* A second write would take the line from all CPUs that read it. */
	KUNIT_EXPECT_EQ_MSG(test, told, 1, "by two ticks of a CPU that is too busy");
	balance_test_clear(NULL);
	KUNIT_EXPECT_TRUE_MSG(test, balance_test_turns(1), "not told at all");
	/*
	 * Neither a balance of the LLC without it nor one of the machine forgets
	 * it. But one that finds only tasks that must stay there looks again
	 * without this CPU, and then its next tick tells.
	 */
	for (int i = 0; i < 20; i++) {
		balance_test_wait_for_balance(test);
		forgotten += !balance_test_is_overutilized();
	}
	KUNIT_EXPECT_LT_MSG(test, forgotten, 7, "of 20 balances");
	set_busy(crowd, false);
	KUNIT_EXPECT_TRUE_MSG(test, balance_test_turns(0), "overutilized stays");
	KUNIT_EXPECT_FALSE(test, cpu_overutilized(6));
}
#else
SKIPPED(busy_cpu_is_told_until_a_balance, "needs CONFIG_ENERGY_MODEL, schedutil and tracepoints")
#endif

#ifdef CONFIG_NO_HZ_COMMON
/* ---- idle CPUs whose tick is stopped ---- */

#ifdef SCHED_KUNIT_LACKS_NOHZ_BLOCKED_LOAD
/* In 7.2, and not in 6.12: it has the name of the member of struct rq. */
#define IDLE_LOAD	nohz.has_blocked
#else
#define IDLE_LOAD	nohz.has_blocked_load
#endif

/* With all CPUs stopped. Returns the CPUs that are counted wrong, or in the mask by mistake. */
static int balance_test_look(void *data)
{
	struct cpumask *wrong = data;
	int cpu, other;

	cpumask_clear(wrong);
	for_each_possible_cpu(cpu) {
		struct sched_domain *sd = rcu_dereference_sched(per_cpu(sd_llc, cpu));
		int busy = 0;

		if (cpumask_test_cpu(cpu, nohz.idle_cpus_mask) != !!cpu_rq(cpu)->nohz_tick_stopped)
			cpumask_set_cpu(cpu, wrong);
		if (!cpu_active(cpu) && cpu_rq(cpu)->nohz_tick_stopped)
			cpumask_set_cpu(cpu, wrong);
		if (!sd || !sd->shared)
			continue;
		for_each_cpu(other, sched_domain_span(sd)) {
			struct sched_domain *its = rcu_dereference_sched(per_cpu(sd_llc, other));

			busy += its && !its->nohz_idle;
		}
		if (atomic_read(&sd->shared->nr_busy_cpus) != busy)
			cpumask_set_cpu(cpu, wrong);
	}
	return 0;
}

static void balance_test_expect_agreement(struct kunit *test, const char *when)
{
	static struct cpumask wrong;

	stop_machine(balance_test_look, &wrong, NULL);
	KUNIT_EXPECT_TRUE_MSG(test, cpumask_empty(&wrong), "%s: wrong are CPUs %*pbl", when,
			      cpumask_pr_args(&wrong));
}

/* These of the first 8 CPUs wait to be kicked, besides the test's, if their tick can stop. */
static void balance_test_wait_for(struct kunit *test, unsigned long idle)
{
	unsigned long until = jiffies + REST_SECONDS * HZ, found, stopped;

	do {
		schedule_timeout_uninterruptible(1);
		found = 0;
		stopped = 0;
		for (int cpu = 0; cpu < 8; cpu++) {
			if (cpu == task_cpu(current))
				continue;
			if (cpumask_test_cpu(cpu, nohz.idle_cpus_mask))
				found |= CPU(cpu);
			if (tick_nohz_tick_stopped_cpu(cpu))
				stopped |= CPU(cpu);
		}
	} while (found != idle && time_before(jiffies, until));
	if (found != idle && idle && !stopped)
		kunit_skip(test, "n/a: no tick stops");
	KUNIT_ASSERT_EQ_MSG(test, found, idle, "CPUs that wait; without a tick are %*pbl",
			    BITS_PER_LONG, &stopped);
}

static void idle_cpus_wait_to_be_kicked(struct kunit *test)
{
	struct crowd *crowd = balance_test_begin(test, &two_llcs);

	for (int cpu = 2; cpu < two_llcs.cpus; cpu += 2)
		make_busy(test, crowd, cpu, false);
	for (int i = 0; i < 4; i++) {
		unsigned long idle = i % 2 ? CPUS(1, 7) : CPU(1) | CPU(3) | CPU(5) | CPU(7);

		set_busy(crowd, !(i % 2));
		balance_test_wait_for(test, idle);
		balance_test_expect_agreement(test, i % 2 ? "all idle" : "some busy");
	}
}

/* What a CPU does that becomes idle. */
#define BLOCKED		BIT(0)	/* it is said to have blocked load */
#define ANY_BLOCKED	BIT(1)
#define WAITS		BIT(2)
#define NOT_BUSY	BIT(3)	/* its LLC counts a CPU less */
#define NEEDS_UPDATE	BIT(4)

struct entries {
	bool		offline;	/* the CPU is about to be */
	unsigned long	did[2];
};

/* With all CPUs stopped: one becomes idle twice, and had no tick while it was busy. */
static int balance_test_enter(void *data)
{
	int cpu = smp_processor_id();
	struct sched_domain *sd = rcu_dereference_sched(per_cpu(sd_llc, cpu));
	struct entries *entries = data;
	struct rq *rq = cpu_rq(cpu);

	nohz_balance_exit_idle(rq);
	set_cpu_active(cpu, !entries->offline);
	for (int i = 0; i < 2; i++) {
		rq->has_blocked_load = 0;
		WRITE_ONCE(IDLE_LOAD, 0);
		WRITE_ONCE(nohz.needs_update, 0);
		nohz_balance_enter_idle(cpu);
		entries->did[i] = (rq->has_blocked_load ? BLOCKED : 0) |
				  (READ_ONCE(IDLE_LOAD) ? ANY_BLOCKED : 0) |
				  (cpumask_test_cpu(cpu, nohz.idle_cpus_mask) ? WAITS : 0) |
				  (sd && sd->nohz_idle ? NOT_BUSY : 0) |
				  (nohz.needs_update ? NEEDS_UPDATE : 0);
	}
	set_cpu_active(cpu, true);
	nohz_balance_exit_idle(rq);
	WRITE_ONCE(IDLE_LOAD, 1);
	WRITE_ONCE(nohz.needs_update, 1);
	return 0;
}

static void expect_entries(struct kunit *test, bool offline, unsigned long first,
			   unsigned long second)
{
	struct entries entries = { .offline = offline };

	stop_machine(balance_test_enter, &entries, NULL);
	KUNIT_EXPECT_EQ(test, entries.did[0], first);
	KUNIT_EXPECT_EQ(test, entries.did[1], second);
	balance_test_expect_agreement(test, "behind it");
}

static void cpu_that_becomes_idle_again_updates_nothing(struct kunit *test)
{
	unsigned long both = BLOCKED | ANY_BLOCKED | WAITS | NOT_BUSY;

	balance_test_begin(test, &two_llcs);
	expect_entries(test, false, both | NEEDS_UPDATE, both);
}

static void cpu_without_domains_does_not_wait(struct kunit *test)
{
	static const struct sched_test_topology apart = {
		.name = "no domains", .cpus = 2, .llc = 1, .no_machine = true
	};

	balance_test_begin(test, &apart);
	expect_entries(test, false, BLOCKED, BLOCKED);
}

static void offline_cpu_is_not_kicked(struct kunit *test)
{
	int cpu;

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU))
		kunit_skip(test, "n/a: CPUs of this kernel stay online");
	balance_test_begin(test, &two_llcs);
	expect_entries(test, true, 0, 0);
	balance_test_wait_for(test, CPUS(1, 7));
	KUNIT_ASSERT_EQ(test, remove_cpu(7), 0);
	cpu = cpumask_test_cpu(7, nohz.idle_cpus_mask) || cpu_rq(7)->nohz_tick_stopped;
#ifndef SCHED_KUNIT_LACKS_SD_WEIGHT
	/* In 7.2, and not in 6.12: an LLC counts only CPUs that have a domain. */
	balance_test_expect_agreement(test, "with CPU 7 offline");
#endif
	KUNIT_ASSERT_EQ(test, add_cpu(7), 0);
	KUNIT_EXPECT_EQ_MSG(test, cpu, 0, "CPU 7 waits while it is offline");
	balance_test_wait_for(test, CPUS(1, 7));
}

/* ---- who is kicked ---- */

#ifdef SCHED_KUNIT_LACKS_ILB_IDLE_CORE
SKIPPED(first_idle_core_is_kicked, "this kernel kicks the first idle CPU")
#else

/* The first idle CPU of those that wait, one of an idle core if there is any. */
static int balance_test_model(void)
{
	int cpu, first = -1;

	for_each_cpu_and(cpu, nohz.idle_cpus_mask, housekeeping_cpumask(HK_TYPE_KERNEL_NOISE)) {
		if (!idle_cpu(cpu))
			continue;
		if (is_core_idle(cpu))
			return cpu;
		if (first < 0)
			first = cpu;
	}
	return first;
}

static bool balance_test_has_idle(unsigned long cpus)
{
	for (int cpu = 0; cpu < two_llcs.cpus; cpu++)
		if (cpus & CPU(cpu) && idle_cpu(cpu))
			return true;
	return false;
}

/* A CPU that is busy waits until its next tick, and is passed by meanwhile. */
static void expect_kicked(struct kunit *test, unsigned long cpus, int passed)
{
	struct crowd *crowd = new_crowd(test, true);
	int seen = 0;

	for (int cpu = 0; cpu < two_llcs.cpus; cpu++)
		if (cpus & CPU(cpu))
			make_busy(test, crowd, cpu, false);
	for (int i = 0; i < 40 && seen < 4; i++) {
		int rest[3], busy[3];
		bool waits;

		set_busy(crowd, false);
		balance_test_wait_for(test, CPUS(0, 7) & ~CPU(task_cpu(current)));
		scoped_guard(irqsave) {
			rest[0] = balance_test_model();
			rest[1] = find_new_ilb();
			rest[2] = balance_test_model();
			set_busy(crowd, true);
			for (int n = 0; n < 1000 && balance_test_has_idle(cpus); n++)
				udelay(1);
			busy[0] = balance_test_model();
			busy[1] = find_new_ilb();
			busy[2] = balance_test_model();
			waits = !idle_cpu(passed) && cpumask_test_cpu(passed, nohz.idle_cpus_mask);
		}
		if (rest[0] == rest[2])
			KUNIT_ASSERT_EQ_MSG(test, rest[1], rest[0], "with all CPUs idle");
		if (busy[0] == busy[2])
			KUNIT_ASSERT_EQ_MSG(test, busy[1], busy[0], "with %*pbl busy",
					    BITS_PER_LONG, &cpus);
		seen += rest[0] == rest[2] && busy[0] == busy[2] && waits;
	}
	kunit_release_action(test, end_crowd, crowd);
	KUNIT_EXPECT_EQ_MSG(test, seen, 4, "CPU %d was seldom busy while it waits", passed);
}

/* With all CPUs stopped. Who kicks CPU -1 writes to anybody's memory, and may crash. */
static int balance_test_kick_nobody(void *unused)
{
	int ilb = find_new_ilb();

	kick_ilb(NOHZ_STATS_KICK);
	return ilb;
}

/* CPUs 0 and 1 may be a core, and then 2 and 3. */
static void first_idle_core_is_kicked(struct kunit *test)
{
	balance_test_begin(test, &two_llcs);
	expect_kicked(test, CPU(1) | CPU(3), 1);
	/* CPU 1 is idle, and its core is not: busy cores do not end the search. */
	expect_kicked(test, CPU(2) | CPU(4), 2);
	/* No core is idle, and a busy thread comes before its idle sibling. */
	expect_kicked(test, CPU(1) | CPU(2) | CPU(4) | CPU(6), 2);
	/* All that wait are busy: a task stops them. */
	KUNIT_EXPECT_LT(test, stop_machine(balance_test_kick_nobody, NULL, NULL), 0);
	/* CPU 0 is as good as any. */
	balance_test_run_on(test, 7);
	expect_kicked(test, CPU(1) | CPU(2) | CPU(4), 2);
}
#endif

/* ---- what a kick does ---- */

#define KICK	(NOHZ_STATS_KICK | NOHZ_NEXT_KICK)

/* With interrupts off. */
static bool balance_test_is_updated(int tries)
{
	while (tries-- && READ_ONCE(nohz.needs_update))
		udelay(5);
	return !READ_ONCE(nohz.needs_update);
}

static void second_kick_is_left_to_the_first(struct kunit *test)
{
	bool twice = true, once = false, moved = false;
	int flags = 0;

	balance_test_begin(test, &two_llcs);
	/* CPU 0 is kicked. */
	balance_test_run_on(test, 7);
	/* All CPUs are idle, so no other tick kicks; one may be awake for a moment. */
	for (int i = 0; i < 3 && !once; i++) {
		balance_test_wait_for(test, CPUS(0, 6));
		scoped_guard(irqsave) {
			unsigned long next = jiffies + HZ;
			int ilb = find_new_ilb();

			if (ilb < 0)
				continue;
			/* As if another CPU were about to send the interrupt. */
			if (atomic_fetch_or(NOHZ_STATS_KICK, nohz_flags(ilb)) & NOHZ_KICK_MASK)
				continue;
			WRITE_ONCE(nohz.needs_update, 1);
			nohz.next_balance = next;
			kick_ilb(KICK);
			moved = nohz.next_balance != next;
			twice = balance_test_is_updated(2000);
			flags = atomic_fetch_andnot(NOHZ_KICK_MASK, nohz_flags(ilb));
			kick_ilb(KICK);
			once = balance_test_is_updated(200000);
		}
	}
	KUNIT_EXPECT_FALSE_MSG(test, moved, "no balance was asked for, and the next one was moved");
	KUNIT_EXPECT_FALSE_MSG(test, twice, "two interrupts at a time");
	KUNIT_EXPECT_EQ_MSG(test, flags & KICK, KICK, "the first one has to do all of the work");
	KUNIT_EXPECT_TRUE_MSG(test, once, "no idle CPU balances");
}

/* ---- what makes a tick kick ---- */

struct kick {
	const char	*why;
	int		cpu;		/* whose tick it is */
	unsigned long	busy;		/* CPUs besides it */
	bool		crowded;	/* it has two tasks */
	bool		weak;		/* interrupts take most of it */
	bool		misfit;		/* its task needs a bigger one */
	bool		unfair;		/* none of its tasks is a fair one */
	bool		idle;		/* it is about to become idle */
	bool		due;		/* it is time to balance */
	bool		blocked;	/* idle CPUs have load */
	bool		stale;		/* it is time to update it */
	bool		entered;	/* a CPU became idle */
	unsigned int	asks;
};

#define BALANCE	(NOHZ_BALANCE_KICK | NOHZ_STATS_KICK)

static const struct kick kicks[] = {
	{ "nothing is due" },
	{ "a task waits, and balancing is not due", .crowded = true },
	{ "a task waits", .crowded = true, .due = true, .asks = BALANCE },
	{ "no task waits", .due = true },
	{ "interrupts take the CPU", .weak = true, .due = true, .asks = BALANCE },
	{ "interrupts take the CPU of an RT task", .weak = true, .unfair = true, .due = true },
	{ "a task is too big, and all CPUs are equal", .misfit = true, .due = true },
	{ "a task waits, and the CPU has become idle", .crowded = true, .idle = true, .due = true },
	{ "two CPUs of an LLC are busy", .busy = CPU(1), .due = true, .asks = BALANCE },
	{ "CPUs of two LLCs are busy", .busy = CPU(5), .due = true },
	{ "idle CPUs have load", .blocked = true, .stale = true, .asks = NOHZ_STATS_KICK },
	{ "the load of idle CPUs is known", .blocked = true },
	{ "idle CPUs have no load", .stale = true },
	{ "a CPU became idle", .entered = true, .asks = NOHZ_NEXT_KICK },
	{ "all at once", .crowded = true, .due = true, .blocked = true, .stale = true,
	  .entered = true, .asks = BALANCE | NOHZ_NEXT_KICK },
}, kicks_without_llc[] = {
	{ "no task waits", .due = true },
	{ "a task waits", .crowded = true, .due = true, .asks = BALANCE },
}, kicks_of_better_cpus[] = {
	{ "only worse CPUs wait", .due = true },
	{ "a better CPU waits", .cpu = 7, .due = true, .asks = BALANCE },
	{ "no better CPU waits, and CPUs of the LLC are busy", .cpu = 6, .busy = CPUS(4, 5),
	  .due = true, .asks = BALANCE },
	{ "a better CPU waits in another LLC", .cpu = 4, .due = true },
}, kicks_of_bigger_cpus[] = {
	{ "a task is too big", .misfit = true, .due = true, .asks = BALANCE },
	{ "no task is too big, and two CPUs of an LLC are busy", .busy = CPU(1), .due = true },
};

/*
 * With interrupts off. The CPU that is kicked has a flag already, so it gets no
 * interrupt, and its other flags tell what it was asked for.
 */
static bool balance_test_kick_once(const struct kick *k, unsigned int flag, unsigned int *asked)
{
	unsigned long now = jiffies, capacity, misfit;
	struct rq *rq = this_rq();
	unsigned int runnable, queued;
	int ilb = find_new_ilb();
	bool put_off;

	/* Nobody queues a task meanwhile. */
	guard(rq_lock)(rq);
	if (ilb < 0 || rq->idle_balance || rq->nr_running != 1 + k->crowded)
		return false;
	if (atomic_fetch_or(flag, nohz_flags(ilb)) & NOHZ_KICK_MASK)
		return false;
	nohz.next_balance = now + (k->due ? 0 : HZ);
	WRITE_ONCE(nohz.next_blocked, jiffies + (k->stale ? -1 : HZ));
	WRITE_ONCE(IDLE_LOAD, k->blocked);
	WRITE_ONCE(nohz.needs_update, k->entered);
	capacity = rq->cpu_capacity;
	misfit = rq->misfit_task_load;
	runnable = rq->cfs.h_nr_runnable;
	queued = rq->cfs.h_nr_queued;
	rq->cpu_capacity = k->weak ? 1 : arch_scale_cpu_capacity(k->cpu);
	rq->misfit_task_load = k->misfit;
	if (k->unfair) {
		rq->cfs.h_nr_runnable = 0;
		/* 6.12 asks for h_nr_queued. */
		rq->cfs.h_nr_queued = 0;
	}
	rq->idle_balance = k->idle;
	scoped_guard(rcu)
		nohz_balancer_kick(rq);
	rq->idle_balance = 0;
	rq->cpu_capacity = capacity;
	rq->misfit_task_load = misfit;
	rq->cfs.h_nr_runnable = runnable;
	rq->cfs.h_nr_queued = queued;
	*asked = atomic_fetch_andnot(NOHZ_KICK_MASK, nohz_flags(ilb)) & ~flag;
	/* The next tick would ask again, and one of the next jiffy may. */
	put_off = time_in_range(nohz.next_balance, now + 1, jiffies + 1);
	if (put_off != !!(*asked & NOHZ_BALANCE_KICK))
		*asked = ~0;
	/* The next balance puts it right. */
	WRITE_ONCE(IDLE_LOAD, 1);
	WRITE_ONCE(nohz.needs_update, 1);
	nohz.next_balance = jiffies;
	return !cpumask_test_cpu(k->cpu, nohz.idle_cpus_mask);
}

static bool balance_test_kick(const struct kick *k, unsigned int *asked)
{
	unsigned int more;

	if (!balance_test_kick_once(k, NOHZ_NEXT_KICK, asked) ||
	    !balance_test_kick_once(k, NOHZ_STATS_KICK, &more))
		return false;
	*asked |= more;
	return true;
}

static void expect_kick(struct kunit *test, const struct kick *k)
{
	unsigned long until = jiffies + REST_SECONDS * HZ;
	struct crowd *crowd = new_crowd(test, true);
	unsigned int asked = ~0;
	bool made = false;

	balance_test_run_on(test, k->cpu);
	for (int cpu = 0; cpu < 8; cpu++)
		if (k->busy & CPU(cpu) || (k->crowded && cpu == k->cpu))
			make_busy(test, crowd, cpu, false);
	/* Ticks of busy CPUs may ask at the same time. */
	for (int i = 0; i < 10 && asked != k->asks; i++) {
		balance_test_wait_for(test, CPUS(0, 7) & ~k->busy & ~CPU(k->cpu));
		for (made = false; !made && time_before(jiffies, until); cond_resched())
			scoped_guard(irqsave)
				made = balance_test_kick(k, &asked);
	}
	kunit_release_action(test, end_crowd, crowd);
	KUNIT_ASSERT_TRUE_MSG(test, made, "%s: no call in %d seconds", k->why, REST_SECONDS);
	KUNIT_EXPECT_EQ_MSG(test, asked, k->asks, "%s", k->why);
}

static void expect_kicks(struct kunit *test, const struct sched_test_topology *t,
			 const struct kick *k, int nr)
{
	struct crowd *crowd = balance_test_begin(test, t);

	if (sched_asym_cpucap_active() != !!t->little)
		kunit_skip(test, "n/a: this machine has little CPUs");
	/* New domains count CPUs as busy until these were. */
	for (int cpu = 1; cpu < 8; cpu++)
		make_busy(test, crowd, cpu, false);
	balance_test_wait_for(test, 0);
	set_busy(crowd, false);
	for (int i = 0; i < nr; i++)
		expect_kick(test, &k[i]);
}

#ifdef SCHED_KUNIT_LACKS_NOHZ_EMPTY_MASK
/* In 7.2, and not in 6.12: the mask is asked, and no counter. */
static int balance_test_kick_without_idle_cpus(void *unused)
{
	return 0;
}
#else
/* With all CPUs stopped: whether a balance that nobody can do is put off. */
static int balance_test_kick_without_idle_cpus(void *unused)
{
	static struct cpumask idle;
	struct rq *rq = this_rq();
	unsigned long next = jiffies;
	unsigned int tasks = rq->nr_running;
	bool put_off, idle_balance = rq->idle_balance;

	nohz_balance_exit_idle(rq);
	cpumask_copy(&idle, nohz.idle_cpus_mask);
	cpumask_clear(nohz.idle_cpus_mask);
	nohz.next_balance = next;
	rq->nr_running = 2;
	rq->idle_balance = 0;
	nohz_balancer_kick(rq);
	rq->idle_balance = idle_balance;
	rq->nr_running = tasks;
	put_off = nohz.next_balance != next;
	cpumask_copy(nohz.idle_cpus_mask, &idle);
	return put_off;
}
#endif

static void tick_asks_an_idle_cpu(struct kunit *test)
{
	expect_kicks(test, &two_llcs, kicks, ARRAY_SIZE(kicks));
	KUNIT_EXPECT_EQ(test, stop_machine(balance_test_kick_without_idle_cpus, NULL, NULL), 0);
}

static void tick_without_an_llc_asks_if_a_task_waits(struct kunit *test)
{
	static const struct sched_test_topology alone = {
		.name = "LLCs of a CPU", .cpus = 8, .llc = 1
	};

	expect_kicks(test, &alone, kicks_without_llc, ARRAY_SIZE(kicks_without_llc));
}

static void tick_asks_if_a_better_cpu_of_the_llc_waits(struct kunit *test)
{
	static const struct sched_test_topology packed = {
		.name = "first CPUs are better", .cpus = 8, .llc = 4, .packing = true
	};

	for (int cpu = 1; cpu < 8; cpu++)
		if (arch_asym_cpu_priority(cpu - 1) <= arch_asym_cpu_priority(cpu))
			kunit_skip(test, "n/a: CPU %d is not better than the next one", cpu - 1);
	expect_kicks(test, &packed, kicks_of_better_cpus, ARRAY_SIZE(kicks_of_better_cpus));
}

static void little_cpu_asks_if_a_task_is_too_big(struct kunit *test)
{
	expect_kicks(test, &big_little, kicks_of_bigger_cpus, ARRAY_SIZE(kicks_of_bigger_cpus));
}
#else
#define PERIODIC	"the tick never stops"
SKIPPED(idle_cpus_wait_to_be_kicked, PERIODIC)
SKIPPED(cpu_that_becomes_idle_again_updates_nothing, PERIODIC)
SKIPPED(cpu_without_domains_does_not_wait, PERIODIC)
SKIPPED(offline_cpu_is_not_kicked, PERIODIC)
SKIPPED(first_idle_core_is_kicked, PERIODIC)
SKIPPED(second_kick_is_left_to_the_first, PERIODIC)
SKIPPED(tick_asks_an_idle_cpu, PERIODIC)
SKIPPED(tick_without_an_llc_asks_if_a_task_waits, PERIODIC)
SKIPPED(tick_asks_if_a_better_cpu_of_the_llc_waits, PERIODIC)
SKIPPED(little_cpu_asks_if_a_task_is_too_big, PERIODIC)
#endif /* CONFIG_NO_HZ_COMMON */
#endif /* SCHED_KUNIT_LACKS_RD_OVERLOADED */

static struct kunit_case sched_balance_cases[] = {
	KUNIT_CASE(without_energy_model_nobody_writes_overutilized),
	KUNIT_CASE(busy_cpu_is_told_until_a_balance),
	KUNIT_CASE(idle_cpus_wait_to_be_kicked),
	KUNIT_CASE(cpu_that_becomes_idle_again_updates_nothing),
	KUNIT_CASE(cpu_without_domains_does_not_wait),
	KUNIT_CASE(offline_cpu_is_not_kicked),
	KUNIT_CASE(first_idle_core_is_kicked),
	KUNIT_CASE(second_kick_is_left_to_the_first),
	KUNIT_CASE(tick_asks_an_idle_cpu),
	KUNIT_CASE(tick_without_an_llc_asks_if_a_task_waits),
	KUNIT_CASE(tick_asks_if_a_better_cpu_of_the_llc_waits),
	KUNIT_CASE(little_cpu_asks_if_a_task_is_too_big),
	{}
};

static struct kunit_suite sched_balance_suite = {
	.name		= "sched_balance",
	.test_cases	= sched_balance_cases,
};

kunit_test_suite(sched_balance_suite);
