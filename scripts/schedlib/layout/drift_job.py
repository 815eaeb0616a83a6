# SPDX-License-Identifier: GPL-2.0
"""kernels in order of time -> their layouts in each column -> what became of the contracts -> document and text."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir, read_json, write_json
from schedlib.contracts.contract_rules import CONTRACTS, Rules, pack_rules
from schedlib.contracts.struct_source import HEADERS
from schedlib.formats import document
from schedlib.git import git, try_git
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import drift_report, reads
from schedlib.layout.columns import composed_operand, ensure_tools, pack_columns
from schedlib.layout.compile import Column, arch_table, compiler_of
from schedlib.layout.drift import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    JudgedKernel,
    LayoutDriftDocument,
    Reads,
    compare_kernels,
    judge_kernels,
    moves,
)
from schedlib.layout.layout_options import DEFAULT_ARCH, DriftOptions, LayoutOperand
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import Layout, RuleOutcome
from schedlib.layout.vmlinux import RUNNING_BTF, KnownKernel, kernel_of, layout_of_kernel, running_kernel
from schedlib.names import pack_names
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_ARCHS = {"aarch64": "arm64", "armv7l": "arm", "ppc64": "ppc64le"}
"""The architecture of configs/layout.toml, where `uname -m` has another name for it."""

_CODE = ("include", "kernel", "mm", "fs", "net", "block", "ipc", "lib", "io_uring", "security")
"""Where structures are declared, and where the readers of those in public headers are looked for."""


@dataclass(frozen=True)
class _Compared:
    """One of the kernels.

    Attributes:
        source: its tree and commit; None for a kernel that was built already.
        files: what declares each structure there, by its tag.
        reads: what functions touch there; None without a source.
        built: what is known of a built one.
        notes: what could not be compared.
    """

    operand: LayoutOperand
    source: tuple[Tree, str] | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    reads: Reads | None = None
    built: KnownKernel | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.operand.text

    @property
    def arch(self) -> str:
        """The architecture of a built kernel."""
        machine = self.built.machine if self.built else ""
        return _ARCHS.get(machine, machine)

    def about(self) -> DriftKernel:
        origin = self.source[0].origin if self.source else self.built.name if self.built else self.name
        return DriftKernel(self.name, origin, self.source[1] if self.source else "", tuple(self.notes))


def compare_all(options: DriftOptions) -> Verdict:
    """Compare kernels, and print and write what became of the contracts.

    Raises:
        SchedlineError: a kernel cannot be read or fetched, or this machine lacks a tool.
    """
    started = datetime.now(UTC)
    doctor.require(["layout"])
    rules = pack_rules(options.pack or (CONTRACTS.name, *pack_names()), options.contracts)
    cache = cache_dir()
    kernels = [_opened(cache, operand, rules) for operand in options.kernels]
    archs = _archs(options, kernels)
    columns = {_shown(column): column for column in pack_columns(archs, options.columns.config)}
    if any(kernel.source for kernel in kernels):
        ensure_tools(list(columns.values()))
    layouts = {name: [_layout(cache, kernel, column, rules) for kernel in kernels] for name, column in columns.items()}
    found = _document(started, rules, kernels, columns, layouts)
    for line in drift_report.text(found):
        print(line)
    if options.json:
        document.write(options.json, found)
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
    commit = composition.commit
    files = declaring_files(cache, tree, commit, rules)
    touched = _reads_of(cache, tree, commit, rules, files)
    kernel = _Compared(operand, (tree, commit), files, touched)
    if unknown := sorted({name for (name, _), paths in touched.items() if paths is None}):
        kernel.notes.append(
            f"what these touch is not compared, no file near their structure has them: {', '.join(unknown)}"
        )
    return kernel


def declaring_files(cache: Path, tree: Tree, commit: str, rules: Rules) -> dict[str, str]:
    """The files that declare the structures of contracts in a commit: a contract names that of a newer tree.

    A structure that no file of the tree declares keeps the file of its contract.
    """
    kept = _kept(cache, tree, commit, f"places {sorted(rules.files.items())}")
    if (known := read_json(kept)) is None:
        declared = _declaring(tree, commit, rules.files, sorted({*rules.files.values(), *HEADERS}))
        lost = [tag for tag, file in rules.files.items() if file not in (*declared.get(tag, ()), *HEADERS)]
        declared |= _declaring(tree, commit, lost, [f"{place}/*.[ch]" for place in _CODE]) if lost else {}
        known = dict(rules.files)
        for tag in lost:
            files = declared.get(tag, [])
            public = [each for each in files if each.startswith("include/")]
            if len(public) == 1 or len(files) == 1:
                known[tag] = (public or files)[0]
        write_json(kept, known)
    return dict(known)


def _kept(cache: Path, tree: Tree, commit: str, what: str) -> Path:
    """The file of the cache that keeps something about a commit's content."""
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    return cache / "layout" / f"{sha256(f'{content} {what}'.encode()).hexdigest()[:20]}.drift.json"


def _declaring(tree: Tree, commit: str, tags: Iterable[str], places: Sequence[str]) -> dict[str, list[str]]:
    """The files that declare structures, by tag."""
    pattern = rf"^(typedef )?struct ({'|'.join(tags)}) \{{"
    said = try_git(tree.src, "grep", "-E", pattern, commit, "--", *places).stdout.decode(errors="replace")
    found: dict[str, list[str]] = {}
    for file, tag in re.findall(r"^[^:\n]+:([^:\n]+):(?:typedef )?struct (\w+)", said, re.M):
        found.setdefault(tag, []).append(file)
    return found


def _reads_of(cache: Path, tree: Tree, commit: str, rules: Rules, files: Mapping[str, str]) -> Reads:
    """What the functions touch that contracts name as readers."""
    wanted = sorted({(name, tag) for tag, group in rules.groups for name in group.readers})
    if not wanted:
        return {}
    version = sha256(Path(reads.__file__).read_bytes()).hexdigest()
    kept = _kept(cache, tree, commit, f"reads {wanted} {version}")
    if (known := read_json(kept)) is None:
        code = _code(tree, commit, files, wanted)
        known = {f"{name} {tag}": reads.touched(code, name, tag) for name, tag in wanted}
        write_json(kept, known)
    return {(name, tag): known[f"{name} {tag}"] for name, tag in wanted}


def _code(tree: Tree, commit: str, files: Mapping[str, str], wanted: Sequence[tuple[str, str]]) -> reads.Code:
    """The files that define functions or call them, near the file that declares their structure: for a public one all
    code."""
    homes = {files[tag] for _, tag in wanted}
    near = (_CODE if file.startswith("include/") else (str(Path(file).parent),) for file in homes)
    places = sorted({f"{place}/*.[ch]" for each in near for place in each})
    pattern = rf"\b({'|'.join(sorted({name for name, _ in wanted}))})\("
    said = try_git(tree.src, "grep", "-lE", pattern, commit, "--", *places).stdout
    names = homes | {row.partition(":")[2] for row in said.decode(errors="replace").splitlines()}
    return reads.code_of({name: tree.read(name, commit) or "" for name in sorted(names)})


def _archs(options: DriftOptions, kernels: Sequence[_Compared]) -> tuple[str, ...]:
    """The architectures to compare: those asked for, or those of the built kernels, or else the default."""
    built = tuple(dict.fromkeys(kernel.arch for kernel in kernels if kernel.built and kernel.arch in arch_table()))
    archs = options.columns.arch or built or (DEFAULT_ARCH,)
    for kernel in kernels:
        if kernel.built and kernel.arch not in archs:
            kernel.notes.append(f"it is of {kernel.built.machine}, which is not compared here")
    return archs


def _layout(cache: Path, kernel: _Compared, column: Column, rules: Rules) -> Layout | None:
    """The layout of a kernel in a column; None, with a note, if it has none."""
    notes: list[str] = []
    if kernel.source is None:
        if kernel.built is None or kernel.arch != column.arch.name:
            return None
        layout = layout_of_kernel(kernel.operand.path or RUNNING_BTF, kernel.built, rules)
        notes = [layout.assumed] if layout.assumed else []
        notes += ["a built kernel: what functions touch is not compared"]
    else:
        try:
            layout = pack_layout(cache, *kernel.source, column, replace(rules, files=kernel.files), left_out=notes)
        except Dropped as dropped:
            kernel.notes.append(f"no column {_shown(column)}: {dropped.observed}")
            return None
        notes = [f"not compiled for {_shown(column)}: {note}" for note in notes]
    kernel.notes.extend(note for note in notes if note not in kernel.notes)
    return layout


def _document(
    started: datetime,
    rules: Rules,
    kernels: Sequence[_Compared],
    columns: Mapping[str, Column],
    layouts: Mapping[str, Sequence[Layout | None]],
) -> LayoutDriftDocument:
    """Judge and compare everything."""
    found: dict[DriftFinding, list[str]] = {}
    moved: dict[DriftMove, list[str]] = {}
    cells: list[DriftCell] = []
    compared = False
    for name, row in layouts.items():
        there = [(kernel, layout) for kernel, layout in zip(kernels, row, strict=True) if layout]
        judged = judge_kernels(rules, [(kernel.name, layout, kernel.reads) for kernel, layout in there])
        held: set[str] = set()
        for number, ((kernel, layout), now) in enumerate(zip(there, judged, strict=True)):
            cells += _cells(rules, name, now)
            if number:
                was = judged[number - 1]
                if was.layout.line != layout.line:
                    sizes = f"{layout.line} bytes in a line, before {was.layout.line}"
                    kernel.notes.append(f"not compared on {name}: {sizes}")
                else:
                    compared = compared or _is_comparable(was, now)
                    for finding in compare_kernels(rules, was, now, held):
                        found.setdefault(finding, []).append(name)
                    for move in moves(rules, was, now):
                        moved.setdefault(move, []).append(name)
            held |= {rule for rule, result in now.results.items() if result.outcome is RuleOutcome.PASS}
    findings = [msgspec.structs.replace(each, columns=tuple(names)) for each, names in found.items()]
    red = any(each.kind.is_red for each in findings)
    # A kernel of which nothing was seen must not pass.
    compared = compared and {each.kernel for each in cells} == {each.name for each in kernels}
    # A kernel that is built already needs no compiler.
    archs = [column.arch for column in columns.values()] if any(each.source for each in kernels) else []
    return LayoutDriftDocument(
        schema="layout-drift-2",
        tool=TOOL,
        started=started,
        command=shlex.join(["schedline", *sys.argv[1:]]),
        fingerprint={"machine": platform.machine(), **{f"compiler {arch.name}": compiler_of(arch) for arch in archs}},
        status=Verdict.FAIL if red else Verdict.PASS if compared else Verdict.INCONCLUSIVE,
        kernels=tuple(each.about() for each in kernels),
        cells=tuple(cells),
        findings=tuple(sorted(findings, key=_order)),
        moves=tuple(msgspec.structs.replace(move, columns=tuple(names)) for move, names in moved.items()),
    )


def _order(finding: DriftFinding) -> int:
    """Red ones first; otherwise the order of the kernels and of the contracts stays."""
    return 0 if finding.kind.is_red else list(DriftKind).index(finding.kind)


def _is_comparable(before: JudgedKernel, after: JudgedKernel) -> bool:
    """Whether there is a rule that both kernels tell something about."""
    return any(
        RuleOutcome.NA not in (result.outcome, after.results[name].outcome) for name, result in before.results.items()
    )


def _cells(rules: Rules, column: str, judged: JudgedKernel) -> list[DriftCell]:
    """One cell for each structure."""
    ids: dict[str, dict[str, None]] = {}
    for clause in rules.clauses:
        if clause.rule in judged.results:
            ids.setdefault(clause.type, {})[clause.rule] = None
    cells = []
    for tag, its in ids.items():
        kind = judged.layout.types.get(tag)
        by = (
            tuple(name for name in its if judged.results[name].outcome is outcome)
            for outcome in (RuleOutcome.PASS, RuleOutcome.FAIL, RuleOutcome.NA)
        )
        cells.append(DriftCell(tag, column, judged.name, judged.layout.line, kind.size if kind else None, *by))
    return cells
