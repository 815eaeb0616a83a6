# SPDX-License-Identifier: GPL-2.0
"""A wrapped tool, and helpers that all parsers share."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedlib.formats.run_file import Direction, Kind, Metric, Reading
from schedlib.runs.tool_process import Server

JSON_FILE = "out.json"
"""The file that tools write their results to, if they write a file."""


class Unreadable(Exception):
    """The output is not what the tool prints when it has worked. The message says what was found instead."""


@dataclass(frozen=True)
class Output:
    """Everything that a run of a tool left behind."""

    argv: Sequence[str]
    exit_status: int | None
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str) -> str:
        """The value of an option on the command line.

        Raises:
            Unreadable: it was not given.
        """
        if name not in self.argv[:-1]:
            raise Unreadable(f"{name} was not given")
        return self.argv[list(self.argv).index(name) + 1]

    def json_file(self) -> dict[str, Any]:
        """The JSON object that the tool wrote.

        Raises:
            Unreadable: the file does not exist, or is not a JSON object.
        """
        try:
            found = json.loads(self.files[JSON_FILE])
        except KeyError as error:
            raise Unreadable(f"it wrote no results: {last_line(self)}") from error
        except ValueError as error:
            raise Unreadable(f"its results are no JSON: {error}") from error
        if not isinstance(found, dict):
            raise Unreadable("its results are no JSON object")
        return found


@dataclass(frozen=True)
class Tool:
    """A tool that somebody else wrote.

    Attributes:
        package: the Debian package; empty if there is none.
        version: arguments that print the version; empty if there are none.
        good: the exit statuses after a successful run.
        variable: the environment variable that names the program if no package has it.
        build: how to get it if no package has it.
        server: the server that it talks to.
        program: its executable, if that has another name.
        driver: the command that starts it, if it needs more than one process.
        data: files that it reads.
    """

    name: str
    package: str
    parse: Callable[[Output], Reading]
    version: tuple[str, ...] = ()
    good: frozenset[int] = frozenset({0})
    variable: str = ""
    build: str = ""
    server: Server | None = None
    program: str = ""
    driver: tuple[str, ...] = ()
    data: tuple[str, ...] = ()

    def path(self) -> str | None:
        """The path of the program, or None."""
        named = os.environ.get(self.variable) if self.variable else None
        return shutil.which(named or self.program or self.name)

    def command(self) -> list[str]:
        """The command that starts it, without the arguments of a row."""
        return [*self.driver, self.path() or self.program or self.name]

    def missing(self) -> str:
        """The message for when it is not installed."""
        if self.package:
            return f"{self.program or self.name} is not installed: package {self.package}"
        return f"{self.name} is in no package: {self.build}, then {self.variable}=/path/to/{self.name}"


def last_line(output: Output) -> str:
    """The last line of the output, for messages."""
    lines = [line.strip() for line in (output.stdout + "\n" + output.stderr).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def number(pattern: str, text: str, what: str) -> float:
    """The first group of a pattern as a number.

    Raises:
        Unreadable: the pattern does not match.
    """
    if not (found := re.search(pattern, text, re.M)):
        raise Unreadable(f"no {what} in its output")
    return float(found.group(1))


def metric(name: str, unit: str, direction: Direction, kind: Kind, value: float, n: float = 1) -> Metric:
    """A metric; n may come from a parser as a float."""
    return Metric(name, unit, direction, kind, value, int(n))


def quantiles(name: str, unit: str, values: Mapping[str, float], n: float) -> list[Metric]:
    """Latencies by the name of their quantile."""
    return [metric(f"{name}.{quantile}", unit, "lower", "quantile", value, n) for quantile, value in values.items()]


def work(name: str, unit: str, n: float) -> Metric:
    """How much was done, such as the number of samples: 0 means that the tool did not work."""
    return metric(name, unit, "neither", "exact", n, n)


def slug(text: str) -> str:
    """A text as a part of a metric's name: small letters, digits and underscores."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def dotted_slug(text: str) -> str:
    """A text as a metric's name: a slug of each part between dots."""
    return ".".join(filter(None, map(slug, text.split("."))))


def quantile(histogram: Mapping[int, int], n: int, share: float) -> int | None:
    """The bucket that contains the quantile; None if it is beyond the last bucket."""
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= share * n:
            return bucket
    return None
