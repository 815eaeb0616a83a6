# SPDX-License-Identifier: GPL-2.0
"""`schedline layout emit`: the rules as static assertions: what breaks one does not build."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from schedlib.layout.tables import ANY_LINE, LAST_LINE, UNLISTED, Clause, ClauseKind, Condition, Rules
from schedlib.paths import KUNIT
from schedlib.tree.compose import TESTS_DIRECTORY, hooked
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row

FILE = f"{TESTS_DIRECTORY}/layout_asserts.c"

_MAKEFILE = f"{TESTS_DIRECTORY}/Makefile"
_MAKEFILE_LINES = """
# Nothing but static assertions.
obj-$(CONFIG_SCHED_LAYOUT_KUNIT_TEST) += layout_asserts.o
"""

_HEAD = """\
// SPDX-License-Identifier: GPL-2.0
/*
 * The layout rules as assertions: a member added in the wrong place does not
 * build. Made from layout_rules.c by "schedline layout emit", for the changes
 * that this tree has: {changes}.
 *
 * If one fails, the message names the rule. Move the new member elsewhere;
 * pahole shows where there is room. Where the rule itself has to give way,
 * change it here and in layout_rules.c, and say why.
 */
#include <linux/build_bug.h>
#include <linux/mmu_context.h>

#include "../sched.h"

#define LINE(type, member)	(offsetof(struct type, member) / SMP_CACHE_BYTES)
#define END(type, member)	((offsetofend(struct type, member) - 1) / SMP_CACHE_BYTES)
#define LAST_LINE(type)		((sizeof(struct type) - 1) / SMP_CACHE_BYTES)
#define LAST_BYTE(type, member)	((offsetofend(struct type, member) - 1) % SMP_CACHE_BYTES)

#define REQUIRE(rule, needs, expr)	static_assert(!(needs) || (expr), rule)
"""

_KIND_NAMES = {Condition.BITS_64: "IS_64BIT"}


@dataclass(frozen=True)
class Guards:
    """Under which #ifdefs layout_fields.c lists types and members, and how it decides the conditions."""

    types: dict[str, tuple[str, ...]]
    members: dict[tuple[str, str], tuple[str, ...]]
    conditions: dict[str, str]
    locks: str


def read_guards() -> Guards:
    """From the text of kunit/layout_fields.c."""
    text = (KUNIT / "layout_fields.c").read_text()
    types: dict[str, tuple[str, ...]] = {}
    members: dict[tuple[str, str], tuple[str, ...]] = {}
    stack: list[str] = []
    for line in text.splitlines():
        if match := re.match(r"#\s*if(n?)def (\w+)", line):
            stack.append(f"{'!' if match.group(1) else ''}defined({match.group(2)})")
        elif line.startswith("#endif"):
            stack.pop()
        elif match := re.match(r"\tTYPE\((\w+)\)", line):
            types[match.group(1)] = tuple(stack)
        elif match := re.match(r"\t(?:MEMBER|IN_VECS)\((\w+), ([\w.\[\]]+)\)", line):
            members[match.group(1), match.group(2)] = tuple(stack)
    conditions = dict(re.findall(r"HOLDS\((\w+), (.+?)\)(?: \||,)$", text, re.M))
    locks = re.search(r"^#define LOCKS_DEBUGGED\s+(.+)$", text, re.M)
    return Guards(types, members, conditions, locks.group(1) if locks else "0")


def _name(condition: Condition) -> str:
    return _KIND_NAMES.get(condition, condition.name)


def _line(clause: Clause, first: str) -> str:
    if clause.arg == ANY_LINE:
        return f"LINE({clause.type}, {first})"
    if clause.arg == LAST_LINE:
        return f"LAST_LINE({clause.type})"
    return str(clause.arg)


def _expressions(clause: Clause, first: str, name: str) -> Iterator[str]:
    """What must be true of one member of a clause, beside the first."""
    tag = clause.type
    match clause.kind:
        case ClauseKind.ALIGNED:
            yield f"offsetof(struct {tag}, {name}) % SMP_CACHE_BYTES == 0"
        case ClauseKind.ON_LINE:
            wanted = _line(clause, first)
            begins = "" if clause.arg == ANY_LINE and name == first else f"LINE({tag}, {name}) == {wanted} && "
            yield f"{begins}END({tag}, {name}) == {wanted}"
        case ClauseKind.STARTS_ON if clause.arg != ANY_LINE or name != first:
            yield f"LINE({tag}, {name}) == {_line(clause, first)}"
        case ClauseKind.HEADROOM:
            yield f"LAST_BYTE({tag}, {name}) < SMP_CACHE_BYTES - {clause.arg}"
        case ClauseKind.APART if name != first:
            yield _apart(tag, first, name)
            if "[0]" in first or "[0]" in name:
                # Of an array, neighbours stand for all.
                yield _apart(tag, first.replace("[0]", "[1]"), name)
                yield _apart(tag, first, name.replace("[0]", "[1]"))
        case ClauseKind.FOLLOWS if name != first:
            yield f"offsetof(struct {tag}, {first}) > offsetof(struct {tag}, {name})"
        case ClauseKind.SAME_OFFSET if name != first:
            yield f"offsetof(struct {tag}, {name}) == offsetof(struct {tag}, {first})"
        case ClauseKind.OWN_OFFSET if name != first:
            yield f"offsetof(struct {tag}, {name}) != offsetof(struct {tag}, {first})"
        case _:
            return


def _apart(tag: str, one: str, other: str) -> str:
    return f"END({tag}, {one}) < LINE({tag}, {other}) || END({tag}, {other}) < LINE({tag}, {one})"


def _wrapped(rule: str, needs: str, expression: str) -> str:
    """One assertion in lines of at most 100 columns."""
    head = f'REQUIRE("{rule}", {needs},'
    if len(head) + len(expression) < 98:
        return f"{head} {expression});"
    parts = [expression]
    for break_behind in (" ||", " &&", " <"):
        if max(map(len, parts)) > 90:
            parts = [
                piece for part in parts for piece in part.replace(f"{break_behind} ", f"{break_behind}\n").split("\n")
            ]
    return head + "".join(f"\n\t{part}" for part in parts) + ");"


def _assertions(clause: Clause, guards: Guards) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each assertion of a clause with the #ifdefs that it needs."""
    own = set(guards.types[clause.type])
    required = [name for name in clause.members if not name.endswith("?")]
    for name in required:
        own |= set(guards.members[clause.type, name])
    needs = " && ".join(_name(condition) for condition in sorted(clause.needs)) or "1"
    others = "".join(f" - sizeof_field(struct {clause.type}, {name})" for name in required)
    whole = {
        ClauseKind.TYPE_ALIGNED: f"__alignof__(struct {clause.type}) % SMP_CACHE_BYTES == 0",
        ClauseKind.TYPE_PADDED: f"sizeof(struct {clause.type}) % SMP_CACHE_BYTES == 0",
        ClauseKind.TYPE_SMALL: f"sizeof(struct {clause.type}) < SMP_CACHE_BYTES",
        ClauseKind.TYPE_MOST: f"sizeof(struct {clause.type}){others} <= {clause.arg}",
    }.get(clause.kind)
    if whole:
        yield tuple(sorted(own)), _wrapped(clause.rule, needs, whole)
    for member in clause.members:
        name = member.removesuffix("?")
        needed = own | set(guards.members[clause.type, name])
        for expression in _expressions(clause, clause.members[0].removesuffix("?"), name):
            yield tuple(sorted(needed)), _wrapped(clause.rule, needs, expression)


def emit(rules: Rules, changes: Collection[str]) -> str:
    """The C file for the changes that a tree has; empty text when it has none.

    The compiler cannot tell what else lies on a line (LAYOUT_ALONE, LAYOUT_UNBROKEN); such clauses are left to KUnit.
    """
    chosen = [rule for rule in rules.rules if rule.change in changes]
    if not chosen:
        return ""
    guards = read_guards()
    rows: list[tuple[tuple[str, ...], str]] = []
    used: set[Condition] = set()
    for rule in chosen:
        comment = textwrap.wrap(f"{rule.id}: {rule.reason}", 76)
        rows.append(((), "\n/*\n" + "".join(f" * {line}\n" for line in comment) + " */"))
        for clause in rules.of(rule.id):
            rows += sorted(_assertions(clause, guards), key=lambda row: len(row[0]))
            if clause.kind not in UNLISTED:
                used |= clause.needs
    names = sorted(used)
    defines = []
    if {Condition.PLAIN_LOCKS, Condition.DEBUG_LOCKS} & used:
        defines.append(f"#define LOCKS_DEBUGGED\t\t{guards.locks}")
    defines += [_define(_name(name), guards.conditions[_guard_name(name)]) for name in names]
    listed = ", ".join(dict.fromkeys(rule.change for rule in chosen))
    return _HEAD.format(changes=listed) + "\n" + "\n".join(defines) + "\n" + _joined(rows)


def _define(name: str, expression: str) -> str:
    value = expression if re.fullmatch(r"\w+\(\w+\)", expression) else f"({expression})"
    tabs = "\t" * max(1, 4 - (len("#define ") + len(name)) // 8)
    return f"#define {name}{tabs}{value}"


def add_asserts(
    tree: Tree, parent: str, rules: Rules, changes: Collection[str], author: dict[str, str] | None = None
) -> str:
    """Commit the assertions for some changes on top of a commit that has the tests; `parent` when there are none."""
    text = emit(rules, changes)
    if not text:
        return parent
    makefile = hooked(tree.read(_MAKEFILE, parent) or "", _MAKEFILE_LINES, None, _MAKEFILE)
    rows = [file_row(tree.src, FILE, text.encode()), file_row(tree.src, _MAKEFILE, makefile.encode())]
    message = (KUNIT / "asserts-commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, parent, rows), parent, message, author)


def _guard_name(condition: Condition) -> str:
    return "64BIT" if condition is Condition.BITS_64 else condition.name


def _joined(rows: list[tuple[tuple[str, ...], str]]) -> str:
    """The assertions, neighbours under the same #ifdefs together."""
    lines: list[str] = []
    current: tuple[str, ...] = ()
    for needed, text in rows:
        if needed != current:
            if current:
                lines.append("#endif")
            if needed:
                lines.append(f"#if {' && '.join(needed)}" if len(needed) > 1 else _if_one(needed[0]))
            current = needed
        lines.append(text)
    if current:
        lines.append("#endif")
    return "\n".join(lines) + "\n"


def _if_one(guard: str) -> str:
    name = re.sub(r"!?defined\((\w+)\)", r"\1", guard)
    return f"#{'ifndef' if guard.startswith('!') else 'ifdef'} {name}"
