/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Setup, teardown and helpers for the programs that run in the guest of the
 * emulated c2c. Each program is the guest's /init.
 */
#ifndef C2C_GUEST_H
#define C2C_GUEST_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_CPUS 64

/*
 * STACK is the size of a thread's stack: arm64's C library requires a larger
 * one. For the markers, see arch.h.
 */
#ifdef __aarch64__
#define STACK (128 << 10)
#define MARK(number) __asm__ volatile("movz xzr, #0xc2c" #number ::: "memory")
#else
#define STACK (64 << 10)
#define MARK(number)                                                                     \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " #number ", 0x00, 0xc2, 0x2c" :: \
			 : "memory")
#endif
#define MARK_START() MARK(1)
#define MARK_STOP() MARK(2)
#define MARK_READY() MARK(3)

/* Ends the guest: QEMU runs with -no-reboot. */
static inline void leave(void)
{
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static inline void fail(const char *what)
{
	printf("c2c: failed: %s: %s\n", what, strerror(errno));
	leave();
}

static inline void write_file(const char *name, const char *value)
{
	int file = open(name, O_WRONLY);

	if (file < 0 || write(file, value, strlen(value)) < 0)
		fail(name);
	close(file);
}

static inline void sleep_ns(long ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

/*
 * The kernel enables high-resolution timers when it trusts a clock. With timers
 * that expire at ticks, all threads would sleep equally long and wake together.
 */
static inline void await_high_resolution(void)
{
	struct timespec resolution;
	int i;

	for (i = 0; i < 100; i++) {
		if (clock_getres(CLOCK_MONOTONIC, &resolution))
			fail("clock_getres");
		if (resolution.tv_nsec == 1)
			return;
		sleep_ns(50000000);
	}
	fail("no timers of high resolution");
}

/* Set up the guest. Returns its number of CPUs. */
static inline int begin(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	mkdir("/proc", 0755);
	if (mount("proc", "/proc", "proc", 0, NULL))
		fail("/proc");
	await_high_resolution();
	if (cpus < 2 || cpus > MOST_CPUS)
		fail("the number of CPUs");
	/* Page faults in the measured part would not belong to the workload. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fail("mlockall");
	printf("c2c: ready, %d CPUs\n", cpus);
	fflush(stdout);
	MARK_READY();
	/* QEMU acts on the marker when it next leaves translated code. */
	sleep_ns(1000000);
	return cpus;
}

/* Report how much was done, and end the guest. */
static inline void end(unsigned long operations)
{
	printf("c2c: done, %lu operations\n", operations);
	leave();
}

static inline void use_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	if (sched_setscheduler(0, policy, &param))
		fail("sched_setscheduler");
}

static inline void use_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static inline void use_all(int cpus)
{
	cpu_set_t set;
	int i;

	CPU_ZERO(&set);
	for (i = 0; i < cpus; i++)
		CPU_SET(i, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static inline void start_thread(pthread_t *thread, void *(*function)(void *), long number)
{
	pthread_attr_t attributes;

	if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK) ||
	    pthread_create(thread, &attributes, function, (void *)number))
		fail("pthread_create");
}

static inline void burn(int rounds)
{
	volatile int i;

	for (i = 0; i < rounds; i++)
		;
}

/* Random numbers: a sequence for each thread, the same in each run. */
static inline unsigned int draw(unsigned int *state)
{
	*state = *state * 1103515245u + 12345u;
	return *state >> 8;
}

/*
 * Returns the last word of the kernel's command line, which follows `--`, as a
 * number. Parameters that the kernel does not know come before it in argv.
 */
static inline int rounds_of(int argc, char **argv)
{
	int rounds = atoi(argv[argc - 1]);

	if (rounds <= 0)
		fail("no number of rounds");
	return rounds;
}

#endif
