# SPDX-License-Identifier: GPL-2.0
"""The intended races (configs/known-races.toml), and the KCSAN reports that they explain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlib.console.log_lines import RaceReport
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.paths import CONFIGS

KNOWN_RACES = CONFIGS / "known-races.toml"


class KnownRace(Strict, frozen=True):
    """An intended race: a plain read, with the function `read` in its call stack, against a write by `write`.

    `kind` is KCSAN's name for the write; a plain write instead of a marked one is a different race. `variable` is for
    people, because KCSAN prints only its address. `source` is where the reason is documented.
    """

    name: Word
    read: Word
    write: Word
    kind: Word
    variable: Word
    reason: Word
    source: Word

    def explains(self, report: RaceReport) -> bool:
        """Whether a report is of this race only: it is complete, and KCSAN did not reorder an access."""
        sides = dict(report.accesses)
        return (
            (report.complete and not report.reordered and len(report.accesses) == 2)
            and sides.keys() == {"read", self.kind}
            and self.read in sides["read"]
            and [self.write] == sides[self.kind][:1]
        )


def explained(reports: Sequence[RaceReport], path: Path = KNOWN_RACES) -> list[tuple[RaceReport, str]]:
    """The reports of intended races, each with its name and the reason.

    Raises SchedlineError: an entry of the file lacks a field, such as the reason.
    """
    known = read_toml(path, dict[str, KnownRace], keys="name").values()
    found = [(report, next((race for race in known if race.explains(report)), None)) for report in reports]
    return [(report, f"{race.name}: {race.reason}") for report, race in found if race]
