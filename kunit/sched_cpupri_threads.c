// SPDX-License-Identifier: GPL-2.0
/*
 * Threads for the cpupri suites, in a unit of their own: sched_cpupri_private.c
 * has another idea of the number of CPUs and must not look into the kernel's
 * masks and tasks.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/processor.h>
#include <linux/sched.h>

#include "sched_cpupri_threads.h"

#define MAX_THREADS	8

struct job {
	struct cpupri_thread	*thread;
	atomic_t		*missing;
	struct completion	*done;
};

static int run_job(void *data)
{
	struct job *job = data;
	struct completion *done = job->done;

	/* A first thread that starts alone may be through before the second. */
	atomic_dec(job->missing);
	while (atomic_read(job->missing)) {
		cpu_relax();
		cond_resched();
	}
	job->thread->fn(job->thread->data);
	complete(done);
	return 0;
}

/**
 * cpupri_test_cpus - how many threads can run at the same time
 *
 * Return: the number of online CPUs, at most 8.
 */
int cpupri_test_cpus(void)
{
	return min_t(int, num_online_cpus(), MAX_THREADS);
}

/**
 * cpupri_run_threads - run functions at the same time, each on an online CPU of its own
 * @threads: the functions and their arguments
 * @nr: how many, at most cpupri_test_cpus()
 *
 * Returns when all of them have returned.
 *
 * Return: 0, or an error if a thread could not be made; none has run then.
 */
int cpupri_run_threads(struct cpupri_thread *threads, int nr)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *task[MAX_THREADS];
	struct job job[MAX_THREADS];
	atomic_t missing = ATOMIC_INIT(nr);
	int cpu = -1;
	int i, err;

	for (i = 0; i < nr; i++) {
		cpu = cpumask_next(cpu, cpu_online_mask);
		job[i] = (struct job){ &threads[i], &missing, &done };
		task[i] = kthread_create_on_cpu(run_job, &job[i], cpu, "cpupri_test/%u");
		if (IS_ERR(task[i])) {
			err = PTR_ERR(task[i]);
			while (i--)
				kthread_stop(task[i]);
			return err;
		}
	}
	for (i = 0; i < nr; i++)
		wake_up_process(task[i]);
	for (i = 0; i < nr; i++)
		wait_for_completion(&done);
	return 0;
}
