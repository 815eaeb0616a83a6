# SPDX-License-Identifier: GPL-2.0
"""tree or built kernel -> layouts -> the rules -> one verdict."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import Rules, our_rules, pack_rules, refuse_unknown_members, unknown_members
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.layout_document import LayoutDocument
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import matrix
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import Column, compiler_of
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.matrix import JudgedColumn, judge_column
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.vmlinux import RUNNING_BTF, kernel_of, layout_of_kernel, running_kernel
from schedlib.tree.compose import refuse_lost_members
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


def judge_layout(options: LayoutOptions) -> Verdict:
    """Check every rule on the layouts that the options name.

    Raises:
        SchedlineError: the tree, the kernel or the machine does not allow it.
    """
    started = datetime.now(UTC)
    rules = pack_rules(options.pack, options.contracts) if options.of_packs else our_rules()
    if not rules.rules:
        raise SchedlineError(
            "these contracts have no rules, so there is nothing to judge",
            'add a [[rule]] and a promise with its id, such as keep = "on one line": docs/contracts.md has them all',
        )
    columns, fingerprint = _of_kernel(options, rules) if options.built else _of_tree(options, rules)
    table = matrix.pack_table if options.of_packs else matrix.table
    for text in (*matrix.failures(rules, columns), *table(rules, columns)):
        print(text)
    for text in (*matrix.key(rules), *matrix.notes(rules, columns), *matrix.open_findings(rules, columns)):
        print(text)
    verdict = matrix.verdict_of(columns, options.require)
    print(f"verdict: {verdict.name}")
    if text := matrix.advice(verdict, columns, options.require, options.source()):
        print(text)
    if options.json:
        found = matrix.layout_document(started, fingerprint, verdict, columns)
        document.write_plain(options.json, LayoutDocument, found)
    return verdict


_Judged = tuple[tuple[JudgedColumn, ...], dict[str, str]]
"""The columns, and what they are of."""


def _of_kernel(options: LayoutOptions, rules: Rules) -> _Judged:
    doctor.require(["layout"])
    kernel = kernel_of(options.vmlinux) if options.vmlinux else running_kernel()
    layout = layout_of_kernel(options.vmlinux or RUNNING_BTF, kernel, rules)
    column = judge_column(rules, kernel.name, layout, frozenset(options.expect or ()))
    return (column,), {"kernel": kernel.name, "machine": kernel.machine}


def _of_tree(options: LayoutOptions, rules: Rules) -> _Judged:
    wanted = (pack_columns if options.of_packs else columns_for)(options.columns.arch, options.columns.config)
    ensure_tools(wanted)
    tree, composition = composed_tree(options.tree, options.changes, expect=options.expect, base=options.base)
    if not options.of_packs:
        refuse_lost_members(tree, composition.commit)
    else:
        read = partial(tree.read, commit=composition.commit)
        refuse_unknown_members(pack_rules((), options.contracts), read)
        for text in matrix.left_out(rules, unknown_members(rules, read)):
            print(text)
    columns = judged_columns(cache_dir(), tree, composition.commit, wanted, rules, composition.expected)
    fingerprint = {
        "tree": tree.origin,
        "commit": composition.commit,
        "machine": platform.machine(),
        **{f"compiler {column.arch.name}": compiler_of(column.arch) for column in wanted},
    }
    return columns, fingerprint


def judged_columns(
    cache: Path, tree: Tree, commit: str, columns: Sequence[Column], rules: Rules, expected: frozenset[str]
) -> tuple[JudgedColumn, ...]:
    """Compile what is not in the cache, and check the rules on each column."""
    judged: list[JudgedColumn] = []
    for column in columns:
        try:
            layout = pack_layout(cache, tree, commit, column, rules)
        except Dropped as dropped:
            judged.append(JudgedColumn(column.name, None, absent=dropped.observed))
            continue
        judged.append(judge_column(rules, column.name, layout, expected))
    return tuple(judged)
