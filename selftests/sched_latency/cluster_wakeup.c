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
#include "workload.h"

static int wakeups = 300, nr_rounds = 9;

/* The CPUs of a waker and of its task, and the waker's cluster and LLC. */
struct place {
	int waker, wakee;
	struct cpus cluster, llc;
};

static struct place places[MOST_ROUNDS];
static int nr_places;

static struct results *all;
/* For each CPU that the task woke up on. */
static struct histogram *latency_on;
static __u64 stamp;
static int to[2], from[2];
static bool over;

/* The syscall file of a thread that is off its CPU names its system call. */
static void await_sleep(pid_t tid)
{
	char text[256];

	do {
		if (!read_line(text, sizeof(text), "/proc/self/task/%d/syscall", tid))
			give_up(all, "/proc/self/task/%d/syscall: %s", tid, strerror(errno));
	} while (!strncmp(text, "running", 7) || atoi(text) != SYS_read);
}

struct wakee {
	const struct place *place;
	pid_t tid;
	int slept_on, ran_on;
};

static void must(bool done)
{
	if (!done)
		give_up(all, "a wake-up failed: %s", strerror(errno));
}

static void *be_woken(void *argument)
{
	struct wakee *own = argument;
	char byte = 0;
	__u64 taken;

	own->tid = syscall(SYS_gettid);
	for (;;) {
		/* If it sleeps elsewhere, it may rightly stay there. */
		must(run_on_cpu(own->place->wakee) && run_on(&own->place->llc));
		own->slept_on = sched_getcpu();
		must(write(from[1], &byte, 1) == 1 && read(to[0], &byte, 1) == 1);
		if (over)
			return NULL;
		inject_delay();
		own->ran_on = sched_getcpu();
		taken = now() - stamp;
		if (!cpus_has(&common.cpus, own->ran_on))
			give_up(all, MOVED_AWAY, own->ran_on);
		histogram_add(&latency_on[own->ran_on], taken);
		must(write(from[1], &byte, 1) == 1);
	}
}

struct counts {
	__u64 cluster, stayed, elsewhere, moved;
};

static void wake(const struct place *place, struct counts *counts)
{
	struct wakee wakee = { .place = place };
	pthread_t thread;
	char byte = 0;

	over = false;
	must(run_on_cpu(place->waker));
	start_thread(all, &thread, be_woken, &wakee);
	for (int i = 0; i < wakeups; i++) {
		must(read(from[0], &byte, 1) == 1);
		await_sleep(wakee.tid);
		stamp = now();
		must(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
		/* Something else moved it before it slept. */
		if (wakee.slept_on != place->wakee)
			counts->moved++;
		else if (cpus_has(&place->cluster, wakee.ran_on))
			counts->cluster++;
		else if (wakee.ran_on == place->wakee)
			counts->stayed++;
		else
			counts->elsewhere++;
	}
	must(read(from[0], &byte, 1) == 1);
	over = true;
	must(write(to[1], &byte, 1) == 1);
	pthread_join(thread, NULL);
}

static double share(double part, double whole)
{
	return whole ? 100 * part / whole : 0;
}

static void measure(struct results *results)
{
	double picked[MOST_ROUNDS], left[MOST_ROUNDS], chance[MOST_ROUNDS], mean = 0;
	struct histogram *latency;
	struct counts sum = {};
	struct metric *metric;
	__u64 n;

	all = results;
	latency = calloc(1, sizeof(*latency));
	latency_on = calloc(cpus_last(&common.cpus) + 1, sizeof(*latency_on));
	if (!latency || !latency_on)
		give_up(results, "no memory");
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		give_up_refused(results, "pipe", errno);
	for (int i = 0; i < nr_rounds; i++) {
		const struct place *place = &places[i % nr_places];
		struct counts counts = {};

		wake(place, &counts);
		picked[i] = share(counts.cluster, wakeups - counts.moved);
		left[i] = share(wakeups - counts.moved - counts.stayed, wakeups - counts.moved);
		chance[i] = share(cpus_count(&place->cluster) - 1, cpus_count(&place->llc) - 1);
		mean += chance[i] / nr_rounds;
		sum.cluster += counts.cluster;
		sum.stayed += counts.stayed;
		sum.elsewhere += counts.elsewhere;
		sum.moved += counts.moved;
	}
	n = sum.cluster + sum.stayed + sum.elsewhere;
	metric = add_metric(results, EXACT, NEITHER, "wakeups", n, "wakeups");
	metric->n = n;
	metric = add_metric(results, RATE, HIGHER, "%", share(sum.cluster, n), "cluster.picked");
	metric->n = n;
	metric->aim = POINTS;
	metric->nr_rounds = nr_rounds;
	memcpy(metric->rounds, picked, nr_rounds * sizeof(*picked));
	metric = add_metric(results, RATE, HIGHER, "%", share(n - sum.stayed, n),
			    "cluster.left_prev");
	metric->n = n;
	metric->nr_rounds = nr_rounds;
	memcpy(metric->rounds, left, nr_rounds * sizeof(*left));
	metric = add_metric(results, EXACT, NEITHER, "%", mean, "cluster.chance");
	metric->nr_rounds = nr_rounds;
	memcpy(metric->rounds, chance, nr_rounds * sizeof(*chance));
	add_metric(results, RATE, LOWER, "%", share(sum.stayed, n), "cluster.stayed")->n = n;
	add_metric(results, RATE, LOWER, "%", share(sum.elsewhere, n), "cluster.elsewhere")->n = n;
	add_metric(results, EXACT, NEITHER, "wakeups", sum.moved, "moved_before");
	for (int cpu = cpus_next(&common.cpus, -1); cpu >= 0; cpu = cpus_next(&common.cpus, cpu)) {
		add_row(results, "latency", cpu, &latency_on[cpu]);
		histogram_merge(latency, &latency_on[cpu]);
	}
	add_quantiles(results, "latency", latency, P50_COMPARED);
}

/* False if the kernel says that it has none. Before 6.15 it does not say. */
static bool cluster_domains(void)
{
	FILE *file = fopen("/proc/schedstat", "re");
	bool found = false, named = false;
	char line[LIST_SIZE], name[16];

	while (file && !found && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "domain%*d %15[A-Z]", name) != 1)
			continue;
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
	for (int cpu = cpus_next(&place->cluster, -1); cpu >= 0;
	     cpu = cpus_next(&place->cluster, cpu))
		if (!cpus_has(&place->cluster, next_in_llc(place, cpu)))
			place->waker = cpu;
	for (int cpu = cpus_next(&place->llc, -1); cpu >= 0; cpu = cpus_next(&place->llc, cpu)) {
		bool next = cpu == next_in_llc(place, place->waker);

		if (!cpus_has(&place->cluster, cpu) && (place->wakee < 0 || !next))
			place->wakee = cpu;
	}
	return place->waker >= 0 && place->wakee >= 0 && cpus_count(&place->cluster) > 1;
}

/* A place for each cluster, in the order of their CPUs. */
static const char *cannot(void)
{
	struct cpus seen = {};
	bool named = false;

	for (int cpu = cpus_next(&common.cpus, -1); cpu >= 0; cpu = cpus_next(&common.cpus, cpu)) {
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
	if (nr_places)
		return cluster_domains() ? NULL :
		       "no domain for clusters: no CONFIG_SCHED_CLUSTER, or a cpuset partition";
	return named ? "the CPUs that may be used are not a cluster and other CPUs of its LLC" :
	       "no cluster here is more than a core and less than an LLC";
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "rounds, each from another cluster" },
	{ "wakeups", 0, COUNT, &wakeups, 1, 1e9, "wake-ups in each round" },
};

static const struct test tests[] = {
	{ .name = "woken", .rule = WORK, .metric = "wakeups" },
	/* If prev does not yield, the task never leaves it: nothing else is busy. */
	{ .name = "prev_yields", .rule = ABOVE, .metric = "cluster.left_prev",
	  .other = "cluster.chance", .since_major = 6, .since_minor = 7 },
	/* If the LLC is scanned first, the next CPU is found, which is in another cluster. */
	{ .name = "cluster_above_chance", .rule = ABOVE, .metric = "cluster.picked",
	  .other = "cluster.chance", .since_major = 6, .since_minor = 7 },
	{ .name = "woken_in_time", .rule = GROSS, .most_ms = FAIR_MS,
	  .compared = { "latency.p50" } },
	{ .name = "picked_within_baseline", .rule = BASELINE, .compared = { "cluster.picked" } },
	{ .name = "latency_within_baseline", .rule = BASELINE, .compared = { "latency.p50" } },
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload cluster_wakeup = {
	.name = "cluster_wakeup",
	.about =
		"How often a task that wakes up is put on an idle CPU of the waker's cluster, and how\n"
		"often chance would do that. KTAP on standard output.",
	.examples = "  cluster_wakeup\n"
		    "  cluster_wakeup --rounds 25 --wakeups 2000 --json run.json\n"
		    "  cluster_wakeup --cpus 0-15\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.cannot = cannot,
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&cluster_wakeup, argc, argv);
}
