// SPDX-License-Identifier: GPL-2.0
/*
 * Wake-ups of fair tasks: a pair of unbound threads for each CPU. The threads
 * of a pair take turns: each works a little and wakes the other. Now and then
 * one sleeps, so that CPUs become idle and wake-ups find idle CPUs. With RT
 * priorities a CPU often has more than it can run, and others pull from it.
 *
 * Workload, 200 rounds: pairs of fair threads that wake each other
 *
 * Workload rt-wakeup, 100 rounds: pairs of SCHED_FIFO threads that wake each
 * other, at eight priorities
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "guest_phases.h"

#define WARM_UP 5

/* Of a thread: 0 is a fair task. */
#ifdef RT_WAKEUP
#define PRIORITY(number) (10 + 7 * ((number) % 8))
#else
#define PRIORITY(number) 0
#endif

struct word {
	_Alignas(128) unsigned int turn;
};

static struct word words[MOST_CPUS];

/*
 * The turns of a pair are counted: even ones are the first thread's, odd ones
 * the second's.
 */
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
	int i, first = 2 * phase.before;

	if (PRIORITY(number))
		use_policy(SCHED_FIFO, PRIORITY(number));
	pthread_barrier_wait(&phase.barrier);
	for (i = 0; i < phase.rounds; i++) {
		await(word, first + 2 * i + side);
		burn(100 + draw(&state) % 512);
		if (draw(&state) % 8 == 0)
			sleep_ns(50000 + draw(&state) % 200000);
		__atomic_store_n(word, first + 2 * i + side + 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv);

	phase.threads = 2 * cpus;
	if (PRIORITY(0)) {
		write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
		phase.priority = 90;
	}
	run_phases(work, WARM_UP, number);
}
