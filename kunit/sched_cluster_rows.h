/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The decision table of the wake-up path: machines, situations on them, and
 * where the task has to go.
 *
 * A row may give the number of CPUs that the scan has to examine. With this
 * number as nr_idle_scan the scan must find the CPU, with one less it must not.
 */
#ifndef _KERNEL_SCHED_TESTS_SCHED_CLUSTER_ROWS_H
#define _KERNEL_SCHED_TESTS_SCHED_CLUSTER_ROWS_H

#include "sched_cluster_model.h"
#include "sched_fake_topology.h"

#define CPU(n)		BIT_ULL(n)
#define CPUS(a, b)	GENMASK_ULL(b, a)
#define ALL		(~0ULL)

/* Some kernels scan the LLC even if none of its CPUs is allowed. */
#ifndef NOTHING_ALLOWED_CLEARS_HINT
#define NOTHING_ALLOWED_CLEARS_HINT	false
#endif

enum cluster_machine {
	CLUSTERS_OF_4,
	TARGET_WITHOUT_CLUSTER,
	NO_LLC,
	KUNPENG_920,
	JACOBSVILLE,
	CLUSTER_IS_LLC,
	TWO_LLCS,
	CORE_IS_CLUSTER,
	SMT2,
	SMT2_APART,
	SMT4,
	BIG_LITTLE,
	MIXED_LLC,
	NR_MACHINES
};

/*
 * TARGET_WITHOUT_CLUSTER: only the first LLC has clusters, and the target is in
 * another one.
 */
static const struct sched_fake_topology cluster_machines[NR_MACHINES] = {
	[CLUSTERS_OF_4] = { .name = "clusters of 4", .cluster = 4, .llc = 16 },
	[TARGET_WITHOUT_CLUSTER] = {
		.name = "16 of 64 clustered", .cluster = 4, .clustered = 16, .llc = 16
	},
	[NO_LLC] = { .name = "no LLC" },
	[KUNPENG_920] = { .name = "as Kunpeng 920", .cluster = 4, .llc = 32, .node = 32 },
	[JACOBSVILLE] = { .name = "as Jacobsville", .cluster = 4, .llc = 24 },
	[CLUSTER_IS_LLC] = { .name = "cluster is LLC", .cluster = 16, .llc = 16 },
	[TWO_LLCS] = { .name = "two LLCs in a node", .llc = 16, .node = 32 },
	[CORE_IS_CLUSTER] = { .name = "core is cluster", .smt = 2, .cluster = 2, .llc = 16 },
	[SMT2] = { .name = "two threads", .smt = 2, .cluster = 4, .llc = 16 },
	[SMT2_APART] = {
		.name = "two threads apart", .smt = 2, .apart = true, .cluster = 4, .llc = 16
	},
	[SMT4] = { .name = "four threads", .smt = 4, .cluster = 8, .llc = 32 },
	[BIG_LITTLE] = { .name = "big and little", .cluster = 4, .llc = 16, .little = 8 },
	[MIXED_LLC] = { .name = "mixed LLC", .cluster = 4, .clustered = 8, .llc = 16 },
};

/**
 * struct cluster_row - a situation, and where the task has to go
 * @name:	public, never changed: "row-7b"
 * @what:	the property that it stands for
 * @machine:	where
 * @c:		the situation
 * @pick:	CPU to be returned
 * @examined:	number of CPUs that the scan has to examine to find @pick; with
 *		a limit of one less the result is @short_of
 * @short_of:	see @examined
 * @early:	returns before the recently used CPU is looked at
 * @clears_hint: the scan finds no idle core, and clears the hint
 */
struct cluster_row {
	char			name[12];
	char			what[72];
	enum cluster_machine	machine;
	struct cluster_case	c;
	s8			pick;
	u8			examined;
	s8			short_of;
	bool			early;
	bool			clears_hint;
};

/* By default the recently used CPU is prev, and the scan has no limit. */
#define CASE(idle_, ...) \
	.c = { .target = 5, .prev = 9, .recent = 9, .limit = CLUSTER_NO_LIMIT, .allowed = ALL, \
	       .idle = idle_, __VA_ARGS__ }
#define SMT_CASE(idle_, ...) \
	.c = { .target = 4, .prev = 4, .recent = 4, .limit = CLUSTER_NO_LIMIT, .allowed = ALL, \
	       .idle = idle_, __VA_ARGS__ }
#define PICK(cpu)		.pick = cpu
#define SCANS(nr, other)	.examined = nr, .short_of = other
#define EARLY			.early = true
#define CLEARS_HINT		.clears_hint = true

__diag_push();
__diag_ignore_all("-Woverride-init", "a row says what differs from the others");

static const struct cluster_row cluster_rows[] = {
	{ "row-1", "an idle target wins", CLUSTERS_OF_4,
	  CASE(CPU(5) | CPU(6) | CPU(9), .recent = 13), PICK(5), EARLY },
	{ "row-2", "an idle prev in the cluster is taken without a scan", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(6) | CPU(7), .prev = 6, .recent = 13), PICK(6), EARLY },
	{ "row-3", "prev in another cluster yields to the cluster scan", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(9)), PICK(7), SCANS(2, 9) },
	{ "row-3b", "without the key prev is taken at once", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(9), .key_off = true, .recent = 13), PICK(9), EARLY },
	{ "row-3c", "without a cluster the LLC is what is shared", TARGET_WITHOUT_CLUSTER,
	  CASE(CPU(23) | CPU(25), .target = 21, .prev = 25, .recent = 29), PICK(25), EARLY },
	{ "row-3d", "without the key the LLC is scanned, not the cluster", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(12), .key_off = true, .target = 15, .prev = 13, .recent = 13), PICK(0),
	  SCANS(1, 15) },
	{ "row-3e", "where the LLC has no cluster its groups are no clusters",
	  TARGET_WITHOUT_CLUSTER, CASE(CPU(23), .target = 21, .prev = 25, .recent = 25), PICK(23),
	  SCANS(2, 21) },
	{ "row-4", "the cluster busy, the LLC is scanned in order: prev is not preferred",
	  CLUSTERS_OF_4, CASE(CPU(8) | CPU(9)), PICK(8), SCANS(5, 9) },
	{ "row-4b", "prev is found by the scan", CLUSTERS_OF_4, CASE(CPU(9)), PICK(9),
	  SCANS(6, 9) },
	{ "row-5", "the scan refused, prev is taken although the cluster has an idle CPU",
	  CLUSTERS_OF_4, CASE(CPU(6) | CPU(9), .limit = 0), PICK(9) },
	{ "row-6", "the cluster uses up the limit: prev", CLUSTERS_OF_4,
	  CASE(CPU(8) | CPU(9), .limit = 4), PICK(9) },
	{ "row-7", "one more, and the LLC is reached", CLUSTERS_OF_4,
	  CASE(CPU(8) | CPU(9), .limit = 5), PICK(8) },
	{ "row-7b", "the third of the cluster is within a limit of three", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(9), .limit = 3), PICK(4) },
	{ "row-7c", "and not within two", CLUSTERS_OF_4, CASE(CPU(4) | CPU(9), .limit = 2),
	  PICK(9) },
	{ "row-7d", "with nothing to fall back on the target is returned", CLUSTERS_OF_4,
	  CASE(CPU(4), .limit = 2), PICK(5) },
	{ "row-8", "a recently used CPU in the cluster is taken without a scan", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7), .recent = 6), PICK(6) },
	{ "row-8b", "even if the scan would come to another one first", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7), .recent = 7), PICK(7) },
	{ "row-9", "and before prev in another cluster", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(9), .recent = 6), PICK(6) },
	{ "row-10", "a recently used CPU in another cluster yields", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(13), .recent = 13), PICK(7), SCANS(2, 13) },
	{ "row-11", "the recently used CPU is the last resort", CLUSTERS_OF_4,
	  CASE(CPU(13), .recent = 13, .limit = 0), PICK(13) },
	{ "row-12", "but prev comes first", CLUSTERS_OF_4,
	  CASE(CPU(9) | CPU(13), .recent = 13, .limit = 0), PICK(9) },
	{ "row-13", "a recently used CPU that is not allowed is none", CLUSTERS_OF_4,
	  CASE(CPU(13), .recent = 13, .limit = 0, .allowed = ALL & ~CPU(13)), PICK(5) },
	{ "row-14", "prev below another LLC is never taken", CLUSTERS_OF_4,
	  CASE(CPU(20), .prev = 20, .recent = 20), PICK(5), SCANS(16, 5) },
	{ "row-14b", "nor does it stop the scan", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(20), .prev = 20, .recent = 20), PICK(0), SCANS(13, 5) },
	{ "row-15", "what is not allowed in the cluster is passed over", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(8), .allowed = CPU(5) | CPUS(8, 15)), PICK(8), SCANS(2, 5) },
	{ "row-15b", "only what is allowed counts: one is the target itself", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(8), .allowed = CPU(5) | CPUS(8, 15), .limit = 1), PICK(5) },
	{ "row-15c", "and the second is found", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(8), .allowed = CPU(5) | CPUS(8, 15), .limit = 2), PICK(8) },
	{ "row-16", "the walk begins behind the target", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(6) | CPU(7)), PICK(6), SCANS(1, 5) },
	{ "row-16b", "and wraps within the cluster", CLUSTERS_OF_4, CASE(CPU(4)), PICK(4),
	  SCANS(3, 5) },
	{ "row-17", "the LLC is walked from behind the target, too", CLUSTERS_OF_4,
	  CASE(CPU(3) | CPU(12)), PICK(12), SCANS(9, 5) },
	{ "row-17b", "and wraps", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(9), .target = 14, .prev = 13, .recent = 13), PICK(0), SCANS(5, 14) },
	{ "row-17c", "the cluster comes before what is nearer in the walk", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(12), .target = 15, .prev = 13, .recent = 13), PICK(12), SCANS(1, 15) },
	{ "row-18", "with all busy the target is returned", CLUSTERS_OF_4, CASE(0), PICK(5),
	  SCANS(16, 5) },
	{ "row-20", "a CPU with SCHED_IDLE tasks alone is as good as idle", CLUSTERS_OF_4,
	  CASE(0, .sched_idle = CPU(6)), PICK(6), SCANS(1, 5) },
	{ "row-20b", "but not for a task that is SCHED_IDLE itself", CLUSTERS_OF_4,
	  CASE(0, .sched_idle = CPU(6), .idle_policy = true),
	  PICK(SCHED_IDLE_CPU_FOR_ALL ? 6 : 5) },
	{ "row-20c", "a target with SCHED_IDLE tasks alone wins", CLUSTERS_OF_4,
	  CASE(CPU(6), .sched_idle = CPU(5), .recent = 13), PICK(5), EARLY },
	{ "row-21", "a kthread bound to prev has the task behind itself", CLUSTERS_OF_4,
	  CASE(CPU(6), .prev = 7, .recent = 13, .kthread = true), PICK(7), EARLY },
	{ "row-21b", "unless something else runs there", CLUSTERS_OF_4,
	  CASE(CPU(6), .prev = 7, .recent = 13), PICK(6) },
	{ "row-22", "where capacities differ there is one scan, and it begins with the target",
	  BIG_LITTLE, CASE(CPU(4) | CPU(8)), PICK(8) },
	{ "row-22b", "of a CPU that the task fits on", BIG_LITTLE,
	  CASE(CPU(6) | CPU(12), .util = 600), PICK(12) },
	{ "row-22c", "else of the first one", BIG_LITTLE,
	  CASE(CPU(4) | CPU(6), .util = 600), PICK(6) },
	{ "row-22d", "or a bigger one", BIG_LITTLE,
	  CASE(CPU(6) | CPU(12), .util = 900), PICK(12) },
	{ "row-22e", "an idle prev in the cluster that is too small is not taken", BIG_LITTLE,
	  CASE(CPU(6) | CPU(12), .prev = 6, .recent = 6, .util = 600), PICK(12) },
	{ "row-23", "without an LLC there is nothing to scan", NO_LLC,
	  CASE(CPU(6), .prev = 6, .recent = 6), PICK(5) },
	{ "row-24", "an idle core comes before an idle thread in the cluster", SMT2,
	  SMT_CASE(CPU(5) | CPU(6) | CPU(8) | CPU(9), .hint = true), PICK(8) },
	{ "row-24b", "without the hint the sibling is taken", SMT2,
	  SMT_CASE(CPU(5) | CPU(6) | CPU(8) | CPU(9)), PICK(5) },
	{ "row-24c", "a thread with SCHED_IDLE tasks alone makes no idle core", SMT2,
	  SMT_CASE(CPU(8), .sched_idle = CPU(5) | CPU(9), .hint = true), PICK(5), CLEARS_HINT },
	{ "row-24d", "a core is idle even if one of its threads is not allowed", SMT2,
	  SMT_CASE(CPU(8) | CPU(9), .allowed = ALL & ~CPU(9), .hint = true), PICK(8) },
	{ "row-25", "an idle core in the cluster comes first", SMT2,
	  SMT_CASE(CPUS(6, 9), .hint = true), PICK(6) },
	{ "row-25b", "even if another one is nearer in the walk", SMT2,
	  SMT_CASE(CPU(4) | CPU(5) | CPU(8) | CPU(9), .target = 7, .prev = 7, .recent = 7,
		   .hint = true), PICK(4) },
	{ "row-25c", "which without the key is taken", SMT2,
	  SMT_CASE(CPU(4) | CPU(5) | CPU(8) | CPU(9), .target = 7, .prev = 7, .recent = 7,
		   .hint = true, .key_off = true), PICK(8) },
	{ "row-26", "without one the first idle thread is taken, and the hint cleared",
	  SMT2, SMT_CASE(CPU(6), .hint = true), PICK(6), CLEARS_HINT },
	{ "row-26b", "and that is one of the cluster", SMT2,
	  SMT_CASE(CPU(6) | CPU(10), .hint = true), PICK(6), CLEARS_HINT },
	{ "row-26c", "with nothing idle the hint is cleared, too", SMT2,
	  SMT_CASE(0, .hint = true), PICK(4), CLEARS_HINT },
	{ "row-26d", "an idle thread of a later core does not replace the first one", SMT2,
	  SMT_CASE(CPU(5) | CPU(6), .hint = true), PICK(5), CLEARS_HINT },
	{ "row-26e", "where nothing is allowed the hint stays", SMT2,
	  SMT_CASE(CPU(6), .allowed = CPU(20), .hint = true), PICK(4),
	  .clears_hint = NOTHING_ALLOWED_CLEARS_HINT },
	{ "row-27", "the sibling of prev in another cluster comes before the cluster scan", SMT2,
	  SMT_CASE(CPU(6) | CPU(8), .prev = 9, .recent = 9), PICK(8) },
	{ "row-27b", "if it is allowed", SMT2,
	  SMT_CASE(CPU(6) | CPU(8), .prev = 9, .recent = 9, .allowed = ALL & ~CPU(8)), PICK(6),
	  SCANS(2, 4) },
	{ "row-27c", "and not below another LLC", SMT2,
	  SMT_CASE(CPU(6) | CPU(21), .prev = 20, .recent = 20), PICK(6), SCANS(2, 4) },
	{ "row-27d", "with the hint it is not asked for", SMT2,
	  SMT_CASE(CPU(6) | CPU(7) | CPU(8), .prev = 9, .recent = 9, .hint = true), PICK(6) },
	{ "row-28", "the cluster scan comes before an idle prev in another cluster", SMT2,
	  SMT_CASE(CPU(6) | CPU(9), .prev = 9, .recent = 9), PICK(6), SCANS(2, 9) },
	{ "row-29", "the scan refused, no idle core is looked for: prev", SMT2,
	  SMT_CASE(CPUS(9, 11), .prev = 9, .recent = 9, .limit = 0, .hint = true), PICK(9) },
	{ "row-29b", "with a limit of one it is: the search for a core knows no limit", SMT2,
	  SMT_CASE(CPUS(9, 11), .prev = 9, .recent = 9, .limit = 1, .hint = true), PICK(10) },
	{ "row-30", "a cluster whose CPUs have no neighbouring numbers", SMT2_APART,
	  CASE(CPU(6) | CPU(36), .prev = 5, .recent = 5), PICK(36), SCANS(1, 5) },
	{ "row-30b", "and its idle core", SMT2_APART,
	  CASE(CPU(4) | CPU(6) | CPU(36), .prev = 5, .recent = 5, .hint = true), PICK(36) },
	{ "row-30c", "the sibling is the one half of the machine away", SMT2_APART,
	  CASE(CPU(6) | CPU(37), .prev = 5, .recent = 5), PICK(37) },
	{ "row-31", "of four threads of prev's core the idle one is taken", SMT4,
	  SMT_CASE(CPU(5) | CPU(10), .prev = 8, .recent = 8), PICK(10) },
	{ "row-31b", "an idle core of four threads comes before it", SMT4,
	  SMT_CASE(CPUS(7, 11), .hint = true), PICK(8) },
	{ "row-31c", "three idle threads make no idle core", SMT4,
	  SMT_CASE(CPUS(1, 3) | CPU(9), .hint = true), PICK(1), CLEARS_HINT },
	{ "row-32", "the rest of a big LLC is walked", KUNPENG_920,
	  CASE(CPU(3) | CPU(30)), PICK(30), SCANS(27, 5) },
	{ "row-32b", "and the other node is not", KUNPENG_920,
	  CASE(CPUS(32, 47)), PICK(5), SCANS(32, 5) },
	{ "row-33", "the last cluster of an LLC of 24 CPUs wraps, and then the LLC does",
	  JACOBSVILLE, CASE(CPU(0) | CPU(19), .target = 21, .prev = 2, .recent = 2), PICK(0),
	  SCANS(5, 21) },
	{ "row-34", "where the cluster is the LLC prev is always near", CLUSTER_IS_LLC,
	  CASE(CPU(7) | CPU(9), .recent = 13), PICK(9), EARLY },
	{ "row-34b", "and the LLC is scanned once", CLUSTER_IS_LLC,
	  CASE(0, .recent = 13), PICK(5), SCANS(16, 5) },
	{ "row-35", "the other LLC of the node is not scanned", TWO_LLCS,
	  CASE(CPU(3) | CPU(20), .prev = 20, .recent = 20), PICK(3), SCANS(14, 5) },
	{ "row-36", "a cluster that is a core is none: prev is near", CORE_IS_CLUSTER,
	  SMT_CASE(CPU(6) | CPU(9), .prev = 9, .recent = 13), PICK(9), EARLY },
	{ "row-37", "prev without a cluster yields to the cluster scan", MIXED_LLC,
	  CASE(CPU(7) | CPU(9)), PICK(7), SCANS(2, 9) },
	{ "row-37b", "prev without a cluster is near a target without one", MIXED_LLC,
	  CASE(CPU(10) | CPU(12), .target = 9, .prev = 12, .recent = 13), PICK(12), EARLY },
};

__diag_pop();

#endif /* _KERNEL_SCHED_TESTS_SCHED_CLUSTER_ROWS_H */
