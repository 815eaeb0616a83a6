// SPDX-License-Identifier: GPL-2.0
/*
 * Does the scheduler still scan the cluster in one cpuset partition after
 * another partition was rebuilt?
 *
 * Partition A has two clusters. A task sleeps on an idle CPU of the second one
 * and is woken from the first one through a pipe. The writer of a pipe is
 * expected to sleep soon, so the search for an idle CPU begins on its CPU. If
 * the cluster is scanned, the task goes to the waker's cluster. Otherwise it
 * stays on its old CPU, which is idle and shares the last level cache.
 * Partition B has two CPUs of different clusters, and therefore no domain for
 * clusters. Splitting B must change nothing in A.
 *
 * All changes are undone at the end, also after a signal. On a kernel with the
 * defect, removing A restores the scan.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "topology.h"

#define ROUNDS		200
/* Seconds: in new domains the scan starts after the next load balance. */
#define PATIENCE	10
/* Each split drops one reference; each partition with clusters holds one. */
#define SPLITS		4

#define DEBUG		"/sys/kernel/debug/sched"
#define DOMAIN		DEBUG "/domains/cpu%d/domain%d"

static char cgroup[256];
static struct cpus a, b, first;
static int waker_cpu, wakee_cpu;
static bool known_defect;
static char verbose[8];

/* A cluster is more than a core, and less than a package. */
static bool cluster_of(int cpu, struct cpus *cluster)
{
	struct cpus core, package;

	return cpus_sharing(cpu, CLUSTER, cluster) && cpus_sharing(cpu, CORE, &core) &&
	       cpus_sharing(cpu, PACKAGE, &package) &&
	       cpus_count(cluster) > cpus_count(&core) &&
	       cpus_count(cluster) < cpus_count(&package);
}

/* For A two clusters of a package; for B two CPUs of different clusters. */
static bool choose_cpus(void)
{
	int nr = sysconf(_SC_NPROCESSORS_CONF);
	struct cpus cluster, package;

	for (int cpu = 0; cpu < nr; cpu++) {
		if (cpus_has(&a, cpu) || !cluster_of(cpu, &cluster))
			continue;
		if (!cpus_count(&first)) {
			first = cluster;
			a = cluster;
			waker_cpu = cpu;
			cpus_sharing(cpu, PACKAGE, &package);
		} else if (cpus_has(&package, cpu)) {
			cpus_or(&a, &cluster);
			wakee_cpu = cpu;
			break;
		}
	}
	if (cpus_equal(&a, &first))
		return false;

	for (int cpu = 0; cpu < nr && cpus_count(&b) < 2; cpu++) {
		if (cpus_has(&a, cpu) || !cpus_sharing(cpu, CLUSTER, &cluster))
			continue;
		cpus_and(&cluster, &b);
		if (!cpus_count(&cluster))
			cpus_add(&b, cpu);
	}
	return cpus_count(&b) == 2;
}

/* CLOCK_MONOTONIC is never stepped. */
static time_t seconds_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* Partitions. */

static bool make_partition(const char *name, const struct cpus *cpus)
{
	char path[512], said[256] = "";

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	if (mkdir(path, 0755)) {
		ksft_print_msg("%s: %s\n", path, strerror(errno));
		return false;
	}
	if (!write_text(cpus_list(cpus), "%s/cpuset.cpus", path) ||
	    !write_text("root", "%s/cpuset.cpus.partition", path) ||
	    !read_line(said, sizeof(said), "%s/cpuset.cpus.partition", path) ||
	    strcmp(said, "root")) {
		ksft_print_msg("%s with CPUs %s is no partition: %s\n",
			       path, cpus_list(cpus), said[0] ? said : strerror(errno));
		return false;
	}
	return true;
}

static bool end_partition(const char *name)
{
	char path[512];
	time_t end = seconds_now() + PATIENCE;

	snprintf(path, sizeof(path), "%s/%s", cgroup, name);
	if (access(path, F_OK))
		return true;
	write_text("member", "%s/cpuset.cpus.partition", path);
	/* A task that has just ended may still be counted. */
	while (rmdir(path)) {
		if (errno != EBUSY || seconds_now() > end) {
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
	struct cpus part = {};

	cpus_add(&part, cpus_nth(&b, 1));
	if (!write_text("+cpuset", "%s/%s/cgroup.subtree_control", cgroup, B))
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

static void wakee(int in, int out)
{
	int cpu, go;

	do {
		if (!run_on_cpu(wakee_cpu) || !run_on(&a))
			_exit(KSFT_FAIL);
		cpu = sched_getcpu();
		if (write(out, &cpu, sizeof(cpu)) != sizeof(cpu) ||
		    read(in, &go, sizeof(go)) != sizeof(go))
			break;
		cpu = sched_getcpu();
	} while (write(out, &cpu, sizeof(cpu)) == sizeof(cpu));
	_exit(0);
}

/* The syscall file of a task that is off its CPU names its system call. */
static void await_sleep(pid_t pid)
{
	char text[256];

	do {
		if (!read_line(text, sizeof(text), "/proc/%d/syscall", pid))
			_exit(KSFT_FAIL);
	} while (atoi(text) != SYS_read || !strncmp(text, "running", 7));
}

static void waker(int result)
{
	struct counts counts = {};
	int to[2], from[2], was, is;
	time_t end;
	pid_t pid;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || pipe(to) || pipe(from) ||
	    !write_text("0", "%s/%s/cgroup.procs", cgroup, A))
		_exit(KSFT_FAIL);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		wakee(to[0], from[1]);
	}
	if (!run_on_cpu(waker_cpu))
		_exit(KSFT_FAIL);
	end = seconds_now() + PATIENCE;
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
		/* Count from the first wake-up that goes to the cluster. */
		if (!round && !cpus_has(&first, is) && seconds_now() < end)
			continue;
		round++;
		if (cpus_has(&first, is))
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
	for (int i = 0; read_line(name, sizeof(name), DOMAIN "/name", cpu, i); i++)
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
	ksft_print_msg("partition A: CPUs %s\n", cpus_list(&a));
	ksft_print_msg("partition B: CPUs %s\n", cpus_list(&b));

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

/* The clean-up: the test runs in a child of the process that cleans up. */

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
	return found &&
	       read_line(controllers, sizeof(controllers), "%s/cgroup.controllers", cgroup) &&
	       strstr(controllers, "cpuset");
}

/* Also removes what an earlier run left when it was killed. */
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
		ksft_exit_fail_msg("usage: %s [-k]; -k: skip a known defect\n", argv[0]);
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
	if (!read_line(enabled, sizeof(enabled), "%s/cgroup.subtree_control", cgroup) ||
	    !write_text("+cpuset", "%s/cgroup.subtree_control", cgroup))
		ksft_exit_skip("the cpuset controller cannot be used: %s\n", strerror(errno));
	/* Domains are shown only while this is on. */
	read_line(verbose, sizeof(verbose), DEBUG "/verbose");
	write_text("Y", DEBUG "/verbose");
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
	write_text(verbose, DEBUG "/verbose");
	if (!strstr(enabled, "cpuset"))
		write_text("-cpuset", "%s/cgroup.subtree_control", cgroup);
	return WIFEXITED(status) ? WEXITSTATUS(status) : KSFT_FAIL;
}
