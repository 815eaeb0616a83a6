// SPDX-License-Identifier: GPL-2.0
/*
 * How long does it take to wake a task: by a futex, an eventfd or a pipe, on
 * CPUs that share a core, a cluster, an LLC, a node, or none of these?
 *
 * Two threads wake each other in turn. Each notes the time before it wakes the
 * other one, which reads the clock when it runs. Only wake-ups of a thread that
 * slept are counted: one that had not gone to sleep yet has made no voluntary
 * context switch. The pairs of CPUs and the ways to wake are measured in turn,
 * one slice of each in every round, so that changes over time affect all of
 * them. In the last pair the second thread may run on any CPU, and the CPUs
 * where it ran are counted.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/eventfd.h>

#include "workload.h"

/*
 * Pairs of CPUs that are near or far according to sysfs: the first pair of each
 * kind. In the last pair the second CPU is any CPU.
 */

enum distance { SAME_CPU, SAME_CORE, SAME_CLUSTER, SAME_LLC, OTHER_LLC, OTHER_NODE, FREE,
		DISTANCES };

static const char * const not_here[DISTANCES] = {
	[SAME_CORE] = "no two of these CPUs share a core",
	[SAME_CLUSTER] = "no two of these CPUs share a cluster that is more than a core",
	[SAME_LLC] = "no two of these CPUs share an LLC, but no cluster",
	[OTHER_LLC] = "no two of these CPUs are in one node and different LLCs",
	[OTHER_NODE] = "these CPUs are all in one node",
	[FREE] = "one CPU: the other thread has no choice",
};

struct pair {
	bool there;
	int first, second;
};

static struct pair pairs[DISTANCES];

/* What a CPU shares, read once. */
static struct {
	bool known[PACKAGE];
	struct cpus set[PACKAGE];
} of;

static void look_from(int cpu)
{
	for (enum sharing what = CORE; what < PACKAGE; what++)
		of.known[what] = cpus_sharing(cpu, what, &of.set[what]);
}

/* DISTANCES if sysfs does not say. */
static enum distance distance_to(int cpu)
{
	if (of.known[CORE] && cpus_has(&of.set[CORE], cpu))
		return SAME_CORE;
	if (of.known[CLUSTER] && cpus_has(&of.set[CLUSTER], cpu))
		return SAME_CLUSTER;
	if (!of.known[LLC])
		return DISTANCES;
	if (cpus_has(&of.set[LLC], cpu))
		return SAME_LLC;
	if (!of.known[NODE] || cpus_has(&of.set[NODE], cpu))
		return OTHER_LLC;
	return OTHER_NODE;
}

/*
 * The first pair of each kind. Pairs with the first CPU come first; later CPUs
 * are used only for kinds that it has no pair of.
 */
static void choose_pairs(void)
{
	int first = cpus_next(&common.cpus, -1), tried = 0;

	pairs[SAME_CPU] = (struct pair){ true, first, first };
	pairs[FREE] = (struct pair){ cpus_count(&common.cpus) > 1, first, -1 };
	for (int a = cpus_next(&common.cpus, -1); a >= 0; a = cpus_next(&common.cpus, a)) {
		if (tried++ == 64)
			break;
		look_from(a);
		for (int b = cpus_next(&common.cpus, -1); b >= 0; b = cpus_next(&common.cpus, b)) {
			enum distance distance = a < b ? distance_to(b) : DISTANCES;

			if (distance < DISTANCES && !pairs[distance].there)
				pairs[distance] = (struct pair){ true, a, b };
		}
	}
}

enum way { FUTEX, EVENTFD, PIPE, WAYS };
static const char * const names[WAYS][DISTANCES] = {
	{ "futex_same_cpu", "futex_same_core", "futex_same_cluster", "futex_same_llc",
	  "futex_other_llc", "futex_other_node", "futex_free" },
	{ "eventfd_same_cpu", "eventfd_same_core", "eventfd_same_cluster", "eventfd_same_llc",
	  "eventfd_other_llc", "eventfd_other_node", "eventfd_free" },
	{ "pipe_same_cpu", "pipe_same_core", "pipe_same_cluster", "pipe_same_llc",
	  "pipe_other_llc", "pipe_other_node", "pipe_free" },
};

/* The default is a few seconds where all pairs exist. */
static double slice_ms = 12, warm_up_ms = 2;
static int nr_rounds = 5;

/* One of the two threads. */
struct side {
	pthread_t thread;
	int cpu;
	int word;
	int fds[2];
	__u64 counted_from, end, ended, awake;
	struct side *other;
	struct histogram histogram;
};

static struct results *all;
/* Why the kernel has no such way, or NULL. */
static const char *no_way[WAYS];
/* For each side; for the free thread also for each CPU that it ran on. */
static struct histogram *sums[WAYS][DISTANCES][2], *free_on[WAYS];
static __u64 awake[WAYS][DISTANCES], turns[WAYS][DISTANCES], lasted[WAYS][DISTANCES];
static struct side sides[2];
static enum way way;
static pthread_barrier_t ready;
static __u64 stamp;
static bool stop;

/* The ways to wake. */

static bool open_way(struct side *side)
{
	side->word = 0;
	side->fds[0] = -1;
	side->fds[1] = -1;
	if (way == EVENTFD) {
		side->fds[0] = eventfd(0, EFD_CLOEXEC);
		side->fds[1] = side->fds[0];
	} else if (way == PIPE && pipe2(side->fds, O_CLOEXEC)) {
		side->fds[0] = -1;
	}
	return way == FUTEX || side->fds[0] >= 0;
}

static void close_way(struct side *side)
{
	if (side->fds[0] >= 0)
		close(side->fds[0]);
	if (side->fds[1] >= 0 && side->fds[1] != side->fds[0])
		close(side->fds[1]);
}

/* Fails only if the pipe or the eventfd is gone. */
static void must(bool done)
{
	if (!done)
		give_up(all, "a wake-up failed: %s", strerror(errno));
}

static void wake(struct side *side)
{
	__u64 one = 1;

	if (way == FUTEX) {
		__atomic_store_n(&side->word, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &side->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	} else {
		must(write(side->fds[1], &one, sizeof(one)) == sizeof(one));
	}
}

static void wait_for(struct side *side)
{
	__u64 sum;

	if (way == FUTEX) {
		while (!__atomic_load_n(&side->word, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &side->word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
		__atomic_store_n(&side->word, 0, __ATOMIC_RELAXED);
	} else {
		must(read(side->fds[0], &sum, sizeof(sum)) == sizeof(sum));
	}
}

static long sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* One turn of a thread; false after the last one. */
static bool be_woken(struct side *side, long *slept)
{
	long before = *slept;
	__u64 woken, taken;
	int cpu;

	wait_for(side);
	inject_delay();
	woken = now();
	if (__atomic_load_n(&stop, __ATOMIC_RELAXED))
		return false;
	taken = woken - __atomic_load_n(&stamp, __ATOMIC_RELAXED);
	*slept = sleeps();
	cpu = sched_getcpu();
	if (side->cpu >= 0 ? cpu != side->cpu : !cpus_has(&common.cpus, cpu))
		give_up(all, MOVED_AWAY, cpu);
	if (woken < side->counted_from)
		return true;
	if (*slept == before) {
		side->awake++;
		return true;
	}
	histogram_add(&side->histogram, taken);
	if (side->cpu < 0)
		histogram_add(&free_on[way][cpu], taken);
	return true;
}

static void wake_other(struct side *side)
{
	__atomic_store_n(&stamp, now(), __ATOMIC_RELAXED);
	wake(side->other);
}

/* A slice without a sample lasts longer: something else had the CPU. */
static bool over(const struct side *side)
{
	__u64 time = now();

	return time >= side->end &&
	       (side->other->histogram.n || time >= side->end + PATIENCE / 30);
}

static void *play(void *argument)
{
	struct side *side = argument;
	long slept;

	if (!(side->cpu < 0 ? run_on(&common.cpus) : run_on_cpu(side->cpu)))
		give_up(all, "CPU %d cannot be used: %s", side->cpu, strerror(errno));
	pthread_barrier_wait(&ready);
	side->counted_from = now() + (__u64)(warm_up_ms * 1e6);
	side->end = side->counted_from + (__u64)(slice_ms * 1e6);
	slept = sleeps();
	if (side == &sides[0])
		wake_other(side);
	while (be_woken(side, &slept)) {
		/* Only the first one ends it, so that none is left asleep. */
		if (side == &sides[0] && over(side))
			__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
		wake_other(side);
		if (__atomic_load_n(&stop, __ATOMIC_RELAXED))
			break;
	}
	side->ended = now();
	return NULL;
}

static void run_slice(enum distance distance)
{
	stop = false;
	for (int i = 0; i < 2; i++) {
		memset(&sides[i], 0, sizeof(sides[i]));
		sides[i].cpu = i ? pairs[distance].second : pairs[distance].first;
		sides[i].other = &sides[!i];
		if (!open_way(&sides[i]))
			give_up_refused(all, names[way][distance], errno);
	}
	for (int i = 0; i < 2; i++)
		start_thread(all, &sides[i].thread, play, &sides[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(sides[i].thread, NULL);
		close_way(&sides[i]);
		awake[way][distance] += sides[i].awake;
		turns[way][distance] += sides[i].awake + sides[i].histogram.n;
		histogram_merge(sums[way][distance][i], &sides[i].histogram);
	}
	lasted[way][distance] += sides[0].ended - sides[0].counted_from;
}

/* The results. */

/* How often the free thread ran at each distance from its waker. */
static void report_free(void)
{
	static const char * const where[] = {
		"same_cpu", "same_core", "same_cluster", "same_llc", "other_llc", "other_node",
	};
	__u64 ran[DISTANCES + 1] = {};

	look_from(pairs[FREE].first);
	for (int cpu = cpus_next(&common.cpus, -1); cpu >= 0; cpu = cpus_next(&common.cpus, cpu)) {
		bool same = cpu == pairs[FREE].first;

		ran[same ? SAME_CPU : distance_to(cpu)] += free_on[way][cpu].n;
		add_row(all, names[way][FREE], cpu, &free_on[way][cpu]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(where); i++)
		add_metric(all, EXACT, NEITHER, "samples", ran[i], "%s.ran_%s", names[way][FREE],
			   where[i]);
}

static void report(enum distance distance)
{
	const char *name = names[way][distance];
	struct histogram **sum = sums[way][distance];
	struct metric *metric;

	if (no_way[way] || !pairs[distance].there) {
		add_absent(all, name, "%s", no_way[way] ? no_way[way] : not_here[distance]);
		return;
	}
	if (distance != FREE) {
		add_row(all, name, pairs[distance].first, sum[0]);
		add_row(all, name, pairs[distance].second, sum[1]);
		histogram_merge(sum[1], sum[0]);
	}
	add_quantiles(all, name, sum[1], P50_COMPARED);
	add_metric(all, EXACT, NEITHER, "samples", awake[way][distance], "%s.awake", name);
	/* Unlike p50, this shows a CPU that is away half of the time. */
	metric = add_metric(all, RATE, LOWER, "ns",
			    lasted[way][distance] / (double)turns[way][distance],
			    "%s.mean_turn", name);
	metric->n = turns[way][distance];
	metric->aim = MEDIAN;
	if (distance == FREE)
		report_free();
}

static void measure(struct results *results)
{
	all = results;
	choose_pairs();
	pthread_barrier_init(&ready, NULL, 2);
	for (way = 0; way < WAYS; way++) {
		free_on[way] = calloc(cpus_last(&common.cpus) + 1, sizeof(*free_on[way]));
		for (int i = 0; i < 2 * DISTANCES; i++) {
			sums[way][i / 2][i % 2] = calloc(1, sizeof(struct histogram));
			if (!free_on[way] || !sums[way][i / 2][i % 2])
				give_up(results, "no memory");
		}
		if (!open_way(&sides[0]))
			no_way[way] = strerror(errno);
		close_way(&sides[0]);
	}
	for (int round = 0; round < nr_rounds; round++)
		for (enum distance distance = 0; distance < DISTANCES; distance++)
			for (way = 0; way < WAYS; way++)
				if (pairs[distance].there && !no_way[way])
					run_slice(distance);
	for (enum distance distance = 0; distance < DISTANCES; distance++)
		for (way = 0; way < WAYS; way++)
			report(distance);
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "slices of each pair and way" },
	{ "slice-ms", 0, NUMBER, &slice_ms, 1, 1e6, "length of a slice" },
	{ "warm-up-ms", 0, NUMBER, &warm_up_ms, 0, 1e6, "time before each slice, not counted" },
};

#define COMPARED(distance)								\
	{ .name = #distance "_within_baseline", .rule = BASELINE, .compared = {		\
		"futex_" #distance ".p50", "futex_" #distance ".mean_turn",		\
		"eventfd_" #distance ".p50", "eventfd_" #distance ".mean_turn",		\
		"pipe_" #distance ".p50", "pipe_" #distance ".mean_turn" } }

#define MEDIANS(distance)								\
	"futex_" #distance ".p50", "eventfd_" #distance ".p50", "pipe_" #distance ".p50"

static const struct test tests[] = {
	{ .name = "futex_same_cpu", .rule = WORK },
	{ .name = "futex_same_core", .rule = WORK },
	{ .name = "futex_same_cluster", .rule = WORK },
	{ .name = "futex_same_llc", .rule = WORK },
	{ .name = "futex_other_llc", .rule = WORK },
	{ .name = "futex_other_node", .rule = WORK },
	{ .name = "futex_free", .rule = WORK },
	{ .name = "eventfd_same_cpu", .rule = WORK },
	{ .name = "eventfd_same_core", .rule = WORK },
	{ .name = "eventfd_same_cluster", .rule = WORK },
	{ .name = "eventfd_same_llc", .rule = WORK },
	{ .name = "eventfd_other_llc", .rule = WORK },
	{ .name = "eventfd_other_node", .rule = WORK },
	{ .name = "eventfd_free", .rule = WORK },
	{ .name = "pipe_same_cpu", .rule = WORK },
	{ .name = "pipe_same_core", .rule = WORK },
	{ .name = "pipe_same_cluster", .rule = WORK },
	{ .name = "pipe_same_llc", .rule = WORK },
	{ .name = "pipe_other_llc", .rule = WORK },
	{ .name = "pipe_other_node", .rule = WORK },
	{ .name = "pipe_free", .rule = WORK },
	{ .name = "woken_in_time", .rule = GROSS, .most_ms = FAIR_MS,
	  .compared = { MEDIANS(same_cpu), MEDIANS(same_core), MEDIANS(same_cluster),
			MEDIANS(same_llc), MEDIANS(other_llc), MEDIANS(other_node),
			MEDIANS(free) } },
	COMPARED(same_cpu),
	COMPARED(same_core),
	COMPARED(same_cluster),
	COMPARED(same_llc),
	COMPARED(other_llc),
	COMPARED(other_node),
	COMPARED(free),
	{ .name = "within_limits", .rule = LIMITS },
};

static const struct workload wakeup_pingpong = {
	.name = "wakeup_pingpong",
	.about =
		"How long it takes to wake a task by a futex, an eventfd or a pipe, near and far\n"
		"away by the topology of sysfs. KTAP on standard output.",
	.examples = "  wakeup_pingpong\n"
		    "  wakeup_pingpong --rounds 21 --slice-ms 200 --json run.json\n"
		    "  wakeup_pingpong --record             a baseline of this machine\n",
	.rows = rows,
	.nr_rows = ARRAY_SIZE(rows),
	.tests = tests,
	.nr_tests = ARRAY_SIZE(tests),
	.measure = measure,
};

int main(int argc, char **argv)
{
	return workload_main(&wakeup_pingpong, argc, argv);
}
