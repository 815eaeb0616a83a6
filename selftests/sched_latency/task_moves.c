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

#define URGENT	60
#define LOW	40

enum move { ON_IDLE, PUSHED, PULLED, MOVES };
static const char * const names[MOVES] = { "on_idle", "pushed", "pulled" };

static int nr_rounds = 11;

static int here = -1, there = -1;
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
static struct samples samples;
static __u64 began;
static bool other_left, waits, over, gave_up;

#define get(what)	__atomic_load_n(&(what), __ATOMIC_ACQUIRE)
#define set(what, to)	__atomic_store_n(&(what), to, __ATOMIC_RELEASE)

static void wake(struct task *task)
{
	set(task->go, 1);
	futex_wake(&task->go);
}

static void await_go(struct task *task, int cpu)
{
	must(run_on_cpu(cpu) && (!task->priority || be_realtime(task->priority)), "a task");
	must(task != &mover || run_on(&common.cpus), "the CPUs");
	task->slept_on = sched_getcpu();
	set(task->tid, syscall(SYS_gettid));
	futex_wait(&task->go, 0);
}

static void await_run(struct task *task)
{
	__u64 until = now() + PATIENCE;

	while (get(task->on) == -1)
		if (now() >= until)
			give_up("a task does not run");
}

static void await_sleep(struct task *task)
{
	char text[512] = "", *end = NULL;
	__u64 until = now() + PATIENCE;

	while (!end || end[2] != 'S') {
		if (now() >= until)
			give_up("a task does not sleep");
		if (!get(task->tid))
			continue;
		must(read_line(text, sizeof(text), "/proc/self/task/%d/stat", task->tid), "stat");
		end = strrchr(text, ')');
	}
}

/* Waits until the mover is there. Nothing is noted if it never is. */
static void await_move(void)
{
	__u64 until = now() + NS_PER_S / 10, time;

	while (get(mover.on) != there && now() < until)
		;
	time = woken();
	if (get(mover.on) == there)
		sample(&samples, there, time - began);
	set(over, true);
}

/* A real-time one that is put there keeps the main thread from waking the urgent one. */
static void *run_mover(void *unused)
{
	__u64 until;

	await_go(&mover, here);
	if (move == ON_IDLE) {
		if (sched_getcpu() == there)
			sample(&samples, there, woken() - began);
		return unused;
	}
	until = now() + NS_PER_S;
	do
		set(mover.on, sched_getcpu());
	while (!get(over) && now() < until);
	gave_up = !get(over);
	return unused;
}

static void *run_urgent(void *unused)
{
	await_go(&urgent, here);
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

	await_go(&other, there);
	await_run(&urgent);
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
	start_thread(&task->thread, run, NULL);
	await_sleep(task);
}

/*
 * With as many runnable tasks as CPUs the one there may not be idle. sysconf()
 * of some libraries counts those that this task may use.
 */
static bool some_cpu_is_idle(void)
{
	struct cpus online;
	char text[8192];
	int running;

	return sysfs_line(text, sizeof(text), "cpu/online") && cpus_parse(text, &online) &&
	       read_line(text, sizeof(text), "/proc/loadavg") &&
	       sscanf(text, "%*s %*s %*s %d/", &running) == 1 && running < cpus_count(&online);
}

/* Whether the round counts. */
static bool play(void)
{
	bool counts;

	set(over, false);
	set(other_left, false);
	must(run_on_cpu(there), "a CPU");
	start(&mover, run_mover, move == ON_IDLE ? 0 : LOW);
	counts = mover.slept_on == here;
	if (move == ON_IDLE) {
		must(run_on_cpu(here), "a CPU");
		counts = counts && some_cpu_is_idle();
		began = now();
		wake(&mover);
		pthread_join(mover.thread, NULL);
		return counts;
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
		await_run(&mover);
		counts = get(mover.on) == here;
		wake(&urgent);
	}
	pthread_join(urgent.thread, NULL);
	pthread_join(mover.thread, NULL);
	return counts && !gave_up;
}

static void measure(void)
{
	be_prompt();
	for (move = 0; move < MOVES; move++) {
		int counted = 0, moved = 0;
		char after[32], text[16];

		if (move == ON_IDLE &&
		    read_line(text, sizeof(text), "/proc/sys/kernel/sched_energy_aware") &&
		    text[0] == '1') {
			add_absent(names[move], "energy-aware scheduling may prefer a busy CPU");
			continue;
		}
		if (no_realtime && move != ON_IDLE) {
			add_absent(names[move], "%s", no_realtime);
			continue;
		}
		samples_new(&samples);
		for (int round = 0; round < nr_rounds; round++) {
			__u64 before = samples_count(&samples);
			bool counts = play();

			counted += counts;
			moved += counts && samples_count(&samples) > before;
		}
		if (2 * counted <= nr_rounds) {
			add_absent(names[move],
				   "in %d of %d rounds something else ran, or moved the task",
				   nr_rounds - counted, nr_rounds);
			continue;
		}
		add_metric(RATE, HIGHER, "%", percent(moved, counted), counted, "%s", names[move]);
		snprintf(after, sizeof(after), "%s_after", names[move]);
		add_samples(after, &samples, false);
	}
}

static const char *cannot(void)
{
	struct cpus llc;

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
	memset(&common.cpus, 0, sizeof(common.cpus));
	cpus_add(&common.cpus, here);
	cpus_add(&common.cpus, there);
	no_realtime = why_no_realtime(URGENT);
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

int main(int argc, char **argv)
{
	static const struct workload workload = {
		"task_moves",
		"Whether a task gets the CPU that is free for it: woken, pushed or pulled.",
		rows, ARRAY_SIZE(rows), tests, ARRAY_SIZE(tests), cannot, measure
	};

	return workload_main(&workload, argc, argv);
}
