// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that start others, as a shell does: one process for each CPU,
 * unbound. In each round it forks a child that executes this program again, and
 * waits for it; the new program ends at once. All of them map one file, so they
 * share its tree of mappings and the lock of that. Each new program has memory
 * of its own, with counters for each CPU.
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

#define WARM_UP 2
#define ENDS "ends"

static char *const again[] = { "/init", ENDS, NULL };
static char *const nothing[] = { NULL };

static void await_child(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status)
		fail("fork, exec or wait");
}

static void starts(int rounds)
{
	pid_t child;
	int i;

	for (i = 0; i < rounds; i++) {
		child = fork();
		if (!child) {
			execve(again[0], again, nothing);
			_exit(127);
		}
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
		starts(phase.rounds);
		_exit(0);
	}
	await_child(child);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus, number;

	if (argc == 2 && !strcmp(argv[1], ENDS))
		_exit(0);
	cpus = begin();
	number = rounds_of(argc, argv);
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
