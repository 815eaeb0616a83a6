# SPDX-License-Identifier: GPL-2.0
"""Any structure of a tree or of a built kernel: its lines, and a first contract of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.first_contract import Declaration, find_declaration, first_contract
from schedlib.errors import SchedlineError
from schedlib.git import try_git
from schedlib.layout.columns import composed_tree, ensure_tools, pack_columns
from schedlib.layout.layout_options import StructOptions
from schedlib.layout.members import Structure
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.picture import draw_line
from schedlib.layout.rule_judge import Layout
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import say
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_DOCUMENTED = "Documentation/networking/net_cachelines"


def show_struct(options: StructOptions) -> Verdict:
    """Print every line of a structure, on each kernel asked for.

    Raises:
        SchedlineError: there is no such structure, or the tree, the kernel or the machine does not allow it.
    """
    if options.built:
        layouts = [layout_of_built(options.vmlinux, _rules(options.struct, ""))]
    else:
        tree, composition = composed_tree(options.tree, options.changes)
        layouts = _layouts(options, tree, composition.commit)
    for layout in layouts:
        if layout.assumed:
            say(layout.assumed)
        structure = _structure(layout, options.struct)
        size = structure.type.size
        print(f"struct {options.struct} on {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}")
        for line in range(layout.lines(size)):
            for text in draw_line(options.struct, line, layout, frozenset()):
                print(text)
    return Verdict.PASS


def init_contract(options: StructOptions) -> Verdict:
    """Write a first contract of a structure.

    Raises:
        SchedlineError: there is no such structure, or the tree or the machine does not allow it.
    """
    tree, composition = composed_tree(options.tree, options.changes)
    commit = composition.commit
    layout = _layouts(options, tree, commit)[0]
    file = options.file or declaring_file(tree, commit, options.struct)
    declared = Declaration(
        options.struct,
        file,
        tuple(member.name for member in _structure(layout, options.struct).members),
        _asserted(tree, commit, options.struct),
        _described(tree, commit, options.struct),
        find_declaration(options.struct, tree.read(file, commit) or ""),
    )
    text = first_contract(declared)
    if options.out:
        write_atomic(options.out, text)
        print(options.out)
    else:
        print(text, end="")
    return Verdict.PASS


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


def _layouts(options: StructOptions, tree: Tree, commit: str) -> list[Layout]:
    columns = pack_columns(options.columns.arch, options.columns.config)
    ensure_tools(columns)
    file = options.file or declaring_file(tree, commit, options.struct)
    rules = _rules(options.struct, file)
    return [pack_layout(cache_dir(), tree, commit, column, rules) for column in columns]


def declaring_file(tree: Tree, commit: str, struct: str) -> str:
    """The file that declares a structure: the only one, or the only public header.

    Raises:
        SchedlineError: there is none, or several.
    """
    places = ["*.h", "*.c", ":!arch", ":!tools", ":!samples", ":!scripts", ":!Documentation"]
    said = try_git(tree.src, "grep", "-lE", rf"^struct {re.escape(struct)} \{{", commit, "--", *places)
    found = [line.partition(":")[2] for line in said.stdout.decode().splitlines()]
    public = [file for file in found if file.startswith("include/")]
    if len(found) == 1 or len(public) == 1:
        return (public or found)[0]
    if found:
        raise SchedlineError(f"{len(found)} files declare struct {struct}: {', '.join(found[:5])}", "name one: --file")
    raise SchedlineError(f"{tree.origin} declares no struct {struct} at the left margin", "check its name")


def _asserted(tree: Tree, commit: str, struct: str) -> Mapping[tuple[str, str], str]:
    """The files that assert that a member is in a group, by group and member."""
    pattern = rf"CACHELINE_ASSERT_GROUP_MEMBER\(struct {re.escape(struct)}, "
    said = try_git(tree.src, "grep", "-E", pattern, commit, "--", "*.c", "*.h").stdout.decode(errors="replace")
    rows = re.findall(rf"^[^:\n]+:([^:\n]+):.*\(struct {re.escape(struct)}, (\w+), (\w+)\)", said, re.M)
    return {(group, member): file for file, group, member in rows}


def _described(tree: Tree, commit: str, struct: str) -> Mapping[str, str]:
    """What the table of a structure says of each member: the columns behind type and name, as they stand there."""
    text = tree.read(f"{_DOCUMENTED}/{struct}.rst", commit) or ""
    return {name: rest for _, name, rest in table_rows(text) if rest}


def table_rows(text: str) -> list[tuple[str, str, str]]:
    """Type, name and the rest of each row of a table of Documentation/networking/net_cachelines."""
    rules = list(re.finditer(r"^=+( +=+)+$", text, re.M))
    if len(rules) < 3:
        return []
    ends = [match.end() for match in re.finditer(r"=+", rules[0][0])]
    rows = []
    for line in text[rules[1].end() : rules[2].start()].splitlines():
        kind, name, rest = line[: ends[0]], line[ends[0] : ends[1]], line[ends[1] :]
        if name.strip():
            rows.append((kind.strip(), name.strip(), " ".join(rest.split())))
    return rows
