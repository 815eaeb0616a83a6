# SPDX-License-Identifier: GPL-2.0
"""rules and a tree's source -> C: the table that the kernel's test judges."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from schedlib.contracts.contract_rules import ABOUT_BYTES, ABOUT_LINES, COMPARED, CONTRACTS, Clause, Rules, in_c
from schedlib.contracts.struct_source import Source, negated
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE, ClauseKind

_SPDX = "/* SPDX-License-Identifier: GPL-2.0 */\n"
_WIDTH = 100

TABLE = "sched_layout_rules.h"

_KINDS = {
    ClauseKind.ALIGNED: "BEGINS_LINE",
    ClauseKind.ALONE: "CLOSED",
    ClauseKind.FOLLOWS: "BEHIND",
    ClauseKind.TYPE_ALIGNED: "ALIGNED",
    ClauseKind.TYPE_PADDED: "WHOLE_LINES",
    ClauseKind.TYPE_SMALL: "SMALL",
    ClauseKind.TYPE_MOST: "AT_MOST",
    ClauseKind.TYPE_GAPS: "GAPS",
}
"""The names of kinds in enum layout_kind of kunit/sched_layout_kunit.c, where they differ."""


_SHORT = {
    "sizeof(raw_spinlock_t) == sizeof(arch_spinlock_t)": "PLAIN_LOCKS",
    "sizeof(raw_spinlock_t) > sizeof(arch_spinlock_t)": "!PLAIN_LOCKS",
    "sizeof(cpumask_var_t)": "MASK",
    "SMP_CACHE_BYTES": "LINE",
}
"""Expressions of conditions, and the macros of kunit/sched_layout_kunit.c that stand for them in the table."""

GuardedRow = tuple[tuple[str, ...], str]
"""The conditions of an #if, and lines of C inside of it."""

Lists = Sequence[tuple[str, str, tuple[str, ...]]]
"""Members that are written as one macro: tag, name of the macro, members that the tree has."""


def in_table(condition: str) -> str:
    """A condition as the table has it."""
    text = in_c(condition)
    for long, short in _SHORT.items():
        text = text.replace(long, short)
    return text


def kind_in_c(kind: ClauseKind) -> str:
    """An enumerator of enum layout_kind."""
    return _KINDS.get(kind, kind.name)


def lost_members(
    rules: Rules, source: Source, present: Collection[str]
) -> Iterator[tuple[frozenset[str], SchedlineError]]:
    """What a tree has in no configuration although rules of its changes name it; and the ids of these rules.

    Judging them without it would prove nothing.
    """
    for tag, names, changes in rules.members:
        found = [each for name in names if (each := source.find(tag, name))]
        if changes.isdisjoint(present) or any(each.has_offset for each in found):
            continue
        what = f"{tag}.{' and no '.join(names)}"
        observed = (
            f"{what} is a bit field in this tree, which has no offset"
            if found
            else f"this tree has no {what} in any configuration"
        )
        spelled, path = "|".join(names), CONTRACTS / f"{tag}.toml"
        quoted = re.compile(rf'"(has )?{re.escape(spelled)}"')
        lines = enumerate(path.read_text().splitlines(), 1) if path.is_file() else ()
        numbers = ", ".join(str(number) for number, line in lines if quoted.search(line))
        ids = {each.rule for each in rules.clauses if each.type == tag and not {*each.named}.isdisjoint(names)}
        yield (
            frozenset(ids),
            SchedlineError(
                f"{observed}; the rules of {', '.join(sorted(changes & set(present)))} are about it",
                f"git log -S{re.split(r'[.[]', names[0])[0]} -- {rules.files[tag]} shows the commit; write in "
                f'configs/contracts/sched/{tag}.toml:{numbers}, if it has a new name, "{spelled}|NEW"',
            ),
        )


def require_members(rules: Rules, source: Source, present: Collection[str]) -> None:
    """Raise SchedlineError for lost_members()."""
    if lost := [error for _, error in lost_members(rules, source, present)]:
        raise SchedlineError(
            "\n    ".join(each.observed for each in lost),
            f"{lost[0].next_step}; `schedline layout` judges the other rules, and tells this of each member",
        )


def _known(clause: Clause, names: Sequence[str], source: Source) -> list[str]:
    return [name for name in names if (found := source.find(clause.type, name)) and found.has_offset]


def rule_table(rules: Rules, source: Source) -> str:
    """The table that kunit/sched_layout_kunit.c judges, for a tree that declares `source`."""
    tags = [tag for tag in rules.types() if tag in source.structs]
    sizes = "sizeof(struct {0}), __alignof__(struct {0})"
    types = [(source.structs[tag].guards, f'\t{{ "{tag}", {sizes.format(tag)} }},') for tag in tags]
    groups = _groups(rules, source)
    lists = [*_long_lists(rules, source, groups), *groups]
    body = _tables(rules, source, lists)
    macros = "".join(
        f'#define {macro} "{" ".join(members)} "\n' for _, macro, members in lists if re.search(rf"\b{macro}\b", body)
    )
    return f"""{_SPDX}/*
 * Rules on the cache lines of the scheduler's structures. See
 * sched_layout_kunit.c for what each kind of clause holds. A member that exists
 * in some configurations only stands in absent_members[], too.
 */

static struct layout_type layout_types[] = {{
{guarded(types)}
\t{{ }}
}};

/* What rules name and this configuration does not have. Any other member must exist. */
static const char * const absent_members[] = {{
{guarded(_absent(rules, source))}
\tNULL
}};

/* Members that are named together. Each list ends with a blank. */
{macros}{body}"""


def _tables(rules: Rules, source: Source, lists: Lists) -> str:
    parts = []
    for change in rules.changes():
        its = [rule for rule in rules.rules if rule.change == change]
        rows = ",\n\t".join(
            _call("RULE", [_quoted(r.id), _quoted(r.reason), *_rows(rules, r.id, source, lists, 13)], 8) for r in its
        )
        parts.append(
            f"\n/* {change}: {its[0].source} */\n"
            f"static const struct layout_rule {change.replace('-', '_')}_rules[] = {{\n\t{rows},\n}};\n"
        )
    if any(rules.of(change) for change in rules.changes()):
        signs = ""
        for change in rules.changes():
            its_signs = _rows(rules, change, source, lists, 22 + len(change))
            signs += f'\t{{ "{change}", {_call("CLAUSES", its_signs, 14 + len(change))} }},\n'
        parts.append(f"\nstatic const struct layout_change layout_changes[] = {{\n{signs}\t{{ }}\n}};\n")
    return "".join(parts)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _call(macro: str, arguments: Sequence[str], column: int, separator: str = ", ") -> str:
    """A macro's call that begins in a column, with as many arguments in a line as fit.

    An argument that is a call itself must have been made for the column behind the bracket.
    """
    start = column + len(macro) + 1
    rows: list[str] = []
    for argument in arguments:
        more = separator + argument
        *before, last = rows[-1].split("\n") if rows else [""]
        end = len(last.expandtabs(8)) if before else start + len(last)
        # checkpatch wants a long text whole, and on a line of its own.
        if rows and "\n" not in argument and end + len(more) + 4 <= _WIDTH:
            rows[-1] += more
        else:
            rows.append(argument)
    indent = "\t" * (start // 8) + " " * (start % 8)
    return f"{macro}(" + f"{separator.rstrip()}\n{indent}".join(rows) + ")"


def _rows(rules: Rules, owner: str, source: Source, lists: Lists, column: int) -> list[str]:
    """The clauses of a rule, or the signs of a change, of which a tree has the members."""
    return [row for clause in rules.of(owner) if (row := _row(clause, source, lists, column))] or ["{ }"]


def _macro(text: str) -> str:
    return re.sub(r"\W", "_", text).upper()


def _groups(rules: Rules, source: Source) -> Lists:
    found = []
    for tag, group in rules.groups:
        members = tuple(name for name in group.names if source.find(tag, name))
        used = [c for c in rules.clauses if c.type == tag and set(members) <= {*c.members, *c.others}]
        if len(members) > 1 and used:
            found.append((tag, _macro(f"{tag}_{group.name}"), members))
    return found


def _long_lists(rules: Rules, source: Source, groups: Lists) -> Lists:
    """What would be two literals in a row. checkpatch wants a string whole."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for clause in rules.clauses:
        for named in (clause.members, clause.others):
            names = tuple(_known(clause, named, source))
            made = _names(names, clause.type, groups)
            if any(one.endswith('"') and other.endswith('"') for one, other in pairwise(made)):
                macro = _macro(f"{clause.rule}_{kind_in_c(clause.kind)}")
                again = sum(macro in known for known in found.values())
                found.setdefault((clause.type, names), f"{macro}_{again}" if again else macro)
    return [(tag, macro, names) for (tag, names), macro in found.items()]


def _names(names: Sequence[str], tag: str, groups: Lists) -> list[str]:
    """Members as strings of C, and as macros where they are a whole list. A macro ends with a blank."""
    made: list[str] = []
    rest = list(names)
    while rest:
        macro = next((each for each in groups if each[0] == tag and tuple(rest[: len(each[2])]) == each[2]), None)
        if macro:
            made.append(macro[1])
            del rest[: len(macro[2])]
        elif made and made[-1].endswith('"') and len(made[-1]) < _WIDTH // 2:
            made[-1] = f'{made[-1][:-1]}{rest.pop(0)} "'
        else:
            made.append(f'"{rest.pop(0)} "')
    return [*made[:-1], made[-1].replace(' "', '"')] if made else []


def _row(clause: Clause, source: Source, lists: Lists, column: int) -> str:
    """A clause; empty where a tree has too little of it in any configuration, which require_members() looks at."""
    members, others = (_known(clause, names, source) for names in (clause.members, clause.others))
    if len(members) < clause.least or (clause.members and not members) or (clause.kind in COMPARED and not others):
        return ""
    if any("." in name for name in (*members, *others)):
        raise SchedlineError(
            f"{clause.rule} is about a member inside of another, which the test in the kernel cannot find",
            f"write the promise into the contract of that member's own structure, not into {clause.type}.toml",
        )
    arguments = [kind_in_c(clause.kind), clause.type]
    inner = column + len("KEEP(")
    if clause.members:
        arguments.append(_call("OF", _names(members, clause.type, lists), inner, " "))
    if others:
        arguments.append(_call("OTHERS", _names(others, clause.type, lists), inner, " "))
    if clause.kind in ABOUT_LINES:
        line = {ANY_LINE: "ANY_LINE", LAST_LINE: "LAST_LINE"}.get(clause.arg, clause.arg)
        arguments.append(f"LINE_NR({line})")
    if clause.kind in ABOUT_BYTES:
        arguments.append(f"BYTES({clause.arg})")
    arguments += [f"HAS({_quoted(name)})" for name in clause.requires]
    if clause.needs:
        arguments.append(_call("WHEN", [in_table(condition) for condition in sorted(clause.needs)], inner, " && "))
    return _call("KEEP", arguments, column)


def _absent(rules: Rules, source: Source) -> list[GuardedRow]:
    """Each member that a rule names and some configuration lacks, under the negation of its conditions."""
    named = {(clause.type, name) for clause in rules.clauses for name in clause.named + clause.requires}
    required = {(clause.type, name) for clause in rules.clauses for name in clause.requires}
    found: list[GuardedRow] = []
    for tag, name in sorted(named):
        declared = source.find(tag, name)
        own = [guard for guard in declared.guards if guard not in source.structs[tag].guards] if declared else []
        # Whichever clause needs one that no configuration has is n/a.
        if own or (declared is None and (tag, name) in required):
            lacking = (negated(own[0] if len(own) == 1 else f"({' && '.join(own)})"),) if own else ()
            found.append((lacking, f'\t"{tag}.{name}",'))
    return sorted(found)


def guarded(rows: Sequence[GuardedRow]) -> str:
    """Lines of C, neighbours under the same conditions in one #if."""
    lines: list[str] = []
    for guards, its in groupby(rows, key=itemgetter(0)):
        texts = [text for _, text in its]
        lines += [_if(guards), *texts, "#endif"] if guards else texts
    return "\n".join(lines)


def _if(guards: tuple[str, ...]) -> str:
    if len(guards) == 1 and (match := re.fullmatch(r"(!?)defined\((\w+)\)", guards[0])):
        return f"#{'ifndef' if match[1] else 'ifdef'} {match[2]}"
    first, *others = guards
    rows = [f"#if {first}"]
    for guard in others:
        if len(f"{rows[-1]} && {guard} && \\".expandtabs(8)) > _WIDTH:
            rows[-1] += " && \\"
            rows.append(f"\t{guard}")
        else:
            rows[-1] += f" && {guard}"
    return "\n".join(rows)
