# SPDX-License-Identifier: GPL-2.0
"""tree -> its tables in Documentation/networking/net_cachelines, held against the structures as compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial

from schedlib.cache import write_atomic
from schedlib.contracts.first_contract import find_declaration, marked_groups
from schedlib.contracts.net_tables import NET_TABLES, NetTable, write_table
from schedlib.contracts.struct_source import declared_members
from schedlib.dev.dev_options import NetCachelinesOptions
from schedlib.dev.net_drift import DeclaredMembers, TableDrift, TableDriftKind, drift_of, made_table
from schedlib.errors import SchedlineError
from schedlib.git import try_git
from schedlib.layout.columns import composed_tree
from schedlib.layout.layout_options import DEFAULT_ARCH, ColumnOptions, StructOptions
from schedlib.layout.struct_job import asserted_members, declaring_file, known_functions, layouts_of, net_tables
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_ENUM_FILE = "include/uapi/linux/snmp.h"
_WITH_TAG = re.compile(r"\bstruct (\w+) \{[^{}]*\} (\w+);")


def compare_tables(options: NetCachelinesOptions) -> Verdict:
    """Print in Markdown what differs, table by table. PASS if nothing does.

    Raises:
        SchedlineError: the tree has no tables, or it or the machine does not allow it.
    """
    # Changes of ours do not touch the network.
    tree, composition = composed_tree(options.tree, ChangeOptions((), ()))
    commit, found = composition.commit, 0
    tables = list(net_tables(tree, commit))
    if not tables:
        raise SchedlineError(f"{tree.origin} has no {NET_TABLES}", "choose Linux 6.8 or later")
    for table in tables:
        declared = _enumeration(tree, commit, table) if table.is_enum else _structure(options.tree, tree, commit, table)
        named = {name for row in table.rows for name in row.functions}
        functions = known_functions(tree, commit, named, called=False)
        drift = drift_of(table, declared, functions)
        for text in _told(table, declared, drift):
            print(text)
        found += len(drift)
        if options.out:
            title = f"{table.about} {'enum' if table.is_enum else 'struct'} fast path usage breakdown"
            write_atomic(options.out / table.file, write_table(made_table(table, declared), title))
    print(f"{found} differences in {len(tables)} tables of {tree.origin}")
    verdict = Verdict.FAIL if found else Verdict.PASS
    print(f"verdict: {verdict.name}")
    return verdict


def _told(table: NetTable, declared: DeclaredMembers, drift: Sequence[TableDrift]) -> Iterator[str]:
    yield f"## {table.file}"
    yield ""
    rows, names = len(table.rows), len(declared.names)
    yield f"{rows} rows; {names} members in all configurations, {len(declared.compiled)} of them compiled"
    yield ""
    for kind in TableDriftKind:
        its = [each for each in drift if each.kind is kind]
        if its:
            listed = ", ".join(f"`{each.name}`{f' ({each.text})' if each.text else ''}" for each in its)
            yield f"- {kind.value}: {len(its)}: {listed}"
    yield ""


def _structure(options: TreeOptions, tree: Tree, commit: str, table: NetTable) -> DeclaredMembers:
    """The structure of a table: from the source what it has in any configuration, and what a compiler says."""
    tag = table.about
    file = declaring_file(tree, commit, tag)
    source = tree.read(file, commit) or ""
    text = find_declaration(tag, source)
    struct = StructOptions(tag, options, ChangeOptions((), ()), ColumnOptions((DEFAULT_ARCH,)), file)
    [layout] = layouts_of(struct, tree, commit)
    members = layout.structures[tag].members
    compiled = tuple(dict.fromkeys(each.name for each in members))
    by_marker = {name: group for group, names in marked_groups(compiled).items() for name in names}
    aliases = set(re.findall(r"\bstruct_group(?:_tagged|_attr)?\((?:\w+, )?(\w+),", text))
    every = dict.fromkeys([*compiled, *declared_members(source).get(tag, {})])
    kept = [name for name in every if not name.startswith("__cacheline_group_") and name not in aliases]
    places = {name: _place(text, name) for name in kept}
    named = {member for _, member in asserted_members(tree, commit, tag)}
    held = {each.offset for each in members if each.name in named}
    inner = {path: each for path, each in layout.structures.items() if path.startswith(f"{tag}.")}
    return DeclaredMembers(
        tuple(sorted(kept, key=lambda name: places[name])),
        frozenset(compiled).intersection(kept),
        frozenset(f"{path.partition('.')[2]}.{field.name}" for path, each in inner.items() for field in each.members),
        {name: group for name in kept if (group := by_marker.get(name) or _group_at(text, places[name]))},
        # Of a union one member is enough.
        frozenset(named | {each.name for each in members if each.offset in held}),
        frozenset(name for name in kept if re.search(rf"\b{name}\s*:\s*\d", text)),
        _other_forms(source),
        dict(_WITH_TAG.findall(text)),
        {each.name: each.type for each in members},
        partial(_elsewhere, tree, commit, frozenset(re.findall(r"\bstruct (\w+)", text)) - {tag}),
    )


def _other_forms(source: str) -> dict[str, str]:
    """What a name stands for that was a member once: a macro for a member of another structure, or a bit of flags."""
    bits = {name.lower(): f"the bit {whole}" for whole, name in re.findall(r"\b([A-Z]+_FLAGS_([A-Z]\w+))\s*=", source)}
    return bits | dict(re.findall(r"^#define (\w+)[ \t]+(\w+(?:\.\w+)+)$", source, re.M))


def _place(text: str, name: str) -> int:
    """Where a declaration has a member."""
    match = re.search(rf"\b{name}\b(?=\s*(?:\[[^\]]*\]\s*)*(?:____\w+\s*|__\w+\([^)]*\)\s*)*[;,:)])", text)
    return match.start() if match else len(text)


def _group_at(text: str, place: int) -> str:
    """The group in which a place of a declaration lies; empty if it is in none."""
    found = ""
    for match in re.finditer(r"__cacheline_group_(begin|end)(?:_aligned)?\((\w+)\)", text[:place]):
        found = match[2] if match[1] == "begin" else ""
    return found if place < len(text) else ""


def _elsewhere(tree: Tree, commit: str, tags: frozenset[str], name: str) -> tuple[str, ...]:
    """Those of some structures that have a member of this name."""
    said = try_git(tree.src, "grep", "-lw", name, commit, "--", "include", "net").stdout.decode()
    files = [line.partition(":")[2] for line in said.splitlines()]
    found = (tag for file in files for tag, names in _members_in(tree, commit, file).items() if name in names)
    return tuple(dict.fromkeys(tag for tag in found if tag in tags))


@cache
def _members_in(tree: Tree, commit: str, file: str) -> dict[str, frozenset[str]]:
    return {tag: frozenset(found) for tag, found in declared_members(tree.read(file, commit) or "").items()}


def _enumeration(tree: Tree, commit: str, table: NetTable) -> DeclaredMembers:
    """The enumerators beside the one of the first row."""
    text = re.sub(r"/\*.*?\*/", "", tree.read(_ENUM_FILE, commit) or "", flags=re.S)
    first = rf"\b{table.rows[0].member}\b"
    body = next((each for each in re.findall(r"\benum\s*\{(.*?)\}", text, re.S) if re.search(first, each)), "")
    names = tuple(dict.fromkeys(re.findall(r"^\s*(\w+)\s*(?:=[^,]*)?,?\s*$", body, re.M)))
    return DeclaredMembers(names, frozenset(names), types=dict.fromkeys(names, "unsigned long"))
