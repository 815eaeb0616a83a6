// SPDX-License-Identifier: GPL-2.0
/*
 * RT overload: two SCHED_FIFO threads for each CPU, unbound, with five
 * priorities. Each sleeps for a fraction of a millisecond, works a little, and
 * wakes its neighbour. Every fourth time it waits to be woken itself. CPUs get
 * a second RT task and lose it again all the time, which pushes and pulls tasks
 * and sets priorities in cpupri.
 *
 * Workload, 200 rounds: RT overload: pushes, pulls and priorities of two
 * SCHED_FIFO threads for each CPU
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest_phases.h"

#define WARM_UP 5

static unsigned int words[MOST_THREADS];

static void *work(void *argument)
{
	long number = (long)argument, next = (number + 1) % phase.threads;
	unsigned int state = number * 2654435761u + 1, seen;
	struct timespec patience = { 0, 1000000 };
	int i;

	use_policy(SCHED_FIFO, 10 + number % 5 * 10);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		sleep_ns(200000 + draw(&state) % 400000);
		burn(500 + draw(&state) % 1024);
		__atomic_fetch_add(&words[next], 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &words[next], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		if (i % 4 != number % 4)
			continue;
		seen = __atomic_load_n(&words[number], __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &words[number], FUTEX_WAIT_PRIVATE, seen, &patience, NULL, 0);
		burn(200);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	phase.threads = 2 * cpus;
	phase.priority = 90;
	run_phases(work, WARM_UP, number);
}
