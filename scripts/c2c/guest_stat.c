// SPDX-License-Identifier: GPL-2.0
/*
 * One file that all ask for: one process for each CPU, bound to it. In each
 * round it asks for the status of the file by its name. All of them look up the
 * same name, and take and drop a reference to it.
 *
 * Workload, 200 rounds, c2c-programs: processes ask for the status of one file
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "guest_phases.h"

#define WARM_UP 5
/* Too long for the first line of a dentry, as names of temporary files are. */
#define NAME "/shared/temporary-file-abc"

static void *work(void *argument)
{
	long number = (long)argument;
	struct stat status;
	int i, ended;
	pid_t child;

	pthread_barrier_wait(&phase.barrier);
	child = fork();
	if (!child) {
		use_cpu(number);
		for (i = 0; i < phase.rounds; i++)
			if (stat(NAME, &status))
				_exit(1);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &ended, 0) != child || ended)
		fail(NAME);
	return NULL;
}

int main(int argc, char **argv)
{
	int cpus = begin(), number = rounds_of(argc, argv), file;

	if (mkdir("/shared", 0755))
		fail("/shared");
	file = open(NAME, O_CREAT | O_WRONLY, 0644);
	if (file < 0 || close(file))
		fail(NAME);
	phase.threads = cpus;
	run_phases(work, WARM_UP, number);
}
