// SPDX-License-Identifier: GPL-2.0
/*
 * Files of one directory: one thread for each CPU, bound to it. In each round
 * it opens and closes its own file, and asks for the status of its neighbour's
 * by name. No file is read or written: what the CPUs share are the directory,
 * the names in it, and the counts of references.
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 5

static char names[MOST_CPUS][32];

static void *work(void *argument)
{
	long number = (long)argument, next = (number + 1) % phase.threads;
	struct stat status;
	int i, file;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		file = open(names[number], O_RDONLY);
		if (file < 0 || fstat(file, &status) || close(file))
			fail(names[number]);
		if (stat(names[next], &status))
			fail(names[next]);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv), i, file;

	if (mkdir("/shared", 0755))
		fail("/shared");
	for (i = 0; i < cpus; i++) {
		snprintf(names[i], sizeof(names[i]), "/shared/file-%d", i);
		file = open(names[i], O_CREAT | O_WRONLY, 0644);
		if (file < 0 || close(file))
			fail(names[i]);
	}
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
