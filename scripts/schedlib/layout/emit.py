# SPDX-License-Identifier: GPL-2.0
"""`schedline layout emit`: the rules as static assertions: what breaks one does not build."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from itertools import product

from schedlib.contracts.c_tables import GuardedRow, guarded
from schedlib.contracts.contract_rules import Clause, Rules, in_c
from schedlib.contracts.struct_source import Source
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind

_HEAD = """\
// SPDX-License-Identifier: GPL-2.0
/*
 * The layout rules as assertions: a member added in the wrong place does not
 * build. Made from the contracts by "schedline layout emit", for the changes
 * that this tree has: {changes}.
 *
 * If one fails, the message names the rule. Move the new member elsewhere;
 * pahole shows where there is room. Where the rule itself has to give way,
 * change its contract, make the files again, and say why.
 */
#include <linux/build_bug.h>
#include <linux/mmu_context.h>

#include "../sched.h"

#define LINE(type, member)	(offsetof(struct type, member) / SMP_CACHE_BYTES)
#define END(type, member)	((offsetofend(struct type, member) - 1) / SMP_CACHE_BYTES)
#define LAST_LINE(type)		((sizeof(struct type) - 1) / SMP_CACHE_BYTES)
#define LAST_BYTE(type, member)	((offsetofend(struct type, member) - 1) % SMP_CACHE_BYTES)

/* The bytes of a member; if it begins a line, with the padding behind it. */
#define TAKEN(type, member) \\
	(offsetof(struct type, member) % SMP_CACHE_BYTES ? sizeof_field(struct type, member) : \\
		(END(type, member) + 1) * SMP_CACHE_BYTES - offsetof(struct type, member))

#define REQUIRE(rule, needs, expr)	static_assert(!(needs) || (expr), rule)

"""


_EACH = {
    ClauseKind.ALIGNED: "offsetof(struct {tag}, {name}) % SMP_CACHE_BYTES == 0",
    ClauseKind.ON_LINE: "LINE({tag}, {name}) == {line} && END({tag}, {name}) == {line}",
    ClauseKind.STARTS_ON: "LINE({tag}, {name}) == {line}",
    ClauseKind.HEADROOM: "LAST_BYTE({tag}, {name}) < SMP_CACHE_BYTES - {arg}",
    ClauseKind.SAME_OFFSET: "offsetof(struct {tag}, {name}) == offsetof(struct {tag}, {first})",
}
"""What must be true of each member of a clause."""

_BOTH = {
    ClauseKind.APART: "END({tag}, {a}) < LINE({tag}, {b}) || END({tag}, {b}) < LINE({tag}, {a})",
    ClauseKind.FOLLOWS: "offsetof(struct {tag}, {a}) > offsetof(struct {tag}, {b})",
    ClauseKind.OWN_OFFSET: "offsetof(struct {tag}, {a}) != offsetof(struct {tag}, {b})",
}
"""What must be true of each member and each of the others."""

_WHOLE = {
    ClauseKind.TYPE_ALIGNED: "__alignof__(struct {tag}) % SMP_CACHE_BYTES == 0",
    ClauseKind.TYPE_PADDED: "sizeof(struct {tag}) % SMP_CACHE_BYTES == 0",
    ClauseKind.TYPE_SMALL: "sizeof(struct {tag}) < SMP_CACHE_BYTES",
    ClauseKind.TYPE_MOST: "sizeof(struct {tag}) <= {arg}",
}
"""What must be true of the type."""


def _expression(clause: Clause, first: str, name: str) -> str:
    """What must be true of one member of a clause; empty if nothing can be said of it alone."""
    line = {ANY_LINE: f"LINE({clause.type}, {first})", LAST_LINE: f"LAST_LINE({clause.type})"}.get(
        clause.arg, clause.arg
    )
    text = _EACH.get(clause.kind, "").format(tag=clause.type, name=name, first=first, line=line, arg=clause.arg)
    # Nothing is said of a member that is compared with itself.
    sides = (part.partition(" == ") for part in text.split(" && "))
    return " && ".join("".join(each) for each in sides if each[0] != each[2])


def _comparisons(clause: Clause, name: str, other: str) -> Iterator[str]:
    """What must be true of a member and one of the others."""
    pairs = [(name, other)]
    if clause.kind is ClauseKind.APART and ("[0]" in name or "[0]" in other):
        # Of an array, neighbours stand for all.
        pairs += [(name.replace("[0]", "[1]"), other), (name, other.replace("[0]", "[1]"))]
    for a, b in pairs if clause.kind in _BOTH else ():
        yield _BOTH[clause.kind].format(tag=clause.type, a=a, b=b)


def _wrapped(clause: Clause, expression: str) -> str:
    """One assertion in lines of at most 100 columns."""
    needs = " && ".join(in_c(condition) for condition in sorted(clause.needs)) or "1"
    text = f'REQUIRE("{clause.rule}", {needs}, {expression});'
    # Long expressions are broken behind an operator or a comma, as the kernel does.
    words = re.sub(r"( \|\|| &&| <| >| ==|,) ", r"\1\n", text).split("\n")
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1].expandtabs()) + 1 + len(word) <= 98:
            lines[-1] += f" {word}"
        else:
            lines.append(f"\t{word}")
    return "\n".join(lines)


def _assertions(clause: Clause, source: Source) -> Iterator[GuardedRow]:
    """Each assertion of a clause with the #if that it needs."""
    tag = clause.type
    if tag not in source.structs or not all(source.find(tag, name) for name in clause.requires):
        return

    def guards(*names: str) -> tuple[str, ...]:
        found = [*source.structs[tag].guards]
        for name in (*names, *clause.requires):
            declared = source.find(tag, name)
            found += declared.guards if declared else ()
        return tuple(dict.fromkeys(found))

    members, others = ([name for name in names if source.find(tag, name)] for names in (clause.members, clause.others))
    if clause.kind in _WHOLE:
        without = "".join(f" + TAKEN({tag}, {name})" for name in members)
        yield guards(*members), _wrapped(clause, _WHOLE[clause.kind].format(tag=tag, arg=clause.arg) + without)
        return
    for name in members:
        if expression := _expression(clause, members[0], name):
            yield guards(members[0], name), _wrapped(clause, expression)
    for name, other in product(members, others):
        for expression in _comparisons(clause, name, other):
            yield guards(name, other), _wrapped(clause, expression)


def emit(rules: Rules, changes: Collection[str], source: Source) -> str:
    """The C file for the changes that a tree has; empty text when it has none.

    The compiler cannot tell what else lies on a line (`closed`, `unbroken`, `gaps`); such clauses are left to KUnit.
    """
    chosen = [rule for rule in rules.rules if rule.change in changes]
    if not chosen:
        return ""
    rows: list[GuardedRow] = []
    for rule in chosen:
        comment = textwrap.wrap(f"{rule.id}: {rule.reason}", 76)
        rows.append(((), "\n/*\n" + "".join(f" * {line}\n" for line in comment) + " */"))
        for clause in rules.of(rule.id):
            rows += sorted(_assertions(clause, source), key=lambda row: (len(row[0]), row[0]))
    listed = ", ".join(dict.fromkeys(rule.change for rule in chosen))
    return _HEAD.format(changes=listed).rstrip("\n") + "\n" + guarded(rows) + "\n"
