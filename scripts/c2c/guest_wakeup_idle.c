// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups while most CPUs are idle: a pair of unbound threads for every four
 * CPUs. As client and server do, one sends the other a byte through a pipe and
 * waits for the answer. The kernel knows that the waker is about to sleep, and
 * looks for an idle CPU near it. Every STAY rounds the second thread is moved
 * to a random CPU, as if it had just been started. Otherwise the counts would
 * depend on where a pair happens to be.
 *
 * Workload, 500 rounds: pairs that answer each other through pipes, one for
 * four CPUs, so most are idle
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 100
#define STAY 20				/* rounds between two places */

static int cpus;

/* For each pair: the pipe to its first thread, and the pipe to its second. */
static int pipes[MOST_CPUS][2][2];

static void *work(void *argument)
{
	long number = (long)argument, side = number % 2;
	int (*own)[2] = pipes[number / 2];
	unsigned int state = number * 2654435761u + 1;
	char byte = 0;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		if (side && i % STAY == 0) {
			use_cpu(draw(&state) % cpus);
			use_all(cpus);
		}
		if (side && read(own[1][0], &byte, 1) != 1)
			fail("read");
		burn(100 + draw(&state) % 512);
		if (write(own[!side][1], &byte, 1) != 1)
			fail("write");
		if (!side && read(own[0][0], &byte, 1) != 1)
			fail("read");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int number, i;

	cpus = begin();
	number = rounds_of(argc, argv);
	phase.threads = cpus < 8 ? 2 : cpus / 4 * 2;
	for (i = 0; i < phase.threads; i++)
		if (pipe(pipes[i / 2][i % 2]))
			fail("pipe");
	run_phases(work, WARM_UP, number);
}
