# SPDX-License-Identifier: GPL-2.0
"""rules and a tree's source -> the C tables that kunit/sched_layout_kunit.c judges inside of that tree's kernel."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence

from schedlib.contracts.conditions import in_c, in_words
from schedlib.contracts.contract_rules import ABOUT_BYTES, ABOUT_LINES, CONTRACTS, UNLISTED, WORDS, Clause, Rule, Rules
from schedlib.contracts.struct_source import HEADERS, Source
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ANY_LINE, LAST_LINE

_SPDX = "/* SPDX-License-Identifier: GPL-2.0 */\n"
_SPDX_C = "// SPDX-License-Identifier: GPL-2.0\n"
_WIDTH = 100

HEADER, CLOSED, RULES, FIELDS = "layout_contracts.h", "layout_closed.h", "layout_rules.c", "layout_fields.c"
"""The names of the files."""


def tables(rules: Rules, source: Source) -> dict[str, str]:
    """The files, by name, for a tree that declares `source`."""
    return {
        HEADER: _header(rules, source),
        CLOSED: _closed(rules, source),
        RULES: _rules(rules, source),
        FIELDS: _fields(rules, source),
    }


def require_members(rules: Rules, source: Source, present: Collection[str]) -> None:
    """Reject a tree that has a change, and in no configuration a member that the change's rules name.

    Args:
        present: the changes that the tree has, by its source.

    Raises:
        SchedlineError: a structure or a member is missing. Judging the rules without it would prove nothing.
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
        raise SchedlineError(
            f"{observed}; the rules of {', '.join(sorted(changes & set(present)))} are about it",
            f"correct {_place(tag, names)}, or the member in {HEADERS[0]}",
        )


def _place(tag: str, names: Sequence[str]) -> str:
    """The file of a contract, and the line that names a member first."""
    path = CONTRACTS / f"{tag}.toml"
    quoted = re.compile(rf'"(has )?{re.escape("|".join(names))}"')
    lines = enumerate(path.read_text().splitlines(), 1) if path.is_file() else ()
    number = next((f":{number}" for number, line in lines if quoted.search(line)), "")
    return f"configs/contracts/sched/{tag}.toml{number}"


def _name(condition: str) -> str:
    """The enumerator of a condition: LAYOUT_LINE_MIN_64 for `line >= 64`."""
    text = condition.replace("line >=", "line_min").replace("line <=", "line_max").replace("==", "")
    return "LAYOUT_" + re.sub(r"\W+", "_", text.replace("!", "no_")).upper()


def _array(change: str) -> str:
    return change.replace("-", "_")


def _known(clause: Clause, names: Sequence[str], source: Source) -> list[str]:
    return [name for name in names if (found := source.find(clause.type, name)) and found.has_offset]


def _header(rules: Rules, source: Source) -> str:
    listed = [name for tag in rules.types() for name in _members(rules, source, tag)]
    most = max((len(clause.named) for clause in rules.clauses), default=1)
    arrays = "".join(
        f"\tstruct sched_layout_rule\t{_array(change)}[{sum(rule.change == change for rule in rules.rules)}];\n"
        for change in rules.changes()
    )
    conditions = "".join(f"\t{_name(condition)},\n" for condition in rules.conditions())
    return f"""{_SPDX}/*
 * Made from the contracts, like layout_rules.c and layout_fields.c: how many
 * there are of everything, and how long the names are.
 */
#ifndef _KERNEL_SCHED_TESTS_LAYOUT_CONTRACTS_H
#define _KERNEL_SCHED_TESTS_LAYOUT_CONTRACTS_H

#define LAYOUT_TYPE_LEN\t\t{_room(rules.types())}
#define LAYOUT_MEMBER_LEN\t{_room(listed)}
#define LAYOUT_CONDITION_LEN\t{_room(rules.conditions())}
#define LAYOUT_MOST_MEMBERS\t{most}

/* What must be true of a kernel for a clause to apply to it: bit numbers. */
enum sched_layout_need {{
{conditions}\tLAYOUT_NR_CONDITIONS
}};

/* One array for each change, so that each is a parameterised test of its own. */
struct sched_layout_rules {{
{arrays}}};

#endif /* _KERNEL_SCHED_TESTS_LAYOUT_CONTRACTS_H */
"""


def _closed(rules: Rules, source: Source) -> str:
    """The structures of which the kernel's reader has to know all members."""
    tags = dict.fromkeys(clause.type for clause in rules.clauses if clause.kind in UNLISTED)
    rows = [(source.structs[tag].guards, f"CLOSED({tag})") for tag in tags if tag in source.structs]
    return f"""{_SPDX}/*
 * Made from the contracts: the structures with a clause about members that it
 * does not list. Included with a definition of CLOSED().
 */
{_joined(rows)}
"""


def _room(names: Collection[str]) -> int:
    """Bytes for any of the names and its end, in whole words."""
    return (max(map(len, names), default=0) + 4) // 4 * 4


def _text(text: str, indent: str) -> str:
    """A C string; a long one on a line of its own, not split, as checkpatch wants it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f' "{escaped}"' if len(escaped) <= _WIDTH - 8 * len(indent) - 16 else f'\n{indent}"{escaped}"'


def _rules(rules: Rules, source: Source) -> str:
    parts = [
        f"""{_SPDX_C}/*
 * The layout rules, made from the contracts of schedline. See layout_rules.h.
 */
#include <linux/bits.h>
#include <linux/kernel.h>

#include "layout_rules.h"

const struct sched_layout_rules sched_layout_rules = {{
"""
    ]
    for change in rules.changes():
        its = (rule for rule in rules.rules if rule.change == change)
        parts.append(f"\t.{_array(change)} = {{\n{''.join(_rule(rule) for rule in its)}\t}},\n")
    parts.append("};\n\nconst struct sched_layout_clause sched_layout_clauses[] = {\n")
    parts += [_clause(clause, source) for clause in rules.clauses]
    parts.append("};\n\nconst u32 sched_layout_nr_clauses = ARRAY_SIZE(sched_layout_clauses);\n\n")
    parts.append("const char * const sched_layout_kinds[LAYOUT_NR_KINDS] = {\n")
    parts += [f'\t[LAYOUT_{kind.name}]{_tabs(kind.name)}= "{words}",\n' for kind, words in WORDS.items()]
    parts.append('};\n\n/* Each completes "needs ..." */\n')
    parts.append("const char * const sched_layout_needs[LAYOUT_NR_CONDITIONS] = {\n")
    parts += [f'\t[{_name(condition)}] = "{in_words(condition)}",\n' for condition in rules.conditions()]
    parts.append("};\n")
    if any(rules.of(change) for change in rules.changes()):
        listed = "".join(f'\t"{change}",\n' for change in rules.changes())
        parts.append(f"\nconst char * const sched_layout_changes[] = {{\n{listed}\tNULL\n}};\n")
    return "".join(parts)


def _record(indent: str, rows: Sequence[tuple[str, str]]) -> str:
    """A record with designated initialisers."""
    inner = "".join(f"{indent}\t.{name}\t={value},\n" for name, value in rows)
    return f"{indent}{{\n{inner}{indent}}},\n"


def _rule(rule: Rule) -> str:
    texts = {"id": rule.id, "change": rule.change, "reason": rule.reason, "source": rule.source}
    return _record("\t\t", [(name, _text(text, "\t\t\t\t")) for name, text in texts.items()])


def _tabs(name: str) -> str:
    return "\t" * (3 - (len(name) + 9) // 8)


def _clause(clause: Clause, source: Source) -> str:
    rows = [("rule", f' "{clause.rule}"'), ("kind", f" LAYOUT_{clause.kind.name}")]
    if clause.needs:
        bits = [f"BIT({_name(condition)})" for condition in sorted(clause.needs)]
        rows.append(("needs", " " + textwrap.fill(" | ".join(bits), 76).replace("\n", "\n\t\t\t  ")))
    rows += [("forced", " true")] if clause.forced else []
    if clause.kind in ABOUT_LINES | ABOUT_BYTES:
        lines = {ANY_LINE: "LAYOUT_ANY_LINE", LAST_LINE: "LAYOUT_LAST_LINE"}
        rows.append(("arg", f" {lines.get(clause.arg, clause.arg)}"))
    rows.append(("type", f' "{clause.type}"'))
    rows += [("least", f" {clause.least}")] if clause.least else []
    rows.append(("members", _text(" ".join(_known(clause, clause.members, source)), "\t\t\t")))
    rows.append(("requires", _text(" ".join(clause.requires), "\t\t\t")))
    rows.append(("others", _text(" ".join(_known(clause, clause.others, source)), "\t\t\t")))
    return _record("\t", [row for row in rows if row[1] != ' ""'])


def _members(rules: Rules, source: Source, tag: str) -> list[str]:
    """What is listed of a structure: its members in order, and what the clauses name inside of them."""
    direct = [name for (owner, name), found in source.members.items() if owner == tag and found.has_offset]
    inner = [
        name for clause in rules.clauses if clause.type == tag for name in clause.named + clause.requires if "." in name
    ]
    return direct + [name for name in dict.fromkeys(inner) if source.find(tag, name)]


def _element(tag: str, array: str, member: str) -> str:
    """The record of a member of every element of an array."""
    path, size = f"{array}[0].{member}", f"sizeof_field(struct {tag}, {array}"
    lines = [
        f'"{tag}", "{path}",',
        f"offsetof(struct {tag}, {path}),",
        f"sizeof_field(struct {tag}, {path}),",
        f"{size}) /",
        f"{size}[0]),",
        f"{size}[0])",
    ]
    return "\t{\n" + "".join(f"\t\t{line}\n" for line in lines) + "\t},"


def _fields(rules: Rules, source: Source) -> str:
    tags = [tag for tag in rules.types() if tag in source.structs]
    types = [(source.structs[tag].guards, f"\tTYPE({tag}),") for tag in tags]
    rows: list[tuple[tuple[str, ...], str]] = []
    for tag in tags:
        for name in _members(rules, source, tag):
            found = source.find(tag, name)
            guards = found.guards if found else ()
            array, _, rest = name.partition("[0].")
            row = f"\tMEMBER({tag}, {name})," if not rest else _element(tag, array, rest)
            rows.append((guards, row))
    conditions = "".join(
        f'\t[{_name(condition)}] = {{\n\t\t"{condition}", {in_c(condition)}\n\t}},\n'
        for condition in rules.conditions()
    )
    return f"""{_SPDX_C}/*
 * Where the compiler put the members of the structures that have a contract.
 * Made from the contracts and the declarations of this tree. Needs no link:
 * compiled for any architecture, the tables can be read out of the object.
 */
#include <linux/build_bug.h>
#include <linux/mmu_context.h>

#include "../sched.h"
#include "layout_rules.h"

#define TYPE(type)	{{ #type, sizeof(struct type), __alignof__(struct type) }}

const struct sched_layout_type sched_layout_types[] = {{
{_joined(types)}
}};

#define MEMBER(type, member...) \\
	{{ #type, #member, offsetof(struct type, member), sizeof_field(struct type, member), 1, 0 }}

const struct sched_layout_field sched_layout_fields[] = {{
{_joined(rows)}
}};

const struct sched_layout_condition sched_layout_conditions[LAYOUT_NR_CONDITIONS] = {{
{conditions}}};

const struct sched_layout_env sched_layout_env = {{
	.version	= SCHED_LAYOUT_VERSION,
	.type_size	= sizeof(sched_layout_types[0]),
	.nr_types	= ARRAY_SIZE(sched_layout_types),
	.field_size	= sizeof(sched_layout_fields[0]),
	.nr_fields	= ARRAY_SIZE(sched_layout_fields),
	.condition_size	= sizeof(sched_layout_conditions[0]),
	.nr_conditions	= LAYOUT_NR_CONDITIONS,
	.line		= SMP_CACHE_BYTES,
}};
"""


def guarded(rows: Sequence[tuple[tuple[str, ...], str]]) -> Iterator[str]:
    """Lines of C, neighbours under the same conditions in one #if."""
    current: tuple[str, ...] = ()
    for guards, text in rows:
        if guards != current:
            if current:
                yield "#endif"
            if guards:
                yield _if(guards)
            current = guards
        yield text
    if current:
        yield "#endif"


def _joined(rows: Sequence[tuple[tuple[str, ...], str]]) -> str:
    return "\n".join(guarded(rows))


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
