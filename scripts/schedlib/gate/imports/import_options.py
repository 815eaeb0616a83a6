# SPDX-License-Identifier: GPL-2.0
"""The options that say how files of other tools are read. Needs the standard library alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from schedlib.errors import SchedlineError
from schedlib.names import one_of

Unit = Literal["run", "boot"]

COLUMNS = ("tool", "metric", "value", "unit", "direction", "boot", "run", "started", "-")
UNSAID_UNIT = "--unit run if all files of a directory are from one boot, --unit boot if each file is a boot of its own"


@dataclass(frozen=True)
class ReadingOptions:
    """How files of other tools are read.

    Attributes:
        unit: what one file is. None: files of other tools are rejected.
        columns: what the columns of a CSV file are, in their order; empty: CSV is not read.
        perf_bench_simple: a file with one number alone is of perf bench --format=simple.
    """

    unit: Unit | None = None
    columns: tuple[str, ...] = ()
    perf_bench_simple: bool = False

    def to_argv(self) -> list[str]:
        """These options as command-line arguments."""
        said = ["--unit", self.unit] if self.unit else []
        said += ["--columns", ",".join(self.columns)] if self.columns else []
        return said + (["--perf-bench-simple"] if self.perf_bench_simple else [])


@dataclass(frozen=True)
class ImportOptions:
    """The options of `schedline gate import`."""

    directory: Path
    out: Path
    reading: ReadingOptions = field(default_factory=ReadingOptions)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """--unit, --columns, --perf-bench-simple."""
    about = "files of other tools: what one file is, a run (all of a directory are from one boot) or a boot"
    parser.add_argument("--unit", type=one_of("unit", lambda: ("run", "boot")), metavar="run|boot", help=about)
    about = f"CSV files: what each column is, in order; of {', '.join(COLUMNS)} (- is not read)"
    parser.add_argument("--columns", type=_columns, default=(), metavar="NAME,...", help=about)
    about = "a file that holds one number alone is of perf bench --format=simple"
    parser.add_argument("--perf-bench-simple", action="store_true", help=about)


def reading_options(arguments: argparse.Namespace) -> ReadingOptions:
    """What add_reading_options() read.

    Raises:
        SchedlineError: options that need --unit are given without it.
    """
    found = ReadingOptions(arguments.unit, arguments.columns, arguments.perf_bench_simple)
    if not found.unit and found.to_argv():
        raise SchedlineError(
            f"{found.to_argv()[0]} belongs to files of other tools, and --unit is missing", UNSAID_UNIT
        )
    return found


def _columns(text: str) -> Sequence[str]:
    known = one_of("column", lambda: COLUMNS)
    found = tuple(known(word.strip()) for word in text.split(","))
    named = [word for word in found if word != "-"]
    if len(set(named)) < len(named):
        raise argparse.ArgumentTypeError(f"{text}: a column is named twice")
    if lacking := sorted({"metric", "value"} - set(named)):
        raise argparse.ArgumentTypeError(f"{text}: no column is named {lacking[0]}")
    return found
