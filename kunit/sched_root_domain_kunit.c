// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the books of the root domains in use: counts, masks and
 * priorities agree while RT tasks wake up on all CPUs, partitions change and
 * CPUs go offline; overloaded follows the tasks that wait. Included in the
 * compilation unit of topology.c, behind sched_topology_kunit.c, because the
 * functions are static there.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/stop_machine.h>
#include <linux/wait.h>

#include "sched_cpupri_holds.h"

#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
/* ---- the leaves of a root domain ---- */

#if defined(CONFIG_SCHED_CPUPRI_SPLIT) || defined(CONFIG_SCHED_CPUPRI_SBM)
#ifdef CONFIG_SCHED_CPUPRI_SPLIT
/* The words of a mask that have CPUs of a node or LLC; 0 if @first is not its first CPU. */
static int rd_test_words(int first)
{
	int cpu, words = 0, last = -1;

	for_each_possible_cpu(cpu) {
		if (cpupri_group(cpu) != cpupri_group(first))
			continue;
		if (cpu < first)
			return 0;
		words += cpu / BITS_PER_LONG != last;
		last = cpu / BITS_PER_LONG;
	}
	return words;
}

/* Each group has as few leaves as its words need, and no other leaves exist. */
static void rd_test_expect_leaves(struct kunit *test, const char *which)
{
	struct root_domain *rd = cpu_rq(0)->rd;
	struct cpupri *cp = &rd->cpupri;
	int cpu, wanted = 0;

	for_each_possible_cpu(cpu) {
		KUNIT_EXPECT_EQ_MSG(test, cp->leaves[cp->place[cpu].leaf]->group,
				    cpupri_group(cpu), "%s: node or LLC of CPU %d's leaf",
				    which, cpu);
		wanted += DIV_ROUND_UP(rd_test_words(cpu), (int)CPUPRI_LEAF_WORDS);
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, cp->nr_leaves, wanted, "%s: leaves", which);
	kunit_info(test, "%s: a root_domain takes %zu bytes, its %u leaves %zu, the map %zu\n",
		   which, sizeof(*rd), cp->nr_leaves, cp->nr_leaves * ksize(cp->leaves[0]),
		   ksize(cp->place) + ksize(cp->leaves));
}
#else
/* Each group has as few leaves as its CPUs need, and no other leaves exist. */
static void rd_test_expect_leaves(struct kunit *test, const char *which)
{
	struct root_domain *rd = cpu_rq(0)->rd;
	struct sbm_map *map = &rd->cpupri.map;
	int cpu, other, wanted = 0;

	for_each_possible_cpu(cpu) {
		int before = 0;

		KUNIT_EXPECT_EQ_MSG(test, map->groups[map->cpu_to_idx[cpu] / BITS_PER_LONG]->id,
				    cpupri_group(cpu), "%s: LLC of CPU %d's leaf", which, cpu);
		for_each_possible_cpu(other)
			before += other < cpu && cpupri_group(other) == cpupri_group(cpu);
		wanted += before % BITS_PER_LONG == 0;
		cond_resched();
	}
	KUNIT_EXPECT_EQ_MSG(test, map->nr_groups, wanted, "%s: leaves", which);
	kunit_info(test, "%s: a root_domain takes %zu bytes, its %u leaves for %d priorities %zu\n",
		   which, sizeof(*rd), map->nr_groups, CPUPRI_NR_PRIORITIES,
		   CPUPRI_NR_PRIORITIES * (ksize(rd->cpupri.sbm[0]) + map->nr_groups *
					   ksize(rd->cpupri.sbm[0]->leaves[0])));
}
#endif

static void leaves_by_group(struct kunit *test)
{
	static const struct sched_test_topology llcs = { .name = "LLCs of 4", .cpus = 8, .llc = 4 };

	rd_test_expect_leaves(test, "this machine");
	sched_test_install(test, &llcs);
	rd_test_expect_leaves(test, "with LLCs of 4 CPUs");
}
#else
static void leaves_by_group(struct kunit *test)
{
	kunit_info(test, "a root_domain takes %zu bytes, masks behind pointers %zu\n",
		   sizeof(*cpu_rq(0)->rd), IS_ENABLED(CONFIG_CPUMASK_OFFSTACK) ?
		   (size_t)CPUPRI_NR_PRIORITIES * cpumask_size() : 0);
	kunit_skip(test, "the masks are not split");
}
#endif

/* ---- the sum of the counts of leaves ---- */

#ifdef CONFIG_SCHED_RTO_COUNT_SPLIT
static void rd_test_cleanup(void *cp)
{
	cpupri_cleanup(cp);
}

static void overload_is_summed_up_to_two(struct kunit *test)
{
	static const struct sched_test_topology llcs = { .name = "LLCs of 2", .cpus = 8, .llc = 2 };
	/* CPUs of each LLC with RT overload, and the sum. */
	static const int rows[][5] = {
		{ 0, 0, 0, 0, 0 }, { 1, 0, 0, 0, 1 }, { 0, 0, 0, 1, 1 }, { 0, 2, 0, 0, 2 },
		{ 1, 0, 1, 0, 2 }, { 1, 1, 1, 1, 2 },
	};
	struct root_domain *rd = kunit_kzalloc(test, sizeof(*rd), GFP_KERNEL);
	int cpu, i;

	KUNIT_ASSERT_NOT_NULL(test, rd);
	sched_test_install(test, &llcs);
	KUNIT_ASSERT_EQ(test, cpupri_init(&rd->cpupri), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, rd_test_cleanup, &rd->cpupri), 0);
	if (rd->cpupri.place[0].leaf == rd->cpupri.place[2].leaf)
		kunit_skip(test, "n/a: this machine's nodes do not follow the fake LLCs");
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (cpu = 0; cpu < llcs.cpus; cpu++)
			atomic_set(rd_rto_count(rd, cpu), rows[i][cpu / 2]);
		for_each_possible_cpu(cpu)
			KUNIT_EXPECT_EQ_MSG(test, rd_rto_overloaded(rd, cpu), rows[i][4],
					    "row %d, read by CPU %d", i, cpu);
	}
}
#else
static void overload_is_summed_up_to_two(struct kunit *test)
{
	kunit_skip(test, "CPUs with RT overload are not counted by leaf");
}
#endif
#endif /* SCHED_KUNIT_NO_CPUPRI_SPLIT */

/* ---- counts, masks and priorities agree while all CPUs are stopped ---- */

/* The mismatches in all root domains: their number, and the first one. */
struct rd_test_breach {
	int nr, cpu, level, got, want;
	const char *what;
};

static void rd_test_compare(struct rd_test_breach *b, const char *what, int cpu, int level,
			    int got, int want)
{
	if (got == want || b->nr++)
		return;
	b->what = what;
	b->cpu = cpu;
	b->level = level;
	b->got = got;
	b->want = want;
}

static void rd_test_look_at_level(struct rd_test_breach *b, struct root_domain *rd, int level)
{
	int cpu, weight = 0;

	for_each_possible_cpu(cpu) {
		bool want = rd->cpupri.cpu_to_pri[cpu] == level;

		rd_test_compare(b, "in the mask", cpu, level,
				cpupri_has_cpu(&rd->cpupri, level, cpu), want);
		weight += want;
	}
	rd_test_compare(b, "the count", -1, level,
			atomic_read(cpupri_count(&rd->cpupri, level)), weight);
}

static bool rd_test_is_overloaded(struct root_domain *rd, int cpu)
{
	return cpu_rq(cpu)->rd == rd && cpu_active(cpu) && cpu_rq(cpu)->rt.overloaded;
}

/* One count for all CPUs, or one for those of each leaf. */
static bool rd_test_share_count(struct root_domain *rd, int cpu, int other)
{
#ifdef CONFIG_SCHED_RTO_COUNT_SPLIT
	return rd->cpupri.place[cpu].leaf == rd->cpupri.place[other].leaf;
#else
	return true;
#endif
}

static void rd_test_look_at_overload(struct rd_test_breach *b, struct root_domain *rd, int cpu)
{
	int other, nr = 0;

	rd_test_compare(b, "in rto_mask", cpu, 0, cpumask_test_cpu(cpu, rd->rto_mask),
			rd_test_is_overloaded(rd, cpu));
	for_each_possible_cpu(other)
		nr += rd_test_share_count(rd, cpu, other) && rd_test_is_overloaded(rd, other);
	rd_test_compare(b, "rto_count", cpu, 0, atomic_read(rd_rto_count(rd, cpu)), nr);
}

static void rd_test_look_at(struct rd_test_breach *b, struct root_domain *rd)
{
	int cpu, level;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);
		bool takes_part = rq->rd == rd && cpu_active(cpu);

		rd_test_compare(b, "online", cpu, 0, cpumask_test_cpu(cpu, rd->online), takes_part);
		/* With deadline tasks the level is theirs or the RT tasks'. */
		if (!rq->dl.dl_nr_running)
			rd_test_compare(b, "the level", cpu, 0, rd->cpupri.cpu_to_pri[cpu],
					takes_part ? convert_prio(rq->rt.highest_prio.curr) :
						     CPUPRI_INVALID);
		rd_test_look_at_overload(b, rd, cpu);
	}
	for (level = 0; level < CPUPRI_NR_PRIORITIES; level++)
		rd_test_look_at_level(b, rd, level);
}

/* While all CPUs are stopped, none is in the middle of cpupri_set(). */
static int rd_test_look_at_all(void *data)
{
	int cpu;

	rd_test_look_at(data, &def_root_domain);
	for_each_possible_cpu(cpu)
		if (cpumask_first(cpu_rq(cpu)->rd->span) == cpu)
			rd_test_look_at(data, cpu_rq(cpu)->rd);
	return 0;
}

static void rd_test_expect_agreement(struct kunit *test, const char *when)
{
	struct rd_test_breach b = { };

	stop_machine(rd_test_look_at_all, &b, NULL);
	if (b.nr)
		KUNIT_FAIL(test, "%s: CPU %d, level %d: %s: %d, expected %d; %d more such",
			   when, b.cpu, b.level, b.what, b.got, b.want, b.nr - 1);
}

/* ---- RT tasks that wake each other, each at a priority of its own ---- */

#define RD_TEST_TASKS	12
#define RD_TEST_WAKEUPS	50	/* between two changes */
#define RD_TEST_SECONDS	60	/* for these wake-ups, on slow emulated CPUs */

struct rd_test_task {
	struct task_struct	*task;
	wait_queue_head_t	wait;
	atomic_t		turns;
};

static struct rd_test_task rd_test_tasks[RD_TEST_TASKS];
static int rd_test_nr_tasks;
static atomic_t rd_test_wakeups;
static DECLARE_COMPLETION(rd_test_woken_often);

static void rd_test_give_turn(int i)
{
	atomic_inc(&rd_test_tasks[i].turns);
	wake_up(&rd_test_tasks[i].wait);
}

static int rd_test_run(void *data)
{
	struct rd_test_task *me = data;

	for (;;) {
		wait_event(me->wait, atomic_read(&me->turns) || kthread_should_stop());
		if (kthread_should_stop())
			return 0;
		atomic_dec(&me->turns);
		if (atomic_inc_return(&rd_test_wakeups) % RD_TEST_WAKEUPS == 0)
			complete(&rd_test_woken_often);
		rd_test_give_turn((me - rd_test_tasks + 1) % rd_test_nr_tasks);
	}
}

static void rd_test_wait_for_wakeups(struct kunit *test)
{
	unsigned long left;

	atomic_set(&rd_test_wakeups, 0);
	reinit_completion(&rd_test_woken_often);
	left = wait_for_completion_timeout(&rd_test_woken_often, RD_TEST_SECONDS * HZ);
	KUNIT_ASSERT_GT_MSG(test, left, 0, "fewer than %d wake-ups of RT tasks in %d seconds",
			    RD_TEST_WAKEUPS, RD_TEST_SECONDS);
}

static void rd_test_stop_tasks(void *unused)
{
	for (int i = 0; i < rd_test_nr_tasks; i++)
		kthread_stop(rd_test_tasks[i].task);
	rd_test_nr_tasks = 0;
}

/*
 * There is one RT task less than there are CPUs. RT throttling is off by
 * default, so RT tasks on all CPUs could keep this test from running.
 */
static void rd_test_start_tasks(struct kunit *test, int cpus)
{
	int nr = min(cpus - 1, RD_TEST_TASKS);

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, rd_test_stop_tasks, NULL), 0);
	for (int i = 0; i < nr; i++) {
		struct sched_param param = { .sched_priority = 1 + 8 * i };
		struct rd_test_task *each = &rd_test_tasks[i];

		init_waitqueue_head(&each->wait);
		atomic_set(&each->turns, 0);
		each->task = kthread_create(rd_test_run, each, "rd_test/%d", i);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, each->task);
		rd_test_nr_tasks = i + 1;
		sched_setscheduler_nocheck(each->task, SCHED_FIFO, &param);
		wake_up_process(each->task);
	}
	for (int i = 0; i < nr; i += 3)
		rd_test_give_turn(i);
}

static void rd_test_needs_cpus(struct kunit *test, int least)
{
	if (num_online_cpus() < least)
		kunit_skip(test, "n/a: needs %d CPUs online", least);
}

/* The maps split the LLCs in different places. */
static void partitions_while_rt_runs(struct kunit *test)
{
	static const struct sched_test_topology llcs = { .name = "LLCs of 4", .cpus = 4, .llc = 4 };
	static const unsigned int maps[][3] = { { 0 }, { 0, 2 }, { 0, 1, 3 } };

	sched_test_install(test, &llcs);
	rd_test_start_tasks(test, num_online_cpus());
	for (int i = 0; i < 12; i++) {
		KUNIT_ASSERT_EQ(test, partition_at(maps[i % 3], i % 3 + 1), 0);
		rd_test_wait_for_wakeups(test);
		if (i % 4 == 3)
			rd_test_expect_agreement(test, "while RT tasks run");
	}
	kunit_release_action(test, rd_test_stop_tasks, NULL);
	rd_test_expect_agreement(test, "after them");
	remove_early(test);
	rd_test_expect_agreement(test, "with this machine's own domains");
}

static void hotplug_while_rt_runs(struct kunit *test)
{
	long cpu = cpumask_last(cpu_online_mask);

	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU))
		kunit_skip(test, "n/a: CPUs of this kernel stay online");
	rd_test_needs_cpus(test, 4);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, bring_back, (void *)cpu), 0);
	rd_test_start_tasks(test, num_online_cpus() - 1);
	for (int i = 0; i < 4; i++) {
		KUNIT_ASSERT_EQ(test, remove_cpu(cpu), 0);
		rd_test_wait_for_wakeups(test);
		rd_test_expect_agreement(test, "while a CPU is offline");
		KUNIT_ASSERT_EQ(test, add_cpu(cpu), 0);
		rd_test_wait_for_wakeups(test);
		rd_test_expect_agreement(test, "with the CPU back");
	}
	kunit_release_action(test, rd_test_stop_tasks, NULL);
	rd_test_expect_agreement(test, "after the RT tasks");
}

/* ---- CPUs with more RT tasks than they can run ---- */

#define RD_TEST_CROWD	3	/* tasks that want two CPUs, so one is overloaded */

static DECLARE_WAIT_QUEUE_HEAD(rd_test_crowd_wait);
static int rd_test_crowd_ends;

static int rd_test_occupy(void *unused)
{
	while (!READ_ONCE(rd_test_crowd_ends)) {
		cpu_relax();
		cond_resched();
	}
	wait_event(rd_test_crowd_wait, kthread_should_stop());
	return 0;
}

/* None of them can be stopped while others of them keep it from its CPU. */
static void rd_test_end_crowd(void *unused)
{
	WRITE_ONCE(rd_test_crowd_ends, 1);
	rd_test_stop_tasks(NULL);
	WARN_ON(set_cpus_allowed_ptr(current, cpu_possible_mask));
}

/* Tasks that may run on one CPU alone would not make it overloaded. */
static void rd_test_create_crowd(struct kunit *test, const struct cpumask *pair)
{
	struct sched_param param = { .sched_priority = 10 };

	for (int i = 0; i < RD_TEST_CROWD; i++) {
		struct task_struct *task = kthread_create(rd_test_occupy, NULL, "rd_crowd/%d", i);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
		rd_test_tasks[rd_test_nr_tasks++].task = task;
		kthread_bind_mask(task, pair);
		sched_setscheduler_nocheck(task, SCHED_FIFO, &param);
	}
}

static void rd_test_wake_crowd(struct kunit *test, int first, const struct cpumask *pair)
{
	unsigned long until = jiffies + RD_TEST_SECONDS * HZ;
	int cpu, overloaded;

	for (int i = 0; i < RD_TEST_CROWD; i++)
		wake_up_process(rd_test_tasks[first + i].task);
	do {
		overloaded = 0;
		for_each_cpu(cpu, pair)
			overloaded += READ_ONCE(cpu_rq(cpu)->rt.overloaded);
		cond_resched();
	} while (!overloaded && time_before(jiffies, until));
	KUNIT_ASSERT_GT_MSG(test, overloaded, 0, "%d RT tasks on CPUs %*pbl", RD_TEST_CROWD,
			    cpumask_pr_args(pair));
}

/*
 * Two pairs of CPUs, from the last one on: in two LLCs if these have two CPUs.
 * All tasks are created before, because kthreadd may be where they run.
 */
static void overloaded_cpus_are_counted(struct kunit *test)
{
	const struct cpumask *mine = cpumask_of(cpumask_first(cpu_online_mask));
	static struct cpumask rd_test_pairs[2];
	int pairs, cpu = nr_cpu_ids;

	rd_test_needs_cpus(test, 3);
	pairs = num_online_cpus() < 5 ? 1 : 2;
	WRITE_ONCE(rd_test_crowd_ends, 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, rd_test_end_crowd, NULL), 0);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, mine), 0);
	for (int i = 0; i < pairs; i++) {
		cpumask_clear(&rd_test_pairs[i]);
		while (cpumask_weight(&rd_test_pairs[i]) < 2)
			if (cpu_online(--cpu))
				cpumask_set_cpu(cpu, &rd_test_pairs[i]);
		rd_test_create_crowd(test, &rd_test_pairs[i]);
	}
	for (int i = 0; i < pairs; i++) {
		rd_test_wake_crowd(test, i * RD_TEST_CROWD, &rd_test_pairs[i]);
		rd_test_expect_agreement(test, "while CPUs are overloaded");
	}
	kunit_release_action(test, rd_test_end_crowd, NULL);
	rd_test_expect_agreement(test, "after that");
}

/* ---- a CPU with more tasks than it can run, whatever they are ---- */

#ifndef SCHED_KUNIT_LACKS_RD_OVERLOADED
static int rd_test_sleep(void *unused)
{
	wait_event(rd_test_crowd_wait, kthread_should_stop());
	return 0;
}

/* A CPU that sleeps for a jiffy balances before. */
static bool rd_test_is_cleared(struct root_domain *rd)
{
	for (int i = 0; i < 20 * HZ; i++) {
		schedule_timeout_uninterruptible(1);
		if (!get_rd_overloaded(rd))
			return true;
	}
	return false;
}

static void second_task_is_told_until_a_balance(struct kunit *test)
{
	int first = cpumask_first(cpu_online_mask), cpu, set = 0;
	struct root_domain *rd = cpu_rq(first)->rd;
	struct task_struct *second;

	if (!rcu_access_pointer(cpu_rq(first)->sd))
		kunit_skip(test, "n/a: no sched domains, so nothing is balanced");
	second = kthread_create(rd_test_sleep, NULL, "rd_second");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, second);
	rd_test_tasks[rd_test_nr_tasks++].task = second;
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, rd_test_end_crowd, NULL), 0);
	kthread_bind(second, first);
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(first)), 0);
	for (int i = 0; i < 8; i++) {
		bool cleared = rd_test_is_cleared(rd);

		for_each_online_cpu(cpu)
			if (!cleared && cpu != first && cpu_rq(cpu)->nr_running > 1)
				kunit_skip(test, "other tasks wait for CPU %d", cpu);
		KUNIT_ASSERT_TRUE_MSG(test, cleared, "overloaded stays, and no task waits");
		scoped_guard(preempt) {
			wake_up_process(second);
			set += get_rd_overloaded(rd);
		}
	}
	/* Sometimes another CPU is just about to clear it. */
	KUNIT_EXPECT_GT_MSG(test, set, 4, "of 8 rounds, those in which a second task set it");
}
#else
static void second_task_is_told_until_a_balance(struct kunit *test)
{
	kunit_skip(test, "n/a: this kernel has another flag");
}
#endif

static struct kunit_case sched_root_domain_cases[] = {
#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
	KUNIT_CASE(leaves_by_group),
	KUNIT_CASE(overload_is_summed_up_to_two),
#endif
	KUNIT_CASE(partitions_while_rt_runs),
	KUNIT_CASE(hotplug_while_rt_runs),
	KUNIT_CASE(overloaded_cpus_are_counted),
	KUNIT_CASE(second_task_is_told_until_a_balance),
	{}
};

static struct kunit_suite sched_root_domain_suite = {
	.name		= "sched_root_domain",
	.test_cases	= sched_root_domain_cases,
};

kunit_test_suite(sched_root_domain_suite);
