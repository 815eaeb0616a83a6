// SPDX-License-Identifier: GPL-2.0
/*
 * RT overload: two SCHED_FIFO threads for each CPU, bound to none, with five priorities. Each
 * sleeps a fraction of a millisecond, works a little, and wakes its neighbour; every fourth
 * time it waits to be woken itself. CPUs get a second RT task and lose it again all the time,
 * which pushes and pulls tasks and sets priorities in cpupri.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest.h"

#define MOST (2 * MOST_CPUS)
#define WARM_UP 5

static int threads, rounds;
static unsigned int words[MOST];
static pthread_barrier_t barrier;

static void *work(void *argument)
{
	long number = (long)argument, next = (number + 1) % threads;
	unsigned int state = number * 2654435761u + 1, seen;
	struct timespec patience = { 0, 1000000 };
	int i;

	use_policy(SCHED_FIFO, 10 + number % 5 * 10);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < rounds; i++) {
		sleep_ns(200000 + draw(&state) % 400000);
		burn(500 + draw(&state) % 1024);
		__atomic_fetch_add(&words[next], 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &words[next], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		if (i % 4 != number % 4)
			continue;
		seen = __atomic_load_n(&words[number], __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &words[number], FUTEX_WAIT_PRIVATE, seen, &patience, NULL, 0);
		burn(200);
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
	use_policy(SCHED_FIFO, 90);
	if (measured)
		MARK_START();
	pthread_barrier_wait(&barrier);
	for (i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	if (measured)
		MARK_STOP();
	use_policy(SCHED_OTHER, 0);
	pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	set_sysctl("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	threads = 2 * cpus;
	phase(WARM_UP, 0);
	phase(number, 1);
	end((unsigned long)threads * number);
}
