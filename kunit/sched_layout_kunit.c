// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit test of the cache lines of struct rq, root_domain and cpupri.
 *
 * Holds the rules of layout_rules.c against the offsets that the compiler chose,
 * in layout_fields.c.
 */
#include <kunit/test.h>
#include <linux/cleanup.h>
#include <linux/cpu.h>
#include <linux/mmu_context.h>
#include <linux/string.h>

#include "../sched.h"
#include "layout_rules.h"

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

#define WORDS	400	/* bytes for a clause in words */

#if __has_builtin(__builtin_clear_padding)
#define clear_padding(p)	__builtin_clear_padding(p)
#else
#define clear_padding(p)	((void)(p))
#endif

/*
 * Which bytes of a structure belong to a member, listed in
 * sched_layout_fields or not: those that are not zero once the compiler has
 * cleared the padding.
 */
#define CLOSED(type)						\
static struct {							\
	struct type	object;					\
	u8		last;					\
} type##_in_use;						\
								\
static void find_padding_of_##type(void)			\
{								\
	memset(&type##_in_use, 0xff, sizeof(type##_in_use));	\
	clear_padding(&type##_in_use);				\
}

#include "layout_closed.h"
#undef CLOSED

static const struct {
	const char	*type;
	const u8	*byte;
	size_t		size;
	void		(*find_padding)(void);
} in_use[] = {
#define CLOSED(type) \
	{ #type, (u8 *)&type##_in_use, sizeof(type##_in_use), find_padding_of_##type },
#include "layout_closed.h"
#undef CLOSED
};

/*
 * NULL where it is not known up to @end. The compiler clears from front to
 * back, so it got as far as the last byte that is zero; behind a structure
 * that fills its last line that is the padding behind @last. gcc 12 gets no
 * further than an array of structures with padding, such as that in cpupri.
 */
static const u8 *bytes_in_use(const char *type, u32 end)
{
	for (int i = 0; i < ARRAY_SIZE(in_use); i++) {
		if (strcmp(in_use[i].type, type))
			continue;
		for (size_t pos = end; pos < in_use[i].size; pos++)
			if (!in_use[i].byte[pos])
				return in_use[i].byte;
	}
	return NULL;
}

/* The members that a clause names: @nr of its own, then @nr_others. */
struct members {
	const struct sched_layout_type	*type;
	const struct sched_layout_field	*field[LAYOUT_MOST_MEMBERS];
	unsigned int			nr;
	unsigned int			nr_others;
};

enum verdict { CLAUSE_HOLDS, CLAUSE_BROKEN, CLAUSE_NA };

static u32 line_of(u32 offset)
{
	return offset / sched_layout_env.line;
}

static u32 last_byte(const struct sched_layout_field *f)
{
	return f->offset + max(f->size, 1U) - 1;
}

static const struct sched_layout_type *find_type(const char *name)
{
	for (u32 i = 0; i < sched_layout_env.nr_types; i++)
		if (!strcmp(sched_layout_types[i].type, name))
			return &sched_layout_types[i];
	return NULL;
}

static const struct sched_layout_field *find_field(const char *type, const char *member, size_t len)
{
	for (u32 i = 0; i < sched_layout_env.nr_fields; i++) {
		const struct sched_layout_field *f = &sched_layout_fields[i];

		if (!strcmp(f->type, type) && strlen(f->member) == len &&
		    !strncmp(f->member, member, len))
			return f;
	}
	return NULL;
}

/* The clause of @rule behind @c, the first one for NULL. */
static const struct sched_layout_clause *next_clause(const char *rule,
						     const struct sched_layout_clause *c)
{
	for (c = c ? c + 1 : sched_layout_clauses;
	     c < sched_layout_clauses + sched_layout_nr_clauses; c++)
		if (!strcmp(c->rule, rule))
			return c;
	return NULL;
}

/* Bytes of a structure, @end being the first behind them. */
struct span {
	u32	start;
	u32	end;
};

static struct span lines_of(const struct members *m, const struct sched_layout_field *f)
{
	u32 line = sched_layout_env.line;
	u32 end = (line_of(last_byte(f)) + 1) * line;

	return (struct span){ line_of(f->offset) * line, min(end, m->type->size) };
}

static struct span span_of_all(const struct members *m)
{
	struct span span = { m->type->size, 0 };

	for (unsigned int i = 0; i < m->nr; i++) {
		span.start = min(span.start, m->field[i]->offset);
		span.end = max(span.end, last_byte(m->field[i]) + 1);
	}
	return span;
}

/* Up to where the padding has to be known. */
static u32 end_of(const struct sched_layout_clause *c, const struct members *m)
{
	u32 end = 0;

	if (c->kind == LAYOUT_UNBROKEN)
		return span_of_all(m).end;
	for (unsigned int i = 0; i < m->nr; i++)
		end = max(end, lines_of(m, m->field[i]).end);
	return end;
}

/* Whether a clause is about members that it does not list. */
static bool is_about_unlisted(const struct sched_layout_clause *c)
{
	return c->kind == LAYOUT_ALONE || c->kind == LAYOUT_UNBROKEN;
}

static bool is_about_others(const struct sched_layout_clause *c)
{
	return c->kind == LAYOUT_APART || c->kind == LAYOUT_FOLLOWS ||
	       c->kind == LAYOUT_OWN_OFFSET;
}

static bool is_about_type(const struct sched_layout_clause *c)
{
	return c->kind == LAYOUT_TYPE_ALIGNED || c->kind == LAYOUT_TYPE_PADDED ||
	       c->kind == LAYOUT_TYPE_SMALL || c->kind == LAYOUT_TYPE_MOST;
}

/* Adds those of @names to @m that this configuration has; returns how many. */
static unsigned int add_members(struct members *m, const char *names)
{
	unsigned int at = m->nr + m->nr_others, nr = 0;

	while (names && *names) {
		size_t len = strcspn(names, " ");
		const struct sched_layout_field *f = find_field(m->type->type, names, len);

		if (f)
			m->field[at + nr++] = f;
		names += len;
		names += strspn(names, " ");
	}
	return nr;
}

/* Fills @m; false, with the reason in @why, if the clause does not apply here. */
static bool clause_applies(const struct sched_layout_clause *c, struct members *m,
			   char *why, size_t size)
{
	*m = (struct members){ .type = find_type(c->type) };
	for (int i = 0; i < LAYOUT_NR_CONDITIONS; i++) {
		if (c->needs & BIT(i) && !sched_layout_conditions[i].holds) {
			snprintf(why, size, "needs %s", sched_layout_needs[i]);
			return false;
		}
	}
	if (!m->type) {
		snprintf(why, size, "no struct %s in this configuration", c->type);
		return false;
	}

	for (const char *name = c->requires; name && *name; name += strspn(name, " ")) {
		size_t len = strcspn(name, " ");

		if (!find_field(c->type, name, len)) {
			snprintf(why, size, "no %s.%.*s in this configuration", c->type,
				 (int)len, name);
			return false;
		}
		name += len;
	}
	m->nr = add_members(m, c->members);
	m->nr_others = add_members(m, c->others);
	if (!is_about_type(c) && !m->nr) {
		snprintf(why, size, "no %s.%s in this configuration", c->type,
			 c->members ?: "member of the clause");
		return false;
	}
	/* A comparison with nothing would be true of anything. */
	if ((is_about_others(c) && !m->nr_others) || m->nr < c->least) {
		snprintf(why, size, "nothing to compare with in this configuration");
		return false;
	}
	if (is_about_unlisted(c) && !bytes_in_use(c->type, end_of(c, m))) {
		snprintf(why, size, "needs a compiler that tells where the padding is");
		return false;
	}
	return true;
}

static bool share_line(const struct sched_layout_field *a, const struct sched_layout_field *b)
{
	for (u32 i = 0; i < a->count; i++) {
		u32 a_first = line_of(a->offset + i * a->stride);
		u32 a_last = line_of(last_byte(a) + i * a->stride);

		for (u32 j = 0; j < b->count; j++)
			if (line_of(b->offset + j * b->stride) <= a_last &&
			    line_of(last_byte(b) + j * b->stride) >= a_first)
				return true;
	}
	return false;
}

/* Which line a clause means that has one in @arg. */
static u32 wanted_line(const struct sched_layout_clause *c, const struct members *m)
{
	if (c->arg == LAYOUT_ANY_LINE)
		return line_of(m->field[0]->offset);
	if (c->arg == LAYOUT_LAST_LINE)
		return line_of(m->type->size - 1);
	return c->arg;
}

static bool covered(const struct members *m, u32 pos)
{
	for (unsigned int i = 0; i < m->nr + m->nr_others; i++)
		if (pos >= m->field[i]->offset && pos <= last_byte(m->field[i]))
			return true;
	return false;
}

/* Whether all that is in use there belongs to the members and the others. */
static bool all_covered(const struct members *m, struct span span)
{
	const u8 *used = bytes_in_use(m->type->type, span.end);

	for (u32 pos = span.start; pos < span.end; pos++)
		if (used[pos] && !covered(m, pos))
			return false;
	return true;
}

/* Nothing beside it makes use of the padding behind a member that begins a line. */
static u32 taken_by(const struct members *m, const struct sched_layout_field *f)
{
	if (f->offset % sched_layout_env.line)
		return f->size;
	return lines_of(m, f).end - f->offset;
}

static u32 other_bytes(const struct members *m)
{
	u32 size = m->type->size;

	for (unsigned int i = 0; i < m->nr; i++)
		size -= taken_by(m, m->field[i]);
	return size;
}

static u32 bytes_left(const struct members *m)
{
	u32 last = 0;

	for (unsigned int i = 0; i < m->nr; i++)
		last = max(last, last_byte(m->field[i]));
	return sched_layout_env.line - 1 - last % sched_layout_env.line;
}

static bool pair_holds(const struct sched_layout_clause *c, const struct sched_layout_field *f,
		       const struct sched_layout_field *other)
{
	switch (c->kind) {
	case LAYOUT_APART:
		return !share_line(f, other);
	case LAYOUT_FOLLOWS:
		return f->offset > other->offset;
	case LAYOUT_OWN_OFFSET:
		return f->offset != other->offset;
	default:
		return true;
	}
}

/* Whether a clause is true of one of its members, or of one of the others. */
static bool member_holds(const struct sched_layout_clause *c, const struct members *m,
			 unsigned int nr)
{
	const struct sched_layout_field *f = m->field[nr];
	u32 line = sched_layout_env.line;

	if (nr >= m->nr) {
		for (unsigned int i = 0; i < m->nr; i++)
			if (!pair_holds(c, m->field[i], f))
				return false;
		return true;
	}

	switch (c->kind) {
	case LAYOUT_ALIGNED:
		return f->offset % line == 0 && f->stride % line == 0;
	case LAYOUT_ON_LINE:
		return line_of(f->offset) == wanted_line(c, m) &&
		       line_of(last_byte(f)) == wanted_line(c, m);
	case LAYOUT_STARTS_ON:
		return line_of(f->offset) == wanted_line(c, m);
	case LAYOUT_ALONE:
		return all_covered(m, lines_of(m, f));
	case LAYOUT_UNBROKEN:
		return all_covered(m, span_of_all(m));
	case LAYOUT_SAME_OFFSET:
		return f->offset == m->field[0]->offset;
	case LAYOUT_HEADROOM:
		return bytes_left(m) >= c->arg;
	default:
		for (unsigned int i = m->nr; i < m->nr + m->nr_others; i++)
			if (!pair_holds(c, f, m->field[i]))
				return false;
		return is_about_others(c);
	}
}

static bool clause_holds(const struct sched_layout_clause *c, const struct members *m)
{
	switch (c->kind) {
	case LAYOUT_TYPE_ALIGNED:
		return m->type->align % sched_layout_env.line == 0;
	case LAYOUT_TYPE_PADDED:
		return m->type->size % sched_layout_env.line == 0;
	case LAYOUT_TYPE_SMALL:
		return m->type->size < sched_layout_env.line;
	case LAYOUT_TYPE_MOST:
		return other_bytes(m) <= (u32)c->arg;
	default:
		for (unsigned int i = 0; i < m->nr; i++)
			if (!member_holds(c, m, i))
				return false;
		return m->nr > 0;
	}
}

static enum verdict clause_verdict(const struct sched_layout_clause *c, struct members *m,
				   char *why, size_t size)
{
	if (!clause_applies(c, m, why, size))
		return CLAUSE_NA;
	return clause_holds(c, m) ? CLAUSE_HOLDS : CLAUSE_BROKEN;
}

/* A clause in words. */
static void describe(const struct sched_layout_clause *c, const struct members *m,
		     char *buf, size_t size)
{
	const char *others = "";
	char arg[16] = "";

	if (c->others)
		others = c->kind == LAYOUT_ALONE ? "; allowed: " : "; others: ";
	if (c->kind == LAYOUT_HEADROOM || c->kind == LAYOUT_TYPE_MOST)
		snprintf(arg, sizeof(arg), " %d", c->arg);
	else if (c->kind != LAYOUT_ON_LINE && c->kind != LAYOUT_STARTS_ON)
		;
	else if (c->arg == LAYOUT_ANY_LINE)
		strscpy(arg, " one line");
	else
		snprintf(arg, sizeof(arg), " line %u", wanted_line(c, m));
	snprintf(buf, size, "struct %s: %s%s%s%s%s%s", c->type, sched_layout_kinds[c->kind], arg,
		 c->members ? ": " : "", c->members ?: "", others,
		 c->others ?: "");
}

static void print_member(struct kunit *test, const struct sched_layout_field *f)
{
	u32 first = line_of(f->offset), last = line_of(last_byte(f));
	char lines[24], times[32] = "";

	if (first == last)
		snprintf(lines, sizeof(lines), "line %u", first);
	else
		snprintf(lines, sizeof(lines), "lines %u-%u", first, last);
	if (f->count > 1)
		snprintf(times, sizeof(times), ", %u times, every %u", f->count, f->stride);
	kunit_err(test, "  %s: offset %u, size %u, %s%s\n", f->member, f->offset, f->size,
		  lines, times);
}

/*
 * The lines to be drawn: those on which the first member starts or ends, or one
 * that is not where it should be; the last, where the clause is about the type.
 */
static bool concerns(const struct sched_layout_clause *c, const struct members *m, u32 line)
{
	if (!m->nr)
		return line == line_of(m->type->size - 1);
	for (unsigned int i = 0; i < m->nr + m->nr_others; i++) {
		const struct sched_layout_field *f = m->field[i];

		if (i > 0 && member_holds(c, m, i))
			continue;
		if (line == line_of(f->offset) || line == line_of(last_byte(f)))
			return true;
	}
	return false;
}

static bool names(const struct members *m, const struct sched_layout_field *f)
{
	for (unsigned int i = 0; i < m->nr + m->nr_others; i++)
		if (m->field[i] == f)
			return true;
	return false;
}

/* The listed member of @type that comes next in memory, @f being NULL at first. */
static const struct sched_layout_field *next_field(const char *type,
						   const struct sched_layout_field *f)
{
	const struct sched_layout_field *next = NULL;

	for (u32 i = 0; i < sched_layout_env.nr_fields; i++) {
		const struct sched_layout_field *g = &sched_layout_fields[i];

		if (strcmp(g->type, type))
			continue;
		if (f && (g->offset < f->offset || (g->offset == f->offset && g <= f)))
			continue;
		if (!next || g->offset < next->offset)
			next = g;
	}
	return next;
}

/* What lies between two listed members. */
static void draw_gap(struct kunit *test, const char *type, u32 from, u32 to)
{
	const u8 *bytes = bytes_in_use(type, to);
	char what[40] = "(hole or not listed)";
	u32 used = 0;

	if (from >= to)
		return;
	if (bytes) {
		for (u32 i = from; i < to; i++)
			used += !!bytes[i];
		snprintf(what, sizeof(what), used ? "(not listed, %u in use)" : "(hole)", used);
	}
	kunit_err(test, "    %7u %7u      %s\n", from, to - from, what);
}

/*
 * Draws the concerned lines of the structure as pahole would: offset, size and
 * name of each member, those of the clause marked. A member inside of another
 * one is indented.
 */
static void draw(struct kunit *test, const struct sched_layout_clause *c, const struct members *m)
{
	const struct sched_layout_field *f = NULL;
	u32 size = sched_layout_env.line;

	for (u32 line = 0; line <= line_of(m->type->size - 1); line++) {
		u32 pos = line * size, end = min(pos + size, m->type->size);

		if (!concerns(c, m, line))
			continue;
		kunit_err(test, "  --- cacheline %u boundary (%u bytes) ---\n", line, pos);
		for (f = next_field(m->type->type, NULL); f; f = next_field(m->type->type, f)) {
			bool inner = strchr(f->member, '.');

			if (last_byte(f) < line * size || f->offset >= end)
				continue;
			/* Of what merely passes through, the outermost will do. */
			if (inner && !names(m, f))
				continue;
			draw_gap(test, f->type, pos, f->offset);
			kunit_err(test, "  %c %7u %7u  %s%s\n", names(m, f) ? '>' : ' ',
				  f->offset, f->size, inner ? "  " : "", f->member);
			pos = max(pos, f->offset + f->size);
		}
		draw_gap(test, m->type->type, pos, end);
	}
}

static void report(struct kunit *test, const struct sched_layout_clause *c,
		   const struct members *m)
{
	const struct sched_layout_rule *rule = test->param_value;
	const struct sched_layout_type *t = m->type;
	char what[WORDS];

	describe(c, m, what, sizeof(what));
	kunit_err(test, "%s, %s, is broken\n", rule->id, what);
	kunit_err(test, "  why: %s\n", rule->reason);
	kunit_err(test, "  source: %s, %s\n", rule->source,
		  c->forced ? "forced in every configuration" : "observed");
	kunit_err(test, "  struct %s: size %u, aligned to %u, lines of %u\n",
		  t->type, t->size, t->align, sched_layout_env.line);
	for (unsigned int i = 0; i < m->nr + m->nr_others; i++)
		if (i < m->nr || !member_holds(c, m, i))
			print_member(test, m->field[i]);
	draw(test, c, m);
}

#ifndef SCHED_KUNIT_EXPORTED
enum presence { CHANGE_PRESENT, CHANGE_PARTIAL, CHANGE_ABSENT, CHANGE_NA };

static const char * const presence_names[] = { "present", "partial", "absent", "n/a" };

/*
 * One sign is enough: half a change in a tree is to be judged, not skipped.
 * @why says what is missing, for a change that is not there.
 */
static enum presence presence_of(const char *change, char *why, size_t size)
{
	const struct sched_layout_clause *c;
	unsigned int nr[3] = {};
	struct members m;
	char na[WORDS];

	*why = '\0';
	for (c = next_clause(change, NULL); c; c = next_clause(change, c)) {
		enum verdict verdict = clause_verdict(c, &m, na, sizeof(na));

		if (verdict == CLAUSE_BROKEN && !nr[verdict])
			describe(c, &m, why, size);
		nr[verdict]++;
	}
	if (!nr[CLAUSE_HOLDS])
		return nr[CLAUSE_BROKEN] ? CHANGE_ABSENT : CHANGE_NA;
	return nr[CLAUSE_BROKEN] ? CHANGE_PARTIAL : CHANGE_PRESENT;
}

/* Does not return for a change that nobody expects and that is not there. */
static bool is_absent(struct kunit *test, const char *change)
{
	char why[WORDS];

	if (presence_of(change, why, sizeof(why)) != CHANGE_ABSENT)
		return false;
	if (!is_expected(expect, change))
		kunit_skip(test, "%s is not in this tree (unmet: %s)", change, why);
	return true;
}

static bool is_change(const char *name, size_t len)
{
	for (const char * const *id = sched_layout_changes; *id; id++)
		if (len == strlen(*id) && !strncmp(name, *id, len))
			return true;
	return false;
}

/* Says which changes are there, for the reader of the log. */
static void changes(struct kunit *test)
{
	const char *p = expect;
	char why[WORDS];
	size_t len;

	for (const char * const *id = sched_layout_changes; *id; id++)
		kunit_info(test, "change %s: %s%s\n", *id,
			   presence_names[presence_of(*id, why, sizeof(why))],
			   is_expected(expect, *id) ? ", expected" : "");

	/* A typing error would expect nothing, and so turn failures into skips. */
	for (; (p = next_expected(p, &len)); p += len)
		if (!is_change(p, len))
			KUNIT_FAIL(test, "sched_layout_kunit.expect: no change has the name %.*s",
				   (int)len, p);
}
#endif

static void check_rule(struct kunit *test)
{
	const struct sched_layout_rule *rule = test->param_value;
	const struct sched_layout_clause *c;
	char why[WORDS] = "no clause";
	bool judged = false;
	struct members m;
#ifndef SCHED_KUNIT_EXPORTED
	bool absent = is_absent(test, rule->change);
#endif

	for (c = next_clause(rule->id, NULL); c; c = next_clause(rule->id, c)) {
		enum verdict verdict = clause_verdict(c, &m, why, sizeof(why));

		if (verdict == CLAUSE_NA) {
			if (is_about_unlisted(c))
				kunit_info(test, "%s: a part is not judged: %s\n", rule->id, why);
			continue;
		}
		judged = true;
		if (verdict == CLAUSE_BROKEN) {
			KUNIT_FAIL(test, "%s is broken", rule->id);
			report(test, c, &m);
		} else if (c->kind == LAYOUT_HEADROOM) {
			kunit_info(test, "%s: %u bytes left\n", rule->id, bytes_left(&m));
		}
	}
	if (!judged)
		kunit_skip(test, "n/a: %s", why);
#ifndef SCHED_KUNIT_EXPORTED
	if (absent)
		KUNIT_FAIL(test, "%s: %s is expected, and not in this tree",
			   rule->id, rule->change);
#endif
}

/* One test for each change, written out so that a search finds its name. */
#ifndef SCHED_KUNIT_NO_RQ_ORDER
static void rq_order(struct kunit *test)
{
	check_rule(test);
}

KUNIT_ARRAY_PARAM_DESC(rq_order, sched_layout_rules.rq_order, id);
#endif

#ifndef SCHED_KUNIT_NO_RD_LINES
static void rd_lines(struct kunit *test)
{
	check_rule(test);
}

KUNIT_ARRAY_PARAM_DESC(rd_lines, sched_layout_rules.rd_lines, id);
#endif

#ifndef SCHED_KUNIT_NO_CPUPRI_LINES
static void cpupri_lines(struct kunit *test)
{
	check_rule(test);
}

KUNIT_ARRAY_PARAM_DESC(cpupri_lines, sched_layout_rules.cpupri_lines, id);
#endif

#ifndef SCHED_KUNIT_NO_CPUPRI_SPLIT
static void cpupri_split(struct kunit *test)
{
	check_rule(test);
}

KUNIT_ARRAY_PARAM_DESC(cpupri_split, sched_layout_rules.cpupri_split, id);
#endif

#ifndef SCHED_KUNIT_NO_RQ_READERS
static void rq_readers(struct kunit *test)
{
	check_rule(test);
}

KUNIT_ARRAY_PARAM_DESC(rq_readers, sched_layout_rules.rq_readers, id);
#endif

/* Objects in use, by the names of their variables, which no contract knows. */
static const struct live_object {
	char	name[24];
	char	change[16];
} live_objects[] = {
#ifndef SCHED_KUNIT_NO_RQ_ORDER
	{ "rq", "rq-order" },
#endif
#ifndef SCHED_KUNIT_NO_RD_LINES
	{ "root_domain", "rd-lines" },
	{ "def_root_domain", "rd-lines" },
#endif
};

KUNIT_ARRAY_PARAM_DESC(live_objects, live_objects, name);

static void expect_on_boundary(struct kunit *test, const void *object, int cpu)
{
	const struct live_object *live = test->param_value;

	KUNIT_EXPECT_TRUE_MSG(test, IS_ALIGNED((unsigned long)object, sched_layout_env.line),
			      "%s, seen from CPU %d, starts %lu bytes behind a boundary of %u (%s)",
			      live->name, cpu, (unsigned long)object % sched_layout_env.line,
			      sched_layout_env.line, live->change);
}

/* The rules speak of offsets: they are lines if the objects start on one. */
static void runtime_alignment(struct kunit *test)
{
	const struct live_object *live = test->param_value;
	int cpu;

#ifndef SCHED_KUNIT_EXPORTED
	if (is_absent(test, live->change))
		KUNIT_FAIL(test, "%s is expected, and not in this tree", live->change);
#endif

	if (!strcmp(live->name, "rq")) {
		for_each_possible_cpu(cpu)
			expect_on_boundary(test, cpu_rq(cpu), cpu);
		return;
	}
#ifdef CONFIG_SMP
	if (!strcmp(live->name, "def_root_domain")) {
		expect_on_boundary(test, &def_root_domain, 0);
		return;
	}
	/* Only the address matters: the root_domain itself is not looked into. */
	guard(cpus_read_lock)();
	for_each_online_cpu(cpu)
		expect_on_boundary(test, cpu_rq(cpu)->rd, cpu);
#else
	kunit_skip(test, "n/a: no struct root_domain in this configuration");
#endif
}

/* What the structures cost, for the log: no size is wrong. */
static void sizes(struct kunit *test)
{
	for (u32 i = 0; i < sched_layout_env.nr_types; i++) {
		const struct sched_layout_type *t = &sched_layout_types[i];

		kunit_info(test, "struct %s: %u bytes, %u lines of %u, aligned to %u\n", t->type,
			   t->size, line_of(t->size + sched_layout_env.line - 1),
			   sched_layout_env.line, t->align);
	}
}

static int sched_layout_init(struct kunit_suite *suite)
{
	for (int i = 0; i < ARRAY_SIZE(in_use); i++)
		in_use[i].find_padding();
	return 0;
}

static struct kunit_case sched_layout_cases[] = {
#ifndef SCHED_KUNIT_EXPORTED
	KUNIT_CASE(changes),
#endif
	KUNIT_CASE(sizes),
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
	KUNIT_CASE_PARAM(runtime_alignment, live_objects_gen_params),
	{}
};

static struct kunit_suite sched_layout_suite = {
	.name		= "sched_layout",
	.suite_init	= sched_layout_init,
	.test_cases	= sched_layout_cases,
};

kunit_test_suite(sched_layout_suite);

MODULE_DESCRIPTION("KUnit test of the scheduler's cache lines");
MODULE_LICENSE("GPL");
