// SPDX-License-Identifier: GPL-2.0
/*
 * CPUs that become idle and stop their tick: one thread for each CPU, bound to
 * it, sleeps for one to twelve milliseconds and works very little. Each time
 * its CPU leaves the idle loop for a timer and goes back, and tells the
 * scheduler and the timers' hierarchy so.
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 3

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		sleep_ns(1000000 + draw(&state) % 11000000);
		burn(200);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
