// SPDX-License-Identifier: GPL-2.0
/*
 * A cpuset partition of half the CPUs is created and dissolved again and again
 * while RT tasks sleep and wake. Each time the kernel rebuilds its sched
 * domains, and its root_domains with all their masks. CPUs move over to them
 * one by one.
 */
#define _GNU_SOURCE
#include "guest_phases.h"

#define WARM_UP 1
#define SLEEPS 10

static int cpus;

static void part(void)
{
	write_file("/cgroup/half/cpuset.cpus.partition", "root");
	sleep_ns(2000000);
	write_file("/cgroup/half/cpuset.cpus.partition", "member");
	sleep_ns(2000000);
}

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	use_policy(SCHED_FIFO, 10 + number % 5 * 10);
	pthread_barrier_wait(&phase.barrier);
	if (!number) {
		for (i = 0; i < phase.rounds; i++)
			part();
		return NULL;
	}
	for (i = 0; i < SLEEPS * phase.rounds; i++) {
		sleep_ns(200000 + draw(&state) % 400000);
		burn(500 + draw(&state) % 1024);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int number = rounds_of(argc, argv);
	char half[32];

	cpus = begin();
	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, NULL))
		fail("/cgroup");
	write_file("/cgroup/cgroup.subtree_control", "+cpuset");
	if (mkdir("/cgroup/half", 0755))
		fail("/cgroup/half");
	snprintf(half, sizeof(half), "%d-%d", cpus / 2, cpus - 1);
	write_file("/cgroup/half/cpuset.cpus", half);
	write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	phase.threads = 2 * cpus;
	phase.priority = 90;
	run_phases(work, WARM_UP, number);
}
