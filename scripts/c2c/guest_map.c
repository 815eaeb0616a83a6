// SPDX-License-Identifier: GPL-2.0
/*
 * An address space that changes: one thread of one process for each CPU, bound
 * to it. In each round it maps memory and unmaps it again. No page of it is
 * touched, so the threads do nothing but wait for the lock of their address
 * space and change its tree of mappings.
 *
 * Workload, 100 rounds, c2c-programs: threads of one process map and unmap
 * memory that nobody touches
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 2
#define SIZE (128ul << 20)

static void *work(void *argument)
{
	long number = (long)argument;
	void *memory;
	int i;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			fail("mmap");
		if (munmap(memory, SIZE))
			fail("munmap");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	/* Locked memory is populated by mmap(). */
	if (munlockall())
		fail("munlockall");
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
