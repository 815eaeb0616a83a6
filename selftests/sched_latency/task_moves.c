// SPDX-License-Identifier: GPL-2.0
/*
 * Does a task get the CPU that is free for it?
 *
 * Two CPUs of one LLC are enough: here and there. Each round has a task that
 * may run on both, and counts if it gets there:
 *
 * on_idle: it slept here, and is woken by a futex. The waker goes on running
 * here, so select_idle_sibling() has to find the other CPU.
 *
 * pushed: it is a real-time task that runs here. A more urgent one is woken,
 * which may run here alone. Nothing real-time runs there, so that nothing there
 * would pull it.
 *
 * pulled: an urgent task runs on each of the CPUs, and it waits here. Then the
 * urgent one there ends.
 *
 * What occupies the CPU here spins until the task is there, but no longer than
 * --patience-ms, if nothing moves. A round in which something else moved the
 * task does not count.
 */
#define _GNU_SOURCE
#include <linux/futex.h>

#include "workload.h"

#define URGENT	60
#define LOW	40

enum move { ON_IDLE, PUSHED, PULLED, MOVES };
static const char * const names[MOVES] = { "on_idle", "pushed", "pulled" };
static const char * const took[MOVES] = { "on_idle_after", "pushed_after", "pulled_after" };

static int nr_rounds = 11;
static double patience_ms = 100;

static struct results *all;
static int here = -1, there = -1;
static struct cpus both;
/* Why real-time tasks are not allowed, or NULL. */
static const char *no_realtime;

struct task {
	pthread_t thread;
	pid_t tid;
	/* 0 for a task that is not real-time. */
	int priority;
	__u32 go;
	/* Where it is seen, and where it slept; -1 before. */
	int on, slept_on;
};

static enum move move;
static struct task mover, urgent, other;
static struct histogram *histogram;
static __u64 began;
static bool other_left, waits, over;

#define get(what)	__atomic_load_n(&(what), __ATOMIC_ACQUIRE)
#define set(what, to)	__atomic_store_n(&(what), to, __ATOMIC_RELEASE)

static void must(bool done)
{
	if (!done)
		give_up(all, "a task cannot be placed: %s", strerror(errno));
}

static void wake(struct task *task)
{
	set(task->go, 1);
	syscall(SYS_futex, &task->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void await_go(struct task *task)
{
	set(task->tid, syscall(SYS_gettid));
	while (!get(task->go))
		syscall(SYS_futex, &task->go, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void await_sleep(struct task *task)
{
	char text[512] = "", *end = NULL;
	__u64 until = now() + PATIENCE;

	while (!end || end[2] != 'S') {
		if (now() >= until)
			give_up(all, "a task does not sleep");
		if (!get(task->tid))
			continue;
		must(read_line(text, sizeof(text), "/proc/self/task/%d/stat", task->tid));
		end = strrchr(text, ')');
	}
}

/* Waits until the mover is there. Nothing is noted if it never is. */
static void await_move(void)
{
	__u64 until = now() + (__u64)(patience_ms * 1e6);

	while (get(mover.on) != there && now() < until)
		;
	inject_delay();
	if (get(mover.on) == there)
		histogram_add(histogram, now() - began);
	set(over, true);
}

static void *run_mover(void *unused)
{
	must(run_on_cpu(here) && (!mover.priority || be_realtime(mover.priority)) &&
	     run_on(&both));
	mover.slept_on = sched_getcpu();
	await_go(&mover);
	do
		set(mover.on, sched_getcpu());
	while (!get(over));
	return unused;
}

static void *run_urgent(void *unused)
{
	must(run_on_cpu(here) && be_realtime(URGENT));
	await_go(&urgent);
	set(urgent.on, here);
	if (move == PUSHED)
		began = now();
	/* Until then the other urgent task keeps it from being there. */
	for (__u64 until = now() + NS_PER_S; move == PULLED && now() < until; )
		if (get(other_left))
			break;
	await_move();
	return unused;
}

static void *run_other(void *unused)
{
	__u64 until;

	must(run_on_cpu(there) && be_realtime(URGENT));
	await_go(&other);
	while (get(urgent.on) != here)
		;
	wake(&mover);
	for (until = now() + 1000000; now() < until; )
		;
	waits = get(mover.on) == -1;
	began = now();
	set(other_left, true);
	return unused;
}

static void start(struct task *task, void *(*run)(void *unused), int priority)
{
	*task = (struct task){ .priority = priority, .on = -1, .slept_on = -1 };
	start_thread(all, &task->thread, run, NULL);
	await_sleep(task);
}

/* With as many runnable tasks as CPUs the one there may not be idle. */
static bool some_cpu_is_idle(void)
{
	char text[128] = "";
	int running;

	return read_line(text, sizeof(text), "/proc/loadavg") &&
	       sscanf(text, "%*s %*s %*s %d/", &running) == 1 &&
	       running < sysconf(_SC_NPROCESSORS_ONLN);
}

/* Whether the task moved; -1 if the round does not count. */
static int play(void)
{
	__u64 before = histogram->n;
	bool counts;

	set(over, false);
	set(other_left, false);
	must(run_on_cpu(there));
	start(&mover, run_mover, move == ON_IDLE ? 0 : LOW);
	counts = mover.slept_on == here;
	if (move == ON_IDLE) {
		must(run_on_cpu(here));
		counts = counts && some_cpu_is_idle();
		began = now();
		wake(&mover);
		await_move();
		pthread_join(mover.thread, NULL);
		return counts ? histogram->n > before : -1;
	}
	start(&urgent, run_urgent, URGENT);
	if (move == PULLED) {
		start(&other, run_other, URGENT);
		wake(&urgent);
		wake(&other);
		pthread_join(other.thread, NULL);
		counts = counts && waits;
	} else {
		wake(&mover);
		while (get(mover.on) == -1)
			;
		counts = get(mover.on) == here;
		wake(&urgent);
	}
	pthread_join(urgent.thread, NULL);
	pthread_join(mover.thread, NULL);
	return counts ? histogram->n > before : -1;
}

static void measure(struct results *results)
{
	all = results;
	if (!guard_realtime())
		give_up_refused(results, "RLIMIT_RTTIME", errno);
	for (move = 0; move < MOVES; move++) {
		struct metric *metric;
		int nr[2] = {};

		if (no_realtime && move != ON_IDLE) {
			add_absent(results, names[move], "%s", no_realtime);
			continue;
		}
		histogram = calloc(1, sizeof(*histogram));
		if (!histogram)
			give_up(results, "no memory");
		for (int round = 0; round < nr_rounds; round++) {
			int moved = play();

			if (moved >= 0)
				nr[moved]++;
		}
		if (2 * (nr[0] + nr[1]) <= nr_rounds) {
			add_absent(results, names[move],
				   "in %d of %d rounds something else ran, or moved the task",
				   nr_rounds - nr[0] - nr[1], nr_rounds);
			continue;
		}
		metric = add_metric(results, RATE, HIGHER, "%", 100.0 * nr[1] / (nr[0] + nr[1]),
				    "%s", names[move]);
		metric->n = nr[0] + nr[1];
		if (nr[1])
			add_quantiles(results, took[move], histogram, NONE_COMPARED);
	}
}

static const char *cannot(void)
{
	const struct cpus *cpus = &common.cpus;
	struct cpus llc;

	for (int cpu = cpus_next(cpus, -1); cpu >= 0 && there < 0; cpu = cpus_next(cpus, cpu)) {
		if (!cpus_sharing(cpu, LLC, &llc))
			return "sysfs shows no caches";
		cpus_and(&llc, cpus);
		here = cpu;
		there = cpus_next(&llc, cpu);
	}
	if (there < 0)
		return "no two of these CPUs share an LLC";
	cpus_add(&both, here);
	cpus_add(&both, there);
	/* What the others do is no excuse. */
	common.cpus = both;
	no_realtime = why_no_realtime(URGENT);
	return NULL;
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 5, 1000, "how often each task has to move" },
	{ "patience-ms", 0, NUMBER, &patience_ms, 1, 1000, "how long it has for that" },
};

static const struct test tests[] = {
	{ .name = "idle_cpu_found", .rule = GROSS, .most_ms = FAIR_MS,
	  .compared = { "on_idle", "on_idle_after.p50" } },
	{ .name = "pushed_to_a_free_cpu", .rule = GROSS, .realtime = true,
	  .most_ms = REALTIME_MS, .compared = { "pushed", "pushed_after.p50" } },
	{ .name = "pulled_to_a_free_cpu", .rule = GROSS, .realtime = true,
	  .most_ms = REALTIME_MS, .compared = { "pulled", "pulled_after.p50" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload task_moves = {
	.name = "task_moves",
	.about =
		"Whether a task gets the CPU that is free for it: on a wake-up, or pushed or pulled\n"
		"as a SCHED_FIFO task. KTAP on standard output.",
	.examples = "  task_moves\n"
		    "  task_moves --cpus 2,3 --rounds 101\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.cannot = cannot,
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&task_moves, argc, argv);
}
