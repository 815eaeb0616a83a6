// SPDX-License-Identifier: GPL-2.0
/*
 * Does a task get the CPU that is free for it?
 *
 * Two CPUs of one LLC are enough: here and there. Each round has a task that
 * may run on both, and counts if it gets there:
 *
 * on_idle: it slept here, and is woken by a futex. The waker still runs here,
 * and sleeps at once, so a task that select_idle_sibling() leaves here runs here.
 *
 * pushed: it is a real-time task that runs here. A more urgent one is woken,
 * which may run here alone. Nothing real-time runs there, so that nothing there
 * would pull it.
 *
 * pulled: an urgent task runs on each of the CPUs, and it waits here. Then the
 * urgent one there ends.
 *
 * The urgent task here spins until the other one is there, or for 100 ms if
 * nothing moves. A round in which something else moved the task does not count.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

enum { LOW = 40, URGENT = 60 };

static enum move { ON_IDLE, PUSHED, PULLED, MOVES } move;
static const char * const names[MOVES] = { "on_idle", "pushed", "pulled" };

static int nr_rounds = 11, here = -1, there = -1;

static struct task {
	pthread_t thread;
	pid_t tid;
	__u32 go;
	/* Where it is seen, and where it slept; -1 before. */
	int on, slept_on;
} mover, urgent, other;

static struct samples samples;
static __u64 began;
static bool other_left, waits, over, gave_up;

/* @priority: 0 for a task that is not real-time. */
static void await_go(struct task *task, int cpu, int priority)
{
	must(run_on_cpu(cpu) && (!priority || be_realtime(priority)), "a task");
	must(task != &mover || run_on(&common.cpus), "the CPUs");
	task->slept_on = sched_getcpu();
	store(task->tid, syscall(SYS_gettid));
	futex_wait(&task->go, 0);
}

static void await_run(struct task *task)
{
	__u64 until = now() + PATIENCE;

	while (load(task->on) == -1)
		if (now() >= until)
			give_up("a task does not run");
}

/* A real-time one that is put there keeps the main thread from waking the urgent one. */
static void *run_mover(void *unused)
{
	__u64 until;

	await_go(&mover, here, move == ON_IDLE ? 0 : LOW);
	if (move == ON_IDLE) {
		if (sched_getcpu() == there)
			sample(&samples, there, woken() - began);
		return unused;
	}
	for (until = now() + NS_PER_S; !load(over) && now() < until; )
		store(mover.on, sched_getcpu());
	gave_up = !load(over);
	return unused;
}

/* Spins until the mover is there. Nothing is noted if it never is. */
static void *run_urgent(void *unused)
{
	__u64 until, time;

	await_go(&urgent, here, URGENT);
	began = now();
	store(urgent.on, here);
	/* Until then the other urgent task keeps it from being there. */
	for (until = now() + NS_PER_S; move == PULLED && !load(other_left) && now() < until; )
		;
	for (until = now() + NS_PER_S / 10; load(mover.on) != there && now() < until; )
		;
	time = woken();
	if (load(mover.on) == there)
		sample(&samples, there, time - began);
	store(over, true);
	return unused;
}

static void *run_other(void *unused)
{
	__u64 until;

	await_go(&other, there, URGENT);
	await_run(&urgent);
	futex_wake(&mover.go, 1);
	for (until = now() + 1000000; now() < until; )
		;
	waits = load(mover.on) == -1;
	began = now();
	store(other_left, true);
	return unused;
}

/* Returns when the task sleeps. */
static void start(struct task *task, void *(*run)(void *unused))
{
	*task = (struct task){ .on = -1 };
	start_thread(&task->thread, run, NULL);
	while (!load(task->tid))
		sched_yield();
	await_sleep(task->tid, SYS_futex);
}

/* With as many runnable tasks as CPUs the one there may not be idle. */
static bool some_cpu_is_idle(void)
{
	struct cpus online;
	int running;

	return cpus_read(&online, "cpu/online") &&
	       sscanf(read_text("/proc/loadavg") ?: "", "%*s %*s %*s %d/", &running) == 1 &&
	       running < cpus_count(&online);
}

/* Whether the round counts. */
static bool play(void)
{
	bool counts;

	store(over, false);
	store(other_left, false);
	must(run_on_cpu(there), "a CPU");
	start(&mover, run_mover);
	counts = mover.slept_on == here;
	if (move == ON_IDLE) {
		must(run_on_cpu(here), "a CPU");
		counts = counts && some_cpu_is_idle();
		began = now();
		futex_wake(&mover.go, 1);
		pthread_join(mover.thread, NULL);
		return counts;
	}
	start(&urgent, run_urgent);
	if (move == PULLED) {
		start(&other, run_other);
		futex_wake(&urgent.go, 1);
		futex_wake(&other.go, 1);
		pthread_join(other.thread, NULL);
		counts = counts && waits;
	} else {
		futex_wake(&mover.go, 1);
		await_run(&mover);
		counts = load(mover.on) == here;
		futex_wake(&urgent.go, 1);
	}
	pthread_join(urgent.thread, NULL);
	pthread_join(mover.thread, NULL);
	return counts && !gave_up;
}

static void not_measured(const char *why)
{
	add_absent(names[move], why);
	add_absent(text_of("%s_after", names[move]), why);
}

static void measure_move(void)
{
	const char *why = move == ON_IDLE ? NULL : why_no_realtime(URGENT);
	int counted = 0, moved = 0;

	if (move == ON_IDLE && !strcmp(read_text("/proc/sys/kernel/sched_energy_aware") ?: "", "1"))
		why = "energy-aware scheduling may prefer a busy CPU";
	if (why) {
		not_measured(why);
		return;
	}
	samples_new(&samples);
	for (int round = 0; round < nr_rounds; round++) {
		__u64 before = samples_count(&samples);
		bool counts = play();

		counted += counts;
		moved += counts && samples_count(&samples) > before;
	}
	if (2 * counted <= nr_rounds) {
		not_measured(text_of("in %d of %d rounds something else ran, or moved the task",
				     nr_rounds - counted, nr_rounds));
		return;
	}
	add_metric(RATE, HIGHER, "%", percent(moved, counted), counted, names[move]);
	add_samples(text_of("%s_after", names[move]), &samples, false);
}

static void measure(void)
{
	be_prompt();
	rt_priority = LOW;
	for (move = 0; move < MOVES; move++)
		measure_move();
}

static const char *cannot(void)
{
	struct cpus llc, two = {};

	for_each_cpu(cpu, &common.cpus) {
		if (!cpus_sharing(cpu, LLC, &llc))
			return "sysfs shows no caches";
		cpus_and(&llc, &common.cpus);
		here = cpu;
		there = cpus_next(&llc, cpu);
		if (there >= 0)
			break;
	}
	if (there < 0)
		return "no two of these CPUs share an LLC";
	/* What the other CPUs do is no excuse. */
	cpus_add(&two, here);
	cpus_add(&two, there);
	common.cpus = two;
	return NULL;
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 5, 1000, "how often each task has to move" },
};

static const struct test tests[] = {
	{ .name = "idle_cpu_found", .rule = AT_MOST, .most_ms = FAIR_MS,
	  .metrics = { "on_idle", "on_idle_after.p50" } },
	{ .name = "pushed_to_a_free_cpu", .rule = AT_MOST, .realtime = true,
	  .most_ms = REALTIME_MS, .metrics = { "pushed", "pushed_after.p50" } },
	{ .name = "pulled_to_a_free_cpu", .rule = AT_MOST, .realtime = true,
	  .most_ms = REALTIME_MS, .metrics = { "pulled", "pulled_after.p50" } },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("task_moves", cannot,
	      "Whether a task gets the CPU that is free for it: woken, pushed or pulled.")
