// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a cgroup: one thread for each CPU, bound to it, in a memory cgroup
 * below another one. In each round it maps pages, touches each for the first
 * time, and unmaps them. More pages than the kernel charges ahead for a CPU, so
 * that each round charges the cgroup and its parent.
 */
#define _GNU_SOURCE

#define WARM_UP 1
#define PAGES 192

#include "guest_pages.h"

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	if (munlockall())
		fail("munlockall");
	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, NULL))
		fail("/cgroup");
	write_file("/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir("/cgroup/above", 0755))
		fail("/cgroup/above");
	write_file("/cgroup/above/cgroup.subtree_control", "+memory");
	if (mkdir("/cgroup/above/below", 0755))
		fail("/cgroup/above/below");
	write_file("/cgroup/above/below/cgroup.procs", "0");
	phase.threads = cpus;
	run_phases(touch_pages, WARM_UP, number);
}
