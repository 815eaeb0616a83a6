# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate`, and checks of them that need no numpy."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from schedlib.cache import cache_path, read_regular
from schedlib.errors import SchedlineError
from schedlib.gate.imports.import_options import ReadingOptions
from schedlib.names import gate_names, unknown
from schedlib.options import BASIC
from schedlib.paths import CONFIGS

if TYPE_CHECKING:
    from schedlib.gate.imports.imported import Imported

GATES = CONFIGS / "gates"

MOST_BOOTS = 500
"""Of one kernel. With more, their ids are probably not the kernel's."""

LIBRARIES = (*BASIC, "gate")
PAGE_LIBRARIES = (*BASIC, "report")
HISTORY_LIBRARY = "history"

BUDGET = 3.0
DETECT = 15.0
"""In percent: how much worse a metric of an imported run may become, and what a PASS excludes."""

_LARGEST = 5 << 20


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate; see --help.

    Attributes:
        base, candidate, placebo: directories; the gate replaces those of other tools by the runs in them.
        gates: None for `default`.
        trust: judge also runs that do not tell machine or settings.
        incomplete: why some boots have no values, if it is not that they crashed.
        budget, detect: in percent, for files of other tools without a gates file.
    """

    base: Path | Imported
    candidate: Path | Imported
    gates: str | None = None
    placebo: Path | Imported | None = None
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    trust: bool = False
    incomplete: str = ""
    budget: float | None = None
    detect: float | None = None
    json: Path | None = None
    html: Path | None = None
    markdown: Path | None = None
    history: Path | None = None
    pictures: tuple[Path, ...] = ()

    def command(self) -> str:
        """The shell command that makes the same files again."""
        words: list[object] = ["schedline", "gate", self.base, self.candidate]
        words += ["--gates", self.gates] if self.gates else []
        words += ["--placebo", self.placebo] if self.placebo else []
        words += self.reading.to_argv()
        words += ["--trust"] if self.trust else []
        words += ["--incomplete", self.incomplete] if self.incomplete else []
        words += ["--budget", f"{self.budget:g}"] if self.budget else []
        words += ["--detect", f"{self.detect:g}"] if self.detect else []
        for option, file in (("--json", self.json), ("--html", self.html), ("--markdown", self.markdown)):
            words += [option, file] if file else []
        words += [word for picture in self.pictures for word in ("--picture", picture)]
        return shlex.join(map(str, words))


@dataclass(frozen=True)
class FleetOptions:
    """The options of a gate over many machines; see --help. fleet: a directory for each machine."""

    fleet: Path
    gates: str | None = None
    json: Path | None = None

    def command(self) -> str:
        """The shell command that makes the same files again."""
        words: list[object] = ["schedline", "gate", "--fleet", self.fleet]
        words += ["--gates", self.gates] if self.gates else []
        words += ["--json", self.json] if self.json else []
        return shlex.join(map(str, words))


@dataclass(frozen=True)
class HistoryOptions:
    """The options of `gate history`; see --help."""

    directory: Path
    json: Path | None = None


def gates_path(named: str) -> Path:
    """The path of a gates file, given its path or its name in configs/gates."""
    return GATES / f"{named}.toml" if "/" not in named and not named.endswith(".toml") else Path(named)


def gates_file(text: str) -> str:
    """An argparse type: a gates file by its path or by its name in configs/gates."""
    path = gates_path(text)
    if path.parent == GATES and path.stem not in gate_names():
        raise argparse.ArgumentTypeError(unknown("gates file", path.stem, gate_names()))
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file. Known by name: {', '.join(gate_names())}")
    return text


def percent(text: str) -> float:
    """An argparse type: a change in percent."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no change in percent, above 0 and at most 1000")
    return value


def read_svg(path: Path) -> bytes:
    """Read a picture for the page.

    Raises:
        SchedlineError: it cannot be read, is not an SVG, or is too large.
    """
    try:
        content = read_regular(path, _LARGEST)
    except OSError as error:
        raise SchedlineError(f"the picture {path} cannot be read: {error.strerror}", f"ls -l {path}") from error
    if b"<svg" not in content[:1000]:
        raise SchedlineError(f"{path} is no SVG", "schedline layout diff A B --svg FILE")
    return content


def keep_fonts() -> None:
    """Let matplotlib cache its list of this machine's fonts in our cache. It reads the place when it is imported."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache_path() / "matplotlib"))
