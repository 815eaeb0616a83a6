// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of one process: one thread for each CPU, bound to it. In each round it
 * maps some pages, touches each for the first time, and unmaps them. All
 * threads have the same address space, so they share its lock, its tree of
 * mappings and its counters, and the allocator of pages.
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 2
#define PAGES 8
#define PAGE 4096

static void *work(void *argument)
{
	long number = (long)argument;
	volatile char *memory;
	int i, k;

	use_cpu(number);
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			fail("mmap");
		for (k = 0; k < PAGES; k++)
			memory[k * PAGE] = 1;
		if (munmap((void *)memory, PAGES * PAGE))
			fail("munmap");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	/* Locked memory is populated by mmap(), without a fault. */
	if (munlockall())
		fail("munlockall");
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
