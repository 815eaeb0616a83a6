// SPDX-License-Identifier: GPL-2.0
/*
 * Does the scheduler go on to scan the cluster in one cpuset partition while
 * another one is rebuilt?
 *
 * Partition A has two clusters. A task sleeps on an idle CPU of the second one
 * and is woken from the first one, by a pipe: such a waker is about to sleep,
 * so the search for an idle CPU begins where it runs. Where the cluster is
 * scanned, the task comes to the waker's cluster; otherwise its old CPU is
 * idle, shares the last level cache, and is taken. Partition B has two CPUs of
 * different clusters, and so no domain for clusters. Splitting B must change
 * nothing in A.
 *
 * Everything that is changed is changed back, after a signal, too. On a kernel
 * that fails, ending A brings the scan back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../kselftest.h"

#define ROUNDS		200
/* The scan of domains that were just built waits for the next load balance. */
#define PATIENCE	10
/* Each split drops one reference; there is one for each partition with clusters. */
#define SPLITS		4

#define CPU_TOPOLOGY	"/sys/devices/system/cpu/cpu%d/topology/%s"
#define DEBUG		"/sys/kernel/debug/sched"
#define DOMAIN		DEBUG "/domains/cpu%d/domain%d"

static char cgroup[256];
static cpu_set_t a, b, first;
static int waker_cpu, wakee_cpu;
static bool known_defect;
static char verbose[8];

/* Files. */

static int get(char *text, size_t size, const char *format, ...) __printf(3, 4);
static int put(const char *text, const char *format, ...) __printf(2, 3);

static int open_path(int flags, const char *format, va_list args)
{
	char path[512];

	vsnprintf(path, sizeof(path), format, args);
	return open(path, flags | O_CLOEXEC);
}

static int get(char *text, size_t size, const char *format, ...)
{
	va_list args;
	ssize_t len;
	int fd;

	va_start(args, format);
	fd = open_path(O_RDONLY, format, args);
	va_end(args);
	if (fd < 0)
		return -1;
	len = read(fd, text, size - 1);
	close(fd);
	if (len < 0)
		return -1;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

static int put(const char *text, const char *format, ...)
{
	va_list args;
	ssize_t len;
	int fd;

	va_start(args, format);
	fd = open_path(O_WRONLY, format, args);
	va_end(args);
	if (fd < 0)
		return -1;
	len = write(fd, text, strlen(text));
	close(fd);
	return len < 0 ? -1 : 0;
}

/* CPUs. */

static bool cpus_of(int cpu, const char *what, cpu_set_t *set)
{
	char text[4096], *p = text;

	CPU_ZERO(set);
	if (get(text, sizeof(text), CPU_TOPOLOGY, cpu, what))
		return false;
	while (*p) {
		long from = strtol(p, &p, 10), to = from;

		if (*p == '-')
			to = strtol(p + 1, &p, 10);
		for (; from <= to && from < CPU_SETSIZE; from++)
			CPU_SET(from, set);
		p += *p == ',';
	}
	return true;
}

static const char *list_of(const cpu_set_t *set)
{
	static char text[4096];
	int len = 0;

	text[0] = '\0';
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set))
			len += snprintf(text + len, sizeof(text) - len, "%s%d",
					len ? "," : "", cpu);
	return text;
}

static int nth(const cpu_set_t *set, int n)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, set) && !n--)
			return cpu;
	return -1;
}

/* A cluster is more than a core, and less than a package. */
static bool cluster_of(int cpu, cpu_set_t *cluster)
{
	cpu_set_t core, package;

	return cpus_of(cpu, "cluster_cpus_list", cluster) &&
	       cpus_of(cpu, "core_cpus_list", &core) &&
	       cpus_of(cpu, "package_cpus_list", &package) &&
	       CPU_COUNT(cluster) > CPU_COUNT(&core) &&
	       CPU_COUNT(cluster) < CPU_COUNT(&package);
}

/* Two clusters of a package for A; for B two CPUs that share none. */
static bool choose_cpus(void)
{
	int nr = sysconf(_SC_NPROCESSORS_CONF);
	cpu_set_t cluster, package;

	CPU_ZERO(&a);
	CPU_ZERO(&first);
	for (int cpu = 0; cpu < nr; cpu++) {
		if (CPU_ISSET(cpu, &a) || !cluster_of(cpu, &cluster))
			continue;
		if (!CPU_COUNT(&first)) {
			first = cluster;
			a = cluster;
			waker_cpu = cpu;
			cpus_of(cpu, "package_cpus_list", &package);
		} else if (CPU_ISSET(cpu, &package)) {
			CPU_OR(&a, &a, &cluster);
			wakee_cpu = cpu;
			break;
		}
	}
	if (CPU_EQUAL(&a, &first))
		return false;

	CPU_ZERO(&b);
	for (int cpu = 0; cpu < nr && CPU_COUNT(&b) < 2; cpu++) {
		if (CPU_ISSET(cpu, &a) || !cpus_of(cpu, "cluster_cpus_list", &cluster))
			continue;
		CPU_AND(&cluster, &cluster, &b);
		if (!CPU_COUNT(&cluster))
			CPU_SET(cpu, &b);
	}
	return CPU_COUNT(&b) == 2;
}

/* Partitions. */

static bool make_partition(const char *name, const cpu_set_t *cpus)
{
	char path[512], said[256] = "";

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	if (mkdir(path, 0755)) {
		ksft_print_msg("%s: %s\n", path, strerror(errno));
		return false;
	}
	if (put(list_of(cpus), "%s/cpuset.cpus", path) ||
	    put("root", "%s/cpuset.cpus.partition", path) ||
	    get(said, sizeof(said), "%s/cpuset.cpus.partition", path) || strcmp(said, "root")) {
		ksft_print_msg("%s with CPUs %s is no partition: %s\n",
			       path, list_of(cpus), said[0] ? said : strerror(errno));
		return false;
	}
	return true;
}

static bool end_partition(const char *name)
{
	char path[512];
	time_t end = time(NULL) + PATIENCE;

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	if (access(path, F_OK))
		return true;
	put("member", "%s/cpuset.cpus.partition", path);
	/* A task that has just ended may still be counted. */
	while (rmdir(path)) {
		if (errno != EBUSY || time(NULL) > end) {
			ksft_print_msg("%s stays: %s\n", path, strerror(errno));
			return false;
		}
		sched_yield();
	}
	return true;
}

#define A	"sched_latency_a"
#define B	"sched_latency_b"
#define PART	B "/part"

static bool split_b(void)
{
	cpu_set_t part;

	CPU_ZERO(&part);
	CPU_SET(nth(&b, 1), &part);
	if (put("+cpuset", "%s/%s/cgroup.subtree_control", cgroup, B))
		return false;
	for (int i = 0; i < SPLITS; i++)
		if (!make_partition(PART, &part) || !end_partition(PART))
			return false;
	return true;
}

/* The pair of tasks. */

struct counts {
	int cluster, stayed, elsewhere;
};

static void run_on(const cpu_set_t *cpus)
{
	if (sched_setaffinity(0, sizeof(*cpus), cpus))
		_exit(KSFT_FAIL);
}

static void wakee(int in, int out)
{
	cpu_set_t own;
	int cpu, go;

	CPU_ZERO(&own);
	CPU_SET(wakee_cpu, &own);
	do {
		run_on(&own);
		run_on(&a);
		cpu = sched_getcpu();
		if (write(out, &cpu, sizeof(cpu)) != sizeof(cpu) ||
		    read(in, &go, sizeof(go)) != sizeof(go))
			break;
		cpu = sched_getcpu();
	} while (write(out, &cpu, sizeof(cpu)) == sizeof(cpu));
	_exit(0);
}

/* A task's file syscall waits until it is off its CPU, and names what it sleeps in. */
static void await_sleep(pid_t pid)
{
	char text[256];

	do {
		if (get(text, sizeof(text), "/proc/%d/syscall", pid))
			_exit(KSFT_FAIL);
	} while (atoi(text) != SYS_read || !strncmp(text, "running", 7));
}

static void waker(int result)
{
	struct counts counts = {};
	int to[2], from[2], was, is;
	time_t end;
	cpu_set_t own;
	pid_t pid;

	CPU_ZERO(&own);
	CPU_SET(waker_cpu, &own);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || pipe(to) || pipe(from) ||
	    put("0", "%s/%s/cgroup.procs", cgroup, A))
		_exit(KSFT_FAIL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wakee(to[0], from[1]);
	}
	run_on(&own);
	end = time(NULL) + PATIENCE;
	for (int round = 0; round < ROUNDS;) {
		if (read(from[0], &was, sizeof(was)) != sizeof(was))
			_exit(KSFT_FAIL);
		await_sleep(pid);
		if (write(to[1], &was, sizeof(was)) != sizeof(was) ||
		    read(from[0], &is, sizeof(is)) != sizeof(is))
			_exit(KSFT_FAIL);
		/* Something else moved it before it slept. */
		if (was != wakee_cpu)
			continue;
		/* Counted from the first one on that comes to the cluster. */
		if (!round && !CPU_ISSET(is, &first) && time(NULL) < end)
			continue;
		round++;
		if (CPU_ISSET(is, &first))
			counts.cluster++;
		else if (is == was)
			counts.stayed++;
		else
			counts.elsewhere++;
	}
	_exit(write(result, &counts, sizeof(counts)) == sizeof(counts) ? 0 : KSFT_FAIL);
}

static const char *domains_of(int cpu)
{
	static char text[256];
	char name[32];

	text[0] = '\0';
	for (int i = 0; !get(name, sizeof(name), DOMAIN "/name", cpu, i); i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", name);
	return text[0] ? text : " (unknown)";
}

/* Is the cluster scanned in A? */
static bool scanned(const char *when)
{
	struct counts counts = {};
	int result[2];
	pid_t pid;

	if (pipe(result))
		ksft_exit_fail_perror("pipe");
	fflush(stdout);
	pid = fork();
	if (!pid)
		waker(result[1]);
	close(result[1]);
	if (read(result[0], &counts, sizeof(counts)) != sizeof(counts))
		ksft_exit_fail_msg("the pair of tasks ended early\n");
	close(result[0]);
	waitpid(pid, NULL, 0);
	ksft_print_msg("%s: of %d wakeups from CPU %d of a task on the idle CPU %d:\n",
		       when, ROUNDS, waker_cpu, wakee_cpu);
	ksft_print_msg("  %d to the waker's cluster, %d stayed, %d elsewhere\n",
		       counts.cluster, counts.stayed, counts.elsewhere);
	ksft_print_msg("  domains of CPU %d:%s\n", waker_cpu, domains_of(waker_cpu));
	return counts.cluster > ROUNDS / 2;
}

static int run(void)
{
	bool before, after, again;

	if (!make_partition(A, &a) || !make_partition(B, &b))
		ksft_exit_skip("the partitions cannot be made\n");
	ksft_set_plan(3);
	ksft_print_msg("partition A: CPUs %s\n", list_of(&a));
	ksft_print_msg("partition B: CPUs %s\n", list_of(&b));

	before = scanned("before");
	ksft_test_result(before, "cluster_scanned\n");

	if (!split_b())
		ksft_exit_fail_msg("partition B cannot be split\n");
	after = scanned("after B was split");
	if (before && !after && known_defect)
		ksft_test_result_code(KSFT_SKIP, "other_partition_split",
				      "known defect: splitting B ends A's cluster scan");
	else
		ksft_test_result(after, "other_partition_split\n");

	if (!end_partition(A) || !make_partition(A, &a))
		ksft_exit_fail_msg("partition A cannot be rebuilt\n");
	again = scanned("after A was rebuilt");
	ksft_test_result(again, "own_partition_rebuilt\n");
	ksft_finished();
}

/* The janitor: the test is its child. */

static pid_t child;

static void end_child(int signo)
{
	(void)signo;
	kill(child, SIGKILL);
}

static bool find_cgroup(void)
{
	FILE *mounts = fopen("/proc/self/mounts", "r");
	char type[64], controllers[256];
	bool found = false;

	while (mounts && !found && fscanf(mounts, "%*s %255s %63s %*[^\n]", cgroup, type) == 2)
		found = !strcmp(type, "cgroup2");
	if (mounts)
		fclose(mounts);
	return found && !get(controllers, sizeof(controllers), "%s/cgroup.controllers", cgroup) &&
	       strstr(controllers, "cpuset");
}

/* What an earlier run left, that was killed, too. */
static void end_partitions(void)
{
	end_partition(PART);
	end_partition(B);
	end_partition(A);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = end_child };
	char enabled[256];
	sigset_t signals;
	int status = 0;

	known_defect = argc > 1 && !strcmp(argv[1], "-k");
	ksft_print_header();
	if (argc > 1 + known_defect)
		ksft_exit_fail_msg("usage: %s [-k]; -k: skip what is a known defect\n", argv[0]);
	if (geteuid())
		ksft_exit_skip("only root can make cpuset partitions\n");
	if (!find_cgroup())
		ksft_exit_skip("no cgroup v2 with the cpuset controller is mounted\n");
	if (!choose_cpus())
		ksft_exit_skip("no package here has two clusters, and CPUs beside them\n");

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	if (get(enabled, sizeof(enabled), "%s/cgroup.subtree_control", cgroup) ||
	    put("+cpuset", "%s/cgroup.subtree_control", cgroup))
		ksft_exit_skip("the cpuset controller cannot be used: %s\n", strerror(errno));
	/* Domains are shown only while this is on. */
	get(verbose, sizeof(verbose), DEBUG "/verbose");
	put("Y", DEBUG "/verbose");
	end_partitions();

	fflush(stdout);
	child = fork();
	if (!child) {
		sigprocmask(SIG_UNBLOCK, &signals, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return run();
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;

	end_partitions();
	put(verbose, DEBUG "/verbose");
	if (!strstr(enabled, "cpuset"))
		put("-cpuset", "%s/cgroup.subtree_control", cgroup);
	return WIFEXITED(status) ? WEXITSTATUS(status) : KSFT_FAIL;
}
