# SPDX-License-Identifier: GPL-2.0
"""A first contract of a structure, with the origin of each part; and a contract against a profile.

Origins are the markers and attributes of the kernel, and a profile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.contracts.measured import NAMED, CheckedGroup, Profile, check_group, percent, ungrouped, verdict_of
from schedlib.contracts.struct_source import without_comments
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import read_result
from schedlib.formats.contract_file import AccessClass, Contract, may_share, read_contract
from schedlib.formats.tables import table
from schedlib.layout.kernel_text import declaring_file
from schedlib.layout.kernel_versions import layouts_of, opened, require_struct
from schedlib.layout.layout_options import ContractCheckOptions, InitOptions
from schedlib.layout.rule_judge import Layout, shared_members
from schedlib.progress import say
from schedlib.verdict import Verdict

MARKER = re.compile(r"__cacheline_group_(begin|end)(?:_aligned)?__(\w+)")
"""A member without bytes, at which a group of members begins or ends (include/linux/cache.h)."""

_ALIGNED = re.compile(r"____cacheline_(?:internodealigned_|aligned_)?(?:in_smp)?\w*")


@dataclass(frozen=True)
class Declaration:
    """What a tree says of a structure: the file that declares it with its text, and its layouts, one or more."""

    struct: str
    file: str
    source: str
    layouts: Sequence[Layout]

    @cached_property
    def text(self) -> str:
        """The declaration, without comments; empty if it is not there."""
        pattern = rf"^struct {re.escape(self.struct)} \{{.*?^\}}[^;]*;"
        match = re.search(pattern, without_comments(self.source), re.M | re.S)
        return match[0] if match else ""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its members, in order; those of unnamed structures and unions inside of it count as its own."""
        return tuple(member.name for member in self.layouts[0].structures[self.struct].members)

    def shares(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether some members have a line in common with others, in some configuration."""
        return any(shared_members(layout, self.struct, one, other)[0] for layout in self.layouts)


_EXAMPLE = """\
# Nothing in the source speaks of this structure. Write what you know, such as this:
#
# [[rule]]
# id = "{prefix}.G1"
# why = "who uses them together, and what it costs if they are apart"
# source = "a commit, a mail, or a measurement"
#
# [[group]]
# name = "fast-path"
# class = "read-mostly" # or owner, published, shared, lock, cold
# apart = "{prefix}.G1" # broken if a group that does not fit joins these lines
# members = {members}
#
# [[group.promise]]
# id = "{prefix}.G1"
# keep = "on one line" # docs/contracts.md has the other promises"""


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


@dataclass(frozen=True)
class DraftGroup:
    """Members of one class, where that comes from, and what is promised of them, if anything is, and why."""

    name: str
    class_: AccessClass
    members: tuple[str, ...]
    origin: str
    readers: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    keep: str = ""
    why: str = ""


def first_contract(declared: Declaration, profile: Profile | None = None, known: Sequence[DraftGroup] = ()) -> str:
    """A contract in TOML. Every promise and group has its origin; what nothing is known of is listed at the end.

    `known` are further groups, of members that no marker of the kernel has.
    """
    prefix = declared.struct.replace("_", "-").lower()
    groups = [*_marked(declared), *known]
    if profile:
        groups += _measured(profile, {name.split(".")[0] for group in groups for name in group.members})
    rows: list[str] = []
    rules: list[str] = []

    def rule(why: str, source: str) -> str:
        name = f"{prefix}.G{len(rules) + 1}"
        rules.append(_toml("[rule]", id=name, why=why, source=source))
        return name

    def when(attribute: str) -> dict[str, object]:
        return {"when": ("CONFIG_SMP",)} if "in_smp" in attribute else {}

    apart, exceptions = _conflicts(groups, declared)
    for group in groups:
        why = group.why if group.keep else f"what is not {group.class_.value} stays off the lines of these"
        name = rule(why, group.origin) if group.keep or group.name in apart else ""
        keys: dict[str, object] = {"name": group.name, "class": group.class_.value}
        keys |= {"apart": name} if group.name in apart else {}
        keys["members"] = group.members
        keys |= {key: names for key, names in (("readers", group.readers), ("writers", group.writers)) if names}
        rows.append(f"# {group.origin}\n{_toml('[group]', **keys)}")
        if group.keep:
            forced = {"forced": True} if group.keep == "unbroken" else {}
            rows.append(_toml("[group.promise]", id=name, keep=group.keep, **forced))
    rows += exceptions
    for member, attribute in aligned_members(declared).items():
        aligned = rule(f"{member} begins a line of its own accord", f"{declared.file}: {attribute}")
        rows.append(_toml("[promise]", id=aligned, keep="starts a line", of=(member,), **when(attribute), forced=True))
    if match := _ALIGNED.search(declared.text.rpartition("}")[2]):
        whole = rule("two of them share no line", f"{declared.file}: {match[0]}")
        rows.append(_toml("[type]", id=whole, keep="whole lines", **when(match[0]), forced=True))
    head = [
        "# SPDX-License-Identifier: GPL-2.0",
        f"# struct {declared.struct}. docs/contracts.md explains the format.",
        "",
        f"struct = {_value(declared.struct)}",
        f"file = {_value(declared.file)}",
    ]
    members = _value(tuple(name for name in dict.fromkeys(declared.names) if not MARKER.fullmatch(name))[:2])
    example = [] if groups or rules else [_EXAMPLE.format(prefix=prefix, members=members)]
    return "\n\n".join(["\n".join(head), *rules, *rows, *example, *_unknown(declared, groups)]) + "\n"


def _marked(declared: Declaration) -> Iterator[DraftGroup]:
    for marker, members in marked_groups(declared.names).items():
        if members:
            origin = f"{declared.file}: __cacheline_group_begin({marker})"
            keep = "unbroken" if len(members) > 1 else ""
            why = f"the kernel keeps these members together: the group {marker}"
            yield DraftGroup(marker, _class(marker), members, origin, keep=keep, why=why)


def _measured(profile: Profile, held: Collection[str]) -> Iterator[DraftGroup]:
    """The other members that a profile saw, one group for each class that was measured."""
    found: dict[AccessClass, list[str]] = {}
    for name in profile.members():
        if name not in held and (class_ := profile.agreed_class([name])):
            found.setdefault(class_, []).append(name)
    for class_, members in found.items():
        uses = profile.uses(members)
        use = uses[len(uses) // 2]
        readers, writers = (
            tuple(name for name, count in counted.most_common() if count > NAMED * use.accesses)
            for counted in (use.readers, use.writers)
        )
        share = f"{percent(use.writes, use.accesses)} of {use.accesses:,} accesses are writes"
        origin = f"measured: {profile.about}: {share}"
        yield DraftGroup(f"measured-{class_.value}", class_, tuple(members), origin, readers, writers)


def _conflicts(groups: Sequence[DraftGroup], declared: Declaration) -> tuple[set[str], list[str]]:
    """The groups that need a rule because others must stay off their lines, and exceptions for what shares one now."""
    apart: set[str] = set()
    exceptions: list[str] = []
    for at, one in enumerate(groups):
        unlike = [other for other in groups[at + 1 :] if not may_share(one.class_, other.class_)]
        shared = [other.name for other in unlike if declared.shares(one.members, other.members)]
        if len(shared) < len(unlike):
            apart.add(one.name)
        if shared:
            kernels = ", ".join(layout.name for layout in declared.layouts)
            why = f"they share a line on {kernels}: find out what that costs"
            exceptions.append(_toml("[exception]", group=one.name, **{"with": tuple(shared)}, open=True, why=why))
    return apart, exceptions


def _class(group: str) -> AccessClass:
    """The class that the name of a group claims, as in net_device_read_tx and tcp_sock_write_rx."""
    return AccessClass.READ_MOSTLY if "read" in group and "write" not in group else AccessClass.OWNER


def _unknown(declared: Declaration, groups: Sequence[DraftGroup]) -> Iterator[str]:
    """What no source speaks of."""
    held = {name.split(".")[0] for group in groups for name in group.members} | set(aligned_members(declared))
    rest = [name for name in dict.fromkeys(declared.names) if name not in held and not MARKER.fullmatch(name)]
    layout = declared.layouts[0]
    lines: dict[int, list[str]] = {}
    for field in layout.fields(declared.struct, rest):
        lines.setdefault(layout.line_of(field.offset), []).append(field.member)
    if rest:
        told = (f"# line {number}: {', '.join(its)}" for number, its in lines.items())
        yield "\n".join(["# No source was found for these:", *told])


def _toml(header: str, /, **values: object) -> str:
    return "\n".join([f"[{header}]", *(f"{key} = {_value(value)}" for key, value in values.items())])


def _value(value: object) -> str:
    """A value in TOML, which writes these as JSON does."""
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)


def init_contract(options: InitOptions) -> Verdict:
    """Write a first contract of a structure."""
    struct = options.struct
    out = None if options.out == Path("/dev/stdout") else options.out
    if out and (out.is_dir() or not (out.suffix or out.exists())):
        out /= f"{struct}.toml"
    if out and out.suffix == ".toml" and out.stem != struct:
        raise SchedlineError(f"{out}: a contract is named after its structure", f"-o {out.with_stem(struct)}")
    profile = Profile(read_result(options.profile), struct, options.profile.name) if options.profile else None
    if profile and not profile.is_watched:
        say(f"{profile.about} does not watch {struct}, only {', '.join(profile.watches)}: it adds nothing")
    with opened(options) as versions:
        file = options.file or declaring_file(versions.text, struct)
        layouts = [pair[1] for pair in layouts_of(versions, struct, file)]
        for layout in layouts:
            require_struct(layout, struct)
        text = first_contract(Declaration(struct, file, versions.text.read(file) or "", layouts), profile)
    if out:
        write_atomic(out, text)
    print(out or text, end="\n" if out else "")
    if not re.search(r"^\[\[rule", text, re.M):
        say(f"no source speaks of {struct}, so there is no rule yet\n  next: write one, as the comments in it show")
    return Verdict.PASS


def check_against_profile(options: ContractCheckOptions) -> Verdict:
    """Print what of a contract does not fit a profile; SchedlineError if one of them is wrong."""
    contract = read_contract(options.contract)
    profile = Profile(read_result(options.profile), contract.struct, options.profile.name)
    checked = tuple(check_group(group, profile) for group in contract.group)
    print(*_told(contract, profile, checked), sep="\n")
    verdict = verdict_of(checked)
    print(f"verdict: {verdict.name}")
    return verdict


def _told(contract: Contract, profile: Profile, checked: tuple[CheckedGroup, ...]) -> Iterator[str]:
    yield f"struct {contract.struct}, {profile.about}"
    if not profile.is_watched:
        yield f"the profile watches {', '.join(profile.watches)}, so it says nothing of struct {contract.struct}"
        yield "  next: count with another --objects; schedline c2c --help lists them"
        return
    if not checked:
        yield "the contract has no groups, so it declares no class that could be compared"
        yield f"  next: schedline layout contract init {contract.struct} --profile FILE writes groups with classes"
        return
    rows = [("group", "declared", "measured", "accesses", "writes")]
    for each in checked:
        measured = " ".join(dict.fromkeys(found.value if found else "too little to tell" for found in each.measured))
        counts = f"{each.use.accesses:,}", percent(each.use.writes, each.use.accesses)
        rows.append((each.group.name, each.group.class_.value, measured, *counts))
    yield from table(rows)
    yield from (f"{each.verdict.name} {each.group.name}: {each.text}" for each in checked if each.text)
    yield from (f"{each.group.name}: {note}" for each in checked for note in each.notes)
    if names := ungrouped(contract, profile):
        yield f"in no group, and not cold: {', '.join(names)}"
