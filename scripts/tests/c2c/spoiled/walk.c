// SPDX-License-Identifier: GPL-2.0
/*
 * For a guest with a spoiled dentry: all processes but one look up files in a
 * directory, and one opens and closes the directory. The others walk through the
 * directory's dentry without a reference. So whoever has its counter is of no
 * interest to them, unless the counter shares their line. With an argument, nobody
 * opens the directory: all look up files.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "guest.h"

#define ROUNDS 200
#define DIRECTORY "/tmp/walk"

static int *go;
static int first;			/* the first process that only looks up */

static void work(int number)
{
	struct stat status;
	char name[64];
	int i, file;

	use_cpu(number);
	snprintf(name, sizeof(name), DIRECTORY "/file-%d", number);
	__atomic_add_fetch(&go[1], 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&go[0], __ATOMIC_SEQ_CST))
		sched_yield();
	for (i = 0; i < ROUNDS; i++) {
		if (number >= first) {
			if (stat(name, &status))
				_exit(1);
			continue;
		}
		file = open(DIRECTORY, O_RDONLY | O_DIRECTORY);
		if (file < 0 || close(file))
			_exit(1);
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), i, file, status, failed = 0;
	char name[64];

	(void)argv;
	first = argc == 1;
	go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (go == MAP_FAILED || mkdir(DIRECTORY, 0755))
		return 1;
	for (i = 0; i < cpus; i++) {
		snprintf(name, sizeof(name), DIRECTORY "/file-%d", i);
		file = open(name, O_CREAT | O_WRONLY, 0644);
		if (file < 0 || close(file))
			return 1;
		if (!fork())
			work(i);
	}
	while (__atomic_load_n(&go[1], __ATOMIC_SEQ_CST) < cpus)
		sched_yield();
	MARK_START();
	__atomic_store_n(&go[0], 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < cpus; i++)
		if (wait(&status) < 0 || status)
			failed = 1;
	MARK_STOP();
	return failed;
}
