/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters that the kernel has for this thread, and work that takes CPU time.
 */
#ifndef THREAD_WORK_H
#define THREAD_WORK_H

#include <linux/perf_event.h>

#include "workload.h"

static inline int open_counter(__u32 type, __u64 config, bool user, bool kernel)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.exclude_user = !user,
		.exclude_kernel = !kernel,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* -1 where it cannot be counted. */
static inline int open_migrations(void)
{
	return open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true, true);
}

static inline long close_migrations(int fd)
{
	__u64 count;
	long found = -1;

	if (fd < 0)
		return -1;
	if (read(fd, &count, sizeof(count)) == sizeof(count))
		found = count;
	close(fd);
	return found;
}

/*
 * Work that is the same in each run: a number of steps that was measured once.
 * If it read the clock again and again instead, much of the time would be spent
 * there.
 */
static double steps_per_us;

static inline __u64 steps(long nr)
{
	__u64 value = nr;

	while (nr--) {
		value = value * 6364136223846793005ULL + 1442695040888963407ULL;
		/* Else the compiler could compute the result. */
		__asm__ volatile("" : "+r" (value));
	}
	return value;
}

/* The fastest of some tries: whatever else runs makes them slower. */
static inline void measure_steps(void)
{
	__u64 best = ~0ULL;

	for (int i = 0; i < 200; i++) {
		__u64 begin = now(), took;

		steps(2000);
		took = now() - begin;
		if (took && took < best)
			best = took;
	}
	steps_per_us = 2000 * 1000.0 / best;
}

/* The steps for this number of us, but no longer than until @until. */
static inline void work_for(double us, __u64 until)
{
	for (; us > 0 && now() < until; us -= 10)
		steps(steps_per_us * (us < 10 ? us : 10));
}

#endif
