/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pairs of CPUs that are near or far according to sysfs: the first pair of each
 * kind. In the last pair the second CPU is any CPU.
 */
#ifndef PAIRS_H
#define PAIRS_H

#include "options.h"
#include "topology.h"

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

static inline void look_from(int cpu)
{
	for (enum sharing what = CORE; what < PACKAGE; what++)
		of.known[what] = cpus_sharing(cpu, what, &of.set[what]);
}

/* DISTANCES if sysfs does not say. */
static inline enum distance distance_to(int cpu)
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
static inline void choose_pairs(void)
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

#endif
