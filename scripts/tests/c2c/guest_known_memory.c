// SPDX-License-Identifier: GPL-2.0
/*
 * The guest of a test: two CPUs take turns in kernel code that is added for this
 * test, scripts/tests/c2c/known_memory.c. Every access to the five objects there
 * is known. In each of 30 rounds, for each object:
 *
 * - The first CPU writes `left` and the second writes `right`, on line 0.
 * - Both add to `atomic`, on line 1.
 * - The first reads `settings` and the second writes `written`, on line 2.
 *
 * Counting starts when both CPUs are in the kernel, and they stay there: so
 * nothing else uses the stack that has one of the objects.
 */
#define _GNU_SOURCE
#include "guest.h"

#define NAME "/proc/known-memory"

static void *enter(void *argument)
{
	use_cpu((long)argument);
	write_file(NAME, argument ? "1" : "0");
	return NULL;
}

int main(void)
{
	pthread_t threads[2];
	long i;

	begin();
	for (i = 0; i < 2; i++)
		start_thread(&threads[i], enter, i);
	sleep_ns(200000000);
	MARK_START();
	write_file(NAME, "2");
	MARK_STOP();
	end(60);
}
