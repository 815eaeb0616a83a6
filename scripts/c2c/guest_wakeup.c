// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups of fair tasks: as many pairs of threads as CPUs, bound to none. One of a pair wakes
 * the other, works and waits for the answer; at times it sleeps, so that CPUs fall idle and
 * are found again.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest.h"

#define MOST (2 * MOST_CPUS)
#define WARM_UP 5

struct word {
	_Alignas(128) unsigned int turn;
};

static int threads, rounds;
static struct word words[MOST_CPUS];
static pthread_barrier_t barrier;

/* The turns of a pair: 2 * round for the first thread, 2 * round + 1 for the second. */
static void await(unsigned int *word, unsigned int turn)
{
	unsigned int now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != turn)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void *work(void *argument)
{
	long number = (long)argument, side = number % 2;
	unsigned int *word = &words[number / 2].turn, state = number * 2654435761u + 1;
	int i;

	pthread_barrier_wait(&barrier);
	for (i = 0; i < rounds; i++) {
		await(word, 2 * i + side);
		burn(100 + draw(&state) % 512);
		if (draw(&state) % 8 == 0)
			sleep_ns(50000 + draw(&state) % 200000);
		__atomic_store_n(word, 2 * i + side + 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void phase(int number, int measured)
{
	static pthread_t all[MOST];
	long i;

	rounds = number;
	memset(words, 0, sizeof(words));
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
	int cpus = begin(), number = rounds_of(argc, argv);

	threads = 2 * cpus;
	phase(WARM_UP, 0);
	phase(number, 1);
	end((unsigned long)threads * number);
}
