// SPDX-License-Identifier: GPL-2.0
/* Threads for the cpupri suites, on the kernel's own CPUs. */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "sched_cpupri_threads.h"

#define RACING_THREADS	8

struct job {
	struct cpupri_thread	*thread;
	atomic_t		*missing;
	struct completion	*start, *done;
	struct task_struct	*task;
};

static int run_job(void *data)
{
	struct job *job = data;
	struct completion *done = job->done;

	/* Else the first thread may end before the second one starts. */
	if (atomic_dec_and_test(job->missing))
		complete_all(job->start);
	else
		wait_for_completion(job->start);
	job->thread->fn(job->thread->data);
	complete(done);
	return 0;
}

/**
 * cpupri_test_cpus - how many threads to race with each other
 *
 * Return: the number of online CPUs, at most 8.
 */
int cpupri_test_cpus(void)
{
	return min_t(int, num_online_cpus(), RACING_THREADS);
}

/**
 * cpupri_run_threads - run functions at the same time, each in a thread of its own
 * @threads: the functions and their arguments
 * @nr: number of threads
 * @cpus: number of CPUs to use in turn, from the first online CPU on
 *
 * Returns when all of them have returned.
 *
 * Return: 0, or an error if a thread could not be created. In that case no
 * function has run.
 */
int cpupri_run_threads(struct cpupri_thread *threads, int nr, int cpus)
{
	DECLARE_COMPLETION_ONSTACK(start);
	DECLARE_COMPLETION_ONSTACK(done);
	struct job *jobs = kcalloc(nr, sizeof(*jobs), GFP_KERNEL);
	atomic_t missing = ATOMIC_INIT(nr);
	int cpu = -1;
	int i, err = jobs ? 0 : -ENOMEM;

	for (i = 0; i < nr && !err; i++) {
		cpu = cpumask_next(i % cpus ? cpu : -1, cpu_online_mask);
		jobs[i] = (struct job){ &threads[i], &missing, &start, &done };
		jobs[i].task = kthread_create_on_cpu(run_job, &jobs[i], cpu, "cpupri_test/%u");
		err = PTR_ERR_OR_ZERO(jobs[i].task);
	}
	if (err) {
		/* The last one could not be created: stop those before it. */
		for (i--; i > 0; i--)
			kthread_stop(jobs[i - 1].task);
		kfree(jobs);
		return err;
	}
	for (i = 0; i < nr; i++)
		wake_up_process(jobs[i].task);
	for (i = 0; i < nr; i++)
		wait_for_completion(&done);
	kfree(jobs);
	return 0;
}
