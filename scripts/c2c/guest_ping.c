// SPDX-License-Identifier: GPL-2.0
/*
 * Pipes and epoll: a pair of unbound threads for every two CPUs. The first
 * sends a byte through a pipe and waits for the answer in epoll_wait(), as an
 * event loop does. The second waits in read().
 */
#define _GNU_SOURCE
#include <sys/epoll.h>

#include "guest_phases.h"

#define WARM_UP 10

/* For each pair: the pipe to its first thread, and the pipe to its second. */
static int pipes[MOST_CPUS][2][2];
static int events[MOST_CPUS];

static void *work(void *argument)
{
	long number = (long)argument, side = number % 2;
	int (*own)[2] = pipes[number / 2];
	unsigned int state = number * 2654435761u + 1;
	struct epoll_event event;
	char byte = 0;
	int i;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		if (side && read(own[1][0], &byte, 1) != 1)
			fail("read");
		burn(100 + draw(&state) % 512);
		if (write(own[!side][1], &byte, 1) != 1)
			fail("write");
		if (!side && epoll_wait(events[number / 2], &event, 1, -1) != 1)
			fail("epoll_wait");
		if (!side && read(own[0][0], &byte, 1) != 1)
			fail("read");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv), i;
	struct epoll_event event = { .events = EPOLLIN };

	phase.threads = cpus / 2 * 2;
	for (i = 0; i < phase.threads / 2; i++) {
		if (pipe(pipes[i][0]) || pipe(pipes[i][1]))
			fail("pipe");
		events[i] = epoll_create1(0);
		if (events[i] < 0 || epoll_ctl(events[i], EPOLL_CTL_ADD, pipes[i][0][0], &event))
			fail("epoll");
	}
	run_phases(work, WARM_UP, number);
}
