// SPDX-License-Identifier: GPL-2.0
/*
 * TCP over the loopback: a pair of unbound threads for every two CPUs, with one
 * connection that stays. The first sends a request of one byte, the second
 * answers it, as netperf's TCP_RR does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "guest_network.h"
#include "guest_phases.h"

#define WARM_UP 5

/* The two ends of each pair's connection. */
static int ends[MOST_CPUS][2];

static void *work(void *argument)
{
	long number = (long)argument, side = number % 2;
	int own = ends[number / 2][side], i;
	char byte = 0;

	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		if (side && recv(own, &byte, 1, 0) != 1)
			fail("recv");
		if (send(own, &byte, 1, 0) != 1)
			fail("send");
		if (!side && recv(own, &byte, 1, 0) != 1)
			fail("recv");
	}
	return NULL;
}

static void without_delay(int end)
{
	int on = 1;

	if (end < 0 || setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		fail("a connection");
}

int main(int argc, char **argv)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_port = htons(5000),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int cpus = begin(), number = rounds_of(argc, argv), listener, i;

	start_loopback();
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&place, sizeof(place)) ||
	    listen(listener, MOST_CPUS))
		fail("listen");
	phase.threads = cpus / 2 * 2;
	for (i = 0; i < phase.threads / 2; i++) {
		ends[i][0] = socket(AF_INET, SOCK_STREAM, 0);
		if (ends[i][0] < 0 ||
		    connect(ends[i][0], (struct sockaddr *)&place, sizeof(place)))
			fail("connect");
		ends[i][1] = accept(listener, NULL, NULL);
		without_delay(ends[i][0]);
		without_delay(ends[i][1]);
	}
	run_phases(work, WARM_UP, number);
}
