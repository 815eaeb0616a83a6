// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's table of futexes: one thread for each CPU, bound to it. In each
 * round it waits on all of its own words and on those of its neighbour, which
 * returns at once because the value is another one. So a bucket is locked by
 * two CPUs in turn, and no thread sleeps. (To wake nobody locks nothing.) The
 * futexes are not private: all of them are in the table that the whole kernel
 * shares.
 *
 * Workload, 100 rounds: threads that lock the hash buckets of each other's
 * futexes
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest_phases.h"

#define WARM_UP 1
#define WORDS 32			/* of each thread */

static unsigned int words[MOST_CPUS][WORDS];

static void lock_bucket(unsigned int *word)
{
	if (syscall(SYS_futex, word, FUTEX_WAIT, 1, NULL, NULL, 0) != -1 || errno != EAGAIN)
		fail("futex");
}

static void *work(void *argument)
{
	long number = (long)argument, next = (number + 1) % phase.threads;
	int i, k;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		for (k = 0; k < WORDS; k++) {
			lock_bucket(&words[number][k]);
			lock_bucket(&words[next][k]);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
