// SPDX-License-Identifier: GPL-2.0
/*
 * Balancing of fair tasks: three threads for every two CPUs alternately work
 * and sleep, each for about a millisecond. Again and again all of them are
 * moved to one CPU. CPUs that become idle, and the tick, search all run queues
 * for work.
 *
 * Workload, 40 rounds: more fair threads than CPUs, all moved to one CPU again
 * and again
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 2

static int cpus;

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		if (i % 8 == 0) {
			use_cpu(i / 8 % cpus);
			use_all(cpus);
		}
		burn(20000 + draw(&state) % 80000);
		sleep_ns(100000 + draw(&state) % 1000000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int number;

	cpus = begin();
	number = rounds_of(argc, argv);
	phase.threads = cpus * 3 / 2;
	run_phases(work, WARM_UP, number);
}
