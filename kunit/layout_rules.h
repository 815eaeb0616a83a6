/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules on the cache lines of the scheduler's structures, as data.
 *
 * The tables hold characters and fixed-width integers only, no pointers: what
 * they say can be read out of the object files as it lies there, whatever the
 * architecture, without linking or booting anything. sched_layout_kunit.c is
 * the reader inside the kernel.
 */
#ifndef _KERNEL_SCHED_TESTS_LAYOUT_RULES_H
#define _KERNEL_SCHED_TESTS_LAYOUT_RULES_H

#include <linux/limits.h>
#include <linux/types.h>

/* Raised when a record changes its shape or a number its meaning. */
#define SCHED_LAYOUT_VERSION	1

/**
 * struct sched_layout_rule - what is promised, and to whose benefit
 * @id:		public name, never changed: "rd-lines.R1"
 * @change:	the kernel change that made the promise: "rd-lines"
 * @reason:	what goes wrong when it is broken
 * @source:	commit or Message-ID of the change
 */
struct sched_layout_rule {
	char	id[24];
	char	change[16];
	char	reason[176];
	char	source[96];
};

/* One array for each change, so that each is a parameterised test of its own. */
struct sched_layout_rules {
	struct sched_layout_rule	rq_order[9];
	struct sched_layout_rule	rd_lines[8];
	struct sched_layout_rule	cpupri_lines[7];
	struct sched_layout_rule	cpupri_split[3];
};

/* What a clause says about its members. */
enum sched_layout_kind {
	LAYOUT_ALIGNED,		/* each starts on a line boundary */
	LAYOUT_ON_LINE,		/* every byte of all lies on line @arg */
	LAYOUT_STARTS_ON,	/* the first byte of each lies on line @arg */
	LAYOUT_APART,		/* no line holds bytes of the first and of another */
	LAYOUT_ALONE,		/* the first's lines hold these and nothing else */
	LAYOUT_FOLLOWS,		/* the first starts behind the start of each other */
	LAYOUT_SAME_OFFSET,	/* all start at the first's offset */
	LAYOUT_OWN_OFFSET,	/* no other starts at the first's offset */
	LAYOUT_HEADROOM,	/* @arg bytes or more from the last one to its line's end */
	LAYOUT_TYPE_ALIGNED,	/* the type is aligned to a line (no members) */
	LAYOUT_TYPE_PADDED,	/* the type's size is whole lines (no members) */
	LAYOUT_TYPE_SMALL,	/* the type is smaller than a line (no members) */
	LAYOUT_UNBROKEN,	/* no other member lies between these */
	LAYOUT_TYPE_MOST,	/* bytes of the type without these: @arg at most */
	LAYOUT_NR_KINDS
};

/* For @arg of the two kinds that name a line. */
#define LAYOUT_ANY_LINE		S32_MAX	/* whichever line, but one for all */
#define LAYOUT_LAST_LINE	(-1)	/* of the type */

/* What must be true of a kernel for a clause to apply to it: bit numbers. */
enum sched_layout_condition {
	LAYOUT_SMP,
	LAYOUT_64BIT,
	LAYOUT_LINE_64,
	LAYOUT_LINE_MIN_64,
	LAYOUT_LINE_MAX_128,
	LAYOUT_MASK_8,
	LAYOUT_PLAIN_LOCKS,
	LAYOUT_DEBUG_LOCKS,
	LAYOUT_PROXY_EXEC,
	LAYOUT_NO_PROXY_EXEC,
	LAYOUT_UP,
	LAYOUT_CPUPRI_SPLIT,
	LAYOUT_NR_CONDITIONS
};

/**
 * struct sched_layout_clause - one thing to be checked
 * @rule:	rule that it belongs to; a rule holds when all its clauses do.
 *		With the name of a change here, the clause is a sign by which
 *		the change is known to be in a tree: one sign is enough.
 * @kind:	enum sched_layout_kind
 * @needs:	bits of enum sched_layout_condition; without all of them: n/a
 * @forced:	1 if an attribute or the order in the source brings it about in
 *		every configuration, 0 if it was only observed to be so
 * @arg:	see enum sched_layout_kind
 * @type:	tag of the structure
 * @members:	separated by blanks, as in &struct sched_layout_field. With "?"
 *		behind it, one that this configuration lacks is left out;
 *		without, the clause is n/a.
 */
struct sched_layout_clause {
	char	rule[24];
	u32	kind;
	u32	needs;
	u32	forced;
	s32	arg;
	char	type[16];
	char	members[144];
};

/**
 * struct sched_layout_type - a structure, as compiled
 * @type:	its tag
 * @size:	in bytes
 * @align:	in bytes
 */
struct sched_layout_type {
	char	type[16];
	u32	size;
	u32	align;
};

/**
 * struct sched_layout_field - where the compiler put a member
 * @type:	tag of the structure
 * @member:	its path; "a[0].b" stands for b in every element of the array a
 * @offset:	in bytes
 * @size:	in bytes
 * @count:	number of elements of "a", else 1
 * @stride:	bytes from one element to the next, else 0
 */
struct sched_layout_field {
	char	type[16];
	char	member[32];
	u32	offset;
	u32	size;
	u32	count;
	u32	stride;
};

/**
 * struct sched_layout_index - how to read the rules
 * @version:	SCHED_LAYOUT_VERSION
 * @rule_size:	size of each record, and how many there are
 * @nr_rules:	in all arrays of &struct sched_layout_rules, which lie back to back
 * @clause_size: see @rule_size
 * @nr_clauses:	see @rule_size
 */
struct sched_layout_index {
	u32	version;
	u32	rule_size;
	u32	nr_rules;
	u32	clause_size;
	u32	nr_clauses;
};

/**
 * struct sched_layout_env - the kernel whose members were measured
 * @version:	SCHED_LAYOUT_VERSION
 * @type_size:	size of each record, and how many there are
 * @nr_types:	see @type_size
 * @field_size:	see @type_size
 * @nr_fields:	see @type_size
 * @line:	bytes in a cache line, as ____cacheline_aligned has it
 * @mask:	bytes in a cpumask_var_t: a pointer, or the whole mask
 * @holds:	bits of enum sched_layout_condition that are true
 */
struct sched_layout_env {
	u32	version;
	u32	type_size;
	u32	nr_types;
	u32	field_size;
	u32	nr_fields;
	u32	line;
	u32	mask;
	u32	holds;
};

/* layout_rules.c */
extern const struct sched_layout_index sched_layout_index;
extern const struct sched_layout_rules sched_layout_rules;
extern const struct sched_layout_clause sched_layout_clauses[];
/* The two enums in words, for messages. */
extern const char sched_layout_kinds[LAYOUT_NR_KINDS][48];
extern const char sched_layout_conditions[LAYOUT_NR_CONDITIONS][32];

/* layout_fields.c */
extern const struct sched_layout_env sched_layout_env;
extern const struct sched_layout_type sched_layout_types[];
extern const struct sched_layout_field sched_layout_fields[];

#endif /* _KERNEL_SCHED_TESTS_LAYOUT_RULES_H */
