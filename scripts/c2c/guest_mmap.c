// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of one process: one thread for each CPU, bound to it. In each round it
 * maps some pages, touches each for the first time, and unmaps them. All
 * threads have the same address space, so they share its lock, its tree of
 * mappings and its counters, and the allocator of pages.
 */
#define _GNU_SOURCE

#define WARM_UP 2
#define PAGES 8

#include "guest_pages.h"

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	/* Locked memory is populated by mmap(), without a fault. */
	if (munlockall())
		fail("munlockall");
	phase.threads = cpus;
	run_phases(touch_pages, WARM_UP, number);
}
