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

/*
 * Machines are as small as their rows allow, so that a guest with 8 possible
 * CPUs runs most rows, and one with 2 runs some.
 */
enum cluster_machine {
	TWO_CPUS,
	TWO_CPUS_IN_CLUSTER,
	TWO_THREADS,
	TWO_CPUS_ONE_ISOLATED,
	CLUSTERS_OF_4,
	CLUSTERS_OF_2,
	TARGET_WITHOUT_CLUSTER,
	NO_LLC,
	KUNPENG_920,
	JACOBSVILLE,
	TWO_LLCS,
	CORE_IS_CLUSTER,
	SMT2,
	SMT2_TWO_LLCS,
	SMT2_APART,
	SMT4,
	BIG_LITTLE,
	MIXED_LLC,
	ISOLATED_TARGET,
	ISOLATED_IN_CLUSTER,
	ISOLATED_PREV,
	ISOLATED_THREAD,
	NR_MACHINES
};

/*
 * TARGET_WITHOUT_CLUSTER: only the first LLC has clusters, and the target is in
 * another one.
 */
static const struct sched_fake_topology cluster_machines[NR_MACHINES] = {
	[TWO_CPUS] = { .name = "two CPUs", .cpus = 2, .llc = 2 },
	[TWO_CPUS_IN_CLUSTER] = { .name = "cluster is LLC", .cpus = 2, .cluster = 2, .llc = 2 },
	[TWO_THREADS] = { .name = "two threads", .cpus = 2, .smt = 2, .llc = 2 },
	[TWO_CPUS_ONE_ISOLATED] = {
		.name = "one of two isolated", .cpus = 2, .llc = 2, .isolated = CPU(0)
	},
	[CLUSTERS_OF_4] = { .name = "clusters of 4", .cpus = 8, .cluster = 4, .llc = 8 },
	[CLUSTERS_OF_2] = { .name = "clusters of 2", .cpus = 8, .cluster = 2, .llc = 8 },
	[TARGET_WITHOUT_CLUSTER] = {
		.name = "4 of 8 clustered", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 4
	},
	[NO_LLC] = { .name = "no LLC", .cpus = 2 },
	[KUNPENG_920] = {
		.name = "as Kunpeng 920", .cpus = 64, .cluster = 4, .llc = 32, .node = 32
	},
	[JACOBSVILLE] = { .name = "as Jacobsville", .cpus = 24, .cluster = 4, .llc = 24 },
	[TWO_LLCS] = { .name = "two LLCs", .cpus = 8, .cluster = 2, .llc = 4, .node = 8 },
	[CORE_IS_CLUSTER] = {
		.name = "core is cluster", .cpus = 8, .smt = 2, .cluster = 2, .llc = 8
	},
	[SMT2] = { .name = "cores of two", .cpus = 8, .smt = 2, .cluster = 4, .llc = 8 },
	[SMT2_TWO_LLCS] = { .name = "cores of two, two LLCs", .cpus = 8, .smt = 2, .llc = 4 },
	[SMT2_APART] = {
		.name = "cores of two apart", .cpus = 8, .smt = 2, .apart = true, .cluster = 4,
		.llc = 8
	},
	[SMT4] = { .name = "cores of four", .cpus = 16, .smt = 4, .cluster = 8, .llc = 16 },
	[BIG_LITTLE] = { .name = "big and little", .cpus = 8, .cluster = 4, .llc = 8, .little = 4 },
	[MIXED_LLC] = {
		.name = "mixed LLC", .cpus = 8, .cluster = 2, .clustered = 4, .llc = 8
	},
	[ISOLATED_TARGET] = {
		.name = "target isolated", .cpus = 8, .cluster = 4, .llc = 8, .isolated = CPU(5)
	},
	[ISOLATED_IN_CLUSTER] = {
		.name = "half a cluster isolated", .cpus = 8, .cluster = 4, .llc = 8,
		.isolated = CPU(6) | CPU(7)
	},
	[ISOLATED_PREV] = {
		.name = "prev isolated", .cpus = 8, .cluster = 4, .llc = 8, .isolated = CPU(1)
	},
	[ISOLATED_THREAD] = {
		.name = "one thread isolated", .cpus = 8, .smt = 2, .cluster = 4, .llc = 8,
		.isolated = CPU(0)
	},
};

/**
 * struct cluster_row - a situation, and where the task has to go
 * @what:	its public name, never changed, and the property that it stands for
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
	char			what[88];
	enum cluster_machine	machine;
	struct cluster_case	c;
	s8			pick;
	u8			examined;
	s8			short_of;
	bool			early;
	bool			clears_hint;
};

/*
 * By default the target is the second CPU of the second cluster, the recently
 * used CPU is prev, in the first cluster, and the scan has no limit.
 */
#define CASE(idle_, ...) \
	.c = { .target = 5, .prev = 1, .recent = 1, .limit = CLUSTER_NO_LIMIT, .allowed = ALL, \
	       .idle = idle_, __VA_ARGS__ }
#define SMT_CASE(idle_, ...) \
	.c = { .target = 4, .prev = 4, .recent = 4, .limit = CLUSTER_NO_LIMIT, .allowed = ALL, \
	       .idle = idle_, __VA_ARGS__ }
/* On two CPUs the target is the waker's. */
#define TWO_CASE(idle_, ...) \
	.c = { .target = 0, .prev = 1, .recent = 0, .limit = CLUSTER_NO_LIMIT, .allowed = ALL, \
	       .idle = idle_, __VA_ARGS__ }
#define PICK(cpu)		.pick = cpu
#define SCANS(nr, other)	.examined = nr, .short_of = other
#define EARLY			.early = true
#define CLEARS_HINT		.clears_hint = true

__diag_push();
__diag_ignore_all("-Woverride-init", "a row says what differs from the others");

static const struct cluster_row cluster_rows[] = {
	{ "row-1: an idle target wins", TWO_CPUS, TWO_CASE(CPU(0) | CPU(1)), PICK(0), EARLY },
	{ "row-2: an idle prev in the cluster is taken without a scan", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(6) | CPU(7), .prev = 6, .recent = 3), PICK(6), EARLY },
	{ "row-3: prev in another cluster yields to the cluster scan", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(1)), PICK(7), SCANS(2, 1) },
	{ "row-3b: without the key prev is taken at once", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(1), .key_off = true, .recent = 3), PICK(1), EARLY },
	{ "row-3c: without a cluster the LLC is what is shared", TARGET_WITHOUT_CLUSTER,
	  CASE(CPU(6) | CPU(7), .prev = 7, .recent = 4), PICK(7), EARLY },
	{ "row-3d: without the key the LLC is scanned, not the cluster", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(4), .key_off = true, .target = 7, .prev = 6, .recent = 6), PICK(0),
	  SCANS(1, 7) },
	{ "row-3e: where the LLC has no cluster its groups are no clusters",
	  TARGET_WITHOUT_CLUSTER, CASE(CPU(7), .prev = 4, .recent = 4), PICK(7), SCANS(2, 5) },
	{ "row-4: with the cluster busy the LLC is scanned in order, prev is not preferred",
	  CLUSTERS_OF_4, CASE(CPU(0) | CPU(1)), PICK(0), SCANS(5, 1) },
	{ "row-4b: prev in another cluster is found by the scan", CLUSTERS_OF_4, CASE(CPU(1)),
	  PICK(1), SCANS(6, 1) },
	{ "row-5: with the scan refused prev is taken although the cluster has an idle CPU",
	  CLUSTERS_OF_4, CASE(CPU(6) | CPU(1), .limit = 0), PICK(1) },
	{ "row-6: prev is taken when the cluster uses up the limit", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(1), .limit = 4), PICK(1) },
	{ "row-7: with a limit of one more the LLC is reached", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(1), .limit = 5), PICK(0) },
	{ "row-7b: the third of the cluster is within a limit of three", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(1), .limit = 3), PICK(4) },
	{ "row-7c: the third of the cluster is not within a limit of two", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(1), .limit = 2), PICK(1) },
	{ "row-7d: with nothing to fall back on the target is returned", CLUSTERS_OF_4,
	  CASE(CPU(4), .limit = 2), PICK(5) },
	{ "row-8: a recently used CPU in the cluster is taken without a scan", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7), .recent = 6), PICK(6) },
	{ "row-8b: a recently used CPU is taken even if the scan would find another one",
	  CLUSTERS_OF_4, CASE(CPU(6) | CPU(7), .recent = 7), PICK(7) },
	{ "row-9: a recently used CPU in the cluster comes before prev in another one",
	  CLUSTERS_OF_4, CASE(CPU(6) | CPU(1), .recent = 6), PICK(6) },
	{ "row-10: a recently used CPU in another cluster yields", CLUSTERS_OF_4,
	  CASE(CPU(7) | CPU(3), .recent = 3), PICK(7), SCANS(2, 3) },
	{ "row-11: the recently used CPU is the last resort", CLUSTERS_OF_4,
	  CASE(CPU(3), .recent = 3, .limit = 0), PICK(3) },
	{ "row-12: as a last resort prev comes before the recently used CPU", CLUSTERS_OF_4,
	  CASE(CPU(1) | CPU(3), .recent = 3, .limit = 0), PICK(1) },
	{ "row-13: a recently used CPU that is not allowed is not taken", TWO_CPUS,
	  TWO_CASE(CPU(1), .prev = 0, .recent = 1, .limit = 0, .allowed = CPU(0)), PICK(0) },
	{ "row-14: prev below another LLC is never taken", TWO_LLCS,
	  CASE(CPU(6), .target = 1, .prev = 6, .recent = 6), PICK(1), SCANS(4, 1) },
	{ "row-14b: prev below another LLC does not stop the scan", TWO_LLCS,
	  CASE(CPU(3) | CPU(6), .target = 1, .prev = 6, .recent = 6), PICK(3), SCANS(4, 1) },
	{ "row-15: CPUs of the cluster that are not allowed are passed over", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(0), .allowed = CPU(5) | CPUS(0, 3)), PICK(0), SCANS(2, 5) },
	{ "row-15b: of the limit the target takes one, CPUs that are not allowed none",
	  CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(0), .allowed = CPU(5) | CPUS(0, 3), .limit = 1), PICK(5) },
	{ "row-15c: the first allowed CPU of the LLC is within a limit of two", CLUSTERS_OF_4,
	  CASE(CPU(6) | CPU(7) | CPU(0), .allowed = CPU(5) | CPUS(0, 3), .limit = 2), PICK(0) },
	{ "row-16: the cluster is walked from behind the target", CLUSTERS_OF_4,
	  CASE(CPU(4) | CPU(6) | CPU(7)), PICK(6), SCANS(1, 5) },
	{ "row-16b: the walk wraps within the cluster", CLUSTERS_OF_4, CASE(CPU(4)), PICK(4),
	  SCANS(3, 5) },
	{ "row-17: the LLC is walked from behind the target", CLUSTERS_OF_2,
	  CASE(CPU(1) | CPU(6), .target = 3, .prev = 0, .recent = 0), PICK(6), SCANS(5, 3) },
	{ "row-17b: the walk of the LLC wraps", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(2), .target = 6, .prev = 5, .recent = 5), PICK(0), SCANS(5, 6) },
	{ "row-17c: the cluster comes before what is nearer in the walk", CLUSTERS_OF_4,
	  CASE(CPU(0) | CPU(4), .target = 7, .prev = 5, .recent = 5), PICK(4), SCANS(1, 7) },
	{ "row-18: with all busy the target is returned", TWO_CPUS, TWO_CASE(0), PICK(0),
	  SCANS(2, 0) },
	{ "row-20: a CPU with SCHED_IDLE tasks alone is as good as idle", TWO_CPUS,
	  TWO_CASE(0, .prev = 0, .sched_idle = CPU(1)), PICK(1), SCANS(1, 0) },
	{ "row-20b: for a SCHED_IDLE task a CPU with SCHED_IDLE tasks is busy", TWO_CPUS,
	  TWO_CASE(0, .prev = 0, .sched_idle = CPU(1), .idle_policy = true),
	  PICK(SCHED_IDLE_CPU_FOR_ALL ? 1 : 0) },
	{ "row-20c: a target with SCHED_IDLE tasks alone wins", TWO_CPUS,
	  TWO_CASE(CPU(1), .sched_idle = CPU(0)), PICK(0), EARLY },
	{ "row-21: a per-CPU kthread that wakes the task stacks it on prev", TWO_CPUS,
	  TWO_CASE(0, .target = 1, .prev = 0, .recent = 1, .kthread = true), PICK(0), EARLY },
	{ "row-21b: the task is not stacked if something else runs on prev", TWO_CPUS,
	  TWO_CASE(0, .target = 1, .prev = 0, .recent = 1), PICK(1) },
	{ "row-22: where capacities differ there is one scan, which begins with the target",
	  BIG_LITTLE, CASE(CPU(0) | CPU(4), .target = 1, .prev = 5, .recent = 5), PICK(4) },
	{ "row-22b: where capacities differ a CPU that the task fits on is taken", BIG_LITTLE,
	  CASE(CPU(2) | CPU(6), .target = 1, .prev = 5, .recent = 5, .util = 600), PICK(6) },
	{ "row-22c: if the task fits on no idle CPU the first one is taken", BIG_LITTLE,
	  CASE(CPU(0) | CPU(2), .target = 1, .prev = 5, .recent = 5, .util = 600), PICK(2) },
	{ "row-22d: if the task fits on no idle CPU a bigger one is taken", BIG_LITTLE,
	  CASE(CPU(2) | CPU(6), .target = 1, .prev = 5, .recent = 5, .util = 900), PICK(6) },
	{ "row-22e: an idle prev in the cluster that is too small is not taken", BIG_LITTLE,
	  CASE(CPU(2) | CPU(6), .target = 1, .prev = 2, .recent = 2, .util = 600), PICK(6) },
	{ "row-23: without an LLC there is nothing to scan", NO_LLC,
	  TWO_CASE(CPU(1), .recent = 1), PICK(0) },
	{ "row-24: an idle core comes before an idle thread in the cluster", SMT2,
	  SMT_CASE(CPU(5) | CPU(6) | CPU(0) | CPU(1), .hint = true), PICK(0) },
	{ "row-24b: without the hint the sibling is taken, and nothing scanned", TWO_THREADS,
	  TWO_CASE(CPU(1), .prev = 0, .limit = 0), PICK(1) },
	{ "row-24c: a thread with SCHED_IDLE tasks alone makes no idle core", SMT2,
	  SMT_CASE(CPU(0), .sched_idle = CPU(5) | CPU(1), .hint = true), PICK(5), CLEARS_HINT },
	{ "row-24d: a core is idle even if one of its threads is not allowed", SMT2,
	  SMT_CASE(CPU(0) | CPU(1), .allowed = ALL & ~CPU(1), .hint = true), PICK(0) },
	{ "row-25: an idle core in the cluster comes first", SMT2,
	  SMT_CASE(CPU(6) | CPU(7) | CPU(0) | CPU(1), .hint = true), PICK(6) },
	{ "row-25b: an idle core in the cluster comes before one nearer in the walk", SMT2,
	  SMT_CASE(CPU(4) | CPU(5) | CPU(0) | CPU(1), .target = 7, .prev = 7, .recent = 7,
		   .hint = true), PICK(4) },
	{ "row-25c: without the key the idle core nearer in the walk is taken", SMT2,
	  SMT_CASE(CPU(4) | CPU(5) | CPU(0) | CPU(1), .target = 7, .prev = 7, .recent = 7,
		   .hint = true, .key_off = true), PICK(0) },
	{ "row-26: without an idle core the first idle thread is taken, and the hint cleared",
	  TWO_THREADS, TWO_CASE(CPU(1), .prev = 0, .hint = true), PICK(1), CLEARS_HINT },
	{ "row-26b: the first idle thread is one of the cluster", SMT2,
	  SMT_CASE(CPU(6) | CPU(2), .hint = true), PICK(6), CLEARS_HINT },
	{ "row-26c: with nothing idle the hint is cleared, too", TWO_THREADS,
	  TWO_CASE(0, .prev = 0, .hint = true), PICK(0), CLEARS_HINT },
	{ "row-26d: an idle thread of a later core does not replace the first one", SMT2,
	  SMT_CASE(CPU(5) | CPU(6), .hint = true), PICK(5), CLEARS_HINT },
	{ "row-26e: where no CPU of the LLC is allowed the hint stays", SMT2_TWO_LLCS,
	  SMT_CASE(CPU(6), .allowed = CPU(1), .hint = true), PICK(4),
	  .clears_hint = NOTHING_ALLOWED_CLEARS_HINT },
	{ "row-27: the sibling of prev in another cluster comes before the cluster scan", SMT2,
	  SMT_CASE(CPU(6) | CPU(0), .prev = 1, .recent = 1), PICK(0) },
	{ "row-27b: the sibling of prev is taken only if it is allowed", SMT2,
	  SMT_CASE(CPU(6) | CPU(0), .prev = 1, .recent = 1, .allowed = ALL & ~CPU(0)), PICK(6),
	  SCANS(2, 4) },
	{ "row-27c: the sibling of prev below another LLC is not taken", SMT2_TWO_LLCS,
	  SMT_CASE(CPU(6) | CPU(1), .prev = 0, .recent = 0), PICK(6), SCANS(2, 4) },
	{ "row-27d: with the hint the sibling of prev is not asked for", SMT2,
	  SMT_CASE(CPU(6) | CPU(7) | CPU(0), .prev = 1, .recent = 1, .hint = true), PICK(6) },
	{ "row-28: the cluster scan comes before an idle prev in another cluster", SMT2,
	  SMT_CASE(CPU(6) | CPU(1), .prev = 1, .recent = 1), PICK(6), SCANS(2, 1) },
	{ "row-29: with the scan refused no idle core is looked for, and prev is taken", SMT2,
	  SMT_CASE(CPUS(1, 3), .prev = 1, .recent = 1, .limit = 0, .hint = true), PICK(1) },
	{ "row-29b: with a limit of one the search for an idle core has no limit", SMT2,
	  SMT_CASE(CPUS(1, 3), .prev = 1, .recent = 1, .limit = 1, .hint = true), PICK(2) },
	{ "row-30: a cluster whose CPUs have no neighbouring numbers is scanned first",
	  SMT2_APART, CASE(CPU(2) | CPU(4), .target = 1), PICK(4), SCANS(1, 1) },
	{ "row-30b: an idle core of two CPUs with numbers far apart is found", SMT2_APART,
	  CASE(CPU(0) | CPU(2) | CPU(4), .target = 1, .hint = true), PICK(4) },
	{ "row-30c: the sibling is the one half of the machine away", SMT2_APART,
	  CASE(CPU(2) | CPU(5), .target = 1), PICK(5) },
	{ "row-31: of four threads of prev's core the idle one is taken", SMT4,
	  SMT_CASE(CPU(5) | CPU(10), .prev = 8, .recent = 8), PICK(10) },
	{ "row-31b: an idle core of four threads comes before an idle thread", SMT4,
	  SMT_CASE(CPUS(7, 11), .hint = true), PICK(8) },
	{ "row-31c: three idle threads of four make no idle core", SMT4,
	  SMT_CASE(CPUS(1, 3) | CPU(9), .hint = true), PICK(1), CLEARS_HINT },
	{ "row-32: the rest of a big LLC is walked", KUNPENG_920,
	  CASE(CPU(3) | CPU(30), .prev = 9, .recent = 9), PICK(30), SCANS(27, 5) },
	{ "row-32b: the other node is not walked", KUNPENG_920,
	  CASE(CPUS(32, 47), .prev = 9, .recent = 9), PICK(5), SCANS(32, 5) },
	{ "row-33: the last cluster of an LLC of 24 CPUs wraps, and then the LLC does",
	  JACOBSVILLE, CASE(CPU(0) | CPU(19), .target = 21, .prev = 2, .recent = 2), PICK(0),
	  SCANS(5, 21) },
	{ "row-34: where the cluster is the LLC prev is always near", TWO_CPUS_IN_CLUSTER,
	  TWO_CASE(CPU(1)), PICK(1), EARLY },
	{ "row-34b: where the cluster is the LLC it is scanned once", TWO_CPUS_IN_CLUSTER,
	  TWO_CASE(0), PICK(0), SCANS(2, 0) },
	{ "row-35: the other LLC of the node is not scanned", TWO_LLCS,
	  CASE(CPU(0) | CPU(6), .target = 3, .prev = 6, .recent = 6), PICK(0), SCANS(3, 3) },
	{ "row-36: a cluster that is a core does not count, prev is near", CORE_IS_CLUSTER,
	  SMT_CASE(CPU(6) | CPU(1), .prev = 1, .recent = 3), PICK(1), EARLY },
	{ "row-37: prev without a cluster yields to the cluster scan", MIXED_LLC,
	  CASE(CPU(2) | CPU(5), .target = 3, .prev = 5, .recent = 5), PICK(2), SCANS(1, 5) },
	{ "row-37b: prev without a cluster is near a target without one", MIXED_LLC,
	  CASE(CPU(6) | CPU(7), .prev = 7, .recent = 4), PICK(7), EARLY },
	{ "row-38: an isolated target keeps the task", ISOLATED_TARGET,
	  CASE(CPU(1) | CPU(6), .prev = 6, .recent = 1), PICK(5) },
	{ "row-38b: without clusters an isolated target yields to prev below its LLC",
	  TWO_CPUS_ONE_ISOLATED, TWO_CASE(CPU(1)), PICK(LLC_ID_OF_DOMAIN ? 0 : 1),
	  .early = !LLC_ID_OF_DOMAIN },
	{ "row-39: isolated CPUs of the cluster are not scanned", ISOLATED_IN_CLUSTER,
	  CASE(CPU(4) | CPU(6) | CPU(7)), PICK(4), SCANS(1, 5) },
	{ "row-39b: isolated CPUs of the cluster do not count for the limit",
	  ISOLATED_IN_CLUSTER, CASE(CPU(0) | CPU(6)), PICK(0), SCANS(3, 5) },
	{ "row-40: an isolated prev is taken as a last resort if it shares the LLC",
	  ISOLATED_PREV, CASE(CPU(1)), PICK(LLC_ID_OF_DOMAIN ? 5 : 1) },
	{ "row-41: an isolated sibling of prev is not taken", ISOLATED_THREAD,
	  SMT_CASE(CPU(0) | CPU(6), .prev = 1, .recent = 1), PICK(6), SCANS(2, 4) },
	{ "row-41b: a core whose isolated thread is busy is not idle", ISOLATED_THREAD,
	  SMT_CASE(CPU(1) | CPU(2) | CPU(3), .hint = true), PICK(2) },
	{ "row-41c: an isolated idle thread of a busy core is not taken", ISOLATED_THREAD,
	  SMT_CASE(CPU(0) | CPU(2), .hint = true), PICK(2), CLEARS_HINT },
	{ "row-41d: an isolated thread with SCHED_IDLE tasks alone is not taken",
	  ISOLATED_THREAD, SMT_CASE(CPU(2), .sched_idle = CPU(0), .hint = true), PICK(2),
	  CLEARS_HINT },
};

__diag_pop();

#endif /* _KERNEL_SCHED_TESTS_SCHED_CLUSTER_ROWS_H */
