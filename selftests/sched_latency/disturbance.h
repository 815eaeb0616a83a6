/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What else happened on the CPUs during a run: time that the hypervisor stole,
 * interrupts, tasks that are not ours, thermal throttling. It is read before
 * and after the run, never during it.
 *
 * A run is disturbed if one of the limits below is exceeded. The limits are
 * fixed, and do not depend on what the run measured. Kernel threads never
 * excuse a run: they belong to the kernel that is tested.
 */
#ifndef DISTURBANCE_H
#define DISTURBANCE_H

#include <dirent.h>
#include <linux/types.h>
#include <math.h>
#include <time.h>

#include "cpu_list.h"

/* In percent of the time of all CPUs that are used. */
#define MOST_STEAL	1.0
#define MOST_IRQ	20.0
#define MOST_OTHERS	5.0
/* In percent of one CPU: such a task runs whatever priority ours have. */
#define MOST_REALTIME	1.0

/* A flag in /proc/PID/stat, and a policy. */
#define KERNEL_THREAD	0x00200000
#define DEADLINE	6

struct disturbance {
	/* In percent of the time of the CPUs. */
	double steal, irq, others;
	/* In percent of one CPU: SCHED_FIFO, SCHED_RR and SCHED_DEADLINE of others. */
	double realtime;
	/* In percent: CPUs that stand still without telling, as those of an emulator do. */
	double hidden;
	long throttled;
	/* Why the run is disturbed; empty if it is not. */
	char why[160];
	/* Disturbed by what a test of RT latency has to endure: it is judged nevertheless. */
	bool judged;
};

/* Another process, by the policy of its first thread. Ticks are those of all its threads. */
struct other {
	pid_t pid;
	char name[16];
	unsigned long flags, ticks, policy, cpu;
};

struct moment {
	struct timespec time;
	/* In ticks: stolen, and in interrupts. False if they could not be read. */
	bool read;
	__u64 steal, irq;
	long throttled;
	int nr_others, room;
	struct other *others;
};

static inline void read_stat(const struct cpus *cpus, struct moment *moment)
{
	FILE *file = fopen("/proc/stat", "re");
	unsigned long long irq, softirq, steal;
	char line[512];
	int cpu;

	moment->read = file;
	while (file && fgets(line, sizeof(line), file) && !strncmp(line, "cpu", 3)) {
		if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %llu %llu %llu", &cpu, &irq, &softirq,
			   &steal) != 4 || !cpus_has(cpus, cpu))
			continue;
		moment->irq += irq + softirq;
		moment->steal += steal;
	}
	if (file)
		fclose(file);
}

static inline long read_throttles(const struct cpus *cpus)
{
	char text[64];
	long sum = 0;

	for (int cpu = cpus_next(cpus, -1); cpu >= 0; cpu = cpus_next(cpus, cpu))
		if (sysfs_line(text, sizeof(text),
			       "cpu/cpu%d/thermal_throttle/core_throttle_count", cpu))
			sum += atol(text);
	return sum;
}

/* Read /proc/PID/stat, whose fields are counted from 1; false if the process is gone. */
static inline bool read_other(pid_t pid, struct other *other)
{
	char text[1024], *begin, *end;
	unsigned long fields[42] = {};

	if (!read_line(text, sizeof(text), "/proc/%d/stat", pid))
		return false;
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end)
		return false;
	*end++ = '\0';
	for (int i = 3; i < 42 && *end; i++) {
		end += strspn(end, " ");
		fields[i] = strtoul(end, NULL, 10);
		end += strcspn(end, " ");
	}
	*other = (struct other){ .pid = pid, .flags = fields[9],
				 .ticks = fields[14] + fields[15], .cpu = fields[39],
				 .policy = fields[41] };
	snprintf(other->name, sizeof(other->name), "%.15s", begin + 1);
	return true;
}

static inline void read_others(struct moment *moment)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid <= 0 || pid == getpid() || pid == getppid())
			continue;
		if (moment->nr_others == moment->room) {
			int room = 2 * moment->room + 1024;
			void *more = realloc(moment->others, room * sizeof(struct other));

			if (!more)
				break;
			moment->others = more;
			moment->room = room;
		}
		moment->nr_others += read_other(pid, &moment->others[moment->nr_others]);
	}
	if (proc)
		closedir(proc);
}

static inline void read_moment(const struct cpus *cpus, struct moment *moment)
{
	memset(moment, 0, sizeof(*moment));
	clock_gettime(CLOCK_MONOTONIC, &moment->time);
	moment->throttled = read_throttles(cpus);
	read_stat(cpus, moment);
	read_others(moment);
}

/* Both lists are in the order of the pids. A process that is new began with 0. */
static inline unsigned long ticks_before(const struct moment *before, pid_t pid, int *place)
{
	while (*place < before->nr_others && before->others[*place].pid < pid)
		++*place;
	return *place < before->nr_others && before->others[*place].pid == pid ?
	       before->others[*place].ticks : 0;
}

/*
 * How much processes of others ran on the CPUs, and which of them most. A
 * process that came and went meanwhile is not seen.
 */
static inline void compare_others(struct disturbance *found, const struct cpus *cpus,
				  const struct moment *before, const struct moment *after,
				  double seconds, char *busiest, char *realtime, size_t size)
{
	double most = 0, most_realtime = 0, per_tick = 100 / seconds / sysconf(_SC_CLK_TCK);
	int place = 0;

	for (int i = 0; i < after->nr_others; i++) {
		const struct other *other = &after->others[i];
		double share = (other->ticks - ticks_before(before, other->pid, &place)) * per_tick;
		bool is_realtime = other->policy == SCHED_FIFO || other->policy == SCHED_RR ||
				   other->policy == DEADLINE;
		double *largest = is_realtime ? &most_realtime : &most;

		if (other->flags & KERNEL_THREAD || !cpus_has(cpus, other->cpu))
			continue;
		if (is_realtime)
			found->realtime += share;
		else
			found->others += share / cpus_count(cpus);
		if (share > *largest) {
			*largest = share;
			snprintf(is_realtime ? realtime : busiest, size, "%s, pid %d", other->name,
				 other->pid);
		}
	}
}

static inline void judge_disturbance(struct disturbance *found, const char *busiest,
				     const char *realtime)
{
	size_t size = sizeof(found->why);

	found->judged = false;
	if (found->realtime >= MOST_REALTIME) {
		snprintf(found->why, size, "another RT task took %.0f %% of a CPU: %s",
			 found->realtime, realtime);
		found->judged = true;
	} else if (found->steal >= MOST_STEAL) {
		snprintf(found->why, size, "the hypervisor stole %.1f %% of the time",
			 found->steal);
	} else if (found->others >= MOST_OTHERS && busiest[0]) {
		snprintf(found->why, size, "other tasks took %.0f %% of the time, first %s",
			 found->others, busiest);
	} else if (found->throttled > 0) {
		snprintf(found->why, size, "a CPU was too hot %ld times", found->throttled);
	} else if (found->irq >= MOST_IRQ) {
		snprintf(found->why, size, "interrupts took %.0f %% of the time", found->irq);
		found->judged = true;
	}
}

/* 0 if a CPU went offline and took its counts along. */
static inline __u64 growth(__u64 before, __u64 after)
{
	return after > before ? after - before : 0;
}

static inline void compare_moments(const struct cpus *cpus, const struct moment *before,
				   const struct moment *after, struct disturbance *found)
{
	double seconds = after->time.tv_sec - before->time.tv_sec +
			 (after->time.tv_nsec - before->time.tv_nsec) / 1e9;
	double all = seconds * cpus_count(cpus), ticks = all * sysconf(_SC_CLK_TCK);
	char busiest[96] = "", realtime[96] = "";

	/* A limit on open files may keep it from being read again. */
	if (!before->read || !after->read)
		ticks = INFINITY;
	found->steal = 100 * growth(before->steal, after->steal) / ticks;
	found->irq = 100 * growth(before->irq, after->irq) / ticks;
	found->throttled = after->throttled - before->throttled;
	compare_others(found, cpus, before, after, seconds, busiest, realtime, sizeof(busiest));
	judge_disturbance(found, busiest, realtime);
}

#endif
