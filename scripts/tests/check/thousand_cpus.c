// SPDX-License-Identifier: GPL-2.0
/* A library that shows a program a machine with so many CPUs: see test_thousand_cpus.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int here;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
	memset(set, 0, size);
	for (int cpu = 0; cpu < CPUS; cpu++)
		CPU_SET_S(cpu, size, set);
	return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set)
{
	if (CPU_ISSET_S(here, size, set))
		return 0;
	for (int cpu = 0; cpu < CPUS; cpu++) {
		if (CPU_ISSET_S(cpu, size, set)) {
			here = cpu;
			return 0;
		}
	}
	errno = EINVAL;
	return -1;
}

int sched_getcpu(void)
{
	return here;
}

/* Which domains there are is not told, as before 6.15. */
FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *path, const char *mode) = dlsym(RTLD_NEXT, "fopen");

	return real(strcmp(path, "/proc/schedstat") ? path : "/dev/null", mode);
}

int open(const char *path, int flags, ...)
{
	int (*real)(const char *path, int flags, ...) = dlsym(RTLD_NEXT, "open");
	char played[4096];
	va_list args;
	int mode;

	va_start(args, flags);
	mode = va_arg(args, int);
	va_end(args);
	if (strncmp(path, "/sys/devices/system/", 20))
		return real(path, flags, mode);
	snprintf(played, sizeof(played), "%s%s", getenv("PLAYED"), path + 4);
	return real(played, flags, mode);
}
