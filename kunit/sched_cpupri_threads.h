/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SCHED_CPUPRI_THREADS_H
#define _SCHED_CPUPRI_THREADS_H

struct cpupri_thread {
	void (*fn)(void *data);
	void *data;
};

int cpupri_test_cpus(void);
int cpupri_run_threads(struct cpupri_thread *threads, int nr, int cpus);

#endif
