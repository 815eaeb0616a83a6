// SPDX-License-Identifier: GPL-2.0
/*
 * In place of the workload of this name: each thread waits on its own words,
 * which locks their buckets, and wakes those of its neighbour, which only reads
 * a bucket; a count of these is false sharing.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest_phases.h"

#define WORDS 32

static unsigned int words[MOST_CPUS][WORDS];

static void *work(void *argument)
{
	long number = (long)argument, next = (number + 1) % phase.threads;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (int i = 0; i < phase.rounds * WORDS; i++) {
		syscall(SYS_futex, &words[number][i % WORDS], FUTEX_WAIT, 1, NULL, NULL, 0);
		syscall(SYS_futex, &words[next][i % WORDS], FUTEX_WAKE, 1, NULL, NULL, 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	phase.threads = cpus;
	run_phases(work, 1, number);
}
