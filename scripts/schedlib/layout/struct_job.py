# SPDX-License-Identifier: GPL-2.0
"""Any structure of a tree or of a built kernel: its lines, a first contract of it, and a contract against a profile."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.first_contract import Declaration, find_declaration, first_contract
from schedlib.contracts.measured import CheckedGroup, Profile, check_contract, percent, ungrouped, verdict_of
from schedlib.contracts.net_tables import NET_TABLES, NO_TABLE, NetTable, read_table
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import read_result
from schedlib.formats.contract_file import Contract, read_contract
from schedlib.git import git, try_git
from schedlib.layout.columns import composed_tree, ensure_tools, pack_columns
from schedlib.layout.layout_diff import draw_struct
from schedlib.layout.layout_options import ColumnOptions, ContractCheckOptions, InitOptions, LayoutOptions
from schedlib.layout.members import Field, Structure
from schedlib.layout.own_build import OURS, OwnBuild, chosen_build, patched
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.patch_check import Steps, steps
from schedlib.layout.patch_text import git_revisions
from schedlib.layout.picture import draw_line
from schedlib.layout.rule_judge import Layout, share_line
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import say, table
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


def show_struct(options: LayoutOptions, patch: bytes | None = None) -> Verdict:
    """Print every line of a structure, on each kernel asked for; with a patch, without and with it.

    Raises:
        SchedlineError: there is no such structure, or the tree, the kernel or the machine does not allow it.
    """
    struct = options.struct or ""
    if options.built:
        layouts = [layout_of_built(options.vmlinux, _rules(struct, ""))]
    elif own := chosen_build(options):
        layouts = _in_own_build(own, options, struct, patch)
    else:
        layouts = _in_ours(options, struct, patch)
    for layout in layouts:
        if layout.assumed:
            say(layout.assumed)
        size = _structure(layout, struct).type.size
        print(f"struct {struct} on {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}")
        for line in range(layout.lines(size)):
            for text in draw_line(struct, line, layout, frozenset()):
                print(text)
    if options.svg:
        write_atomic(options.svg, draw_struct(struct, layouts))
        say(f"picture: {options.svg}")
    return Verdict.PASS


def _in_ours(options: LayoutOptions, struct: str, patch: bytes | None) -> list[Layout]:
    """The structure in configurations of our own."""
    tree, composition = composed_tree(options.tree, options.changes)
    both = steps(tree, composition, patch) if patch else Steps(composition.commit, composition.commit)
    file = declaring_file(tree, both.after, struct)
    layouts = _layouts(tree, both.after, options.columns, struct, file)
    if not patch:
        return layouts
    return _named(list(zip(_layouts(tree, both.before, options.columns, struct, file), layouts, strict=True)))


def _in_own_build(own: OwnBuild, options: LayoutOptions, struct: str, patch: bytes | None) -> list[Layout]:
    """The structure as the tree's owner builds it."""
    with patched(own, patch or b"", git_revisions(options.commit, options.between)) as versions:
        changed = [file for file, both in versions.texts.items() if re.search(_declares(struct), both[1], re.M)]
        said = b"" if changed else try_git(own.tree, "grep", "--no-index", "-lE", _declares(struct), *_PLACES).stdout
        file = _only([*changed, *said.decode(errors="replace").splitlines()], struct, str(own.tree))
        both = versions.layouts(_rules(struct, file), {}, every=True)
    if both is None:
        raise SchedlineError(f"no object of {own.build} is made from {file}", f"make one, or add {OURS}")
    return _named([both]) if patch else [both[0]]


def _named(pairs: Sequence[tuple[Layout, Layout]]) -> list[Layout]:
    """Layouts without and with a patch, one below the other."""
    return [
        replace(layout, name=f"{layout.name}, {which} the patch")
        for pair in pairs
        for layout, which in zip(pair, ("without", "with"), strict=True)
    ]


def init_contract(options: InitOptions) -> Verdict:
    """Write a first contract of a structure.

    Raises:
        SchedlineError: there is no such structure, or the tree or the machine does not allow it.
    """
    struct = options.struct
    profile = profile_of(options.profile, struct) if options.profile else None
    if profile and not profile.is_watched:
        say(f"{profile.about} does not watch {struct}, only {', '.join(profile.watches)}: it adds nothing")
    tree, composition = composed_tree(options.tree, options.changes)
    commit = composition.commit
    file = options.file or declaring_file(tree, commit, struct)
    layouts = _layouts(tree, commit, options.columns, struct, file)
    declared = declaration_in(struct, file, tree.read(file, commit) or "", layouts, tree, commit)
    text = first_contract(declared, profile)
    if options.out:
        write_atomic(options.out, text)
        print(options.out)
    else:
        print(text, end="")
    return Verdict.PASS


def declaration_in(
    struct: str, file: str, source: str, layouts: Sequence[Layout], tree: Tree, commit: str
) -> Declaration:
    """What a tree says of the structure.

    Args:
        source: the text of the file.
        commit: the commit in which other files are looked for and into.
    """
    rows = find_table(tree, commit, struct)
    members = _structure(layouts[0], struct).members

    def shares(one: Sequence[str], other: Sequence[str]) -> bool:
        return any(
            share_line(first, second, layout)
            for layout in layouts
            for first in layout.fields(struct, one)
            for second in layout.fields(struct, other)
        )

    def on_one_line(names: Sequence[str]) -> bool:
        return all(
            len({layout.line_of(byte) for each in layout.fields(struct, names) for byte in (each.offset, each.last)})
            == 1
            for layout in layouts
        )

    def in_a_row(names: Sequence[str]) -> bool:
        return all(_is_in_a_row(_structure(layout, struct), layout.fields(struct, names)) for layout in layouts)

    return Declaration(
        struct,
        file,
        tuple(member.name for member in members),
        asserted_members(tree, commit, struct),
        find_declaration(struct, source),
        rows,
        known_functions(tree, commit, {name for row in rows.rows for name in row.functions}),
        lambda name: layouts[0].field(struct, name) is not None,
        shares,
        ", ".join(layout.name for layout in layouts),
        {member.name: layouts[0].line_of(member.offset) for member in members},
        on_one_line,
        in_a_row,
        any(_structure(layout, struct).type.size % layout.line for layout in layouts),
    )


def _is_in_a_row(structure: Structure, fields: Sequence[Field]) -> bool:
    """Whether no other member lies between some members."""
    first, last = min(each.offset for each in fields), max(each.last for each in fields)
    own = {byte for each in fields for byte in range(each.offset, each.last + 1)}
    return all(
        own.issuperset(range(max(member.offset, first), min(member.offset + member.size, last + 1)))
        for member in structure.members
    )


def profile_of(path: Path, struct: str) -> Profile:
    """What a result of `schedline c2c` says of a structure.

    Raises:
        Refused: it is not a valid result.
    """
    return Profile(read_result(path), struct, path.name)


def _rules(struct: str, file: str) -> Rules:
    """Rules that say nothing about a structure."""
    return Rules((), (), files={struct: file})


def _structure(layout: Layout, struct: str) -> Structure:
    found = layout.structures.get(struct)
    if found is None:
        raise SchedlineError(
            f"{layout.name} has no struct {struct}",
            "check its name; configs/kernel/packs.config has the subsystems that are compiled, --config adds others",
        )
    return found


def _layouts(tree: Tree, commit: str, chosen: ColumnOptions, struct: str, file: str) -> list[Layout]:
    """The layouts of the structure, one for each column.

    Raises:
        SchedlineError: the machine or the tree does not allow it.
    """
    columns = pack_columns(chosen.arch, chosen.config)
    ensure_tools(columns)
    return [pack_layout(cache_dir(), tree, commit, column, _rules(struct, file)) for column in columns]


_PLACES = ("--", "*.h", "*.c", ":!arch", ":!tools", ":!samples", ":!scripts", ":!Documentation")


def _declares(struct: str) -> str:
    """A pattern of git grep, and of re, for the first line of a declaration."""
    return rf"^(typedef )?struct {re.escape(struct)} \{{"


def declaring_file(tree: Tree, commit: str, struct: str) -> str:
    """The file that declares a structure: the only one, or the only public header.

    Raises:
        SchedlineError: there is none, or several.
    """
    said = _grep(tree, commit, "-lE", _declares(struct), *_PLACES[1:])
    return _only([line.partition(":")[2] for line in said.splitlines()], struct, tree.origin)


def _only(found: Sequence[str], struct: str, where: str) -> str:
    public = [file for file in found if file.startswith("include/")]
    if len(found) == 1 or len(public) == 1:
        return (public or found)[0]
    if found:
        raise SchedlineError(f"{len(found)} files declare struct {struct}: {', '.join(found[:5])}", "name one: --file")
    raise SchedlineError(f"{where} declares no struct {struct} at the left margin", "check its name")


_ASSERTED = r"CACHELINE_ASSERT_GROUP_MEMBER\(struct (\w+),\s*(\w+),\s*(\w+)\)"


def asserted_members(tree: Tree, commit: str, struct: str) -> Mapping[tuple[str, str], str]:
    """The files that assert that a member is in a group, by group and member. An assertion may take two lines."""
    # What is looked for is the same for each structure, so that it is looked for once.
    said = _grep(tree, commit, "-lF", "CACHELINE_ASSERT_GROUP_MEMBER(struct ", "*.c", "*.h")
    files = [line.partition(":")[2] for line in said.splitlines()]
    rows = ((file, found) for file in files for found in re.findall(_ASSERTED, tree.read(file, commit) or ""))
    return {(group, member): file for file, (tag, group, member) in rows if tag == struct}


def find_table(tree: Tree, commit: str, struct: str) -> NetTable:
    """The table of a structure in Documentation/networking/net_cachelines; one without rows if there is none."""
    listed = try_git(tree.src, "ls-tree", "--name-only", commit, f"{NET_TABLES}/").stdout.decode().split()
    tables = (read_table(file.rpartition("/")[2], tree.read(file, commit) or "") for file in listed)
    return next((each for each in tables if each.rows and each.about == struct and not each.is_enum), NO_TABLE)


def known_functions(tree: Tree, commit: str, names: Collection[str]) -> frozenset[str]:
    """Those of some names that a tree has as functions, or as macros with arguments, of the network."""
    if not names:
        return frozenset()
    said = _grep(tree, commit, "-ohE", rf"\b({'|'.join(sorted(names))})\(", "include", "net")
    return frozenset(said.replace("(", " ").split()) & frozenset(names)


def _grep(tree: Tree, commit: str, how: str, pattern: str, *places: str) -> str:
    """What `git grep` finds in a commit; from the cache if possible: a whole kernel takes seconds."""
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    said = "\0".join((content, how, pattern, *places))
    place = cache_dir() / "grep" / hashlib.sha256(said.encode()).hexdigest()[:20]
    with suppress(OSError):
        return place.read_text()
    # The name of the commit stands in front of each row. Another commit may have the same content.
    done = try_git(tree.src, "grep", how, pattern, commit, "--", *places)
    found = done.stdout.decode(errors="replace")
    if done.returncode in (0, 1):
        write_atomic(place, found)
    return found


def check_against_profile(options: ContractCheckOptions) -> Verdict:
    """Print what of a contract does not fit a profile.

    Raises:
        SchedlineError: the contract is wrong, or the profile is no result of `schedline c2c`.
    """
    contract = read_contract(options.contract)
    profile = profile_of(options.profile, contract.struct)
    checked = check_contract(contract, profile)
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
