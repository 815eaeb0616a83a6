// SPDX-License-Identifier: GPL-2.0
/*
 * One file that all ask for: one process for each CPU, bound to it. In each
 * round it asks for the status of the file by its name. All of them look up the
 * same name, and take and drop a reference to it.
 *
 * Workload, 200 rounds, c2c-programs: processes ask for the status of one file
 */
/*
 * A template, too: a copy with another name, without this comment, is another
 * workload. The comment above says what it does. Its last part is what users
 * read: the rounds of each thread, what configs/kernel/ has to add to the kernel
 * (c2c-programs for all but the oldest workloads), and a sentence.
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

/* Rounds that are not counted: caches are warm, and memory is there, after them. */
#define WARM_UP 5
/* Too long for the first line of a dentry, as names of temporary files are. */
#define NAME "/shared/temporary-file-abc"

/* A thread: its number is the argument. It makes phase.rounds rounds, and no more. */
static void *work(void *argument)
{
	long number = (long)argument;
	struct stat status;
	int i, ended;
	pid_t child;

	/* All start together. */
	pthread_barrier_wait(&phase.barrier);
	child = fork();
	if (!child) {
		use_cpu(number);
		/* What is random comes from draw(), so that each run is the same. */
		for (i = 0; i < phase.rounds; i++)
			if (stat(NAME, &status))
				_exit(1);
		_exit(0);
	}
	/* fail() ends the guest, and the measurement. */
	if (child < 0 || waitpid(child, &ended, 0) != child || ended)
		fail(NAME);
	return NULL;
}

/* The first process of the guest. It has an empty root, and what it makes there. */
int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv), file;

	if (mkdir("/shared", 0755))
		fail("/shared");
	file = open(NAME, O_CREAT | O_WRONLY, 0644);
	if (file < 0 || close(file))
		fail(NAME);
	/* At most MOST_THREADS. */
	phase.threads = cpus;
	/* Both phases, with the markers of the plugin around the second; then it ends. */
	run_phases(work, WARM_UP, number);
}
