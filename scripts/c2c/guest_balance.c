// SPDX-License-Identifier: GPL-2.0
/*
 * Balancing of fair tasks: three threads for each two CPUs work for some milliseconds and
 * sleep for some, and are all put on one CPU again and again. CPUs that fall idle, and the
 * tick, look through all run queues for work.
 */
#define _GNU_SOURCE
#include "guest.h"

#define MOST (2 * MOST_CPUS)
#define WARM_UP 2

static int cpus, threads, rounds;
static pthread_barrier_t barrier;

static void use_all(void)
{
	cpu_set_t set;
	int i;

	CPU_ZERO(&set);
	for (i = 0; i < cpus; i++)
		CPU_SET(i, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void *work(void *argument)
{
	long number = (long)argument;
	unsigned int state = number * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&barrier);
	for (i = 0; i < rounds; i++) {
		if (i % 8 == 0) {
			use_cpu(i / 8 % cpus);
			use_all();
		}
		burn(20000 + draw(&state) % 80000);
		sleep_ns(100000 + draw(&state) % 1000000);
	}
	return NULL;
}

static void phase(int number, int measured)
{
	static pthread_t all[MOST];
	long i;

	rounds = number;
	if (pthread_barrier_init(&barrier, NULL, threads + 1))
		fail("pthread_barrier_init");
	for (i = 0; i < threads; i++)
		start_thread(&all[i], work, i);
	sleep_ns(100000000);
	if (measured)
		MARK_START();
	pthread_barrier_wait(&barrier);
	for (i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	if (measured)
		MARK_STOP();
	pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
	int number;

	cpus = begin();
	number = rounds_of(argc, argv);
	threads = cpus * 3 / 2;
	phase(WARM_UP, 0);
	phase(number, 1);
	end((unsigned long)threads * number);
}
