// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit test of the cache lines of the scheduler's structures.
 *
 * Holds the rules of sched_layout_rules.h against the kernel's own BTF, which
 * has the offset and the size of every member. Rules name members as strings.
 * A member that is gone fails its rule by name, and breaks no build.
 */
#include <kunit/test.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/cleanup.h>
#include <linux/cpu.h>
#include <linux/mmu_context.h>

#include "../sched.h"

#ifndef SCHED_KUNIT_EXPORTED
#include <linux/moduleparam.h>
#include "sched_kunit_expect.h"

/*
 * A rule is judged if the change that made it is in the tree. If that change is
 * absent, the rule is skipped, unless this names the change: then it fails.
 */
static char *expect = "";
module_param(expect, charp, 0444);
MODULE_PARM_DESC(expect, "changes that must be in this kernel, separated by commas");
#endif

enum layout_kind {
	BEGINS_LINE = 1,	/* each member starts on a line boundary */
	ON_LINE,		/* every byte of all lies on line @arg */
	STARTS_ON,		/* the first byte of each lies on line @arg */
	APART,			/* no line holds bytes of these and of the others */
	CLOSED,			/* their lines hold these, the others and nothing else */
	UNBROKEN,		/* no other member lies between these */
#ifndef SCHED_KUNIT_NO_SIGNS
	BEHIND,			/* each starts behind the start of each of the others */
#endif
	SAME_OFFSET,		/* all start at one offset */
	OWN_OFFSET,		/* none of the others starts where one of these does */
	HEADROOM,		/* @arg bytes or more from the last one to its line's end */
	ALIGNED,		/* the alignment of the type is whole lines */
#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
	WHOLE_LINES,		/* the size of the type is whole lines */
	SMALL,			/* the type is smaller than a line */
	AT_MOST,		/* bytes of the type without these members: @arg at most */
#endif
	GAPS,			/* bytes of the type that no member has: @arg at most */
};

/* One thing that must hold. */
struct layout_clause {
	enum layout_kind	kind;
	const char		*what;		/* the kind in words */
	int			arg;		/* see enum layout_kind */
	const char		*type;		/* tag of the structure */
	const char		*members;	/* separated by blanks */
	const char		*others;
	const char		*has;		/* without this member it does not apply */
	const char		*when;		/* the condition in words, NULL for none */
	bool			applies;	/* whether that is true of this kernel */
};

struct layout_rule {
	const char			*id;	/* public, and never changed */
	const char			*why;	/* what goes wrong when it is broken */
	const struct layout_clause	*clauses;
};

#define RULE(id, why, ...)	{ id, why, CLAUSES(__VA_ARGS__) }
#define CLAUSES(...)		((const struct layout_clause[]){ __VA_ARGS__, { } })
#define KEEP(k, t, ...)		{ .kind = k, .what = #k, .type = #t, ##__VA_ARGS__ }
#define OF(names)		.members = names
#define OTHERS(names)		.others = names
#define LINE_NR(n)		.arg = n
#define BYTES(n)		.arg = n
#define HAS(m)			.has = m
#define WHEN(condition)		.when = #condition, .applies = (condition)

#define ANY_LINE	(-1)	/* whichever, but one for all */
#define LINE		SMP_CACHE_BYTES
#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
#define LAST_LINE	(-2)	/* of the type */
#define MASK		sizeof(cpumask_var_t)
#endif
#define PLAIN_LOCKS	(sizeof(raw_spinlock_t) == sizeof(arch_spinlock_t))

/* A structure of the rules, as compiled, and where BTF has it. */
struct layout_type {
	const char		*name;
	u32			size;
	u32			align;
	const struct btf_type	*btf;
};

#ifndef SCHED_KUNIT_EXPORTED
/* A change, and the signs by which it is known to be in a tree. */
struct layout_change {
	const char			*id;
	const struct layout_clause	*signs;
};
#endif

#include "sched_layout_rules.h"

#define MOST	512	/* members of a structure */
#define WORDS	300	/* bytes for a reason */

enum verdict { HOLDS, BROKEN, NOT_HERE, NOT_JUDGED };

/* Bytes @start to @end - 1. @named: 1 for a member of the clause, 2 for one of the others. */
struct member {
	const char	*name;
	u32		start;
	u32		end;
	int		named;
};

/* What a clause is about: a structure with all its members. */
struct subject {
	const struct layout_clause	*clause;
	u32				size;
	u32				align;
	int				nr;
	int				nr_named[3];
	const struct member		*first;	/* of those in the clause, as it lists them */
	char				why[WORDS];
	struct member			all[MOST];
};

static u32 first_line(const struct member *m)
{
	return m->start / LINE;
}

static u32 last_line(const struct member *m)
{
	return (max(m->end, m->start + 1) - 1) / LINE;
}

static bool share_line(const struct member *a, const struct member *b)
{
	return first_line(a) <= last_line(b) && first_line(b) <= last_line(a);
}

/* The members of an unnamed structure inside of it count as its own. */
static void add_members(struct subject *s, const struct btf *btf, const struct btf_type *t,
			u32 base)
{
	const struct btf_member *m;
	u32 i;

	for_each_member(i, t, m) {
		const struct btf_type *inner = btf_type_skip_modifiers(btf, m->type, NULL);
		u32 bits = __btf_member_bitfield_size(t, m), size = 0;
		u32 bit = base + __btf_member_bit_offset(t, m);

		if (!m->name_off && btf_type_is_struct(inner)) {
			add_members(s, btf, inner, bit);
			continue;
		}
		btf_resolve_size(btf, btf_type_by_id(btf, m->type), &size);
		if (s->nr < MOST)
			s->all[s->nr] = (struct member){
				.name = btf_name_by_offset(btf, m->name_off),
				.start = bit / 8,
				.end = DIV_ROUND_UP(bit + (bits ?: size * 8), 8),
			};
		s->nr++;
	}
}

/* A driver may have a type of the same name: the size has to be the compiler's, too. */
static const struct btf_type *find_type(const struct btf *btf, const struct layout_type *wanted)
{
	for (u32 id = 1; id < btf_nr_types(btf); id++) {
		const struct btf_type *t = btf_type_by_id(btf, id);

		if (__btf_type_is_struct(t) && t->size == wanted->size &&
		    !strcmp(btf_name_by_offset(btf, t->name_off), wanted->name))
			return t;
	}
	return NULL;
}

/* Fills in all members of the clause's structure. */
static enum verdict read_type(struct subject *s)
{
	struct layout_type *type = layout_types;
	struct btf *btf = NULL;

	while (type->name && strcmp(type->name, s->clause->type))
		type++;
	scnprintf(s->why, WORDS, "no struct %s in this configuration", s->clause->type);
	if (!type->name)
		return NOT_HERE;
	s->size = type->size;
	s->align = type->align;
	s->nr = 0;
	strscpy(s->why, "needs CONFIG_DEBUG_INFO_BTF", WORDS);
#ifdef CONFIG_DEBUG_INFO_BTF
	btf = bpf_get_btf_vmlinux();
#endif
	if (IS_ERR_OR_NULL(btf))
		return NOT_JUDGED;
	if (!type->btf)
		type->btf = find_type(btf, type);
	if (type->btf)
		add_members(s, btf, type->btf, 0);
	scnprintf(s->why, WORDS, "BTF has no struct %s of %u bytes", type->name, type->size);
	return s->nr && s->nr <= MOST ? HOLDS : NOT_JUDGED;
}

static bool is_name(const char *name, const char *other, size_t len)
{
	return strlen(name) == len && !strncmp(name, other, len);
}

static bool is_absent_member(const char *type, const char *name, size_t len)
{
	size_t tag = strlen(type);

	for (const char * const *m = absent_members; *m; m++)
		if (!strncmp(*m, type, tag) && (*m)[tag] == '.' && is_name(*m + tag + 1, name, len))
			return true;
	return false;
}

/* Marks the members in @names that this configuration has; false if one is gone. */
static bool mark(struct subject *s, const char *names, int as)
{
	for (size_t len; names && *names; names += len, names += strspn(names, " ")) {
		struct member *m = s->all;

		len = strcspn(names, " ");
		if (is_absent_member(s->clause->type, names, len))
			continue;
		while (m < s->all + s->nr && !is_name(m->name, names, len))
			m++;
		if (m == s->all + s->nr) {
			scnprintf(s->why, WORDS, "it has no member %.*s: renamed, or removed?",
				  (int)len, names);
			return false;
		}
		m->named = as;
		if (!s->nr_named[as]++ && as == 1)
			s->first = m;
	}
	return true;
}

/* The first member that has a byte from @start to @end - 1 which no named one has. */
static const struct member *stranger(const struct subject *s, u32 start, u32 end)
{
	for (const struct member *m = s->all; m < s->all + s->nr; m++) {
		for (u32 pos = max(start, m->start); pos < min(end, m->end); pos++) {
			bool known = false;

			for (const struct member *k = s->all; k < s->all + s->nr; k++)
				known |= k->named && pos >= k->start && pos < k->end;
			if (!known)
				return m;
		}
	}
	return NULL;
}

static u32 wanted_line(const struct subject *s)
{
#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
	if (s->clause->arg == LAST_LINE)
		return (s->size - 1) / LINE;
#endif
	return s->clause->arg == ANY_LINE ? first_line(s->first) : s->clause->arg;
}

static bool clash(enum layout_kind kind, const struct member *m, const struct member *other)
{
#ifndef SCHED_KUNIT_NO_SIGNS
	if (kind == BEHIND)
		return m->start <= other->start;
#endif
	return kind == APART ? share_line(m, other) :
	       kind == OWN_OFFSET && m->start == other->start;
}

/* Whether the clause is true of its member @m; if not, and that is due to another, of which. */
static bool member_holds(const struct subject *s, const struct member *m,
			 const struct member **other)
{
	switch (s->clause->kind) {
	case BEGINS_LINE:
		return m->start % LINE == 0;
	case ON_LINE:
		return first_line(m) == wanted_line(s) && last_line(m) == wanted_line(s);
	case STARTS_ON:
		return first_line(m) == wanted_line(s);
	case SAME_OFFSET:
		return m->start == s->first->start;
	case CLOSED:
		*other = stranger(s, first_line(m) * LINE, (last_line(m) + 1) * LINE);
		return !*other;
	default:
		for (const struct member *k = s->all; k < s->all + s->nr; k++)
			if (k->named == 2 && clash(s->clause->kind, m, k))
				*other = k;
		return !*other;
	}
}

/* Bytes that no member has. */
static u32 gaps(const struct subject *s)
{
	u32 bytes = s->size;

	for (u32 pos = 0; pos < s->size; pos++) {
		const struct member *m = s->all;

		while (m < s->all + s->nr && (pos < m->start || pos >= m->end))
			m++;
		bytes -= m < s->all + s->nr;
	}
	return bytes;
}

#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
/* The end of the bytes that are @m's own: with the padding behind one that begins a line. */
static u32 own_end(const struct subject *s, const struct member *m)
{
	u32 end = min((last_line(m) + 1) * LINE, s->size);

	if (m->start % LINE)
		return m->end;
	for (const struct member *k = s->all; k < s->all + s->nr; k++)
		if (k->start >= m->end)
			end = min(end, k->start);
	return end;
}

/* Bytes that are not the named members' own. */
static u32 bytes_of_others(const struct subject *s)
{
	u32 bytes = 0;

	for (u32 pos = 0; pos < s->size; pos++) {
		bool own = false;

		for (const struct member *m = s->all; m < s->all + s->nr; m++)
			own |= m->named == 1 && pos >= m->start && pos < own_end(s, m);
		bytes += !own;
	}
	return bytes;
}
#endif

/* What is true of all members together, or of the type. */
static bool whole_holds(struct subject *s)
{
	u32 start = U32_MAX, end = 0;
	const struct member *m;

	for (m = s->all; m < s->all + s->nr; m++) {
		if (m->named != 1)
			continue;
		start = min(start, m->start);
		end = max(end, m->end);
	}

	switch (s->clause->kind) {
	case UNBROKEN:
		m = stranger(s, start, end);
		scnprintf(s->why, WORDS, "%s lies between them", m ? m->name : "nothing");
		return !m;
	case HEADROOM:
		scnprintf(s->why, WORDS, "%u bytes left", LINE - 1 - (end - 1) % LINE);
		return LINE - 1 - (end - 1) % LINE >= s->clause->arg;
	case GAPS:
		scnprintf(s->why, WORDS, "%u bytes", gaps(s));
		return gaps(s) <= s->clause->arg;
	case ALIGNED:
		scnprintf(s->why, WORDS, "it is aligned to %u bytes", s->align);
		return s->align % LINE == 0;
#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
	case AT_MOST:
		scnprintf(s->why, WORDS, "%u bytes", bytes_of_others(s));
		return bytes_of_others(s) <= s->clause->arg;
	case WHOLE_LINES:
	case SMALL:
		scnprintf(s->why, WORDS, "it has %u bytes", s->size);
		return s->clause->kind == SMALL ? s->size < LINE : s->size % LINE == 0;
#endif
	default:
		return true;
	}
}

/* Of some kinds, a clause that is left with one member says nothing. */
static bool says_nothing(const struct subject *s)
{
	const struct layout_clause *c = s->clause;
	bool several = c->kind == SAME_OFFSET || c->kind == UNBROKEN || c->arg == ANY_LINE;
	bool compares = c->others && !s->nr_named[2] && c->kind != CLOSED;

#ifndef SCHED_KUNIT_RQ_ORDER_ALONE
	if (c->kind == AT_MOST)
		return false;
#endif
	return (c->members && !s->nr_named[1]) || compares ||
	       (several && strchr(c->members, ' ') && s->nr_named[1] < 2);
}

static enum verdict judge(struct subject *s, const struct layout_clause *c)
{
	enum verdict verdict;

	s->clause = c;
	memset(s->nr_named, 0, sizeof(s->nr_named));
	if (c->when && !c->applies) {
		scnprintf(s->why, WORDS, "needs %s", c->when);
		return NOT_HERE;
	}
	verdict = read_type(s);
	if (verdict != HOLDS)
		return verdict;
	if (c->has && is_absent_member(c->type, c->has, strlen(c->has))) {
		scnprintf(s->why, WORDS, "no %s.%s in this configuration", c->type, c->has);
		return NOT_HERE;
	}
	if (!mark(s, c->members, 1) || !mark(s, c->others, 2))
		return BROKEN;
	if (says_nothing(s)) {
		scnprintf(s->why, WORDS, "nothing to compare in this configuration");
		return NOT_HERE;
	}
	if (!whole_holds(s))
		return BROKEN;
	for (const struct member *m = s->all; m < s->all + s->nr; m++) {
		const struct member *other = NULL;

		if (m->named != 1 || member_holds(s, m, &other))
			continue;
		if (other)
			scnprintf(s->why, WORDS, "%s (%u) and %s (%u)", m->name, m->start,
				  other->name, other->start);
		else
			scnprintf(s->why, WORDS, "%s (%u)", m->name, m->start);
		return BROKEN;
	}
	return HOLDS;
}

static void report(struct kunit *test, const struct layout_rule *rule, const struct subject *s)
{
	const struct layout_clause *c = s->clause;

	KUNIT_FAIL(test, "%s: struct %s: %s %s: %s", rule->id, c->type, c->what, c->members ?: "",
		   s->why);
	kunit_err(test, "why: %s\n", rule->why);
	kunit_err(test, "struct %s: %u bytes, lines of %u\n", c->type, s->size, LINE);
	/* Offset, size and name of all that is on the lines of the members. */
	for (const struct member *m = s->all; m < s->all + s->nr; m++) {
		bool near = m->named;

		for (const struct member *k = s->all; k < s->all + s->nr && !near; k++)
			near = k->named == 1 && share_line(m, k);
		if (near)
			kunit_err(test, "%c %7u %7u  %s\n", m->named ? '>' : ' ', m->start,
				  m->end - m->start, m->name);
	}
}

#ifndef SCHED_KUNIT_EXPORTED
static const char * const presence_names[] = { "present", "partial", "absent", "n/a", "unknown" };

/* One sign is enough: half a change in a tree is to be judged, not skipped. */
static const char *presence_of(struct kunit *test, const struct layout_change *change)
{
	struct subject *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	unsigned int nr[NOT_JUDGED + 1] = {};

	KUNIT_ASSERT_NOT_NULL(test, s);
	for (const struct layout_clause *c = change->signs; c->kind; c++)
		nr[judge(s, c)]++;
	if (nr[NOT_JUDGED])
		return presence_names[4];
	if (!nr[HOLDS])
		return presence_names[nr[BROKEN] ? 2 : 3];
	return presence_names[nr[BROKEN] ? 1 : 0];
}

/* Does not return for a change that nobody expects, unless it is there. */
static bool is_absent(struct kunit *test, const char *id)
{
	const struct layout_change *change = layout_changes;
	const char *presence;

	while (strcmp(change->id, id))
		change++;
	presence = presence_of(test, change);
	if (is_expected(expect, id))
		return presence == presence_names[2];
	if (presence == presence_names[2])
		kunit_skip(test, "%s is not in this tree", id);
	if (presence == presence_names[4])
		kunit_skip(test, "not judged: only BTF tells whether %s is in this tree", id);
	return false;
}

static void expect_change(struct kunit *test, const char *id)
{
	if (is_absent(test, id))
		KUNIT_FAIL(test, "%s is expected, and not in this tree", id);
}

/* Says which changes are there, for the reader of the log. */
static void changes(struct kunit *test)
{
	const struct layout_change *change;
	const char *p = expect;
	size_t len;

	for (change = layout_changes; change->id; change++)
		kunit_info(test, "change %s: %s%s\n", change->id, presence_of(test, change),
			   is_expected(expect, change->id) ? ", expected" : "");

	/* A typing error would expect nothing, and so turn failures into skips. */
	for (; (p = next_expected(p, &len)); p += len) {
		for (change = layout_changes; change->id; change++)
			if (strlen(change->id) == len && !strncmp(p, change->id, len))
				break;
		if (!change->id)
			KUNIT_FAIL(test, "sched_layout_kunit.expect: no change has the name %.*s",
				   (int)len, p);
	}
}
#endif

/* A rule holds if each of its clauses that applies was judged, and holds. */
static void check_rule(struct kunit *test, const char *change)
{
	const struct layout_rule *rule = test->param_value;
	struct subject *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);
	unsigned int nr[NOT_JUDGED + 1] = {};
	char why[WORDS] = "nothing of it is in this tree";

#ifndef SCHED_KUNIT_EXPORTED
	bool absent = is_absent(test, change);
#endif

	KUNIT_ASSERT_NOT_NULL(test, s);
	for (const struct layout_clause *c = rule->clauses; c->kind; c++) {
		enum verdict verdict = judge(s, c);

		if (verdict == BROKEN)
			report(test, rule, s);
		if (verdict == NOT_JUDGED || (verdict == NOT_HERE && !nr[NOT_JUDGED]))
			strscpy(why, s->why, WORDS);
		nr[verdict]++;
	}
	if (nr[NOT_JUDGED] && !nr[BROKEN])
		kunit_skip(test, "not judged: %s", why);
	if (!nr[HOLDS] && !nr[BROKEN])
		kunit_skip(test, "n/a: %s", why);
#ifndef SCHED_KUNIT_EXPORTED
	if (absent)
		KUNIT_FAIL(test, "%s: %s is expected, and not in this tree", rule->id, change);
#endif
}

/* One test for each change, written out so that a search finds its name. */
#ifndef SCHED_KUNIT_NO_RQ_ORDER
static void rq_order(struct kunit *test)
{
	check_rule(test, "rq-order");
}

KUNIT_ARRAY_PARAM_DESC(rq_order, rq_order_rules, id);
#endif

#ifndef SCHED_KUNIT_NO_RD_LINES
static void rd_lines(struct kunit *test)
{
	check_rule(test, "rd-lines");
}

KUNIT_ARRAY_PARAM_DESC(rd_lines, rd_lines_rules, id);
#endif

#ifndef SCHED_KUNIT_NO_CPUPRI_LINES
static void cpupri_lines(struct kunit *test)
{
	check_rule(test, "cpupri-lines");
}

KUNIT_ARRAY_PARAM_DESC(cpupri_lines, cpupri_lines_rules, id);
#endif

#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
static void cpupri_split(struct kunit *test)
{
	check_rule(test, "cpupri-split");
}

KUNIT_ARRAY_PARAM_DESC(cpupri_split, cpupri_split_rules, id);
#endif

#ifndef SCHED_KUNIT_NO_RQ_READERS
static void rq_readers(struct kunit *test)
{
	check_rule(test, "rq-readers");
}

KUNIT_ARRAY_PARAM_DESC(rq_readers, rq_readers_rules, id);
#endif

/* The rules speak of offsets: they are lines if the objects start on one. */
static void expect_on_boundary(struct kunit *test, const void *object, int cpu)
{
	KUNIT_EXPECT_TRUE_MSG(test, IS_ALIGNED((unsigned long)object, LINE),
			      "seen from CPU %d, it starts %lu bytes behind a boundary of %u", cpu,
			      (unsigned long)object % LINE, LINE);
}

#ifndef SCHED_KUNIT_NO_RQ_ORDER
static void runqueues_begin_a_line(struct kunit *test)
{
	int cpu;

#ifndef SCHED_KUNIT_EXPORTED
	expect_change(test, "rq-order");
#endif
	for_each_possible_cpu(cpu)
		expect_on_boundary(test, cpu_rq(cpu), cpu);
}
#endif

#ifndef SCHED_KUNIT_NO_RD_LINES
/* Only the address matters: a root_domain itself is not looked into. */
static void root_domains_begin_a_line(struct kunit *test)
{
#ifdef CONFIG_SMP
	int cpu;

#ifndef SCHED_KUNIT_EXPORTED
	expect_change(test, "rd-lines");
#endif
	guard(cpus_read_lock)();
	for_each_online_cpu(cpu)
		expect_on_boundary(test, cpu_rq(cpu)->rd, cpu);
#else
	kunit_skip(test, "n/a: no struct root_domain in this configuration");
#endif
}

static void default_root_domain_begins_a_line(struct kunit *test)
{
#ifndef SCHED_KUNIT_EXPORTED
	expect_change(test, "rd-lines");
#endif
#ifdef CONFIG_SMP
	expect_on_boundary(test, &def_root_domain, 0);
#else
	kunit_skip(test, "n/a: no struct root_domain in this configuration");
#endif
}
#endif

static struct kunit_case sched_layout_cases[] = {
#ifndef SCHED_KUNIT_EXPORTED
	KUNIT_CASE(changes),
#endif
#ifndef SCHED_KUNIT_NO_RQ_ORDER
	KUNIT_CASE_PARAM(rq_order, rq_order_gen_params),
#endif
#ifndef SCHED_KUNIT_NO_RD_LINES
	KUNIT_CASE_PARAM(rd_lines, rd_lines_gen_params),
#endif
#ifndef SCHED_KUNIT_NO_CPUPRI_LINES
	KUNIT_CASE_PARAM(cpupri_lines, cpupri_lines_gen_params),
#endif
#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
	KUNIT_CASE_PARAM(cpupri_split, cpupri_split_gen_params),
#endif
#ifndef SCHED_KUNIT_NO_RQ_READERS
	KUNIT_CASE_PARAM(rq_readers, rq_readers_gen_params),
#endif
#ifndef SCHED_KUNIT_NO_RQ_ORDER
	KUNIT_CASE(runqueues_begin_a_line),
#endif
#ifndef SCHED_KUNIT_NO_RD_LINES
	KUNIT_CASE(root_domains_begin_a_line),
	KUNIT_CASE(default_root_domain_begins_a_line),
#endif
	{}
};

static struct kunit_suite sched_layout_suite = {
	.name		= "sched_layout",
	.test_cases	= sched_layout_cases,
};

kunit_test_suite(sched_layout_suite);

MODULE_DESCRIPTION("KUnit test of the scheduler's cache lines");
MODULE_LICENSE("GPL");
