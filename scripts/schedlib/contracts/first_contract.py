# SPDX-License-Identifier: GPL-2.0
"""A first contract of a structure: what its declaration and the assertions of the kernel promise, with the origin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MARKER = re.compile(r"__cacheline_group_(begin|end)(?:_aligned)?__(\w+)")
"""A member without bytes, at which a group of members begins or ends (include/linux/cache.h)."""

_ALIGNED = re.compile(r"____cacheline_(?:internodealigned_|aligned_)?(?:in_smp)?\w*")
_IN_SMP = "in_smp"


@dataclass(frozen=True)
class Declaration:
    """What a source says of a structure.

    Attributes:
        file: the file that declares it.
        names: its members, in order; those of unnamed structures and unions inside of it count as its own.
        asserted: files with a CACHELINE_ASSERT_GROUP_MEMBER, by group and member.
        described: what a table in Documentation/networking/net_cachelines says of a member.
        text: the declaration, without comments.
    """

    struct: str
    file: str
    names: tuple[str, ...]
    asserted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


def find_declaration(struct: str, text: str) -> str:
    """The declaration of a structure in a file, without comments; empty if it is not there."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    match = re.search(rf"^struct {re.escape(struct)} \{{.*?^\}}[^;]*;", plain, re.M | re.S)
    return match[0] if match else ""


def marked_groups(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The members between the two markers of each group. A group whose end is missing has none."""
    found: dict[str, tuple[str, ...]] = {}
    begun: dict[str, int] = {}
    for at, name in enumerate(names):
        if match := MARKER.fullmatch(name):
            if match[1] == "begin":
                begun[match[2]] = at
            elif match[2] in begun:
                inside = names[begun[match[2]] + 1 : at]
                found[match[2]] = tuple(dict.fromkeys(each for each in inside if not MARKER.fullmatch(each)))
    return found


def aligned_members(declared: Declaration) -> dict[str, str]:
    """The members that the kernel puts at the start of a line: by an attribute, or by padding before them."""
    pads = set(re.findall(r"CACHELINE_PADDING\((\w+)\)", declared.text))
    rows = re.split(r"[;{}]", declared.text)
    found: dict[str, str] = {}
    for row in rows:
        if match := _ALIGNED.search(row):
            words = re.findall(r"\w+", re.sub(r"\[[^\]]*\]", "", row[: match.start()]))
            if words and words[-1] in declared.names:
                found[words[-1]] = match[0]
    behind = ((pad, name) for pad, name in zip(declared.names, declared.names[1:], strict=False) if pad in pads)
    return found | {name: f"CACHELINE_PADDING({pad}), ____cacheline_internodealigned_in_smp" for pad, name in behind}


def first_contract(declared: Declaration) -> str:
    """A contract in TOML. Every promise has the place that makes it; what nothing is known of is listed at the end."""
    prefix = declared.struct.replace("_", "-")
    groups = marked_groups(declared.names)
    rows: list[str] = []
    rules: list[str] = []

    def rule(why: str, source: str) -> str:
        name = f"{prefix}.G{len(rules) + 1}"
        rules.append(_table("[rule]", id=name, why=why, source=source))
        return name

    for group, members in groups.items():
        if len(members) < 2:
            continue
        files = sorted({declared.asserted[group, each] for each in members if (group, each) in declared.asserted})
        asserted = f"; asserted in {', '.join(files)}" if files else ""
        name = rule(
            f"the kernel keeps these members together: the group {group}",
            f"{declared.file}: __cacheline_group_begin({group}){asserted}",
        )
        rows.append(_table("[group]", name=group, **{"class": _class(group)}, members=members))
        rows.append(_table("[group.promise]", id=name, keep="unbroken", forced=True))
    for member, attribute in aligned_members(declared).items():
        name = rule(f"{member} begins a line of its own accord", f"{declared.file}: {attribute}")
        when = {"when": ("CONFIG_SMP",)} if _IN_SMP in attribute else {}
        rows.append(_table("[promise]", id=name, keep="starts a line", of=(member,), **when, forced=True))
    if match := _ALIGNED.search(declared.text.rpartition("}")[2]):
        name = rule("two of them share no line", f"{declared.file}: {match[0]}")
        when = {"when": ("CONFIG_SMP",)} if _IN_SMP in match[0] else {}
        rows.append(_table("[type]", id=name, keep="whole lines", **when, forced=True))
    head = [
        "# SPDX-License-Identifier: GPL-2.0",
        f"# struct {declared.struct}. docs/contracts.md explains the format.",
        "",
        f"struct = {_value(declared.struct)}",
        f"file = {_value(declared.file)}",
    ]
    return "\n\n".join(["\n".join(head), *rules, *rows, *_unknown(declared, groups)]) + "\n"


def _class(group: str) -> str:
    """The class that the name of a group claims, as in net_device_read_tx and tcp_sock_write_rx."""
    return "read-mostly" if "read" in group and "write" not in group else "owner"


def _unknown(declared: Declaration, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    held = {member for members in groups.values() for member in members} | set(aligned_members(declared))
    rest = [name for name in dict.fromkeys(declared.names) if name not in held and not MARKER.fullmatch(name)]
    if not rest:
        return
    lines = ["# No source was found for these:"]
    lines += [f"# {name}{': ' + declared.described[name] if name in declared.described else ''}" for name in rest]
    yield "\n".join(lines)


def _table(header: str, /, **values: object) -> str:
    return "\n".join([f"[{header}]", *(f"{key} = {_value(value)}" for key, value in values.items())])


def _value(value: object) -> str:
    """A value in TOML, which writes these as JSON does."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
