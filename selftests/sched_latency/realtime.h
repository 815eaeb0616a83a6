/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Real-time threads that cannot lock up the machine: if one runs for too long
 * without sleeping, the kernel ends the run (RLIMIT_RTTIME). The limit of the
 * kernel for all RT tasks (sched_rt_runtime_us) is not changed.
 */
#ifndef REALTIME_H
#define REALTIME_H

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "results.h"

/* Includes time in which the host runs something else: seconds, if emulated. */
#define RTTIME_SOFT_US	5000000
#define RTTIME_HARD_US	6000000

/* musl's sched_setscheduler() always fails. */
static inline bool set_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	return !syscall(SYS_sched_setscheduler, 0, policy, &param);
}

static inline bool be_realtime(int priority)
{
	return set_policy(SCHED_FIFO, priority);
}

/* Why SCHED_FIFO cannot be used; NULL if it can. */
static inline const char *why_no_realtime(int priority)
{
	if (be_realtime(priority)) {
		set_policy(SCHED_OTHER, 0);
		return NULL;
	}
	if (errno == EPERM && geteuid())
		return "SCHED_FIFO needs root, CAP_SYS_NICE or RLIMIT_RTPRIO";
	if (errno == EPERM)
		return "SCHED_FIFO is not allowed: no cpu.rt_runtime_us, or a container";
	return strerror(errno);
}

static inline bool guard_realtime(void)
{
	const struct rlimit limit = { RTTIME_SOFT_US, RTTIME_HARD_US };

	return !setrlimit(RLIMIT_RTTIME, &limit);
}

/*
 * As cyclictest does: avoid page faults, and keep CPUs out of deep idle states
 * for as long as the file is open. It is no error if one of them fails.
 */
static inline void be_prompt(void)
{
	int fd = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);
	struct stat found;
	__s32 no_latency = 0;

	/* A container may have a plain file of that name. */
	if (fd >= 0 && (fstat(fd, &found) || !S_ISCHR(found.st_mode) ||
			write(fd, &no_latency, sizeof(no_latency)) < 0))
		close(fd);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		ksft_print_msg("memory is not locked: %s\n", strerror(errno));
}

#endif
