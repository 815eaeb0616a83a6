/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rules on the cache lines of the scheduler's structures, as data.
 *
 * Four files are made from contracts when the tests are added to a tree:
 * layout_contracts.h and layout_closed.h, layout_rules.c with the rules, and
 * layout_fields.c with the offsets. The tables of the last hold characters and
 * fixed-width integers only, no pointers: they can be read out of the object
 * file as they lie there, whatever the architecture. sched_layout_kunit.c is
 * the reader inside the kernel.
 */
#ifndef _KERNEL_SCHED_TESTS_LAYOUT_RULES_H
#define _KERNEL_SCHED_TESTS_LAYOUT_RULES_H

#include <linux/limits.h>
#include <linux/types.h>

/* Raised when a record changes its shape or a number its meaning. */
#define SCHED_LAYOUT_VERSION	2

/**
 * struct sched_layout_rule - what is promised, and to whose benefit
 * @id:		public name, never changed: "rd-lines.R1"
 * @change:	the kernel change that made the promise: "rd-lines"
 * @reason:	what goes wrong when it is broken
 * @source:	commit or Message-ID of the change
 */
struct sched_layout_rule {
	const char	*id;
	const char	*change;
	const char	*reason;
	const char	*source;
};

#include "layout_contracts.h"

/* What a clause says about its members and, of some kinds, about others. */
enum sched_layout_kind {
	LAYOUT_ALIGNED,		/* each starts on a line boundary */
	LAYOUT_ON_LINE,		/* every byte of all lies on line @arg */
	LAYOUT_STARTS_ON,	/* the first byte of each lies on line @arg */
	LAYOUT_APART,		/* no line holds bytes of these and of the others */
	LAYOUT_ALONE,		/* their lines hold these, the others and nothing else */
	LAYOUT_UNBROKEN,	/* no other member lies between these */
	LAYOUT_FOLLOWS,		/* each starts behind the start of each of the others */
	LAYOUT_SAME_OFFSET,	/* all start at one offset */
	LAYOUT_OWN_OFFSET,	/* none of the others starts where one of these does */
	LAYOUT_HEADROOM,	/* @arg bytes or more from the last one to its line's end */
	LAYOUT_TYPE_ALIGNED,	/* the type is aligned to a line (no members) */
	LAYOUT_TYPE_PADDED,	/* the type's size is whole lines (no members) */
	LAYOUT_TYPE_SMALL,	/* the type is smaller than a line (no members) */
	LAYOUT_TYPE_MOST,	/* bytes of the type without these: @arg at most */
	LAYOUT_NR_KINDS
};

/* For @arg of the two kinds that name a line. */
#define LAYOUT_ANY_LINE		(-1)	/* whichever line, but one for all */
#define LAYOUT_LAST_LINE	(-2)	/* of the type */

/**
 * struct sched_layout_clause - one thing to be checked
 * @rule:	rule that it belongs to; a rule holds when all its clauses do
 * @kind:	enum sched_layout_kind
 * @needs:	bits of enum sched_layout_need; without all of them: n/a
 * @forced:	whether an attribute or the order in the source brings it about
 *		in every configuration; else it was only observed to be so
 * @arg:	see enum sched_layout_kind
 * @type:	tag of the structure
 * @least:	members that a configuration must have; with fewer: n/a
 * @members:	separated by blanks, as in &struct sched_layout_field. One that
 *		this configuration lacks is left out.
 * @others:	likewise
 * @requires:	members; in a configuration that lacks one the clause is n/a
 */
struct sched_layout_clause {
	const char	*rule;
	u32		kind;
	u32		needs;
	bool		forced;
	s32		arg;
	const char	*type;
	u32		least;
	const char	*members;
	const char	*others;
	const char	*requires;
};

#ifndef SCHED_KUNIT_EXPORTED
/*
 * A clause whose @rule is the name of a change is a sign by which the change is
 * known to be in a tree: one sign is enough.
 */
#endif

/**
 * struct sched_layout_condition - a condition of clauses
 * @text:	as the contracts have it
 * @holds:	whether it is true of this kernel
 */
struct sched_layout_condition {
	char	text[LAYOUT_CONDITION_LEN];
	u32	holds;
};

/**
 * struct sched_layout_type - a structure, as compiled
 * @type:	its tag
 * @size:	in bytes
 * @align:	in bytes
 */
struct sched_layout_type {
	char	type[LAYOUT_TYPE_LEN];
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
	char	type[LAYOUT_TYPE_LEN];
	char	member[LAYOUT_MEMBER_LEN];
	u32	offset;
	u32	size;
	u32	count;
	u32	stride;
};

/**
 * struct sched_layout_env - the kernel whose members were measured
 * @version:	SCHED_LAYOUT_VERSION
 * @type_size:	size of each record, and how many there are
 * @nr_types:	see @type_size
 * @field_size:	see @type_size
 * @nr_fields:	see @type_size
 * @condition_size: see @type_size
 * @nr_conditions: see @type_size
 * @line:	bytes in a cache line, as ____cacheline_aligned has it
 */
struct sched_layout_env {
	u32	version;
	u32	type_size;
	u32	nr_types;
	u32	field_size;
	u32	nr_fields;
	u32	condition_size;
	u32	nr_conditions;
	u32	line;
};

/* layout_rules.c */
extern const struct sched_layout_rules sched_layout_rules;
extern const struct sched_layout_clause sched_layout_clauses[];
extern const u32 sched_layout_nr_clauses;
/* The two enums in words, for messages. */
extern const char * const sched_layout_kinds[LAYOUT_NR_KINDS];
extern const char * const sched_layout_needs[LAYOUT_NR_CONDITIONS];
#ifndef SCHED_KUNIT_EXPORTED
/* The changes that made the rules, and NULL. */
extern const char * const sched_layout_changes[];
#endif

/* layout_fields.c */
extern const struct sched_layout_env sched_layout_env;
extern const struct sched_layout_type sched_layout_types[];
extern const struct sched_layout_field sched_layout_fields[];
extern const struct sched_layout_condition sched_layout_conditions[LAYOUT_NR_CONDITIONS];

#endif /* _KERNEL_SCHED_TESTS_LAYOUT_RULES_H */
