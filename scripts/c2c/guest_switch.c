// SPDX-License-Identifier: GPL-2.0
/*
 * Context switches in a cgroup: a pair of unbound processes for each CPU, all
 * in one cgroup. The processes of a pair answer each other through pipes, and
 * do nothing else. So there are twice as many of them as CPUs, and they move
 * between the CPUs while the group's load changes.
 *
 * Workload, 50 rounds, c2c-programs: pairs in a cgroup that answer each other
 * through pipes, two processes a CPU
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

#define WARM_UP 10

/* For each pair: the pipe to its first process, and the pipe to its second. */
static int pipes[MOST_CPUS][2][2];

static void answer(int (*own)[2], int side, int rounds)
{
	char byte = 0;
	int i;

	for (i = 0; i < rounds; i++) {
		if (side && read(own[1][0], &byte, 1) != 1)
			_exit(1);
		if (write(own[!side][1], &byte, 1) != 1)
			_exit(1);
		if (!side && read(own[0][0], &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

static void *work(void *argument)
{
	long number = (long)argument;
	pid_t child;
	int ended;

	pthread_barrier_wait(&phase.barrier);
	child = fork();
	if (!child)
		answer(pipes[number / 2], number % 2, phase.rounds);
	if (child < 0 || waitpid(child, &ended, 0) != child || ended)
		fail("a pair");
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv), i;

	join_group();
	phase.threads = 2 * cpus;
	for (i = 0; i < cpus; i++)
		if (pipe(pipes[i][0]) || pipe(pipes[i][1]))
			fail("pipe");
	run_phases(work, WARM_UP, number);
}
