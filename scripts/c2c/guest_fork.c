// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that come and go: one process for each CPU, unbound. In each round
 * it forks a child that exits at once, and waits for it. Each has its own
 * memory, so what they share is the kernel's: the list of tasks, process ids,
 * counts of threads.
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

#define WARM_UP 2

static void await_child(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		fail("fork or wait");
}

static void forks(int rounds)
{
	pid_t child;
	int i;

	for (i = 0; i < rounds; i++) {
		child = fork();
		if (!child)
			_exit(0);
		await_child(child);
	}
}

static void *work(void *argument)
{
	pid_t child;

	(void)argument;
	pthread_barrier_wait(&phase.barrier);
	child = fork();
	if (!child) {
		forks(phase.rounds);
		_exit(0);
	}
	await_child(child);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
