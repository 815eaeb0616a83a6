# SPDX-License-Identifier: GPL-2.0
"""KCSAN's reports in a console log."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from schedlib.console.log_lines import LogLine


@dataclass
class RaceReport:
    """One report.

    Attributes:
        line, text: of its headline.
        own: numbers of the lines that are its headline and trailer.
        accesses: each side of the race: `read`, `write (marked)`, ..., and its functions, innermost first.
        reordered: KCSAN delayed an access and saw the race at a later place: a barrier may be missing.
        complete: the log has its last line.
    """

    line: int
    text: str
    own: set[int]
    accesses: list[tuple[str, list[str]]] = field(default_factory=list)
    reordered: bool = False
    complete: bool = False


Explain = Callable[[Sequence[RaceReport]], Sequence[tuple[RaceReport, str]]]
"""A function that returns the reports of intended races, each with the reason why the race is intended."""

_HEADLINE = re.compile(r"BUG: KCSAN: ")
_ACCESS = re.compile(
    r"(?:race at unknown origin, with )?((?:assert no |read|write)[\w ()-]*?) to 0x\S+ of \d+ bytes by "
)
_FRAME = re.compile(r" ([\w.]{1,128})\+0x[0-9a-f]+/0x[0-9a-f]+")
_TRAILER = "Reported by Kernel Concurrency Sanitizer on:"


class RaceReader:
    """Collects the reports of a log, line by line. Other messages between the lines of a report are not part of it."""

    def __init__(self) -> None:
        self.reports: list[RaceReport] = []
        self.open: RaceReport | None = None
        """The report that is being read. If there is none, only the first line of a report matters."""
        self._trailer = False

    def feed(self, line: LogLine) -> None:
        text = line.text
        if _HEADLINE.match(text):
            self.open = RaceReport(line.number, text.strip(), {line.number})
            self._trailer = False
            self.reports.append(self.open)
            return
        if (report := self.open) is None:
            return
        if text.startswith("=========="):
            report.complete = self._trailer
            self.open = None
        elif text.startswith(_TRAILER):
            self._trailer = True
        elif self._trailer and text.startswith(("CPU: ", "Hardware name: ")):
            report.own.add(line.number)
        elif found := _ACCESS.match(text):
            report.accesses.append((found[1], []))
        elif report.accesses and (found := _FRAME.match(text)):
            report.accesses[-1][1].append(found[1])
        elif "+-> reordered to: " in text:
            report.reordered = True
