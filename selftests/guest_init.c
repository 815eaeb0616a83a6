// SPDX-License-Identifier: GPL-2.0
/*
 * The first process of a guest that contains only the programs in
 * /sched_latency. Runs each of them with the arguments after `--` on the kernel
 * command line, prints what run_kselftest.sh would print, and ends the guest.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#define SKIPPED	4

static int is_program(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int run(const char *name, char **argv)
{
	char line[1024], path[512];
	int out[2], status;
	FILE *said;
	pid_t pid;

	if (pipe(out))
		return -1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		dup2(out[1], 1);
		dup2(out[1], 2);
		snprintf(path, sizeof(path), "/sched_latency/%s", name);
		argv[0] = path;
		execv(path, argv);
		_exit(127);
	}
	close(out[1]);
	said = fdopen(out[0], "r");
	while (fgets(line, sizeof(line), said))
		printf("# %s", line);
	fclose(said);
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	struct dirent **programs;
	int nr, status;

	(void)argc;
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);
	mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);

	setvbuf(stdout, NULL, _IOLBF, 0);
	nr = scandir("/sched_latency", &programs, is_program, alphasort);
	printf("TAP version 13\n1..%d\n", nr);
	for (int i = 0; i < nr; i++) {
		const char *name = programs[i]->d_name;

		printf("# selftests: sched_latency: %s\n", name);
		status = run(name, argv);
		printf("%s %d selftests: sched_latency: %s",
		       status && status != SKIPPED ? "not ok" : "ok", i + 1, name);
		if (status == SKIPPED)
			printf(" # SKIP");
		else if (status)
			printf(" # exit=%d", status);
		printf("\n");
	}
	fflush(stdout);
	reboot(RB_AUTOBOOT);
	return 1;
}
