/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sets of CPUs, and what sysfs says about them.
 *
 * A cpu_set_t holds 1024 CPUs, and sched_getaffinity() fails if the kernel
 * supports more. These sets hold the largest NR_CPUS that can be configured.
 */
#ifndef CPU_LIST_H
#define CPU_LIST_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"

/* The largest NR_CPUS of any architecture. */
#define MOST_CPUS	8192
#define WORD_BITS	(8 * sizeof(unsigned long))
/* A list that names every other CPU. */
#define LIST_SIZE	(MOST_CPUS / 2 * 5)

struct cpus {
	unsigned long bits[MOST_CPUS / WORD_BITS];
};

/* If this is another machine's /sys, the run is a rehearsal. */
static const char *sysfs __maybe_unused = "/sys";

/* Files. */

static inline int vopen(int flags, const char *format, va_list args)
{
	char path[4096];

	if (vsnprintf(path, sizeof(path), format, args) >= (int)sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return open(path, flags | O_CLOEXEC);
}

static inline bool vread_line(char *text, size_t size, const char *format, va_list args)
{
	size_t had = 0;
	ssize_t len;
	int fd;

	fd = vopen(O_RDONLY, format, args);
	if (fd < 0)
		return false;
	while ((len = read(fd, text + had, size - 1 - had)) > 0)
		had += len;
	close(fd);
	text[had] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return len >= 0;
}

/* The first line of a file, without its end. */
static inline __printf(3, 4) bool read_line(char *text, size_t size, const char *format, ...)
{
	va_list args;
	bool done;

	va_start(args, format);
	done = vread_line(text, size, format, args);
	va_end(args);
	return done;
}

static inline __printf(2, 3) bool write_text(const char *text, const char *format, ...)
{
	va_list args;
	ssize_t len;
	int fd;

	va_start(args, format);
	fd = vopen(O_WRONLY, format, args);
	va_end(args);
	if (fd < 0)
		return false;
	len = write(fd, text, strlen(text));
	close(fd);
	return len >= 0;
}

/* Below devices/system/ of sysfs; false if the file is missing or empty. */
static inline __printf(3, 4) bool sysfs_line(char *text, size_t size, const char *format, ...)
{
	char name[256];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	return read_line(text, size, "%s/devices/system/%s", sysfs, name) && text[0];
}

/* Sets. */

static inline bool cpus_has(const struct cpus *set, int cpu)
{
	return cpu >= 0 && cpu < MOST_CPUS && set->bits[cpu / WORD_BITS] >> cpu % WORD_BITS & 1;
}

static inline void cpus_add(struct cpus *set, int cpu)
{
	set->bits[cpu / WORD_BITS] |= 1UL << cpu % WORD_BITS;
}

static inline void cpus_and(struct cpus *set, const struct cpus *other)
{
	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		set->bits[i] &= other->bits[i];
}

static inline void cpus_or(struct cpus *set, const struct cpus *other)
{
	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		set->bits[i] |= other->bits[i];
}

static inline bool cpus_equal(const struct cpus *set, const struct cpus *other)
{
	return !memcmp(set, other, sizeof(*set));
}

static inline int cpus_count(const struct cpus *set)
{
	int count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(set->bits); i++)
		count += __builtin_popcountl(set->bits[i]);
	return count;
}

/* The next CPU after @cpu, or -1 if there is none. Start with -1. */
static inline int cpus_next(const struct cpus *set, int cpu)
{
	for (cpu++; cpu < MOST_CPUS; cpu = (cpu / WORD_BITS + 1) * WORD_BITS) {
		unsigned long rest = set->bits[cpu / WORD_BITS] >> cpu % WORD_BITS;

		if (rest)
			return cpu + __builtin_ctzl(rest);
	}
	return -1;
}

/* Remove all CPUs but the first ones. */
static inline void cpus_keep_first(struct cpus *set, int nr)
{
	for (int cpu = cpus_next(set, -1); cpu >= 0; cpu = cpus_next(set, cpu))
		if (nr-- <= 0)
			set->bits[cpu / WORD_BITS] &= ~(1UL << cpu % WORD_BITS);
}

static inline int cpus_last(const struct cpus *set)
{
	int last = -1;

	for (int cpu = cpus_next(set, -1); cpu >= 0; cpu = cpus_next(set, cpu))
		last = cpu;
	return last;
}

static inline int cpus_nth(const struct cpus *set, int n)
{
	for (int cpu = cpus_next(set, -1); cpu >= 0; cpu = cpus_next(set, cpu))
		if (!n--)
			return cpu;
	return -1;
}

/* A list such as 0-3,8; false if the text is no list, or has no CPUs. */
static inline bool cpus_parse(const char *text, struct cpus *set)
{
	memset(set, 0, sizeof(*set));
	while (*text) {
		char *next;
		long from = strtol(text, &next, 10), to = from;

		if (next == text)
			return false;
		if (*next == '-') {
			text = next + 1;
			to = strtol(text, &next, 10);
			if (next == text)
				return false;
		}
		if (from < 0 || to < from || to >= MOST_CPUS || (*next && *next != ','))
			return false;
		for (; from <= to; from++)
			cpus_add(set, from);
		text = next + (*next == ',');
	}
	return cpus_count(set);
}

/* The text is in a static buffer, which the next call overwrites. */
static inline
const char *cpus_list(const struct cpus *set)
{
	static char text[LIST_SIZE];
	int len = 0;

	text[0] = '\0';
	for (int from = cpus_next(set, -1), to; from >= 0; from = cpus_next(set, to)) {
		to = from;

		while (cpus_has(set, to + 1))
			to++;
		len += snprintf(text + len, sizeof(text) - len, "%s%d", len ? "," : "", from);
		if (to > from)
			len += snprintf(text + len, sizeof(text) - len, "-%d", to);
	}
	return text;
}

/* Tasks. */

/* The CPUs that this task may use: online, in its cpuset, in its affinity. */
static inline void cpus_allowed(struct cpus *set)
{
	memset(set, 0, sizeof(*set));
	if (sched_getaffinity(0, sizeof(*set), (cpu_set_t *)set))
		ksft_exit_fail_perror("sched_getaffinity");
}

static inline bool run_on(const struct cpus *set)
{
	return !sched_setaffinity(0, sizeof(*set), (const cpu_set_t *)set);
}

static inline bool run_on_cpu(int cpu)
{
	struct cpus one = {};

	cpus_add(&one, cpu);
	return run_on(&one);
}

#endif
