// SPDX-License-Identifier: GPL-2.0
/*
 * Forks in a cgroup: two threads for each CPU, all in one cgroup, that start
 * processes which end at once, one after the other.
 *
 * Workload, 5 rounds, c2c-programs: threads in a cgroup that start processes,
 * two threads a CPU
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

#define WARM_UP 1

static void *work(void *argument)
{
	pid_t child;
	int ended, i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		child = fork();
		if (!child)
			_exit(0);
		if (child < 0 || waitpid(child, &ended, 0) != child || ended)
			fail("a process");
	}
	return argument;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	join_group();
	phase.threads = 2 * cpus;
	run_phases(work, WARM_UP, number);
}
