// SPDX-License-Identifier: GPL-2.0
/*
 * The layout rules. Data alone, the same for every kernel: any C compiler can
 * make an object of it for a reader outside of the kernel.
 *
 * To add a rule: a row in sched_layout_rules, its clauses below, and in
 * layout_fields.c every member that a clause names. See layout_rules.h.
 */
#include <linux/kernel.h>

#include "layout_rules.h"

#define RQ_ORDER	"89951fc1f820 (\"sched: Reorder some fields in struct rq\")"
#define RD_LINES	"346b697a0bbf9b0ff6a62d787ccf6665dcefc99f.1753076363.git.pan.deng@intel.com"
#define CPUPRI_LINES	"20250904024630.458897-1-pan.deng@intel.com"
#define CPUPRI_SPLIT	"https://lkml.iu.edu/hypermail/linux/kernel/2604.1/04237.html"

const struct sched_layout_rules sched_layout_rules = {
	.rq_order = {
		{ "rq-order.Q1", "rq-order",
		  "update_sg_lb_stats() loads these of every remote rq, without its lock, while it looks for the busiest group: on one line they cost one miss",
		  RQ_ORDER },
		{ "rq-order.Q2", "rq-order",
		  "nr_switches closes the first line: what is written under the rq lock comes behind it, and nothing joins the members that are read without the lock",
		  RQ_ORDER },
		{ "rq-order.Q3", "rq-order",
		  "waiters write to the line of a contended lock: what is read without the lock, and the clocks, must not be on it",
		  RQ_ORDER },
		{ "rq-order.Q4", "rq-order",
		  "update_rq_clock() reads and writes these together: on one line they cost one miss",
		  RQ_ORDER },
		{ "rq-order.Q5", "rq-order",
		  "nr_iowait is decremented by other CPUs when they wake a task: it must not take a hot line with it",
		  RQ_ORDER },
		{ "rq-order.Q6", "rq-order",
		  "numa_migrate_on is exchanged by other CPUs: the line that load balancing reads must not go with it",
		  RQ_ORDER },
		{ "rq-order.Q7", "rq-order",
		  "donor and curr are one pointer unless proxy execution tells them apart: a second one takes 8 bytes of the first line",
		  RQ_ORDER },
		{ "rq-order.Q8", "rq-order",
		  "offsets are lines only if each CPU's rq starts on a line",
		  RQ_ORDER },
		{ "rq-order.Q9", "rq-order",
		  "the padding of the first line is deliberate: with none left the next member pushes idle off it",
		  RQ_ORDER },
	},
	.rd_lines = {
		{ "rd-lines.R1", "rd-lines",
		  "pri_to_cpu[0].count, at the start of cpupri, changes most often of all counts: rto_loop_next and rto_loop_start were on its line",
		  RD_LINES },
		{ "rd-lines.R2", "rd-lines",
		  "pd and rto_mask are read by every wakeup and RT push: writes to cpupri or rto_count must not take their line away",
		  RD_LINES },
		{ "rd-lines.R3", "rd-lines",
		  "overloaded is read by every enqueue and newly idle CPU, rto_count is written by every RT overload: they shared the first line",
		  RD_LINES },
		{ "rd-lines.R4", "rd-lines",
		  "rto_count is written by RT overload, rto_loop_* by each CPU that pulls: on one line each waits for the other",
		  RD_LINES },
		{ "rd-lines.R5", "rd-lines",
		  "a pulling CPU writes rto_loop_next and rto_loop_start one after the other: apart they cost two misses",
		  RD_LINES },
		{ "rd-lines.R6", "rd-lines",
		  "offsets are lines only if the root_domain starts on a line, and its last line is its own only if it fills it",
		  RD_LINES },
		{ "rd-lines.R7", "rd-lines",
		  "as the change was measured: rto_push_work on the second line, rto_lock and rto_loop_* on the third, cpupri from the fourth",
		  RD_LINES },
		{ "rd-lines.R8", "rd-lines",
		  "each partition has a root_domain: what it takes beside cpupri is a budget, to be raised on purpose",
		  RD_LINES },
	},
	.cpupri_lines = {
		{ "cpupri-lines.C1", "cpupri-lines",
		  "cpupri_set() writes the count, cpupri_find() of every other CPU reads the mask: one line makes each wait for the other",
		  CPUPRI_LINES },
		{ "cpupri-lines.C2", "cpupri-lines",
		  "a vec of whole lines keeps the count of each priority off the lines of the priorities beside it",
		  CPUPRI_LINES },
		{ "cpupri-lines.C3", "cpupri-lines",
		  "the vecs fill lines only if cpupri itself starts on a line, wherever it is in root_domain",
		  CPUPRI_LINES },
		{ "cpupri-lines.C4", "cpupri-lines",
		  "cpu_to_pri is read by every cpupri_set(): no vec may end on its line",
		  CPUPRI_LINES },
		{ "cpupri-lines.C5", "cpupri-lines",
		  "one CPU shares no line with another: there the alignment would only take memory",
		  CPUPRI_LINES },
		{ "cpupri-lines.C6", "cpupri-lines",
		  "two lines for each of 101 priorities are 11 KB more for each root_domain: a budget, to be raised on purpose",
		  CPUPRI_LINES },
		{ "cpupri.S1", "cpupri-lines",
		  "counts are written and masks are read by every CPU that moves an RT task, at all priorities alike",
		  CPUPRI_LINES },
	},
	.cpupri_split = {
		{ "cpupri-split.L1", "cpupri-split",
		  "the CPUs of a leaf write one line for each priority: two lines would cost two misses, and a shared one would bring back what was split",
		  CPUPRI_SPLIT },
		{ "cpupri-split.L2", "cpupri-split",
		  "which CPUs a leaf has is read by every search: it must not lie on a line that they write",
		  CPUPRI_SPLIT },
		{ "cpupri-split.L3", "cpupri-split",
		  "the counts are not split, so each needs a line of its own, off that of the pointers to the leaves, too",
		  CPUPRI_SPLIT },
	},
};

#define RQ_FIRST_LINE \
	"nr_running nr_numa_running? nr_preferred_running? " \
	"ttwu_pending? cpu_capacity? donor curr idle"
#define RQ_CLOCK_LINE \
	"clock_task clock_pelt clock lost_idle_time " \
	"clock_update_flags clock_pelt_idle clock_idle"

#define RTO_LOOP	"rto_loop_next rto_lock rto_loop rto_cpu rto_loop_start"

#define NEEDS(cond)	(1U << LAYOUT_##cond)

const struct sched_layout_clause sched_layout_clauses[] = {
	/*
	 * Signs are told by the order of members, since that differs from the
	 * older order in every configuration. Alignment does not: with 64-byte
	 * masks pd starts on a line boundary by chance.
	 */
	{ "rq-order", LAYOUT_FOLLOWS, 0, 1, 0, "rq", "__lock nr_running" },
	{ "rq-order", LAYOUT_FOLLOWS, 0, 1, 0, "rq", "nr_switches idle" },
	{ "rq-order", LAYOUT_FOLLOWS, 0, 1, 0, "rq", "clock clock_task" },
	{ "rd-lines", LAYOUT_FOLLOWS, 0, 1, 0, "root_domain", "overloaded cpupri" },
	{ "rd-lines", LAYOUT_FOLLOWS, 0, 1, 0, "root_domain", "rto_mask cpupri" },
	{ "rd-lines", LAYOUT_FOLLOWS, 0, 1, 0, "root_domain", "dlo_mask cpudl" },
	{ "cpupri-lines", LAYOUT_TYPE_ALIGNED, NEEDS(SMP), 1, 0, "cpupri_vec", "" },
	{ "cpupri-lines", LAYOUT_APART, NEEDS(SMP), 1, 0, "cpupri_vec", "count mask" },
	/* There or not there: with one mask for all, nothing tells it from before. */
	{ "cpupri-split", LAYOUT_OWN_OFFSET, NEEDS(CPUPRI_SPLIT), 1, 0, "cpupri", "leaves place" },

	/* 48 bytes with everything on: nothing shorter than 64 can hold them. */
	{ "rq-order.Q1", LAYOUT_ON_LINE, NEEDS(LINE_MIN_64), 0, 0, "rq", RQ_FIRST_LINE },
	{ "rq-order.Q2", LAYOUT_ALIGNED, 0, 1, 0, "rq", "nr_switches" },
	{ "rq-order.Q2", LAYOUT_STARTS_ON, NEEDS(LINE_MIN_64), 0, 1, "rq", "nr_switches" },
	/* Without SMP two members of the line are not listed. */
	{ "rq-order.Q2", LAYOUT_ALONE, NEEDS(SMP) | NEEDS(LINE_MIN_64), 0, 0,
	  "rq", RQ_FIRST_LINE },
	/* A lock with debugging is as large as a line and spills into the next. */
	{ "rq-order.Q3", LAYOUT_ON_LINE, NEEDS(SMP) | NEEDS(PLAIN_LOCKS), 1, LAYOUT_ANY_LINE,
	  "rq", "nr_switches __lock" },
	{ "rq-order.Q3", LAYOUT_STARTS_ON, NEEDS(SMP) | NEEDS(DEBUG_LOCKS), 1, LAYOUT_ANY_LINE,
	  "rq", "nr_switches __lock" },
	{ "rq-order.Q3", LAYOUT_APART, NEEDS(SMP), 1, 0,
	  "rq", "__lock nr_running idle clock_task" },
	{ "rq-order.Q4", LAYOUT_ALIGNED, NEEDS(64BIT) | NEEDS(LINE_MIN_64), 1, 0,
	  "rq", "clock_task" },
	{ "rq-order.Q4", LAYOUT_ON_LINE, NEEDS(64BIT) | NEEDS(LINE_MIN_64), 1, LAYOUT_ANY_LINE,
	  "rq", RQ_CLOCK_LINE },
	{ "rq-order.Q4", LAYOUT_UNBROKEN, 0, 1, 0, "rq", RQ_CLOCK_LINE },
	{ "rq-order.Q5", LAYOUT_APART, 0, 0, 0,
	  "rq", "nr_iowait nr_running nr_switches __lock clock_task" },
	{ "rq-order.Q6", LAYOUT_APART, 0, 0, 0, "rq", "numa_migrate_on nr_running" },
	{ "rq-order.Q7", LAYOUT_SAME_OFFSET, NEEDS(NO_PROXY_EXEC), 1, 0, "rq", "donor curr" },
	{ "rq-order.Q7", LAYOUT_OWN_OFFSET, NEEDS(PROXY_EXEC), 1, 0, "rq", "donor curr" },
	{ "rq-order.Q8", LAYOUT_TYPE_ALIGNED, 0, 1, 0, "rq", "" },
	{ "rq-order.Q9", LAYOUT_HEADROOM, NEEDS(LINE_MIN_64), 0, 1, "rq", RQ_FIRST_LINE },

	{ "rd-lines.R1", LAYOUT_ALIGNED, 0, 1, 0, "root_domain", "cpupri" },
	{ "rd-lines.R1", LAYOUT_APART, 0, 1, 0,
	  "root_domain", "cpupri cpudl dlo_mask rto_loop_start?" },
	{ "rd-lines.R2", LAYOUT_ALIGNED, 0, 1, 0, "root_domain", "pd" },
	{ "rd-lines.R2", LAYOUT_APART, 0, 1, 0, "root_domain", "cpupri pd rto_mask" },
	{ "rd-lines.R2", LAYOUT_APART, 0, 1, 0, "root_domain", "rto_count pd rto_mask" },
	{ "rd-lines.R2", LAYOUT_APART, 0, 1, 0, "root_domain", "rto_mask " RTO_LOOP },
	{ "rd-lines.R2", LAYOUT_ON_LINE, NEEDS(MASK_8) | NEEDS(LINE_MIN_64), 1, LAYOUT_ANY_LINE,
	  "root_domain", "pd rto_mask" },
	{ "rd-lines.R2", LAYOUT_ALONE, 0, 1, 0, "root_domain", "pd rto_mask" },
	{ "rd-lines.R2", LAYOUT_ALONE, 0, 1, 0, "root_domain", "rto_mask pd" },
	{ "rd-lines.R3", LAYOUT_ALIGNED, 0, 1, 0, "root_domain", "overloaded" },
	{ "rd-lines.R3", LAYOUT_ALONE, 0, 1, 0, "root_domain", "overloaded overutilized" },
	{ "rd-lines.R3", LAYOUT_ON_LINE, 0, 1, LAYOUT_LAST_LINE,
	  "root_domain", "overloaded overutilized" },
	{ "rd-lines.R3", LAYOUT_APART, 0, 1, 0, "root_domain", "overloaded rto_count rto_mask" },
	/* On longer lines, or with 4-byte pointers, the rto_loop_* are on the first, too. */
	{ "rd-lines.R4", LAYOUT_ON_LINE, NEEDS(64BIT) | NEEDS(LINE_MAX_128), 0, 0,
	  "root_domain", "rto_count" },
	{ "rd-lines.R4", LAYOUT_APART, NEEDS(64BIT) | NEEDS(LINE_MAX_128), 0, 0,
	  "root_domain", "rto_count rto_loop rto_loop_next rto_loop_start" },
	{ "rd-lines.R5", LAYOUT_ON_LINE, NEEDS(LINE_MIN_64), 0, LAYOUT_ANY_LINE,
	  "root_domain", "rto_loop_next rto_loop_start" },
	{ "rd-lines.R5", LAYOUT_UNBROKEN, 0, 1, 0, "root_domain", RTO_LOOP },
	{ "rd-lines.R6", LAYOUT_TYPE_ALIGNED, 0, 1, 0, "root_domain", "" },
	{ "rd-lines.R6", LAYOUT_TYPE_PADDED, 0, 1, 0, "root_domain", "" },
#define AS_DESCRIBED	(NEEDS(64BIT) | NEEDS(LINE_64) | NEEDS(MASK_8) | NEEDS(PLAIN_LOCKS))
	{ "rd-lines.R7", LAYOUT_ON_LINE, AS_DESCRIBED, 0, 1, "root_domain", "rto_push_work" },
	{ "rd-lines.R7", LAYOUT_ON_LINE, AS_DESCRIBED, 0, 2,
	  "root_domain", "rto_lock rto_loop rto_loop_next rto_loop_start" },
	{ "rd-lines.R7", LAYOUT_STARTS_ON, AS_DESCRIBED, 0, 3, "root_domain", "cpupri" },
	{ "rd-lines.R8", LAYOUT_TYPE_MOST, AS_DESCRIBED, 0, 320, "root_domain", "cpupri" },

	/* Without SMP ____cacheline_aligned_in_smp is empty. */
	{ "cpupri-lines.C1", LAYOUT_ALIGNED, NEEDS(SMP), 1, 0, "cpupri_vec", "mask" },
	{ "cpupri-lines.C1", LAYOUT_APART, NEEDS(SMP), 1, 0, "cpupri_vec", "count mask" },
	{ "cpupri-lines.C2", LAYOUT_TYPE_PADDED, NEEDS(SMP), 1, 0, "cpupri_vec", "" },
	{ "cpupri-lines.C3", LAYOUT_TYPE_ALIGNED, NEEDS(SMP), 1, 0, "cpupri", "" },
	{ "cpupri-lines.C3", LAYOUT_ALIGNED, NEEDS(SMP), 1, 0, "root_domain", "cpupri" },
	{ "cpupri-lines.C4", LAYOUT_ALIGNED, NEEDS(SMP), 1, 0, "cpupri", "cpu_to_pri" },
	{ "cpupri-lines.C5", LAYOUT_TYPE_SMALL,
	  NEEDS(UP) | NEEDS(MASK_8) | NEEDS(LINE_MIN_64), 1, 0, "cpupri_vec", "" },
	{ "cpupri-lines.C1", LAYOUT_ALONE, NEEDS(SMP), 1, 0, "cpupri_vec", "count" },
	{ "cpupri-lines.C1", LAYOUT_ALONE, NEEDS(SMP), 1, 0, "cpupri_vec", "mask" },
	{ "cpupri-lines.C6", LAYOUT_TYPE_MOST,
	  NEEDS(SMP) | NEEDS(LINE_64) | NEEDS(MASK_8), 1, 128, "cpupri_vec", "" },
	/* True of every design that keeps them apart, not of aligned vecs only. */
	{ "cpupri.S1", LAYOUT_APART, NEEDS(SMP), 1, 0,
	  "root_domain", "cpupri.pri_to_cpu[0].count cpupri.pri_to_cpu[0].mask" },

	{ "cpupri-split.L1", LAYOUT_TYPE_ALIGNED, NEEDS(CPUPRI_SPLIT), 1, 0, "cpupri_line", "" },
	{ "cpupri-split.L1", LAYOUT_TYPE_PADDED, NEEDS(CPUPRI_SPLIT), 1, 0, "cpupri_line", "" },
	{ "cpupri-split.L1", LAYOUT_ON_LINE, NEEDS(CPUPRI_SPLIT), 1, 0,
	  "cpupri_line", "word byte" },
	{ "cpupri-split.L2", LAYOUT_APART, NEEDS(CPUPRI_SPLIT), 1, 0,
	  "cpupri_leaf", "line group nr_words mask_word" },
	{ "cpupri-split.L3", LAYOUT_TYPE_ALIGNED, NEEDS(CPUPRI_SPLIT), 1, 0, "cpupri_vec", "" },
	{ "cpupri-split.L3", LAYOUT_TYPE_PADDED, NEEDS(CPUPRI_SPLIT), 1, 0, "cpupri_vec", "" },
	{ "cpupri-split.L3", LAYOUT_APART, NEEDS(CPUPRI_SPLIT), 1, 0,
	  "cpupri", "pri_to_cpu cpu_to_pri place leaves nr_leaves" },
};

const char sched_layout_kinds[LAYOUT_NR_KINDS][48] = {
	[LAYOUT_ALIGNED]	= "each starts on a line boundary",
	[LAYOUT_ON_LINE]	= "all lie entirely on",
	[LAYOUT_STARTS_ON]	= "all start on",
	[LAYOUT_APART]		= "the first shares no line with the others",
	[LAYOUT_ALONE]		= "no other member is on the lines of the first",
	[LAYOUT_FOLLOWS]	= "the first lies behind the others",
	[LAYOUT_SAME_OFFSET]	= "all have one offset",
	[LAYOUT_OWN_OFFSET]	= "the first has an offset of its own",
	[LAYOUT_HEADROOM]	= "bytes left on the line of the last, at least",
	[LAYOUT_TYPE_ALIGNED]	= "the type is aligned to a line",
	[LAYOUT_TYPE_PADDED]	= "the type's size is whole lines",
	[LAYOUT_TYPE_SMALL]	= "the type is smaller than a line",
	[LAYOUT_UNBROKEN]	= "no other member lies between them",
	[LAYOUT_TYPE_MOST]	= "bytes of the type without them, at most",
};

/* Each completes "needs ..." */
const char sched_layout_conditions[LAYOUT_NR_CONDITIONS][32] = {
	[LAYOUT_SMP]		= "CONFIG_SMP",
	[LAYOUT_64BIT]		= "CONFIG_64BIT",
	[LAYOUT_LINE_64]	= "lines of 64 bytes",
	[LAYOUT_LINE_MIN_64]	= "lines of at least 64 bytes",
	[LAYOUT_LINE_MAX_128]	= "lines of at most 128 bytes",
	[LAYOUT_MASK_8]		= "a cpumask_var_t of 8 bytes",
	[LAYOUT_PLAIN_LOCKS]	= "spinlocks without debugging",
	[LAYOUT_DEBUG_LOCKS]	= "spinlocks with debugging",
	[LAYOUT_PROXY_EXEC]	= "CONFIG_SCHED_PROXY_EXEC",
	[LAYOUT_NO_PROXY_EXEC]	= "CONFIG_SCHED_PROXY_EXEC=n",
	[LAYOUT_UP]		= "CONFIG_SMP=n",
	[LAYOUT_CPUPRI_SPLIT]	= "CONFIG_SCHED_CPUPRI_SPLIT",
};

const struct sched_layout_index sched_layout_index = {
	.version	= SCHED_LAYOUT_VERSION,
	.rule_size	= sizeof(struct sched_layout_rule),
	.nr_rules	= sizeof(sched_layout_rules) / sizeof(struct sched_layout_rule),
	.clause_size	= sizeof(sched_layout_clauses[0]),
	.nr_clauses	= ARRAY_SIZE(sched_layout_clauses),
};
