# SPDX-License-Identifier: GPL-2.0
"""A directory of files that other tools wrote, read as runs, and what of them is judged by default."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import islice
from math import comb, factorial, inf
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError, in_words
from schedlib.formats import document
from schedlib.formats.document import LARGEST
from schedlib.formats.gate_document import Method
from schedlib.formats.run_file import BEYOND, BY_FILE_TIME, BY_START, NOT_RECORDED, Direction, Head, Run, run_of
from schedlib.formats.strict import Wrong
from schedlib.gate.boots import Key
from schedlib.gate.gate_options import UNSAID_UNIT, ReadingOptions, Unit
from schedlib.gate.rules import Gate, GateHead, GateRule, gate_of
from schedlib.gate.tool_formats import FOREIGN_FORMATS, ForeignFormat, ForeignRun, ResultFile
from schedlib.progress import printable
from schedlib.runs.tools import Unreadable

ENTRIES = ("machine_name", "machine", "kernel", "build_id", "configuration", "command_line")
"""What a run says of itself in its fingerprint, boot_id apart; what its file does not tell is NOT_RECORDED."""

_UNREADABLE = (
    Unreadable,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    csv.Error,
)

_BY_CHANCE = 1e-4
"""How often runs that are no copies may be taken for some."""

_HEAD = 4096
"""Characters in which a tool shows who it is."""

_KNOWN = ", ".join(each.name for each in FOREIGN_FORMATS)
_OWN = "it is a run of schedline, which knows its boot; give those without --unit, in a directory of their own"

_COLUMNS = "then add --columns metric,value,unit,direction"
_TO_CSV = f"make a CSV file of each with configs/to-csv.sh, {_COLUMNS}"
_NOT_READ: Mapping[str, tuple[str, str]] = {
    "sysbench": (r"\bsysbench [\d.]+", _TO_CSV),
    "fio": (r'"fio version"\s*:', _TO_CSV),
    "hyperfine": (r'"exit_codes"\s*:', _TO_CSV),
    "Google Benchmark": (r'"library_build_type"\s*:', _TO_CSV),
    "ktstr": (r'"ext_metrics"\s*:', _TO_CSV),
    "cyclictest for readers": (r"^T: ?\d+ \( *\d+\) P:|^# Histogram$", "run cyclictest with -h 400 --json=FILE"),
    "perf stat without -j": (
        r"Performance counter stats for '|^(?:[\d.]+|<not \w+>),[^,\n]*,[\w:/.-]+,\d+,\d+\.\d\d(?:,|$)",
        "run perf stat with -j",
    ),
    "stress-ng for readers": (r"^stress-ng: \w+ *: +\[", "run stress-ng with --metrics --yaml FILE"),
    "netperf": (
        r" TEST from \S.* port 0 AF_INET6? to |^THROUGHPUT(?:_UNITS)?=",
        f"run netperf -t TCP_RR with -- -k THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME, or write a CSV file, {_COLUMNS}",
    ),
    "schbench --json": (r'"wakeup_latency_pct', "give what schbench prints: 2> FILE"),
    "perf bench, and not of sched": (r"^# Running '?\w+/", f"write its figures to a CSV file, {_COLUMNS}"),
    "another program of rt-tests": (r'"rt_test_version:?"\s*:', f"write its figures to a CSV file, {_COLUMNS}"),
}
"""Outputs that are known and not read: what shows each, and what to do."""


@dataclass(frozen=True)
class Imported:
    """The runs in a directory of files of other tools.

    Attributes:
        runs: the name of each run's file, and the run.
        formats: of each run.
        skipped: the names of files that are not read, with the reason.
    """

    directory: Path
    runs: tuple[tuple[str, Run], ...]
    formats: tuple[ForeignFormat, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped, a line for each reason, and what a tool did not measure."""
        reasons = Counter(reason for _, reason in self.skipped)
        absent = {(run.row, each.name): each.reason for _, run in self.runs for each in run.absent}
        return (
            *(f"{self.directory}: skipped {count} file{'s' * (count > 1)}: {why}" for why, count in reasons.items()),
            *(f"{tool} has no {name}: {why}" for (tool, name), why in absent.items()),
        )


class _File(NamedTuple):
    """A file, with what it tells; or why it is not read.

    Attributes:
        when: its modification time, seconds since 1970.
        kind: of one that is not read: it cannot be a result; is known; is empty; or should have been a result.
        tool: the known tool that wrote one that is not read, and `next`: what to do then.
    """

    name: str
    content: bytes = b""
    when: float = 0.0
    format: ForeignFormat | None = None
    told: Sequence[ForeignRun] = ()
    kind: Literal["", "other", "known", "empty", "failed"] = ""
    why: str = ""
    tool: str = ""
    next: str = ""


def imported(directory: Path, reading: ReadingOptions) -> Imported:
    """Read the files of other tools below a directory.

    Raises:
        SchedlineError: the unit is not known, no file is of a known format, or one that is cannot be read.
    """
    if not reading.unit:
        raise SchedlineError(f"{directory} holds files of other tools, and nobody says what a file is", UNSAID_UNIT)
    read = [_read(name, path, reading) for name, path in _paths(directory)]
    found = [file for file in read if not file.kind]
    # A file like those with results, that has none, may be of a run that crashed. LKP has many files of JSON.
    endings = {Path(file.name).suffix for file in found}
    skipped, failed = [], []
    for each in (file for file in read if file.kind):
        path = directory / each.name
        is_alike = path.suffix in endings and path.is_file() and not path.stem.startswith("README")
        other = each.kind == "known" or (each.kind == "other" and path.suffix == ".json")
        if each.kind == "failed" or (is_alike and not other):
            failed.append(f"{each.name}: {each.why}")
        else:
            skipped.append((each.name, each.why))
    if not found and not failed:
        _refuse_known(directory, read)
        raise SchedlineError(
            f"{directory} holds no file of a known format with a result; it has {len(skipped)} others. "
            f"Known are: {_KNOWN}",
            "see docs/gate.md#runs-that-you-already-have; name the columns of CSV files with --columns",
        )
    alone = {run.tool: file.name for file in found for run in file.told if len(file.told) == 1 and not run.boot}
    if reading.unit == "boot" and len(alone) > 1:
        files = ", ".join(f"{name} of {tool}" for tool, name in sorted(alone.items()))
        raise SchedlineError(
            f"{directory} holds files of several tools ({files}), and with --unit boot each is a boot of its own",
            "compare the files of each tool in a directory of their own",
        )
    runs = _runs(found, reading.unit, failed)
    if failed:
        more = f" (and {len(failed) - 3} more)" if len(failed) > 3 else ""
        again = all(each.endswith(("(cut off?)", "it is empty")) for each in failed)
        raise SchedlineError(
            printable(f"{directory}: {len(failed)} without a result: {'; '.join(failed[:3])}{more}")[:1000],
            ("repeat these runs" if again else "mend what is said")
            + ", or give a directory without them; the missing ones could be the slow ones",
        )
    formats = tuple(file.format for file in found for _ in file.told if file.format)
    return Imported(directory, tuple((str(directory / name), run) for name, run in runs), formats, tuple(skipped))


def foreign_formats(directory: Path) -> tuple[str, ...]:
    """The names of the formats of other tools in a directory, judged by its first thousand files.

    Empty if it has a run of schedline: the logs beside such runs hold the outputs of tools.

    Raises SchedlineError: it has nothing but outputs of a tool that is known, and not read.
    """
    read = []
    for name, path in islice(_paths(directory), 1000):
        read.append(_read(name, path, ReadingOptions())._replace(content=b"", told=()))
        if read[-1].why == _OWN:
            return ()
    if not (found := {each.format.name for each in read if each.format}):
        _refuse_known(directory, read)
    return tuple(sorted(found))


def _refuse_known(directory: Path, read: Iterable[_File]) -> None:
    for each in read:
        if each.tool:
            raise SchedlineError(f"{directory / each.name} is {_of_tool(each.tool)}", each.next)


def _of_tool(tool: str) -> str:
    return f"an output of {tool}, which is not read"


def _paths(directory: Path) -> Iterator[tuple[str, Path]]:
    """The files below a directory and their names there, in order. Hidden ones are left out."""
    for place, folders, files in os.walk(directory):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                path = Path(place, name)
                yield str(path.relative_to(directory)), path


def _read(name: str, path: Path, reading: ReadingOptions) -> _File:
    if not path.is_file():
        return _File(name, kind="other", why="not a regular file")
    unknown = _File(name, kind="other", why=f"not a format that is known ({_KNOWN})")
    try:
        content, when = read_regular(path, LARGEST), path.stat().st_mtime
        file = ResultFile(content.decode("utf-8-sig"), reading.columns, path.name)
    except OSError as error:
        return _File(name, kind="failed", why=error.strerror or str(error))
    except UnicodeDecodeError:
        return unknown
    if not file.text.strip():
        return _File(name, kind="empty", why="it is empty")
    if file.has("schema") and file.json["schema"] == "run-1":
        return _File(name, kind="failed", why=_OWN)
    kind = next((each for each in FOREIGN_FORMATS if each.recognises(file)), None)
    if kind is None:
        known = ((tool, step) for tool, (sign, step) in _NOT_READ.items() if re.search(sign, file.text[:_HEAD], re.M))
        tool, step = next(known, ("", ""))
        if file.json is None and file.text.lstrip().startswith(("{", "[")):
            return _File(name, kind="failed", why="it is no whole JSON document (cut off?)", tool=tool, next=step)
        return _File(name, kind="known", why=_of_tool(tool), tool=tool, next=step) if tool else unknown
    try:
        if file.json is None and not file.text.endswith("\n"):
            raise Unreadable("its last line has no end (cut off?)")
        return _File(name, content, when, kind, kind.read(file))
    except _UNREADABLE as error:
        why = f"it looks like {kind.name}, but: {in_words(error)[:200]}"
        return _File(name, format=kind, kind="failed", why=why)


def _runs(found: Sequence[_File], unit: Unit, failed: list[str]) -> list[tuple[str, Run]]:
    """The runs of all files. What is wrong with one is added to `failed`."""
    told = [(file, number, each) for file in found for number, each in enumerate(file.told)]
    # They are those of one kernel on one machine.
    shared = {}
    for entry in ("kernel", "machine_name"):
        if len(values := {each.about[entry] for _, _, each in told if entry in each.about}) == 1:
            shared[entry] = values.pop()
    seen: dict[str, str] = {}
    # With --unit run the first run of each tool is the first boot, and so on.
    boots: dict[int, str] = {}
    places = Counter[str]()
    runs = []
    for file, number, each in told:
        # Without a start time two short texts may be equal by chance, but are hardly of one moment.
        mark = file.content if each.started else file.content + str(file.when).encode()
        digest = sha256(mark).hexdigest()[:16]
        if number == 0 and seen.setdefault(digest, file.name) != file.name:
            failed.append(f"{file.name}: it is a copy of {seen[digest]}")
        if each.boot and unit == "run":
            failed.append(f"{file.name}: it has a column boot, and --unit run says that all files are of one boot")
        boot = f"{unit} {each.boot or f'{Path(file.name).name} {digest}'}"
        if unit == "run":
            boot = boots.setdefault(places[each.tool], f"{boot} {number}")
            places[each.tool] += 1
        fingerprint = {**dict.fromkeys(ENTRIES, NOT_RECORDED), **shared, **each.about, "boot_id": boot, "unit": unit}
        fingerprint["order"] = BY_START if each.started else BY_FILE_TIME
        started = each.started or datetime.fromtimestamp(file.when, UTC)
        # The place in the file tells two runs of one file apart.
        head = Head(each.tool, started.isoformat(), float(number), fingerprint)
        try:
            run = run_of(head, each.reading)
            if run.reason:
                raise Unreadable(run.reason)
            runs.append((file.name, document.parse(msgspec.json.encode(run), Run)))
        except _UNREADABLE as error:
            failed.append(f"{file.name}: {in_words(error)}")
    return runs


def refuse_repeats(sides: Iterable[Imported]) -> None:
    """Reject runs that have the figures of others more often than chance allows: they are copies.

    Two runs of a tool agree by chance no more often than one step of a metric's decimals is of the spread of its
    values. A metric of one or two values tells nothing.
    """
    tools: defaultdict[str, list[tuple[str, Mapping[str, float]]]] = defaultdict(list)
    for name, run in (each for side in sides for each in side.runs):
        tools[run.row].append((name, {metric.name: metric.value for metric in run.metrics}))
    for runs in tools.values():
        first: dict[frozenset[tuple[str, float]], str] = {}
        again = [
            (name, was) for name, figures in runs if (was := first.setdefault(frozenset(figures.items()), name)) != name
        ]
        by_name = {name: {figures[name] for _, figures in runs if name in figures} for name in runs[0][1]}
        shares = [
            10.0 ** min(int(Decimal(repr(each)).normalize().as_tuple().exponent) for each in found)
            / (max(found) - min(found))
            for found in by_name.values()
            if len(found) > 2
        ]
        expected = min(shares, default=inf) * comb(len(runs), 2)
        if again and expected ** len(again) / factorial(len(again)) < _BY_CHANCE:
            raise SchedlineError(
                f"{again[0][0]} has the figures of {again[0][1]}, and {len(again)} of {len(runs)} runs repeat others. "
                "Chance hardly does that: they are copies",
                "leave out the copies",
            )


# ---- what is judged without a gates file ----


def gate_for(sides: Sequence[Imported], budget: float, detect: float) -> Gate:
    """The gate for the metrics that the parsers judge by default.

    Args:
        budget, detect: in percent.

    Raises:
        SchedlineError: there is none.
    """
    if not (rules := judged(sides)):
        names = sorted({f"{run.row} {metric.name}" for side in sides for _, run in side.runs for metric in run.metrics})
        raise SchedlineError(
            f"nothing says which of these metrics are better lower or higher: {', '.join(names[:5])}",
            "add a column direction (lower or higher) to --columns, or give a gates file with --gates",
        )
    fingerprints = [run.fingerprint for side in sides for _, run in side.runs]
    known = all(each["unit"] == "boot" and each["order"] != BY_FILE_TIME for each in fingerprints)
    try:
        metrics = [GateRule(*key, direction, Method.RANK, budget, detect) for key, direction in rules.items()]
    except Wrong as error:
        raise SchedlineError(str(error), error.next_step) from error
    return gate_of("imported", GateHead(order="interleaved" if known else "any"), tuple(metrics))


def judged(sides: Sequence[Imported]) -> Mapping[Key, Direction]:
    """The metrics that are judged by default, with their direction.

    Of a format's alternatives the first counts that any run has, or measured beyond its histogram. The gate says so if
    another run lacks it.
    """
    directions: dict[str, dict[str, Direction]] = {}
    kinds: dict[str, ForeignFormat] = {}
    for (_, run), kind in (pair for side in sides for pair in zip(side.runs, side.formats, strict=True)):
        kinds.setdefault(run.row, kind)
        # If another run says that neither is better, the gate says that they differ.
        known = directions.setdefault(run.row, {})
        known.update((each.name, each.direction) for each in run.metrics if each.direction != "neither")
        known.update((each.name, "lower") for each in run.absent if BEYOND in each.reason)
    rules: dict[Key, Direction] = {}
    for tool, found in directions.items():
        alternatives = (
            {
                (tool, name): better
                for name, better in found.items()
                if any(fnmatchcase(name, each) for each in patterns)
            }
            for patterns in kinds[tool].judged
        )
        rules |= next(filter(None, alternatives), {})
    return rules
