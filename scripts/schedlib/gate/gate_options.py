# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate`, and checks of them that need neither numpy nor scipy."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import read_regular
from schedlib.errors import SchedlineError
from schedlib.names import gate_names, unknown
from schedlib.options import BASIC
from schedlib.paths import CONFIGS

GATES = CONFIGS / "gates"

LIBRARIES = (*BASIC, "requirements-gate.txt")
PAGE_LIBRARIES = (*BASIC, "requirements-report.txt")
HISTORY_LIBRARY = "requirements-history.txt"

_LARGEST = 5 << 20


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate; see --help. `gates`: None for `default`, or for `claims` with --expect-improvement."""

    base: Path
    candidate: Path
    gates: str | None = None
    placebo: Path | None = None
    expect_improvement: bool = False
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
        words += ["--expect-improvement"] if self.expect_improvement else []
        for option, file in (("--json", self.json), ("--html", self.html), ("--markdown", self.markdown)):
            words += [option, file] if file else []
        words += [word for picture in self.pictures for word in ("--picture", picture)]
        return shlex.join(map(str, words))


@dataclass(frozen=True)
class HistoryOptions:
    """The options of `gate history`; see --help."""

    directory: Path
    json: Path | None = None
    html: Path | None = None


@dataclass(frozen=True)
class RedrawOptions:
    """The options of a report that is drawn again. from_: the document, as --json writes it."""

    from_: Path
    html: Path | None = None
    markdown: Path | None = None
    pictures: tuple[Path, ...] = ()


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
