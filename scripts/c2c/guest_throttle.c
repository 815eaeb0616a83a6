// SPDX-License-Identifier: GPL-2.0
/*
 * A limit of CPU time: two threads for each CPU alternately work and sleep,
 * each for about a millisecond, all in one cgroup that may have half of the
 * CPUs' time. So in each period each CPU's share runs out, its threads are
 * throttled, and the group's timer lets them go on.
 *
 * Workload, 20 rounds, c2c-programs: threads in a cgroup that may have half of
 * the CPUs' time, two threads a CPU
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 4
/* In microseconds. Half of it is a slice, which a CPU takes at a time. */
#define PERIOD 10000

static void *work(void *argument)
{
	unsigned int state = (long)argument * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		burn(20000 + draw(&state) % 80000);
		sleep_ns(100000 + draw(&state) % 1000000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);
	char limit[32];

	join_group();
	snprintf(limit, sizeof(limit), "%d %d", cpus * PERIOD / 2, PERIOD);
	write_file("/cgroup/group/cpu.max", limit);
	phase.threads = 2 * cpus;
	run_phases(work, WARM_UP, number);
}
