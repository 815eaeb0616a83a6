# SPDX-License-Identifier: GPL-2.0
"""`schedline status`: which of the changes a tree, a vmlinux or the running kernel has, and by what one sees it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from schedlib import doctor, options
from schedlib.cache import cache_dir, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.results import TOOL
from schedlib.layout.compile import host_rules
from schedlib.layout.rule_judge import Layout, Outcome, Presence, describe, judge_clause, presence
from schedlib.layout.tables import DAMAGE, Rules
from schedlib.layout.vmlinux import RUNNING_BTF, layout_of_built
from schedlib.tree.changes import Change, change_table, signs
from schedlib.tree.kernel_tree import Tree

_ALWAYS_THERE = "runqueues"
"""A symbol of data that every kernel has: a symbol table without it lists no data."""


@dataclass(frozen=True)
class Found:
    """A change, and the evidence; each piece says what was seen."""

    change: str
    presence: Presence
    evidence: tuple[str, ...]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline status`."""
    parser = subparsers.add_parser(
        "status",
        help="which of the changes a tree, a vmlinux or the running kernel has",
        description="Says of each change present, partial, absent or n/a, and by what one sees it. Nothing is built.",
        epilog="examples:\n  schedline status --running\n  schedline status --kdir ~/linux\n"
        "  schedline status --vmlinux ~/build/vmlinux --json status.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--vmlinux", type=Path, metavar="FILE", help="a kernel with DWARF or BTF")
    what.add_argument("--running", action="store_true", help="this machine's kernel")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer here")
    parser.set_defaults(run=_run)


def of_tree(tree: Tree) -> Iterator[Found]:
    """By the signs in the source."""
    for change in change_table().values():
        seen = signs(tree, change)
        evidence = [f"{change.file} has `{text}`" for text in seen if text]
        evidence += [
            f"{change.file} has nothing like /{pattern}/ behind /{change.start}/"
            for pattern, text in zip(change.patterns, seen, strict=True)
            if not text
        ]
        yield Found(change.id, presence([bool(text) for text in seen]), tuple(evidence))


def of_kernel(rules: Rules, layout: Layout, symbols: frozenset[str] | None) -> Iterator[Found]:
    """By layout and symbols; a change that shows in neither of them is left out.

    Args:
        symbols: None where no symbol table can be read.
    """
    for change in change_table().values():
        if change.symbol:
            yield _by_symbol(change, symbols)
        elif rules.of(change.id):
            results = [judge_clause(clause, layout, rules) for clause in rules.of(change.id)]
            judged = [result for result in results if result.outcome is not Outcome.NA]
            holding = [result for result in judged if result.outcome is Outcome.PASS]
            evidence = [f"so: {describe(result, layout, rules)}" for result in holding]
            evidence += [f"not so: {describe(result, layout, rules)}" for result in judged if result not in holding]
            evidence += [f"n/a: {result.reason}" for result in results if result.outcome is Outcome.NA]
            yield Found(change.id, presence([result in holding for result in judged]), tuple(evidence))


def _by_symbol(change: Change, symbols: frozenset[str] | None) -> Found:
    if symbols is not None and change.symbol in symbols:
        return Found(change.id, Presence.PRESENT, (f"the symbol {change.symbol} is there",))
    if symbols is None or _ALWAYS_THERE not in symbols:
        return Found(change.id, Presence.NA, ("its variables are listed neither in its symbol table nor in its BTF",))
    return Found(change.id, Presence.ABSENT, (f"there is no symbol {change.symbol}",))


def running_symbols() -> frozenset[str]:
    """The names in /proc/kallsyms (addresses need root, names do not), and BTF's, which has each per-CPU variable."""
    names: set[str] = set()
    with suppress(OSError):
        names |= set(re.findall(r"^\S+ \S (\S+)", Path("/proc/kallsyms").read_text(errors="replace"), re.M))
    with suppress(OSError):
        names |= {name.decode() for name in re.findall(rb"(?<=\0)[A-Za-z_]\w*(?=\0)", RUNNING_BTF.read_bytes())}
    return frozenset(names)


def symbols_of(path: Path) -> frozenset[str] | None:
    """The names in a vmlinux' symbol table; None when it has none."""
    try:
        with path.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            if not isinstance(table, SymbolTableSection):
                return None
            names = table.stringtable.data()
    except DAMAGE:
        return None
    return frozenset(name.decode(errors="replace") for name in names.split(b"\0") if name)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.vmlinux or arguments.running:
        if arguments.kdir or arguments.series:
            raise SchedlineError("--vmlinux and --running name a kernel that is built", "leave out --kdir and --series")
        doctor.ensure(["layout"])
        rules = host_rules(cache_dir())
        layout = layout_of_built(arguments.vmlinux, rules)
        symbols = symbols_of(arguments.vmlinux) if arguments.vmlinux else running_symbols()
        found = tuple(of_kernel(rules, layout, symbols))
        name = layout.name
    else:
        with options.opened_tree(arguments) as (_, tree):
            found = tuple(of_tree(tree))
            name = tree.origin + (f" (dirty: {tree.dirty} files)" if tree.dirty else "")
    print(name)
    for row in found:
        print(f"{row.change}: {row.presence.value}")
        for text in row.evidence:
            print(f"    {text}")
    if arguments.json:
        rows = [{"id": row.change, "presence": row.presence.value, "evidence": row.evidence} for row in found]
        write_json(arguments.json, {"schema": "status-1", "tool": TOOL, "kernel": name, "changes": rows})
    return 0
