# SPDX-License-Identifier: GPL-2.0
"""kernels in order of time -> their layouts in each column -> what became of the contracts -> document and text."""

from __future__ import annotations

import platform
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from schedlib.layout import reads
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
    for line in text(found):
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


WIDTH = 100

_MOST_MEMBERS = 12
"""Members of a structure that are listed for a step."""

_HEADINGS = {
    DriftKind.BROKEN: "FAIL: a rule that held is broken",
    DriftKind.INTRUDER: "FAIL: a further member is on the lines of a broken rule",
    DriftKind.NEVER_HELD: "a rule that can be judged now does not hold",
    DriftKind.FULL: "a line lost its last bytes",
    DriftKind.JOINED: "a member without a contract came to a line of one",
    DriftKind.READ: "a function began to touch members far from its own",
    DriftKind.GONE: "a member that a contract names is gone",
    DriftKind.WENT: "a rule is not judged any more",
    DriftKind.CAME: "a rule is judged now, and holds",
    DriftKind.MENDED: "a broken rule holds again",
}


def rows(found: LayoutDriftDocument) -> tuple[list[list[str]], list[str]]:
    """The table, contracts by kernels, and the contracts that are left out of it: of these nothing has to be looked at.

    Columns that show the same share a row.
    """
    cells = {(each.contract, each.column, each.kernel): each for each in found.cells}
    at: dict[tuple[str, str, str], list[DriftFinding]] = {}
    for finding in found.findings:
        for column in finding.columns:
            at.setdefault((finding.contract, column, finding.after), []).append(finding)
    loud = {finding.contract for finding in found.findings if finding.kind.is_red or finding.kind.is_amber}
    columns = list(dict.fromkeys(each.column for each in found.cells))
    contracts = list(dict.fromkeys(each.contract for each in found.cells))
    table = []
    for contract in (each for each in contracts if each in loud):
        alike: dict[tuple[tuple[str, tuple[DriftFinding, ...]], ...], list[str]] = {}
        for column in columns:
            keys = [(contract, column, kernel.name) for kernel in found.kernels]
            states = tuple((_state(cells.get(key), at.get(key, [])), tuple(at.get(key, []))) for key in keys)
            alike.setdefault(states, []).append(column)
        for states, names in alike.items():
            where = "all" if len(names) == len(columns) > 1 else " ".join(names)
            table.append([contract, where, *(text for text, _ in states)])
    return table, [each for each in contracts if each not in loud]


def _state(cell: DriftCell | None, findings: Sequence[DriftFinding]) -> str:
    """The rules that hold, and those that do not."""
    if cell is None:
        return "-"
    fresh = {rule for each in findings if each.kind.is_red for rule in each.rules}
    parts = []
    if fresh:
        # G1 for cfs-rq.G1: the row says the rest.
        parts.append(f"FAIL {' '.join(rule.rpartition('.')[2] for rule in cell.failed if rule in fresh)}")
    if old := [rule for rule in cell.failed if rule not in fresh]:
        parts.append(f"{len(old)} fail")
    if cell.passed:
        parts.append(f"{len(cell.passed)} pass")
    return ", ".join(parts) or ("not seen" if cell.size is None else "n/a")


def text(found: LayoutDriftDocument) -> Iterator[str]:
    """The report for a terminal."""
    for kernel in found.kernels:
        yield from _wrapped(f"{kernel.name}: {kernel.origin}", "    ")
    lines = dict.fromkeys((each.column, each.line) for each in found.cells)
    yield from _wrapped("bytes in a line: " + ", ".join(f"{column} {line}" for column, line in lines), "    ")
    shown, quiet = rows(found)
    if shown:
        yield ""
        yield from _table([kernel.name for kernel in found.kernels], shown)
    if quiet:
        yield ""
        yield from _wrapped(f"nothing to look at in {len(quiet)} contracts: {', '.join(quiet)}", "    ")
    for kind, heading in _HEADINGS.items():
        its = [each for each in found.findings if each.kind is kind]
        if its:
            yield from ("", heading)
        yield from _one_by_one(found, its) if kind.is_red or kind.is_amber else _in_short(its)
    yield from _moved(found)
    notes = [f"{kernel.name}: {note}" for kernel in found.kernels for note in kernel.notes]
    if notes:
        yield ""
    for note in notes:
        yield from _wrapped(f"note: {note}", "      ")
    yield ""
    if found.status is Verdict.INCONCLUSIVE:
        yield "not compared: two kernels have no column and no rule in common, or one was not seen; the notes say why"
        yield "  next: choose another --arch, --config or --pack"
    yield f"verdict: {found.status.name}"


def _one_by_one(found: LayoutDriftDocument, findings: Sequence[DriftFinding]) -> Iterator[str]:
    everywhere = {each.column for each in found.cells}
    for each in findings:
        on = "" if len(each.columns) == len(everywhere) else f" ({' '.join(each.columns)})"
        yield from _wrapped(f"  {_step(each)}, struct {each.contract}{on}: {each.text}", "      ")
        if each.readers and each.kind is not DriftKind.READ:
            yield from _wrapped(f"      read by {', '.join(each.readers)}", "      ")


def _in_short(findings: Sequence[DriftFinding]) -> Iterator[str]:
    """What needs no look: the rules of each step."""
    for between in dict.fromkeys(_step(each) for each in findings):
        rules = dict.fromkeys(rule for each in findings if _step(each) == between for rule in each.rules)
        yield from _wrapped(f"  {between}: {', '.join(rules)}", "      ")


def _step(each: DriftFinding | DriftMove) -> str:
    """Between which kernels something happened."""
    return f"{each.before} -> {each.after}"


def _table(kernels: Sequence[str], shown: Sequence[Sequence[str]]) -> Iterator[str]:
    """Names that are too long for the table end in the line of their own."""
    cells = [["contract", "on", *(_tail(name) for name in kernels)], *shown]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    while sum(widths) + 2 * (len(widths) - 1) > WIDTH and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    for row in cells:
        parts = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
        for number in range(max(map(len, parts))):
            line = [part[number] if number < len(part) else "" for part in parts]
            yield "  ".join(each.ljust(width) for each, width in zip(line, widths, strict=True)).rstrip()


def _tail(name: str, most: int = 20) -> str:
    return name if len(name) <= most else f"...{name[3 - most :]}"


def _moved(found: LayoutDriftDocument) -> Iterator[str]:
    """The members that contracts name and that begin on another line, in the first column; how many others is said."""
    first = next((each.column for each in found.cells), "")
    steps: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for move in found.moves:
        if first in move.columns and move.old is not None and move.new is not None:
            its = steps.setdefault((_step(move), move.contract), ([], []))
            its[0 if move.named else 1].append(f"{move.member} {move.old} to {move.new}")
    if steps:
        yield ""
        yield f"members that begin on another line on {first}; --json has all, of all columns"
    for (between, contract), (named, others) in steps.items():
        more = [f"{len(named) - _MOST_MEMBERS} more"] if len(named) > _MOST_MEMBERS else []
        more += [f"{len(others)} that no contract names"] if others else []
        yield from _wrapped(f"  {between}, struct {contract}: {', '.join([*named[:_MOST_MEMBERS], *more])}", "      ")


def _wrapped(line: str, indent: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
