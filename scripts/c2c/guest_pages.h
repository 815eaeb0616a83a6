/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads of one process, one bound to each CPU, that map PAGES pages in each
 * round, touch each for the first time, and unmap them. Define PAGES first.
 */
#ifndef C2C_GUEST_PAGES_H
#define C2C_GUEST_PAGES_H

#include "guest_phases.h"

#define PAGE 4096

static inline void *touch_pages(void *argument)
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

#endif
