// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of cpupri in the root domains in use, while RT tasks wake up on all
 * CPUs, partitions change and CPUs go offline. Included in the compilation unit
 * of cpupri.c and topology.c, behind sched_topology_kunit.c, because the
 * functions are static there.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/stop_machine.h>
#include <linux/wait.h>

#include "sched_cpupri_holds.h"

#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
/* ---- the leaves of a root domain ---- */

#ifdef CONFIG_SCHED_CPUPRI_SPLIT
/* Whether a CPU is the first one of its group in its word of a mask. */
static bool first_in_word(int cpu)
{
	for (int i = round_down(cpu, BITS_PER_LONG); i < cpu; i++)
		if (cpu_possible(i) && cpupri_group(i) == cpupri_group(cpu))
			return false;
	return cpu_possible(cpu);
}

/* Each group has as few leaves as its words need, and no other leaves exist. */
static void expect_leaves_by_group(struct kunit *test, struct root_domain *rd, const char *which)
{
	struct cpupri *cp = &rd->cpupri;
	int wanted = 0;

	for (int i = 0; i < nr_cpu_ids; i++) {
		int words = 0;

		if (!cpu_possible(i))
			continue;
		KUNIT_EXPECT_EQ_MSG(test, cp->leaves[cp->place[i].leaf]->group, cpupri_group(i),
				    "%s: node or LLC of CPU %d's leaf", which, i);
		if (!first_in_word(i))
			continue;
		for (int j = 0; j < i; j++)
			words += first_in_word(j) && cpupri_group(j) == cpupri_group(i);
		wanted += words % CPUPRI_LEAF_WORDS == 0;
	}
	KUNIT_EXPECT_EQ_MSG(test, cp->nr_leaves, wanted, "%s: leaves", which);
	kunit_info(test, "%s: a root_domain takes %zu bytes, its %u leaves %zu, the map %zu\n",
		   which, sizeof(*rd), cp->nr_leaves, cp->nr_leaves * ksize(cp->leaves[0]),
		   ksize(cp->place) + ksize(cp->leaves));
}

/* Rebuild the domains as at boot, when no CPU has an LLC id yet. */
static void find_llcs_anew(void)
{
	guard(cpus_read_lock)();
	guard(mutex)(&sched_domains_mutex);
	for (int cpu = 0; cpu < nr_cpu_ids; cpu++)
		if (cpu_possible(cpu))
			__sched_domains_free_llc_id(cpu);
	drop_domains();
	partition_sched_domains_locked(1, NULL, NULL);
}

static void leaves_by_group(struct kunit *test)
{
	static const struct sched_fake_topology llcs = { .name = "LLCs", .cpus = 16, .llc = 8 };

	skip_without_cpus(test, 16);
	expect_leaves_by_group(test, cpu_rq(0)->rd, "this machine");
	find_llcs_anew();
	expect_leaves_by_group(test, cpu_rq(0)->rd, "with domains built anew");
	install_for_test(test, &llcs);
	expect_leaves_by_group(test, cpu_rq(0)->rd, "with LLCs of 8 CPUs");
	sched_fake_topology_remove();
}
#else
static void leaves_by_group(struct kunit *test)
{
	struct cpupri *cp = &cpu_rq(0)->rd->cpupri;

	kunit_info(test, "a root_domain takes %zu bytes, masks behind pointers %zu\n",
		   sizeof(*cpu_rq(0)->rd), IS_ENABLED(CONFIG_CPUMASK_OFFSTACK) ?
		   ARRAY_SIZE(cp->pri_to_cpu) * cpumask_size() : 0);
	kunit_skip(test, "the masks are not split");
}
#endif
#endif /* SCHED_KUNIT_NO_CPUPRI_SPLIT */

/* ---- counts, masks and priorities agree while all CPUs are stopped ---- */

/* The mismatches in all root domains: their number, and the first one. */
struct breach {
	int nr, cpu, level, got, want;
	const char *what;
};

static void compare(struct breach *b, const char *what, int cpu, int level, int got, int want)
{
	if (got == want || b->nr++)
		return;
	b->what = what;
	b->cpu = cpu;
	b->level = level;
	b->got = got;
	b->want = want;
}

static void look_at_level(struct breach *b, struct root_domain *rd, int level)
{
	int cpu, weight = 0;

	for_each_possible_cpu(cpu) {
		bool want = rd->cpupri.cpu_to_pri[cpu] == level;

		compare(b, "in the mask", cpu, level, cpupri_holds(&rd->cpupri, level, cpu), want);
		weight += want;
	}
	compare(b, "the count", -1, level,
		atomic_read(&rd->cpupri.pri_to_cpu[level].count), weight);
}

static void look_at_root_domain(struct breach *b, struct root_domain *rd)
{
	int cpu, level;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);
		bool takes_part = rq->rd == rd && cpu_active(cpu);

		compare(b, "online", cpu, 0, cpumask_test_cpu(cpu, rd->online), takes_part);
		/* With deadline tasks the level is theirs or the RT tasks'. */
		if (!rq->dl.dl_nr_running)
			compare(b, "the level", cpu, 0, rd->cpupri.cpu_to_pri[cpu],
				takes_part ? convert_prio(rq->rt.highest_prio.curr) :
					     CPUPRI_INVALID);
	}
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++)
		look_at_level(b, rd, level);
}

/* While all CPUs are stopped, none is in the middle of cpupri_set(). */
static int look_at_all(void *data)
{
	int cpu;

	look_at_root_domain(data, &def_root_domain);
	for_each_possible_cpu(cpu)
		if (cpumask_first(cpu_rq(cpu)->rd->span) == cpu)
			look_at_root_domain(data, cpu_rq(cpu)->rd);
	return 0;
}

static void expect_agreement(struct kunit *test, const char *when)
{
	struct breach b = { };

	stop_machine(look_at_all, &b, NULL);
	if (b.nr)
		KUNIT_FAIL(test, "%s: CPU %d, level %d: %s: %d, expected %d; %d more such",
			   when, b.cpu, b.level, b.what, b.got, b.want, b.nr - 1);
}

/* ---- RT tasks that wake each other, each at a priority of its own ---- */

#define RT_TASKS	12
#define RT_TURNS	4	/* tasks that run at a time */
#define RT_WAKEUPS	50	/* wake-ups between two changes */

struct rt_task {
	struct task_struct	*task;
	wait_queue_head_t	wait;
	atomic_t		turns;
};

static struct rt_task rt_tasks[RT_TASKS];
static atomic_t rt_wakeups;
static DECLARE_COMPLETION(rt_woken_often);

static void give_turn(int i)
{
	atomic_inc(&rt_tasks[i].turns);
	wake_up(&rt_tasks[i].wait);
}

static int rt_run(void *data)
{
	struct rt_task *me = data;

	for (;;) {
		wait_event(me->wait, atomic_read(&me->turns) || kthread_should_stop());
		if (kthread_should_stop())
			return 0;
		atomic_dec(&me->turns);
		if (atomic_inc_return(&rt_wakeups) % RT_WAKEUPS == 0)
			complete(&rt_woken_often);
		give_turn((me - rt_tasks + 5) % RT_TASKS);
	}
}

static void wait_for_wakeups(void)
{
	reinit_completion(&rt_woken_often);
	wait_for_completion(&rt_woken_often);
}

static int start_rt_tasks(void)
{
	for (int i = 0; i < RT_TASKS; i++) {
		init_waitqueue_head(&rt_tasks[i].wait);
		atomic_set(&rt_tasks[i].turns, 0);
		rt_tasks[i].task = NULL;
	}
	for (int i = 0; i < RT_TASKS; i++) {
		struct sched_param param = { .sched_priority = 1 + 8 * i };
		struct task_struct *task = kthread_create(rt_run, &rt_tasks[i], "rt_run/%d", i);

		if (IS_ERR(task))
			return PTR_ERR(task);
		rt_tasks[i].task = task;
		sched_setscheduler_nocheck(task, SCHED_FIFO, &param);
		wake_up_process(task);
	}
	for (int i = 0; i < RT_TURNS; i++)
		give_turn(i * RT_TASKS / RT_TURNS);
	return 0;
}

static void stop_rt_tasks(void)
{
	for (int i = 0; i < RT_TASKS; i++)
		if (rt_tasks[i].task)
			kthread_stop(rt_tasks[i].task);
}

static void skip_on_many_cpus(struct kunit *test)
{
	if (num_online_cpus() < 2 || num_online_cpus() > 16)
		kunit_skip(test, "n/a: needs 2 to 16 CPUs online, to stop them all");
}

/* The maps split the LLCs in different places. */
static void partitions_while_rt_runs(struct kunit *test)
{
	static const struct sched_fake_topology llcs = {
		.name = "LLCs", .cpus = 8, .llc = 4, .node = 8,
	};
	static const int maps[][3] = { { 0 }, { 0, 2 }, { 0, 3, 6 } };
	int err;

	skip_on_many_cpus(test);
	skip_without_cpus(test, 8);
	install_for_test(test, &llcs);
	err = start_rt_tasks();
	for (int i = 0; i < 12 && !err; i++) {
		scoped_guard(cpus_read_lock)
			scoped_guard(mutex, &sched_domains_mutex)
				partition_at(maps[i % 3], i % 3 + 1);
		wait_for_wakeups();
		if (i % 4 == 3)
			expect_agreement(test, "while RT tasks run");
	}
	stop_rt_tasks();
	expect_agreement(test, "after them");
	sched_fake_topology_remove();
	expect_agreement(test, "with this machine's own domains");
	KUNIT_EXPECT_EQ(test, err, 0);
}

#ifdef CONFIG_HOTPLUG_CPU
static void hotplug_while_rt_runs(struct kunit *test)
{
	int cpu = cpumask_last(cpu_online_mask);
	int err;

	skip_on_many_cpus(test);
	err = start_rt_tasks();
	for (int i = 0; i < 4 && !err; i++) {
		err = remove_cpu(cpu);
		if (err)
			break;
		wait_for_wakeups();
		expect_agreement(test, "while a CPU is offline");
		err = add_cpu(cpu);
		wait_for_wakeups();
		expect_agreement(test, "with the CPU back");
	}
	stop_rt_tasks();
	expect_agreement(test, "after the RT tasks");
	KUNIT_EXPECT_EQ(test, err, 0);
}
#else
static void hotplug_while_rt_runs(struct kunit *test)
{
	kunit_skip(test, "n/a: CPUs of this kernel stay online");
}
#endif

static struct kunit_case sched_root_domain_cases[] = {
#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
	KUNIT_CASE(leaves_by_group),
#endif
	KUNIT_CASE(partitions_while_rt_runs),
	KUNIT_CASE(hotplug_while_rt_runs),
	{}
};

static struct kunit_suite sched_root_domain_suite = {
	.name		= "sched_root_domain",
	.test_cases	= sched_root_domain_cases,
};

kunit_test_suite(sched_root_domain_suite);
