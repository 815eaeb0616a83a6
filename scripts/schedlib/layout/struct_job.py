# SPDX-License-Identifier: GPL-2.0
"""Any structure of a tree or of a built kernel: its lines, a first contract of it, and a contract against a profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.measured import CheckedGroup, Profile, check_group, percent, ungrouped, verdict_of
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import read_result
from schedlib.formats.contract_file import Contract, read_contract
from schedlib.layout.first_contract import Declaration, first_contract
from schedlib.layout.kernel_text import declaring_file
from schedlib.layout.kernel_versions import CommitVersions, opened
from schedlib.layout.layout_diff import draw
from schedlib.layout.layout_options import ContractCheckOptions, InitOptions, LayoutOptions
from schedlib.layout.own_build import OURS, Versions
from schedlib.layout.picture import draw_line
from schedlib.layout.rule_judge import Layout
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import say, table
from schedlib.verdict import Verdict


def show_struct(options: LayoutOptions, patch: bytes | None = None) -> Verdict:
    """Print every line of a structure, on each kernel asked for; with a patch, without and with it.

    Raises:
        SchedlineError: there is no such structure, or the tree, the kernel or the machine does not allow it.
    """
    struct = options.struct or ""
    if options.built:
        layouts = [layout_of_built(options.vmlinux, _rules(struct, ""))]
    else:
        with opened(options, patch or b"") as versions:
            pairs = _both(versions, struct, declaring_file(versions.text, struct, versions.texts))
        layouts = [pair[1] for pair in pairs]
        if patch:
            layouts = [
                replace(layout, name=f"{layout.name}, {which} the patch")
                for pair in pairs
                for layout, which in zip(pair, ("without", "with"), strict=True)
            ]
    for layout in layouts:
        if layout.assumed:
            say(layout.assumed)
        _require(layout, struct)
        size = layout.types[struct].size
        print(f"struct {struct} on {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}")
        for line in range(layout.lines(size)):
            for text in draw_line(struct, line, layout, frozenset()):
                print(text)
    if options.svg:
        write_atomic(options.svg, draw(layouts, struct))
        say(f"picture: {options.svg}")
    return Verdict.PASS


def _both(versions: Versions | CommitVersions, struct: str, file: str) -> list[tuple[Layout, Layout]]:
    """A structure without and with a patch, in each configuration."""
    every = (versions.layouts(column, _rules(struct, file), {}, every=True) for column in versions.pack_columns)
    found = [pair for pair in every if pair]
    if not found and versions.own:
        raise SchedlineError(f"no object of {versions.own.build} is made from {file}", f"make one, or add {OURS}")
    if not found:
        raise SchedlineError("there is no such kernel", "choose another --arch or --config")
    return found


def init_contract(options: InitOptions) -> Verdict:
    """Write a first contract of a structure.

    Raises:
        SchedlineError: there is no such structure, or the tree or the machine does not allow it.
    """
    struct = options.struct
    out = None if options.out == Path("/dev/stdout") else options.out
    if out and (out.is_dir() or not (out.suffix or out.exists())):
        out /= f"{struct}.toml"
    if out and out.suffix == ".toml" and out.stem != struct:
        raise SchedlineError(f"{out}: a contract is named after its structure", f"-o {out.with_stem(struct)}")
    profile = profile_of(options.profile, struct) if options.profile else None
    if profile and not profile.is_watched:
        say(f"{profile.about} does not watch {struct}, only {', '.join(profile.watches)}: it adds nothing")
    with opened(options) as versions:
        file = options.file or declaring_file(versions.text, struct)
        layouts = [pair[1] for pair in _both(versions, struct, file)]
        for layout in layouts:
            _require(layout, struct)
        text = first_contract(Declaration(struct, file, versions.text.read(file) or "", layouts), profile)
    if out:
        write_atomic(out, text)
    print(out or text, end="\n" if out else "")
    if not re.search(r"^\[\[rule", text, re.M):
        say(f"no source speaks of {struct}, so there is no rule yet\n  next: write one, as the comments in it show")
    return Verdict.PASS


def profile_of(path: Path, struct: str) -> Profile:
    """What a result of `schedline c2c` says of a structure.

    Raises:
        Refused: it is not a valid result.
    """
    return Profile(read_result(path), struct, path.name)


def _rules(struct: str, file: str) -> Rules:
    """Rules that say nothing about a structure."""
    return Rules((), (), files={struct: file})


def _require(layout: Layout, struct: str) -> None:
    if struct not in layout.structures:
        raise SchedlineError(
            f"{layout.name} has no struct {struct}",
            "check its name; configs/kernel/packs.config has the subsystems that are compiled, --config adds others",
        )


def check_against_profile(options: ContractCheckOptions) -> Verdict:
    """Print what of a contract does not fit a profile.

    Raises:
        SchedlineError: the contract is wrong, or the profile is no result of `schedline c2c`.
    """
    contract = read_contract(options.contract)
    profile = profile_of(options.profile, contract.struct)
    checked = tuple(check_group(group, profile) for group in contract.group)
    for text in _told(contract, profile, checked):
        print(text)
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
    yield from table(_rows(checked))
    for each in checked:
        if each.text:
            yield f"{each.verdict.name} {each.group.name}: {each.text}"
    for each in checked:
        yield from (f"{each.group.name}: {note}" for note in each.notes)
    if names := ungrouped(contract, profile):
        yield f"in no group, and not cold: {', '.join(names)}"


def _rows(checked: tuple[CheckedGroup, ...]) -> Sequence[Sequence[str]]:
    rows = [("group", "declared", "measured", "accesses", "writes")]
    for each in checked:
        measured = " ".join(dict.fromkeys(found.value if found else "too little to tell" for found in each.measured))
        use = each.use
        accesses, writes = f"{use.accesses:,}", percent(use.writes, use.accesses)
        rows.append((each.group.name, each.group.class_.value, measured, accesses, writes))
    return rows
