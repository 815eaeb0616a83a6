/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Profile pinned-groups of rt_push_pull. It imitates the workload of the mails:
 * one FFmpeg in each group of 8 CPUs, with threads of SCHED_FIFO 99 that wake
 * each other.
 *
 * A group is a ring of stages, with one thread for each of its CPUs. Each
 * thread may run on any CPU of the group. Each stage works on a frame and hands
 * it on through a pipe, which holds a byte for each waiting frame. There is a
 * frame for each CPU, so threads often find another thread on the CPU where
 * they ran, and are pushed. Before a stage hands a frame on, it sleeps for a
 * quarter of the time that the work takes, so a group uses at most 80 % of its
 * CPUs.
 */
#ifndef PINNED_GROUPS_H
#define PINNED_GROUPS_H

#include "thread_work.h"

#define GROUPS_PRIORITY	99
#define MOST_STAGES	64

static struct {
	int nr, size;
	double frame_us;
} groups = { 0, 8, 50 };

struct group;

struct stage {
	pthread_t thread;
	struct group *group;
	int number;
	/* A pipe: a byte for each frame that waits here. */
	int frames[2];
	/* User cycles and kernel cycles. */
	__u64 elsewhere, cycles[2];
};

struct group {
	struct cpus cpus;
	int nr_stages;
	__u64 frames;
	struct stage stages[MOST_STAGES];
};

static struct group *group_list;
static pthread_barrier_t groups_ready;
static __u64 groups_start, groups_counted_from, groups_end;
static const char *groups_error;
/* Groups that have processed FEW_FRAMES. */
static int groups_run;

#define FEW_FRAMES	3

static inline bool groups_over(__u64 time)
{
	return time >= groups_end &&
	       (__atomic_load_n(&groups_run, __ATOMIC_RELAXED) == groups.nr ||
		time >= groups_end + PATIENCE);
}

static inline __u64 read_counter(int fd)
{
	__u64 count = 0;

	return fd >= 0 && read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static inline bool take_frame(struct stage *stage)
{
	char frame;

	return read(stage->frames[0], &frame, 1) == 1;
}

static inline void put_frame(struct stage *stage)
{
	if (write(stage->frames[1], "", 1) != 1)
		groups_error = "a frame was lost";
}

static inline void hand_on(struct stage *stage)
{
	struct group *group = stage->group;

	put_frame(&group->stages[(stage->number + 1) % group->nr_stages]);
}

static inline void run_stage(struct stage *stage)
{
	struct group *group = stage->group;
	__u64 rest = groups.frame_us * 1000 / 4;

	while (take_frame(stage)) {
		__u64 woken = now();

		if (groups_over(woken))
			break;
		inject_delay();
		if (woken >= groups_counted_from) {
			stage->elsewhere += !cpus_has(&group->cpus, sched_getcpu());
			if (!stage->number && ++group->frames == FEW_FRAMES)
				__atomic_add_fetch(&groups_run, 1, __ATOMIC_RELAXED);
		}
		work_for(groups.frame_us, groups_end + PATIENCE);
		sleep_until(now() + rest);
		hand_on(stage);
	}
	/* Else the next stage might wait for a frame forever. */
	hand_on(stage);
}

static inline void *stage_thread(void *argument)
{
	struct stage *stage = argument;
	int user, kernel;

	if (!run_on(&stage->group->cpus) || !be_realtime(GROUPS_PRIORITY))
		groups_error = "SCHED_FIFO or the CPUs of a group are not allowed";
	user = open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true, false);
	kernel = open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false, true);
	pthread_barrier_wait(&groups_ready);
	pthread_barrier_wait(&groups_ready);
	if (!groups_error && groups_start)
		run_stage(stage);
	stage->cycles[0] = read_counter(user);
	stage->cycles[1] = read_counter(kernel);
	close(user);
	close(kernel);
	return NULL;
}

static inline void make_stages(struct results *results, struct group *group)
{
	/* A ring of one would wake itself. */
	group->nr_stages = groups.size < 2 ? 2 : groups.size;
	for (int i = 0; i < group->nr_stages; i++) {
		struct stage *stage = &group->stages[i];

		stage->group = group;
		stage->number = i;
		if (pipe2(stage->frames, O_CLOEXEC))
			give_up_refused(results, "pipe", errno);
		/* A frame for each CPU, at different stages. */
		if (i < groups.size)
			put_frame(stage);
	}
}

/* CPUs in the order of their numbers, as FFmpeg was pinned; the rest is not used. */
static inline void make_groups(struct results *results)
{
	int nr_cpus = cpus_count(&common.cpus), fit, cpu = -1;

	if (groups.size > nr_cpus)
		groups.size = nr_cpus;
	if (groups.size > MOST_STAGES)
		groups.size = MOST_STAGES;
	fit = nr_cpus / groups.size;
	if (!groups.nr || groups.nr > fit)
		groups.nr = fit;
	group_list = calloc(groups.nr, sizeof(*group_list));
	if (!group_list)
		give_up(results, "no memory");
	for (int i = 0; i < groups.nr; i++) {
		for (int j = 0; j < groups.size; j++) {
			cpu = cpus_next(&common.cpus, cpu);
			cpus_add(&group_list[i].cpus, cpu);
		}
		make_stages(results, &group_list[i]);
	}
}

static inline void report_groups(struct results *results, double seconds, double system_s,
				 double all_s)
{
	__u64 frames = 0, elsewhere = 0, least = ~0ULL, cycles[2] = {};
	struct metric *metric;

	for (int i = 0; i < groups.nr; i++) {
		const struct group *group = &group_list[i];

		frames += group->frames;
		least = group->frames < least ? group->frames : least;
		for (int j = 0; j < group->nr_stages; j++) {
			elsewhere += group->stages[j].elsewhere;
			cycles[0] += group->stages[j].cycles[0];
			cycles[1] += group->stages[j].cycles[1];
		}
	}
	metric = add_metric(results, RATE, HIGHER, "frames/s", frames / seconds,
			    "groups.frames_per_s");
	metric->n = frames;
	metric->aim = MEDIAN;
	add_metric(results, RATE, HIGHER, "%", frames ? 100.0 * least * groups.nr / frames : 0,
		   "groups.evenness")->n = groups.nr;
	add_metric(results, EXACT, LOWER, "turns", elsewhere, "groups.elsewhere")->n = frames;
	if (all_s > 0)
		add_metric(results, RATE, LOWER, "%", 100 * system_s / all_s,
			   "groups.kernel_of_cpu_time");
	if (cycles[0] + cycles[1])
		add_metric(results, RATE, LOWER, "%", 100.0 * cycles[1] / (cycles[0] + cycles[1]),
			   "groups.kernel_of_cycles");
	else
		add_absent(results, "groups.kernel_of_cycles", "this machine counts no cycles");
}

static inline double seconds_in(const struct timeval *time)
{
	return time->tv_sec + time->tv_usec / 1e6;
}

static inline void run_groups(struct results *results, double seconds, double warm_up)
{
	struct rusage before, after;
	double user_s, system_s, counted_s;
	int nr = 0;

	make_groups(results);
	for (int i = 0; i < groups.nr; i++)
		nr += group_list[i].nr_stages;
	if (pthread_barrier_init(&groups_ready, NULL, nr + 1))
		give_up(results, "no memory");
	for (int i = 0; i < groups.nr; i++)
		for (int j = 0; j < group_list[i].nr_stages; j++) {
			struct stage *stage = &group_list[i].stages[j];

			start_thread(results, &stage->thread, stage_thread, stage);
		}
	pthread_barrier_wait(&groups_ready);
	if (groups_error)
		give_up(results, "%s", groups_error);
	getrusage(RUSAGE_SELF, &before);
	groups_start = now();
	groups_counted_from = groups_start + (__u64)(warm_up * NS_PER_S);
	groups_end = groups_counted_from + (__u64)(seconds * NS_PER_S);
	pthread_barrier_wait(&groups_ready);
	for (int i = 0; i < groups.nr; i++)
		for (int j = 0; j < group_list[i].nr_stages; j++)
			pthread_join(group_list[i].stages[j].thread, NULL);
	counted_s = (now() - groups_counted_from) / (double)NS_PER_S;
	getrusage(RUSAGE_SELF, &after);
	if (groups_error)
		give_up(results, "%s", groups_error);
	user_s = seconds_in(&after.ru_utime) - seconds_in(&before.ru_utime);
	system_s = seconds_in(&after.ru_stime) - seconds_in(&before.ru_stime);
	report_groups(results, counted_s, system_s, user_s + system_s);
}

#endif
