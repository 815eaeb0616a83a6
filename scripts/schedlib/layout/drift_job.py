# SPDX-License-Identifier: GPL-2.0
"""kernels in order of time -> their layouts in each column -> what became of the contracts -> document and text."""

from __future__ import annotations

import platform
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import CONTRACTS, Rules, pack_rules
from schedlib.formats import document
from schedlib.formats.tables import table
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.columns import composed_operand, ensure_tools, pack_columns
from schedlib.layout.compile import Column, arch_table, compiler_of
from schedlib.layout.drift import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    DriftStep,
    LayoutDriftDocument,
    judge_kernels,
)
from schedlib.layout.kernel_text import declaring_files, text_of_commit
from schedlib.layout.layout_options import DEFAULT_ARCH, DriftOptions, LayoutOperand
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import JudgedColumn, Layout, RuleOutcome
from schedlib.layout.vmlinux import KnownKernel, kernel_of, layout_of_built
from schedlib.names import pack_names
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_ARCHS = {"aarch64": "arm64", "armv7l": "arm", "ppc64": "ppc64le"}
"""The architecture of configs/layout.toml, where `uname -m` has another name for it."""


@dataclass(frozen=True)
class _Compared:
    """One of the kernels: its tree and commit with the file of each structure, or what is known of one that was built.

    The notes say what could not be compared.
    """

    operand: LayoutOperand
    kernel: tuple[Tree, str] | KnownKernel
    files: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def arch(self) -> str:
        """The architecture of a built kernel; empty for a tree."""
        return _ARCHS.get(self.kernel.machine, self.kernel.machine) if isinstance(self.kernel, KnownKernel) else ""

    def about(self) -> DriftKernel:
        if isinstance(self.kernel, KnownKernel):
            return DriftKernel(self.operand.text, self.kernel.name, "", tuple(self.notes))
        tree, commit = self.kernel
        return DriftKernel(self.operand.text, tree.origin, commit, tuple(self.notes))

    def note(self, text: str) -> None:
        """Say what could not be compared, once."""
        self.notes.extend([text] if text not in self.notes else [])

    def layout(self, column: Column, rules: Rules) -> Layout | None:
        """Its layout in a column; None, with a note, if it has none."""
        if isinstance(self.kernel, KnownKernel):
            if self.arch != column.arch.name:
                return None
            layout = layout_of_built(self.operand.path, rules, self.kernel)
            if layout.assumed:
                self.note(layout.assumed)
            return layout
        left_out: list[str] = []
        try:
            layout = pack_layout(cache_dir(), *self.kernel, column, replace(rules, files=self.files), left_out=left_out)
        except Dropped as dropped:
            self.note(f"no column {_shown(column)}: {dropped.observed}")
            return None
        for each in left_out:
            self.note(f"not compiled for {_shown(column)}: {each}")
        return layout


def compare_all(options: DriftOptions) -> Verdict:
    """Compare kernels, and print and write what became of the contracts."""
    started = datetime.now(UTC)
    doctor.require(["layout"])
    rules = pack_rules(options.pack or (CONTRACTS.name, *pack_names()), options.contracts)
    kernels = [_opened(operand, rules) for operand in options.kernels]
    built = dict.fromkeys(each.arch for each in kernels if each.arch in arch_table())
    archs = options.columns.arch or tuple(built) or (DEFAULT_ARCH,)
    for each in kernels:
        if isinstance(each.kernel, KnownKernel) and each.arch not in archs:
            each.note(f"it is of {each.kernel.machine}, which is not compared here")
    columns = pack_columns(archs, options.columns.config)
    # A kernel that is built already needs no compiler.
    compiled = columns if any(each.files for each in kernels) else ()
    if compiled:
        ensure_tools(compiled)
    layouts = {_shown(column): [kernel.layout(column, rules) for kernel in kernels] for column in columns}
    compilers = {f"compiler {column.arch.name}": compiler_of(column.arch) for column in compiled}
    fingerprint = {"machine": platform.machine(), **compilers}
    found = _document(started, fingerprint, rules, kernels, layouts)
    print(*text(found), sep="\n")
    if options.json:
        document.write(options.json, found)
    return found.status


def _shown(column: Column) -> str:
    """The name of a column. All have the subsystems of packs, so that is not said."""
    return "+".join(part for part in column.name.split("+") if part != "packs")


def _opened(operand: LayoutOperand, rules: Rules) -> _Compared:
    if operand.is_built:
        return _Compared(operand, kernel_of(operand.path))
    tree, composition = composed_operand(operand)
    files = declaring_files(text_of_commit(tree, composition.commit), rules.files)
    return _Compared(operand, (tree, composition.commit), files)


def _document(
    started: datetime,
    fingerprint: dict[str, str],
    rules: Rules,
    kernels: Sequence[_Compared],
    layouts: Mapping[str, Sequence[Layout | None]],
) -> LayoutDriftDocument:
    found: dict[DriftFinding, list[str]] = {}
    moved: dict[DriftMove, list[str]] = {}
    cells: list[DriftCell] = []
    compared = False
    for name, row in layouts.items():
        there = [(kernel, layout) for kernel, layout in zip(kernels, row, strict=True) if layout]
        judged = judge_kernels(rules, [(kernel.operand.text, layout) for kernel, layout in there])
        held: set[str] = set()
        for number, ((kernel, layout), now) in enumerate(zip(there, judged, strict=True)):
            cells += _cells(rules, name, now)
            was = judged[number - 1] if number else None
            if was and was.layout.line != layout.line:
                sizes = f"{layout.line} bytes in a line, before {was.layout.line}"
                kernel.note(f"not compared on {name}: {sizes}")
            elif was:
                step = DriftStep(rules, was, now)
                pairs = ((result.outcome, was.results[rule].outcome) for rule, result in now.results.items())
                compared = compared or any(RuleOutcome.NA not in pair for pair in pairs)
                for finding in step.findings(held):
                    found.setdefault(finding, []).append(name)
                for move in step.moves():
                    moved.setdefault(move, []).append(name)
            held |= {rule for rule, result in now.results.items() if result.outcome is RuleOutcome.PASS}
    findings = [msgspec.structs.replace(each, columns=tuple(names)) for each, names in found.items()]
    red = any(each.kind.is_red for each in findings)
    # A kernel of which nothing was seen must not pass.
    compared = compared and {each.kernel for each in cells} == {each.operand.text for each in kernels}
    return LayoutDriftDocument(
        schema="layout-drift-2",
        tool=TOOL,
        started=started,
        command=shlex.join(["schedline", *sys.argv[1:]]),
        fingerprint=fingerprint,
        status=Verdict.FAIL if red else Verdict.PASS if compared else Verdict.INCONCLUSIVE,
        kernels=tuple(each.about() for each in kernels),
        cells=tuple(cells),
        # Red ones first; otherwise the order of the kernels and of the contracts stays.
        findings=tuple(sorted(findings, key=lambda each: 0 if each.kind.is_red else list(DriftKind).index(each.kind))),
        moves=tuple(msgspec.structs.replace(move, columns=tuple(names)) for move, names in moved.items()),
    )


def _cells(rules: Rules, column: str, judged: JudgedColumn) -> Iterator[DriftCell]:
    for tag in rules.types():
        kind = judged.layout.types.get(tag)
        ids = dict.fromkeys(each.rule for each in rules.clauses if each.type == tag and each.rule in judged.results)
        by = (
            tuple(name for name in ids if judged.results[name].outcome is outcome)
            for outcome in (RuleOutcome.PASS, RuleOutcome.FAIL, RuleOutcome.NA)
        )
        if ids:
            yield DriftCell(tag, column, judged.name, judged.layout.line, kind.size if kind else None, *by)


_MOST_MEMBERS = 12
"""Members of a structure that are listed for a step."""

_HEADINGS = {
    DriftKind.BROKEN: "FAIL: a rule that held is broken",
    DriftKind.INTRUDER: "FAIL: a further member is on the lines of a broken rule",
    DriftKind.NEVER_HELD: "a rule that can be judged now does not hold",
    DriftKind.FULL: "a line lost its last bytes",
    DriftKind.JOINED: "a member without a contract came to a line of one",
    DriftKind.GONE: "a member that a contract names is gone",
    DriftKind.WENT: "a rule is not judged any more",
    DriftKind.CAME: "a rule is judged now, and holds",
    DriftKind.MENDED: "a broken rule holds again",
}


def text(found: LayoutDriftDocument) -> Iterator[str]:
    """The report for a terminal."""
    for kernel in found.kernels:
        yield from _wrapped(f"{kernel.name}: {kernel.origin}", "    ")
    yield from ("", *table(totals(found)))
    everywhere = {each.column for each in found.cells}
    for kind, heading in _HEADINGS.items():
        its = [each for each in found.findings if each.kind is kind]
        yield from ["", heading] if its else []
        if not kind.is_red and not kind.is_amber:  # what needs no look: the rules of each step
            for between in dict.fromkeys(map(_step, its)):
                rules = dict.fromkeys(rule for each in its if _step(each) == between for rule in each.rules)
                yield from _wrapped(f"  {between}: {', '.join(rules)}")
            continue
        for each in its:
            on = "" if len(each.columns) == len(everywhere) else f" ({' '.join(each.columns)})"
            yield from _wrapped(f"  {_step(each)}, struct {each.contract}{on}: {each.text}")
            yield from _wrapped(f"      read by {', '.join(each.readers)}") if each.readers else []
    yield from _moved(found)
    notes = [f"note: {kernel.name}: {note}" for kernel in found.kernels for note in kernel.notes]
    yield from [""] if notes else []
    for note in notes:
        yield from _wrapped(note)
    yield ""
    if found.status is Verdict.INCONCLUSIVE:
        yield "not compared: two kernels have no column and no rule in common, or one was not seen; the notes say why"
        yield "  next: choose another --arch, --config or --pack"
    yield f"verdict: {found.status.name}"


def totals(found: LayoutDriftDocument) -> list[list[str]]:
    """A table of columns and kernels: how many rules hold, fail, and are not judged."""
    # Of a long name the end is told.
    rows = [["on", "line", *(each.name if len(each.name) <= 20 else f"...{each.name[-17:]}" for each in found.kernels)]]
    for column, line in dict.fromkeys((each.column, each.line) for each in found.cells):
        rows.append([column, str(line)])
        for kernel in found.kernels:
            its = [each for each in found.cells if (each.column, each.kernel, each.line) == (column, kernel.name, line)]
            both = {"pass": "passed", "FAIL": "failed", "n/a": "not_judged"}
            counts = {word: len({rule for each in its for rule in getattr(each, key)}) for word, key in both.items()}
            rows[-1].append(", ".join(f"{count} {word}" for word, count in counts.items() if count) or "-")
    return rows


def _step(each: DriftFinding | DriftMove) -> str:
    return f"{each.before} -> {each.after}"


def _moved(found: LayoutDriftDocument) -> Iterator[str]:
    """The members that contracts name and that begin on another line, in the first column; how many others is said."""
    first = next((each.column for each in found.cells), "")
    steps: dict[tuple[str, str], list[DriftMove]] = {}
    for move in found.moves:
        if first in move.columns and move.old is not None and move.new is not None:
            steps.setdefault((_step(move), move.contract), []).append(move)
    if steps:
        yield from ("", f"members that begin on another line on {first}; --json has all, of all columns")
    for (between, contract), its in steps.items():
        named = [f"{each.member} {each.old} to {each.new}" for each in its if each.named]
        more = [f"{len(named) - _MOST_MEMBERS} more"] if len(named) > _MOST_MEMBERS else []
        more += [f"{len(its) - len(named)} that no contract names"] if len(its) > len(named) else []
        yield from _wrapped(f"  {between}, struct {contract}: {', '.join([*named[:_MOST_MEMBERS], *more])}")


def _wrapped(line: str, indent: str = "      ") -> list[str]:
    return textwrap.wrap(line, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
