# SPDX-License-Identifier: GPL-2.0
"""kernels in order of time -> their layouts in each column -> what became of the contracts -> document, text, page."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.packs import all_rules
from schedlib.formats import document
from schedlib.formats.layout_drift_document import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    LayoutDriftDocument,
)
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import drift_report
from schedlib.layout.columns import composed_operand, ensure_tools, pack_columns
from schedlib.layout.compile import Column, arch_table, compiler_of
from schedlib.layout.drift import FoundDrift, JudgedKernel, Reads, compare_kernels, judge_kernels, moves
from schedlib.layout.drift_options import DriftOptions
from schedlib.layout.drift_source import DriftSource, declaration_hunk, function_hunk, open_source, reads_of
from schedlib.layout.layout_options import DEFAULT_ARCH, LayoutOperand
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import Layout, RuleOutcome
from schedlib.layout.vmlinux import RUNNING_BTF, KnownKernel, kernel_of, layout_of_kernel, running_kernel
from schedlib.verdict import Verdict

_ARCHS = {"aarch64": "arm64", "armv7l": "arm", "ppc64": "ppc64le"}
"""The architecture of configs/layout.toml, where `uname -m` has another name for it."""


@dataclass(frozen=True)
class _Compared:
    """One of the kernels.

    Attributes:
        source, reads: its source, and what functions touch there; None for a kernel that was built already.
        built: what is known of a built one.
        notes: what could not be compared.
    """

    operand: LayoutOperand
    source: DriftSource | None = None
    reads: Reads | None = None
    built: KnownKernel | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.operand.text

    @property
    def origin(self) -> str:
        return self.source.tree.origin if self.source else self.built.name if self.built else self.name

    @property
    def arch(self) -> str:
        """The architecture of a built kernel."""
        machine = self.built.machine if self.built else ""
        return _ARCHS.get(machine, machine)


def compare_all(options: DriftOptions) -> Verdict:
    """Compare kernels, and print and write what became of the contracts.

    Raises:
        SchedlineError: a kernel cannot be read or fetched, or this machine lacks a tool.
    """
    started = datetime.now(UTC)
    doctor.require(["layout"])
    rules = all_rules(options.packs, options.contracts)
    cache = cache_dir()
    kernels = [_opened(cache, operand, rules) for operand in options.kernels]
    archs = _archs(options, kernels)
    columns = {_shown(column): column for column in pack_columns(archs, options.configs)}
    if any(kernel.source for kernel in kernels):
        ensure_tools(list(columns.values()))
    layouts = {name: [_layout(cache, kernel, column, rules) for kernel in kernels] for name, column in columns.items()}
    found = _document(options, started, rules, kernels, columns, layouts)
    for line in drift_report.text(found):
        print(line)
    if options.json:
        document.write(options.json, found)
    if options.html:
        from schedlib.layout.drift_page import page

        write_atomic(options.html, page(found))
        print(f"page: {options.html}")
    return found.status


def _shown(column: Column) -> str:
    """The name of a column. All have the subsystems of packs, so that is not said."""
    return "+".join(part for part in column.name.split("+") if part != "packs")


def _opened(cache: Path, operand: LayoutOperand, rules: Rules) -> _Compared:
    """A kernel, with what is asked of its source."""
    path = operand.path
    if path is None and operand.series is None:
        return _Compared(operand, built=running_kernel())
    if path and not path.is_dir():
        return _Compared(operand, built=kernel_of(path))
    tree, composition = composed_operand(operand)
    source = open_source(cache, tree, composition.commit, rules)
    kernel = _Compared(operand, source, reads_of(cache, source, rules))
    unknown = sorted({name for (name, _), paths in (kernel.reads or {}).items() if paths is None})
    if unknown:
        kernel.notes.append(
            f"what these touch is not compared, no file near their structure has them: {', '.join(unknown)}"
        )
    return kernel


def _archs(options: DriftOptions, kernels: Sequence[_Compared]) -> tuple[str, ...]:
    """The architectures to compare: those asked for, or those of the built kernels, or else the default."""
    built = tuple(dict.fromkeys(kernel.arch for kernel in kernels if kernel.built and kernel.arch in arch_table()))
    archs = options.archs or built or (DEFAULT_ARCH,)
    for kernel in kernels:
        if kernel.built and kernel.arch not in archs:
            kernel.notes.append(f"it is of {kernel.built.machine}, which is not compared here")
    return archs


def _layout(cache: Path, kernel: _Compared, column: Column, rules: Rules) -> Layout | None:
    """The layout of a kernel in a column; None, with a note, if it has none."""
    if kernel.source is None:
        if kernel.built is None or kernel.arch != column.arch.name:
            return None
        layout = layout_of_kernel(kernel.operand.path or RUNNING_BTF, kernel.built, rules)
        notes = [layout.assumed] if layout.assumed else []
        notes += ["a built kernel: what functions touch is not compared"]
    else:
        notes = []
        tree, commit = kernel.source.tree, kernel.source.commit
        try:
            layout = pack_layout(cache, tree, commit, column, replace(rules, files=kernel.source.files), left_out=notes)
        except Dropped as dropped:
            kernel.notes.append(f"no column {_shown(column)}: {dropped.observed}")
            return None
        notes = [f"not compiled for {_shown(column)}: {note}" for note in notes]
    kernel.notes.extend(note for note in notes if note not in kernel.notes)
    return layout


def _document(
    options: DriftOptions,
    started: datetime,
    rules: Rules,
    kernels: Sequence[_Compared],
    columns: Mapping[str, Column],
    layouts: Mapping[str, Sequence[Layout | None]],
) -> LayoutDriftDocument:
    """Judge and compare everything."""
    found: dict[tuple[int, int, FoundDrift], list[str]] = {}
    moved: dict[tuple[int, int, str, str, int | None, int | None], list[str]] = {}
    cells: list[DriftCell] = []
    compared = False
    for name, row in layouts.items():
        there = [(at, layout) for at, layout in enumerate(row) if layout]
        judged = judge_kernels(rules, [(layout, kernels[at].reads) for at, layout in there])
        held: set[str] = set()
        for number, (at, layout) in enumerate(there):
            cells += _cells(rules, kernels[at].name, name, judged[number])
            if number:
                before, old = there[number - 1]
                if old.line != layout.line:
                    sizes = f"{layout.line} bytes in a line, before {old.line}"
                    kernels[at].notes.append(f"not compared on {name}: {sizes}")
                else:
                    compared = compared or _is_comparable(judged[number - 1], judged[number])
                    for each in compare_kernels(rules, judged[number - 1], judged[number], held):
                        found.setdefault((before, at, each), []).append(name)
                    for move in moves(rules, old, layout):
                        moved.setdefault((before, at, *move), []).append(name)
            held |= {rule for rule, result in judged[number].results.items() if result.outcome is RuleOutcome.PASS}
    findings = [_finding(kernels[before], kernels[at], each, names) for (before, at, each), names in found.items()]
    named = {(tag, each.partition(".")[0].removesuffix("[0]")) for tag, names, _ in rules.members for each in names}
    red = any(each.kind.is_red for each in findings)
    # A kernel of which nothing was seen must not pass.
    compared = compared and {each.kernel for each in cells} == {each.name for each in kernels}
    compilers = {f"compiler {column.arch.name}": compiler_of(column.arch) for column in columns.values()}
    return LayoutDriftDocument(
        schema="layout-drift-1",
        tool=TOOL,
        started=started,
        command=options.command,
        fingerprint={"machine": platform.machine(), **(compilers if any(each.source for each in kernels) else {})},
        status=Verdict.FAIL if red else Verdict.PASS if compared else Verdict.INCONCLUSIVE,
        kernels=tuple(
            DriftKernel(each.name, each.origin, each.source.commit if each.source else "", tuple(each.notes))
            for each in kernels
        ),
        cells=tuple(cells),
        findings=tuple(sorted(findings, key=_order)),
        moves=tuple(
            DriftMove(tag, kernels[one].name, kernels[two].name, tuple(its), member, old_, new, (tag, member) in named)
            for (one, two, tag, member, old_, new), its in moved.items()
        ),
    )


def _order(finding: DriftFinding) -> int:
    """Red ones first; otherwise the order of the kernels and of the contracts stays."""
    return 0 if finding.kind.is_red else list(DriftKind).index(finding.kind)


def _is_comparable(before: JudgedKernel, after: JudgedKernel) -> bool:
    """Whether there is a rule that both kernels tell something about."""
    return any(
        RuleOutcome.NA not in (result.outcome, after.results[name].outcome) for name, result in before.results.items()
    )


def _cells(rules: Rules, kernel: str, column: str, judged: JudgedKernel) -> list[DriftCell]:
    """One cell for each structure."""
    ids: dict[str, dict[str, None]] = {}
    for clause in rules.clauses:
        if clause.rule in judged.results:
            ids.setdefault(clause.type, {})[clause.rule] = None
    cells = []
    for tag, its in ids.items():
        by = {
            outcome: tuple(name for name in its if judged.results[name].outcome is outcome) for outcome in RuleOutcome
        }
        kind = judged.layout.types.get(tag)
        cells.append(
            DriftCell(
                tag,
                column,
                kernel,
                judged.layout.line,
                kind.size if kind else None,
                by[RuleOutcome.PASS],
                by[RuleOutcome.FAIL],
                by[RuleOutcome.NA],
            )
        )
    return cells


def _finding(before: _Compared, after: _Compared, each: FoundDrift, columns: Sequence[str]) -> DriftFinding:
    """What was found, with the part of the source that did it."""
    hunk = ""
    if before.source and after.source and each.kind not in (DriftKind.CAME, DriftKind.WENT, DriftKind.MENDED):
        if each.kind is DriftKind.READ:
            through = re.search(r"through (\w+)\(\)", each.text)
            functions = (*each.readers, *(through.groups() if through else ()))
            hunk = function_hunk(before.source, after.source, each.contract, functions, each.members)
        else:
            hunk = declaration_hunk(before.source, after.source, each.contract, each.members)
    return DriftFinding(
        each.kind,
        each.contract,
        before.name,
        after.name,
        tuple(columns),
        each.rules,
        each.members,
        each.readers,
        each.text,
        hunk,
    )
