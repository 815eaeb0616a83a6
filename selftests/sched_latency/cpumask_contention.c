// SPDX-License-Identifier: GPL-2.0
/*
 * What does it cost to keep a CPU's bit in a mask that other CPUs write, too?
 * This is an experiment about a layout of cpupri. It uses its own memory, and
 * tests no kernel.
 *
 * On each CPU two threads take turns and yield to each other. One sets the bit
 * of its CPU, the other one clears it: a change at each task switch, the worst
 * case of cpupri. There is one mask for all CPUs, one for each NUMA node, or
 * one for each last level cache (LLC). In the last variant the LLC has a byte
 * for each CPU, which needs no locked instruction. A mask begins on a page of
 * its own, which a CPU of its group touched first.
 *
 * The clock is read immediately before and after the operation, so neither the
 * yield nor the wait for the turn counts. The cost of two readings is measured
 * in the same way, and subtracted. What takes more than INTERRUPTED ns does not
 * count. Each round measures all variants in turn, and the ratio to the global
 * mask is computed within it. Before, a round without the clock checks at each
 * turn that the bit still has the value that the other thread gave it.
 */
#define _GNU_SOURCE
#include <stdalign.h>

#include "sched_latency.h"

#define BITS		(8 * (int)sizeof(unsigned long))
/* More than any cache line, and more than a prefetcher fetches together. */
#define APART		256
#define INTERRUPTED	100000

enum variant { EMPTY, GLOBAL, BY_NODE, BY_LLC, LLC_BYTES, VARIANTS };

static const char * const names[VARIANTS] = { "empty", "global", "node", "llc", "llc_bytes" };

/* One CPU, whose turn it is there, and where its bit or byte is. */
static struct cpu {
	alignas(APART) int id;
	struct cpus runs_on;
	int turn;
	unsigned long bit[VARIANTS];
	void *mask[VARIANTS], *cell[VARIANTS];
} *cpus;

static struct worker {
	alignas(APART) struct cpu *cpu;
	int set;
	__u64 turns, ns, lost;
} *workers;

static int nr_cpus, nr_groups[VARIANTS], nr_rounds = 7;
static double seconds = 0.2, ns_of[VARIANTS][MOST_ROUNDS];
static __u64 turns_of[VARIANTS], lost[VARIANTS];
static bool checking;
static enum variant current;
static struct {
	alignas(APART) bool stop;
} all;

/* The CPU uses the mask of the first one that shares with it, or has a new one. */
static void join(struct cpu *cpu, enum variant variant, const struct cpus *shared)
{
	int place = 0;

	for (struct cpu *other = cpus; other < cpu; other++)
		if (cpus_has(shared, other->id)) {
			cpu->mask[variant] = other->mask[variant];
			place++;
		}
	if (!place) {
		nr_groups[variant]++;
		must(run_on(&cpu->runs_on), "a CPU");
		cpu->mask[variant] = memset(shared_memory(MOST_CPUS), 0, MOST_CPUS);
	}
	cpu->bit[variant] = 1UL << place % BITS;
	cpu->cell[variant] = cpu->mask[variant] +
			     (variant == LLC_BYTES ? place : place / BITS * (int)sizeof(long));
}

static void read_topology(void)
{
	static const enum sharing shares[VARIANTS] = { [BY_NODE] = NODE, [BY_LLC] = LLC,
						       [LLC_BYTES] = LLC };
	struct cpus every, allowed;
	int next = -1;

	memset(&every, 0xff, sizeof(every));
	cpus_allowed(&allowed);
	for_each_cpu(id, &common.cpus) {
		/* Those of another machine are simulated on ours. */
		next = cpus_next(&allowed, next);
		if (next < 0)
			next = cpus_next(&allowed, -1);
		cpus[nr_cpus].id = id;
		cpus_add(&cpus[nr_cpus++].runs_on, strcmp(sysfs, "/sys") ? next : id);
	}
	for (enum variant variant = GLOBAL; variant < VARIANTS; variant++)
		for (int i = 0; i < nr_cpus; i++)
			if (variant == GLOBAL || cpus_sharing(cpus[i].id, shares[variant], &every))
				join(&cpus[i], variant, &every);
	run_on(&allowed);
}

static bool is_set(const struct cpu *cpu, enum variant variant)
{
	if (variant == LLC_BYTES)
		return load(*(unsigned char *)cpu->cell[variant]);
	return load(*(unsigned long *)cpu->cell[variant]) & cpu->bit[variant];
}

static __always_inline void operate(enum variant variant, void *cell, unsigned long bit, int set)
{
	unsigned long *word = cell;

	if (variant == LLC_BYTES)
		__atomic_store_n((unsigned char *)cell, set, __ATOMIC_RELAXED);
	else if (variant != EMPTY && set)
		__atomic_or_fetch(word, bit, __ATOMIC_RELAXED);
	else if (variant != EMPTY)
		__atomic_and_fetch(word, ~bit, __ATOMIC_RELAXED);
}

static void *take_turns(void *argument)
{
	struct worker *own = argument;
	struct cpu *cpu = own->cpu;
	enum variant variant = current;
	__u64 end = be_ready(&cpu->runs_on, 0) + (__u64)(seconds * NS_PER_S), start, ns;

	for (unsigned int turn = 1; !load(all.stop); turn++) {
		if (!(turn % 64) && now() > end)
			store(all.stop, true);
		if (load(cpu->turn) != own->set) {
			sched_yield();
			continue;
		}
		if (checking && variant != EMPTY)
			own->lost += is_set(cpu, variant) == own->set;
		start = now();
		operate(variant, cpu->cell[variant], cpu->bit[variant], own->set);
		ns = now() - start;
		if (ns < INTERRUPTED) {
			own->turns++;
			own->ns += ns;
		}
		ran_on(&cpu->runs_on);
		store(cpu->turn, !own->set);
	}
	return NULL;
}

/* A CPU's bit must be set if it is the turn of the thread that clears it. */
static int count_wrong(enum variant variant)
{
	int wrong = 0;

	for (int i = 0; i < nr_cpus; i++) {
		wrong += is_set(&cpus[i], variant) == cpus[i].turn;
		operate(variant, cpus[i].cell[variant], cpus[i].bit[variant], 0);
	}
	/* No other bit may be set. */
	for (int i = 0; i < nr_cpus; i++)
		wrong += !!*(unsigned char *)cpus[i].cell[variant];
	return wrong;
}

static void run_slice(enum variant variant, int round)
{
	__u64 turns = 0, ns = 0;

	current = variant;
	checking = round < 0;
	all.stop = false;
	for (int i = 0; i < 2 * nr_cpus; i++) {
		workers[i] = (struct worker){ .cpu = &cpus[i / 2], .set = i % 2 };
		cpus[i / 2].turn = 1;
	}
	run_threads(2 * nr_cpus, take_turns, workers, sizeof(*workers));
	for (int i = 0; i < 2 * nr_cpus; i++) {
		turns += workers[i].turns;
		ns += workers[i].ns;
		lost[variant] += workers[i].lost;
	}
	if (variant != EMPTY)
		lost[variant] += count_wrong(variant);
	if (checking)
		return;
	if (!turns)
		give_up("%s: no operation in %g s; try more --seconds", names[variant], seconds);
	turns_of[variant] += turns;
	ns_of[variant][round] = (double)ns / turns - (variant == EMPTY ? 0 : ns_of[EMPTY][round]);
}

static void report(enum variant variant)
{
	bool measurable = nr_cpus > 2 && nr_groups[variant] > 1 && nr_groups[variant] < nr_cpus;
	double ratios[MOST_ROUNDS], times[MOST_ROUNDS];
	const char *name = names[variant];
	__u64 n = turns_of[variant];

	if (variant != EMPTY && !nr_groups[variant]) {
		add_absent(name, "sysfs does not show what these CPUs share");
		return;
	}
	add_metric(EXACT, NEITHER, "masks", nr_groups[variant], 1, text_of("%s.masks", name));
	add_metric(EXACT, NEITHER, "operations", n, n, text_of("%s.operations", name));
	add_metric(EXACT, LOWER, "bits", lost[variant], n, text_of("%s.lost", name));
	for (int round = 0; round < nr_rounds; round++) {
		measurable = measurable && ns_of[GLOBAL][round] > 0;
		times[round] = ns_of[variant][round];
		ratios[round] = 100 * times[round] / ns_of[GLOBAL][round];
	}
	add_metric(QUANTILE, LOWER, "ns", median_of(times, nr_rounds), n,
		   text_of("%s.ns_per_operation", name));
	name = text_of("%s.percent_of_global", name);
	if (measurable)
		add_metric(QUANTILE, LOWER, "%", median_of(ratios, nr_rounds), n, name);
	else
		add_absent(name, "one mask, or a mask for each CPU, or too little contention");
}

static void measure(void)
{
	cpus = shared_memory(cpus_count(&common.cpus) * sizeof(*cpus));
	workers = shared_memory(cpus_count(&common.cpus) * 2 * sizeof(*workers));
	read_topology();
	for (int round = -1; round < nr_rounds; round++)
		for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
			if (nr_groups[variant] || variant == EMPTY)
				run_slice(variant, round);
	for (enum variant variant = EMPTY; variant < VARIANTS; variant++)
		report(variant);
}

static const struct option_row rows[] = {
	{ "rounds", 0, COUNT, &nr_rounds, 1, MOST_ROUNDS, "how often each variant is measured" },
	{ "seconds", 0, NUMBER, &seconds, 0.001, 3600, "length of each measurement" },
	{ "sysfs", 0, WORD, &sysfs, 0, 0, "another machine's topology: a rehearsal" },
};

static const struct test tests[] = {
	{ .name = "kept_global", .rule = ZERO, .metrics = { "global.lost" } },
	{ .name = "kept_node", .rule = ZERO, .metrics = { "node.lost" } },
	{ .name = "kept_llc", .rule = ZERO, .metrics = { "llc.lost" } },
	{ .name = "kept_llc_bytes", .rule = ZERO, .metrics = { "llc_bytes.lost" } },
	{ .name = "within_limits", .rule = LIMITS },
};

WORKLOAD_MAIN("cpumask_contention", NULL,
	      "An experiment: what a CPU pays for its bit in a mask that others write.")
