# SPDX-License-Identifier: GPL-2.0
"""KCSAN's reports in a console log, and the races that are intended (configs/known-races.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from schedlib.console.log_lines import Line
from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS

KNOWN_RACES = CONFIGS / "known-races.toml"


@dataclass(frozen=True)
class KnownRace:
    """An intended race: a plain read against a write.

    Attributes:
        read: the function in which, or below which, the plain read is.
        write: the function that writes.
        kind: of the write, as KCSAN calls it; a plain one in place of a marked one is another race.
        variable: what they share; KCSAN prints an address alone, so this is for people.
        reason: why it is intended.
        source: where that is written.
    """

    name: str
    read: str
    write: str
    kind: str
    variable: str
    reason: str
    source: str

    def explains(self, report: RaceReport) -> bool:
        """Whether a report is of this race alone: complete, and no access was moved past a barrier that lacks."""
        if not report.complete or report.reordered or len(report.accesses) != 2:
            return False
        reads = [access for access in report.accesses if access.what == "read"]
        writes = [access for access in report.accesses if access.what == self.kind]
        return (
            len(reads) == len(writes) == 1
            and self.read in reads[0].stack
            and self.write == next(iter(writes[0].stack), "")
        )


@dataclass
class Access:
    """One side of a race: `read`, `write (marked)`, ..., and its functions, innermost first."""

    what: str
    stack: list[str] = field(default_factory=list)


@dataclass
class RaceReport:
    """One report.

    Attributes:
        line: of its headline.
        text: the headline.
        own: numbers of the lines that are its headline and trailer.
        reordered: an access was seen elsewhere than where it is written: a barrier may be missing.
        complete: the log has its last line.
    """

    line: int
    text: str
    own: set[int]
    accesses: list[Access] = field(default_factory=list)
    reordered: bool = False
    complete: bool = False


_HEADLINE = re.compile(r"BUG: KCSAN: ")
_ACCESS = re.compile(
    r"(?:race at unknown origin, with )?((?:assert no |read|write)[\w ()-]*?) to 0x\S+ of \d+ bytes by "
)
_FRAME = re.compile(r" ([\w.]{1,128})\+0x[0-9a-f]+/0x[0-9a-f]+")
_TRAILER = "Reported by Kernel Concurrency Sanitizer on:"


class RaceReader:
    """Collects the reports of a log, line by line; what others print between the lines of one is not its own."""

    def __init__(self) -> None:
        self.reports: list[RaceReport] = []
        self._open: RaceReport | None = None
        self._trailer = False

    def feed(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if _HEADLINE.match(text):
            self._open = RaceReport(line.number, text.strip(), {line.number})
            self._trailer = False
            self.reports.append(self._open)
            return
        report = self._open
        if report is None:
            return
        if text.startswith("=========="):
            report.complete = self._trailer
            self._open = None
        elif text.startswith(_TRAILER):
            self._trailer = True
        elif self._trailer and text.startswith(("CPU: ", "Hardware name: ")):
            report.own.add(line.number)
        elif found := _ACCESS.match(text):
            report.accesses.append(Access(found[1]))
        elif report.accesses and (found := _FRAME.match(text)):
            report.accesses[-1].stack.append(found[1])
        elif "+-> reordered to: " in text:
            report.reordered = True


def load_known_races(path: Path = KNOWN_RACES) -> tuple[KnownRace, ...]:
    """The intended races.

    Raises:
        SchedlineError: an entry lacks something, a reason for one.
    """
    found: list[KnownRace] = []
    for name, row in tomllib.loads(path.read_text()).items():
        wanted = {each.name for each in fields(KnownRace)} - {"name"}
        if set(row) != wanted or not all(isinstance(value, str) and value for value in row.values()):
            raise SchedlineError(f"{path}: [{name}] has to hold {', '.join(sorted(wanted))}", "complete the entry")
        found.append(KnownRace(name, **row))
    return tuple(found)


def explained(reports: Iterable[RaceReport], known: Sequence[KnownRace]) -> list[tuple[RaceReport, KnownRace]]:
    """The reports of intended races, each with the entry that says so."""
    return [
        (report, race)
        for report in reports
        for race in [next((race for race in known if race.explains(report)), None)]
        if race is not None
    ]
