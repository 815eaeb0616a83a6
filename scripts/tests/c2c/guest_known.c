// SPDX-License-Identifier: GPL-2.0
/*
 * The guest of a test: two threads on two CPUs take turns, and every access to
 * `watched` is known. The word that says whose turn it is lies on its own line,
 * which is not watched.
 *
 * In each of N rounds:
 * - The first thread writes `left` and the second writes `right`, on line 0.
 * - Each writes its own padded counter, on lines 1 and 2.
 * - Both add to `atomic`, on line 3.
 * - The first reads `settings` and the second writes `written`, on line 4.
 * - Each writes 8 bytes across lines 5 and 6.
 * - Both add to `apart`, on line 7, by a load and a store: on arm64 a pair of
 *   exclusives.
 */
#define _GNU_SOURCE
#include "guest.h"

struct watched {
	unsigned long left, right;
	_Alignas(64) unsigned long padded_left;
	_Alignas(64) unsigned long padded_right;
	_Alignas(64) unsigned long atomic;
	_Alignas(64) unsigned long settings;
	unsigned long written;
	_Alignas(64) char straddling[128];
	unsigned long apart;
};

_Alignas(64) struct watched watched;
static _Alignas(64) volatile unsigned int turn;
static int rounds;
static pthread_barrier_t barrier;

/* In assembly, so that the compiler neither omits nor adds an access. */
#ifdef __aarch64__
#define STORE "str %1, [%0]"
#define LOAD "ldr %0, [%1]"
#define ADD ".arch_extension lse\n\tstadd %1, [%0]"
#define ADD_APART "1: ldxr %0, [%2]\n\tadd %0, %0, #1\n\tstxr %w1, %0, [%2]\n\tcbnz %w1, 1b"
#else
#define STORE "movq %1, (%0)"
#define LOAD "movq (%1), %0"
#define ADD "lock addq %1, (%0)"
#define ADD_APART "movq (%2), %0\n\tmovq $1, %1\n\taddq %1, %0\n\tmovq %0, (%2)"
#endif

static inline void store(void *to, unsigned long value)
{
	__asm__ volatile(STORE ::"r"(to), "r"(value) : "memory");
}

static inline void load(const void *from)
{
	unsigned long value;

	__asm__ volatile(LOAD : "=r"(value) : "r"(from) : "memory");
}

static inline void add(void *to)
{
	__asm__ volatile(ADD ::"r"(to), "r"(1ul) : "memory", "cc");
}

static inline void add_apart(void *to)
{
	unsigned long value, other;

	__asm__ volatile(ADD_APART : "=&r"(value), "=&r"(other) : "r"(to) : "memory", "cc");
}

static void *work(void *argument)
{
	long side = (long)argument;
	unsigned int i;

	use_cpu(side);
	pthread_barrier_wait(&barrier);
	for (i = 0; i < (unsigned int)rounds; i++) {
		while (turn != 2 * i + side)
			sched_yield();
		store(side ? &watched.right : &watched.left, i);
		store(side ? &watched.padded_right : &watched.padded_left, i);
		add(&watched.atomic);
		if (side)
			store(&watched.written, i);
		else
			load(&watched.settings);
		store(&watched.straddling[60], i);
		add_apart(&watched.apart);
		turn++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];
	long i;

	begin();
	rounds = rounds_of(argc, argv);
	if (pthread_barrier_init(&barrier, NULL, 3))
		fail("pthread_barrier_init");
	for (i = 0; i < 2; i++)
		start_thread(&threads[i], work, i);
	MARK_START();
	pthread_barrier_wait(&barrier);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	MARK_STOP();
	end(2ul * rounds);
}
