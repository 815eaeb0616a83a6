/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads that start together and run a number of rounds: first to warm up,
 * then between the markers.
 */
#ifndef C2C_GUEST_PHASES_H
#define C2C_GUEST_PHASES_H

#include "guest.h"

#define MOST_THREADS (2 * MOST_CPUS)

static struct {
	int threads;
	int rounds;			/* of each thread, in this phase */
	int before;			/* in the previous phase */
	/* SCHED_FIFO priority of the thread that waits for the others, or 0 */
	int priority;
	pthread_barrier_t barrier;	/* each thread waits here first */
} phase;

static inline void run_phase(void *(*work)(void *), int rounds, int measured)
{
	static pthread_t all[MOST_THREADS];
	long i;

	phase.rounds = rounds;
	if (pthread_barrier_init(&phase.barrier, NULL, phase.threads + 1))
		fail("pthread_barrier_init");
	for (i = 0; i < phase.threads; i++)
		start_thread(&all[i], work, i);
	sleep_ns(100000000);
	if (phase.priority)
		use_policy(SCHED_FIFO, phase.priority);
	if (measured)
		MARK_START();
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.threads; i++)
		pthread_join(all[i], NULL);
	if (measured)
		MARK_STOP();
	use_policy(SCHED_OTHER, 0);
	pthread_barrier_destroy(&phase.barrier);
	phase.before = rounds;
}

/* Put this process, and all that it starts, into a cgroup. */
static inline void join_group(void)
{
	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", 0, NULL))
		fail("/cgroup");
	write_file("/cgroup/cgroup.subtree_control", "+cpu");
	if (mkdir("/cgroup/group", 0755))
		fail("/cgroup/group");
	write_file("/cgroup/group/cgroup.procs", "0");
}

/* Run both phases, and end the guest. */
static inline void run_phases(void *(*work)(void *), int warm_up, int rounds)
{
	run_phase(work, warm_up, 0);
	run_phase(work, rounds, 1);
	end((unsigned long)phase.threads * rounds);
}

#endif
