# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate` and of the verbs below it, and checks of them. Needs the standard library alone."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schedlib.cache import cache_path, read_regular
from schedlib.errors import SchedlineError
from schedlib.names import gate_names, one_of, unknown
from schedlib.options import BASIC
from schedlib.paths import CONFIGS

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
"""Bytes of a picture for the page."""

Unit = Literal["run", "boot"]

COLUMNS = ("tool", "metric", "value", "unit", "direction", "boot", "run", "started", "-")
UNSAID_UNIT = "--unit run if all files of a directory are from one boot, --unit boot if each file is a boot of its own"


@dataclass(frozen=True)
class ReadingOptions:
    """How files of other tools are read.

    Attributes:
        unit: what one file is. None: files of other tools are rejected.
        columns: what the columns of a CSV file are, in their order; empty: CSV is not read.
    """

    unit: Unit | None = None
    columns: tuple[str, ...] = ()

    def words(self) -> dict[str, object]:
        """These options by their names on the command line."""
        return {"--unit": self.unit, "--columns": ",".join(self.columns)}


@dataclass(frozen=True)
class ImportOptions:
    """The options of `schedline gate import`."""

    directory: Path
    out: Path
    reading: ReadingOptions = field(default_factory=ReadingOptions)


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate; see --help.

    Attributes:
        base, candidate, placebo: directories.
        gates: None for `default`.
        trust: judge also runs that do not tell machine or settings.
        incomplete: why some boots have no values, if it is not that they crashed.
        budget, detect: in percent, for files of other tools without a gates file.
    """

    base: Path
    candidate: Path
    gates: str | None = None
    placebo: Path | None = None
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
        files = {"--json": self.json, "--html": self.html, "--markdown": self.markdown, "--picture": self.pictures}
        judged = {
            "--trust": self.trust,
            "--incomplete": self.incomplete,
            "--budget": self.budget,
            "--detect": self.detect,
        }
        more = {"--gates": self.gates, "--placebo": self.placebo} | self.reading.words() | judged | files
        return _command([self.base, self.candidate], more)


@dataclass(frozen=True)
class FleetOptions:
    """The options of a gate over many machines; see --help. fleet: a directory for each machine."""

    fleet: Path
    gates: str | None = None
    json: Path | None = None

    def command(self) -> str:
        """The shell command that makes the same files again."""
        return _command([], {"--fleet": self.fleet, "--gates": self.gates, "--json": self.json})


def _command(operands: Sequence[object], options: Mapping[str, object]) -> str:
    """A shell command of the gate with the options that have a value."""
    words: list[object] = ["schedline", "gate", *operands]
    for name, value in options.items():
        for each in value if isinstance(value, tuple) else (value,):
            if each:
                words += [name] if each is True else [name, f"{each:g}" if isinstance(each, float) else each]
    return shlex.join(map(str, words))


@dataclass(frozen=True)
class HistoryOptions:
    """The options of `gate history`; see --help."""

    directory: Path
    json: Path | None = None


_KEXEC = "if [ -d /run/systemd/system ]; then systemctl kexec; else sync; kexec -e; fi"
_REBOOT = "if [ -d /run/systemd/system ]; then systemctl reboot; else reboot; fi"

LAVA = "lava"
"""The way of boots that are jobs of LAVA. Such a plan has no service: `schedline fleet jobs` takes it."""

BOOT_COMMANDS = {
    "kexec": "kexec -l {image} {initrd} --reuse-cmdline && " + _KEXEC,
    "bootctl": "bootctl set-oneshot {glob} && " + _REBOOT,
    LAVA: "echo {label} is booted by LAVA: schedline fleet jobs; false",
}
"""How a kernel is booted once, by the word after --boot. All leave the default of the boot loader as it is."""

LOSSES = 3
"""After so many lost boots of one kernel in a row a campaign stops, unless the user says otherwise."""


@dataclass(frozen=True)
class NamedKernel:
    """A kernel as the user named it. version, image, initrd: empty if not given."""

    label: str
    version: str
    image: str = ""
    initrd: str = ""


@dataclass(frozen=True)
class BootPlanOptions:
    """A plan to write; see --help. boots: the least and the most of each kernel; None for those of the gates file."""

    out: Path
    boots: tuple[int, int] | None
    kernels: tuple[NamedKernel, ...]
    boot: str
    next_command: str | None
    gates: str
    suite: str | None
    only: tuple[str, ...]
    runs: int
    seed: int | None
    losses: int


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


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """--unit, --columns."""
    about = "files of other tools: what one file is, a run (all of a directory are from one boot) or a boot"
    parser.add_argument("--unit", type=one_of("unit", lambda: ("run", "boot")), metavar="run|boot", help=about)
    about = f"CSV files: what each column is, in order; of {', '.join(COLUMNS)} (- is not read)"
    parser.add_argument("--columns", type=_columns, default=(), metavar="NAME,...", help=about)


def reading_options(arguments: argparse.Namespace) -> ReadingOptions:
    """What add_reading_options() read.

    Raises:
        SchedlineError: options that need --unit are given without it.
    """
    if arguments.columns and not arguments.unit:
        raise SchedlineError("--columns belongs to files of other tools, and --unit is missing", UNSAID_UNIT)
    return ReadingOptions(arguments.unit, arguments.columns)


def _columns(text: str) -> Sequence[str]:
    known = one_of("column", lambda: COLUMNS)
    found = tuple(known(word.strip()) for word in text.split(","))
    named = [word for word in found if word != "-"]
    if len(set(named)) < len(named):
        raise argparse.ArgumentTypeError(f"{text}: a column is named twice")
    if lacking := sorted({"metric", "value"} - set(named)):
        raise argparse.ArgumentTypeError(f"{text}: no column is named {lacking[0]}")
    return found


def keep_fonts() -> None:
    """Let matplotlib cache its list of this machine's fonts in our cache. It reads the place when it is imported."""
    os.environ.setdefault("MPLCONFIGDIR", str(cache_path() / "matplotlib"))
