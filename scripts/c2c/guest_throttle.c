// SPDX-License-Identifier: GPL-2.0
/*
 * CPU limits of a cgroup: one unbound thread for each CPU, in a cgroup that may
 * use a quarter of the CPUs' time. All threads work, so the cgroup is throttled
 * and let go again in each of its periods, on all CPUs.
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 1
#define PERIOD_US 10000

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++)
		burn(20000 + draw(&state) % 40000);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);
	char limit[32];

	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, NULL))
		fail("/cgroup");
	write_file("/cgroup/cgroup.subtree_control", "+cpu");
	if (mkdir("/cgroup/limited", 0755))
		fail("/cgroup/limited");
	snprintf(limit, sizeof(limit), "%d %d", PERIOD_US * cpus / 4, PERIOD_US);
	write_file("/cgroup/limited/cpu.max", limit);
	write_file("/cgroup/limited/cgroup.procs", "0");
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
