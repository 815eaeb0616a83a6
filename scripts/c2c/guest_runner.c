// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a program that somebody else wrote. It is the guest's /init, and reads
 * /schedline/command: `whole` or `marked`, and then the words of the command,
 * each ended by a zero byte. With `whole` it marks the start before the program
 * is started, and the stop after it has ended. Otherwise the program does so,
 * with schedline-count.
 *
 * What the program prints goes to a file and is shown after the stop. A console
 * is slow, and what is on it is read as ours and the kernel's.
 */
#define _GNU_SOURCE
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "guest.h"

#define OUTPUT "/schedline/output"
#define MOST_WORDS 256
#define MOST_SHOWN 16384		/* bytes */

static char command[32768];
static char *words[MOST_WORDS];

static void mount_at(const char *place, const char *type)
{
	mkdir(place, 0755);
	if (mount(type, place, type, 0, NULL))
		fail(place);
}

/* The kernel gives it its address by itself. */
static void start_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request))
		fail("the loopback");
	close(any);
}

static pid_t start(char **argv, bool quiet)
{
	pid_t child = fork();
	int output;

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	output = open(OUTPUT, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (!quiet && (output < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0))
		_exit(126);
	execv(argv[0], argv);
	dprintf(2, "%s cannot be started: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Wait for a child, and meanwhile for those that lost their parents. */
static int await(pid_t child)
{
	pid_t ended;
	int status;

	while ((ended = wait(&status)) != child)
		if (ended < 0 && errno != EINTR)
			fail("wait");
	return status;
}

/* Whether a process of the program is still there. */
static bool is_left(void)
{
	pid_t ended;

	while ((ended = waitpid(-1, NULL, WNOHANG)) > 0)
		;
	return !ended;
}

static void read_command(void)
{
	int file = open("/schedline/command", O_RDONLY), number = 0;
	ssize_t size = file < 0 ? -1 : read(file, command, sizeof(command) - 1);
	char *at;

	if (size < 0)
		fail("/schedline/command");
	close(file);
	for (at = command; at < command + size && number < MOST_WORDS - 1; at += strlen(at) + 1)
		words[number++] = at;
	if (number < 2)
		fail("no command");
}

/* Each line of the program's output, marked as such. */
static void show_output(void)
{
	FILE *file = fopen(OUTPUT, "r");
	bool at_start = true;
	int letter, number;

	for (number = 0; file && number < MOST_SHOWN && (letter = getc(file)) != EOF; number++) {
		if (at_start)
			fputs("program: ", stdout);
		putchar(letter);
		at_start = letter == '\n';
	}
	if (!at_start)
		putchar('\n');
}

int main(void)
{
	char *install[] = { "/bin/busybox", "--install", "-s", "/bin", NULL };
	bool whole, left;
	int status;

	mount_at("/proc", "proc");
	mount_at("/sys", "sysfs");
	mount_at("/dev", "devtmpfs");
	mount_at("/dev/shm", "tmpfs");
	mount_at("/tmp", "tmpfs");
	mount_at("/sys/fs/cgroup", "cgroup2");
	start_loopback();
	if (!access(install[0], X_OK) && await(start(install, true)))
		fail("busybox --install");
	/* begin() mounts it. */
	umount("/proc");
	setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin:/program", 1);
	setenv("HOME", "/tmp", 1);
	setenv("LD_LIBRARY_PATH", "/lib/schedline", 1);
	read_command();
	begin();
	if (chdir("/files"))
		fail("/files");
	whole = !strcmp(words[0], "whole");
	if (whole)
		MARK_START();
	status = await(start(words + 1, false));
	if (whole)
		MARK_STOP();
	left = is_left();
	show_output();
	if (WIFSIGNALED(status))
		printf("c2c: failed: the program was killed by signal %d (%s)\n", WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		printf("c2c: failed: the program exited with status %d\n", WEXITSTATUS(status));
	else if (left)
		printf("c2c: failed: the program ended, but processes that it started are left; "
		       "it has to wait for them\n");
	else
		end(1);
	leave();
}
