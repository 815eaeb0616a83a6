// SPDX-License-Identifier: GPL-2.0
/*
 * How often is a task that wakes up put on an idle CPU of the waker's cluster?
 *
 * A task sleeps on an idle CPU that shares the last level cache (LLC) with the
 * waker's CPU, but no cluster, and may run on any CPU of the LLC. It is woken
 * through a pipe. The writer of a pipe is expected to sleep soon, so the search
 * for an idle CPU begins on its CPU. If the cluster is scanned first, the task
 * goes to the waker's cluster. Each round wakes from another cluster.
 *
 * An idle CPU that is picked at random from the rest of the LLC is in the
 * cluster with a probability that is the cluster's share of these CPUs: this is
 * chance. A plain scan of the LLC does not pick at random; it begins behind the
 * waker's CPU. So the waker runs on a CPU of the cluster behind which a CPU of
 * another cluster comes, and the task does not sleep there. Then three kernels
 * can be told apart: if the task stays where it slept, the kernel does not make
 * prev yield; if it goes to that next CPU, the cluster is not scanned before the
 * rest of the LLC; else it goes to the cluster.
 */
#define _GNU_SOURCE
#include "sched_latency.h"

static int wakeups = 300, nr_rounds = 9;
static struct place places[MOST_ROUNDS];
static int nr_places;

static void measure(void)
{
	struct metric *picked, *left, *chance;
	struct placed sum = {};
	struct samples latency;
	long n, all = (long)nr_rounds * wakeups;

	samples_new(&latency);
	picked = add_metric(RATE, HIGHER, "%", 0, all, "cluster.picked");
	left = add_metric(RATE, HIGHER, "%", 0, all, "cluster.left_prev");
	chance = add_metric(EXACT, NEITHER, "%", 0, all, "cluster.chance");
	for (int i = 0; i < nr_rounds; i++) {
		const struct place *place = &places[i % nr_places];
		struct placed had = sum;

		wake_from_cluster(place, wakeups, 0, &latency, &sum);
		n = wakeups - (sum.moved - had.moved);
		picked->rounds[i] = percent(sum.cluster - had.cluster, n);
		left->rounds[i] = percent(n - (sum.stayed - had.stayed), n);
		chance->rounds[i] = percent(cpus_count(&place->cluster) - 1,
					    cpus_count(&place->llc) - 1);
		chance->value += chance->rounds[i] / nr_rounds;
	}
	n = all - sum.moved;
	picked->value = percent(sum.cluster, n);
	left->value = percent(n - sum.stayed, n);
	picked->nr_rounds = nr_rounds;
	left->nr_rounds = nr_rounds;
	chance->nr_rounds = nr_rounds;
	add_metric(EXACT, NEITHER, "wakeups", n, n, "wakeups");
	add_metric(RATE, LOWER, "%", percent(sum.stayed, n), n, "cluster.stayed");
	add_metric(RATE, LOWER, "%", percent(sum.elsewhere, n), n, "cluster.elsewhere");
	add_metric(EXACT, NEITHER, "wakeups", sum.moved, all, "moved_before");
	add_samples("latency", &latency, false);
}

/* False if the kernel says that it has none. Before 6.15 it does not say. */
static bool cluster_domains(void)
{
	FILE *file = fopen("/proc/schedstat", "re");
	bool found = false, named = false;
	char line[4096], name[16];

	while (file && !found && fgets(line, sizeof(line), file))
		if (sscanf(line, "domain%*d %15[A-Z]", name) == 1) {
			named = true;
			found = !strcmp(name, "CLS");
		}
	if (file)
		fclose(file);
	return found || !named;
}

/* The CPU with which a scan of the LLC begins that was asked for this one. */
static int next_in_llc(const struct place *place, int cpu)
{
	int next = cpus_next(&place->llc, cpu);

	return next >= 0 ? next : cpus_next(&place->llc, -1);
}

/*
 * The waker is a CPU of the cluster behind which one outside comes, and the
 * task sleeps on another one outside. If there is none, it sleeps on that one.
 */
static bool choose_place(struct place *place)
{
	place->waker = -1;
	place->wakee = -1;
	for_each_cpu(cpu, &place->cluster)
		if (!cpus_has(&place->cluster, next_in_llc(place, cpu)))
			place->waker = cpu;
	for_each_cpu(cpu, &place->llc)
		if (!cpus_has(&place->cluster, cpu) &&
		    (place->wakee < 0 || cpu != next_in_llc(place, place->waker)))
			place->wakee = cpu;
	return place->waker >= 0 && place->wakee >= 0 && cpus_count(&place->cluster) > 1;
}

/* A place for each cluster, in the order of their CPUs. */
static const char *cannot(void)
{
	struct cpus seen = {};
	bool named = false;

	for_each_cpu(cpu, &common.cpus) {
		struct place *place = &places[nr_places];

		if (nr_places == nr_rounds || cpus_has(&seen, cpu) ||
		    !real_cluster_of(cpu, &place->cluster))
			continue;
		named = true;
		cpus_or(&seen, &place->cluster);
		if (!cpus_sharing(cpu, LLC, &place->llc))
			cpus_sharing(cpu, PACKAGE, &place->llc);
		cpus_and(&place->cluster, &common.cpus);
		cpus_and(&place->llc, &common.cpus);
		nr_places += choose_place(place);
	}
	if (!nr_places)
		return named ?
		       "the CPUs that may be used are not a cluster and other CPUs of its LLC" :
		       "no cluster here is more than a core and less than an LLC";
	return cluster_domains() ? NULL :
	       "no domain for clusters: no CONFIG_SCHED_CLUSTER, or a cpuset partition";
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "rounds, each from another cluster" },
	{ "wakeups", 0, COUNT, &wakeups, 1, 1e9, "wake-ups in each round" },
};

static const struct test tests[] = {
	{ .name = "woken", .rule = DONE, .metrics = { "wakeups" } },
	/* If prev does not yield, the task never leaves it: nothing else is busy. */
	{ .name = "prev_yields", .rule = ABOVE,
	  .metrics = { "cluster.left_prev", "cluster.chance" },
	  .since_major = 6, .since_minor = 7 },
	/* If the LLC is scanned first, the next CPU is found, which is in another cluster. */
	{ .name = "cluster_above_chance", .rule = ABOVE,
	  .metrics = { "cluster.picked", "cluster.chance" },
	  .since_major = 6, .since_minor = 7 },
	{ .name = "woken_in_time", .rule = AT_MOST,
	  .metrics = { "latency.p50" }, .most_ms = FAIR_MS },
	{ .name = "picked_within_baseline", .rule = BASELINE, .metrics = { "cluster.picked" } },
	{ .name = "latency_within_baseline", .rule = BASELINE,
	  .metrics = { "latency.p50" }, .reference = IPI },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("cluster_wakeup", cannot,
	      "How often a woken task is put on an idle CPU of the waker's cluster.")
