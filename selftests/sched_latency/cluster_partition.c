// SPDX-License-Identifier: GPL-2.0
/*
 * Does the scheduler still scan the cluster in one cpuset partition after
 * another partition was rebuilt?
 *
 * Partition A has two clusters. A task sleeps on an idle CPU of the second one
 * and is woken from the first one through a pipe, as in cluster_wakeup. If the
 * cluster is scanned, the task goes to the waker's cluster. Otherwise it stays
 * on its old CPU, which is idle and shares the last level cache. Partition B
 * has two CPUs of different clusters, and therefore no domain for clusters.
 * Splitting B must change nothing in A.
 *
 * All changes are undone at the end, also after a signal. On a kernel with the
 * defect, removing A restores the scan.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "sched_latency.h"

#define WAKEUPS		200
/* Seconds: in new domains the scan starts after the next load balance. */
#define SCAN_STARTS	10
/* Each split drops one reference; each partition with clusters holds one. */
#define SPLITS		4

#define A	"sched_latency_a"
#define B	"sched_latency_b"
#define PART	B "/part"

static char cgroup[256];
static struct cpus b;
/* Its LLC is partition A. */
static struct place place = { .waker = -1, .wakee = -1 };
static bool known_defect;

/* For A two clusters of a package; for B two CPUs of different clusters. */
static bool choose_cpus(void)
{
	struct cpus all, cluster, package;

	cpus_allowed(&all);
	for_each_cpu(cpu, &all) {
		if (place.wakee >= 0 || cpus_has(&place.llc, cpu) ||
		    !real_cluster_of(cpu, &cluster))
			continue;
		if (place.waker < 0) {
			place.cluster = cluster;
			place.llc = cluster;
			place.waker = cpu;
			cpus_sharing(cpu, PACKAGE, &package);
		} else if (cpus_has(&package, cpu)) {
			cpus_or(&place.llc, &cluster);
			place.wakee = cpu;
		}
	}
	for_each_cpu(cpu, &all) {
		if (cpus_count(&b) == 2 || cpus_has(&place.llc, cpu) ||
		    !cpus_sharing(cpu, CLUSTER, &cluster))
			continue;
		cpus_and(&cluster, &b);
		if (!cpus_count(&cluster))
			cpus_add(&b, cpu);
	}
	return place.wakee >= 0 && cpus_count(&b) == 2;
}

static bool make_partition(const char *name, const struct cpus *cpus)
{
	const char *kind = text_of("%s/cpuset.cpus.partition", name), *said = NULL;

	if (!mkdir(name, 0755) && write_text(cpus_list(cpus), text_of("%s/cpuset.cpus", name)) &&
	    write_text("root", kind))
		said = read_text(kind);
	if (said && !strcmp(said, "root"))
		return true;
	ksft_print_msg("%s/%s with CPUs %s is no partition: %s\n", cgroup, name, cpus_list(cpus),
		       said ?: strerror(errno));
	return false;
}

static bool end_partition(const char *name)
{
	__u64 end = now() + SCAN_STARTS * NS_PER_S;

	write_text("member", text_of("%s/cpuset.cpus.partition", name));
	/* A task that has just ended may still be counted. */
	while (rmdir(name) && errno != ENOENT) {
		if (errno != EBUSY || now() > end) {
			ksft_print_msg("%s/%s stays: %s\n", cgroup, name, strerror(errno));
			return false;
		}
		sched_yield();
	}
	return true;
}

static bool split_b(void)
{
	struct cpus part = {};

	cpus_add(&part, cpus_next(&b, cpus_next(&b, -1)));
	if (!write_text("+cpuset", B "/cgroup.subtree_control"))
		return false;
	for (int i = 0; i < SPLITS; i++)
		if (!make_partition(PART, &part) || !end_partition(PART))
			return false;
	return true;
}

/* Is the cluster scanned in A? */
static bool scanned(const char *when)
{
	struct placed *found = shared_memory(sizeof(*found));
	struct samples latency;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork_bound();
	if (!pid) {
		common.cpus = place.llc;
		samples_new(&latency);
		if (!write_text("0", A "/cgroup.procs"))
			_exit(KSFT_FAIL);
		wake_from_cluster(&place, WAKEUPS, SCAN_STARTS, &latency, found);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		ksft_exit_fail_msg("the pair of tasks ended early\n");
	ksft_print_msg("%s, of a task on the idle CPU %d that CPU %d woke %d times:\n", when,
		       place.wakee, place.waker, WAKEUPS);
	ksft_print_msg("  %ld to the waker's cluster, %ld stayed, %ld elsewhere\n",
		       found->cluster, found->stayed, found->elsewhere);
	return 2 * found->cluster > WAKEUPS - found->moved;
}

static int run(void)
{
	bool before, after;

	if (!make_partition(A, &place.llc) || !make_partition(B, &b))
		ksft_exit_skip("the partitions cannot be made\n");
	ksft_set_plan(3);
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

	if (!end_partition(A) || !make_partition(A, &place.llc))
		ksft_exit_fail_msg("partition A cannot be rebuilt\n");
	ksft_test_result(scanned("after A was rebuilt"), "own_partition_rebuilt\n");
	ksft_finished();
}

/* It becomes the working directory. */
static bool find_cgroup(void)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char type[64];
	bool found = false;

	while (mounts && !found && fscanf(mounts, "%*s %255s %63s %*[^\n]", cgroup, type) == 2)
		found = !strcmp(type, "cgroup2");
	if (mounts)
		fclose(mounts);
	return found && !chdir(cgroup) &&
	       strstr(read_text("cgroup.controllers") ?: "", "cpuset");
}

/* Also removes what an earlier run left when it was killed. */
static void end_partitions(void)
{
	end_partition(PART);
	end_partition(B);
	end_partition(A);
}

/* The test runs in a child of the process that cleans up. */
int main(int argc, char **argv)
{
	int status = 0, signo;
	bool enabled;
	sigset_t signals;
	pid_t child;

	known_defect = argc > 1 && !strcmp(argv[1], "-k");
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		printf("usage: cluster_partition [-k]\n\n%s\n\n  -k  skip a known defect\n",
		       "Whether the cluster is scanned after another cpuset partition was split.");
		return KSFT_PASS;
	}
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
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	enabled = strstr(read_text("cgroup.subtree_control") ?: "", "cpuset");
	if (!write_text("+cpuset", "cgroup.subtree_control"))
		ksft_exit_skip("the cpuset controller cannot be used: %s\n", strerror(errno));
	end_partitions();

	fflush(stdout);
	child = fork_bound();
	if (!child)
		return run();
	do {
		sigwait(&signals, &signo);
		if (signo != SIGCHLD)
			kill(child, SIGKILL);
	} while (!waitpid(child, &status, WNOHANG));
	end_partitions();
	if (!enabled)
		write_text("-cpuset", "cgroup.subtree_control");
	return WIFEXITED(status) ? WEXITSTATUS(status) : KSFT_FAIL;
}
