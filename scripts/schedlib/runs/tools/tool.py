# SPDX-License-Identifier: GPL-2.0
"""What a wrapped tool is, and what all parsers share."""

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
"""Where a tool that writes its results as a file is told to write them."""


class Unreadable(Exception):
    """The output is not what the tool prints when it has worked; the message says what was seen."""


@dataclass(frozen=True)
class Output:
    """All that a tool left behind."""

    argv: Sequence[str]
    exit_status: int | None
    stdout: str
    stderr: str
    files: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str) -> str:
        """The value behind an option of the command line.

        Raises:
            Unreadable: it was not given.
        """
        if name not in self.argv[:-1]:
            raise Unreadable(f"{name} was not given")
        return self.argv[list(self.argv).index(name) + 1]

    def json_file(self) -> dict[str, Any]:
        """The file that the tool was told to write.

        Raises:
            Unreadable: there is none, or it is no JSON object.
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
        package: Debian's package; empty where there is none.
        version: arguments that print the version; none where there are none.
        parse: what the output of a run says.
        good: the exit statuses of its process after good work.
        variable: of the environment, that names the program where no package has it.
        build: how to get it where no package has it.
        server: what it talks to.
        program: where it has another name.
        driver: what starts it where one process is not all.
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
        """Where the program is."""
        named = os.environ.get(self.variable) if self.variable else None
        return shutil.which(named or self.program or self.name)

    def command(self) -> list[str]:
        """How it is started, before the arguments of a row."""
        return [*self.driver, self.path() or self.program or self.name]

    def missing(self) -> str:
        """What to say where it is not there."""
        if self.package:
            return f"{self.program or self.name} is not installed: package {self.package}"
        return f"{self.name} is in no package: {self.build}, then {self.variable}=/path/to/{self.name}"


def last_line(output: Output) -> str:
    """The last thing that it said, for messages."""
    lines = [line.strip() for line in (output.stdout + "\n" + output.stderr).splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def number(pattern: str, text: str, what: str) -> float:
    """The first group of a pattern as a number.

    Raises:
        Unreadable: it is not there.
    """
    found = re.search(pattern, text, re.M)
    if not found:
        raise Unreadable(f"no {what} in its output")
    return float(found.group(1))


def metric(name: str, unit: str, direction: Direction, kind: Kind, value: float, n: float = 1) -> Metric:
    """A metric; n may come from a parser as a float."""
    return Metric(name, unit, direction, kind, value, int(n))


def quantiles(name: str, unit: str, values: Mapping[str, float], n: float) -> list[Metric]:
    """Latencies by the name of their quantile."""
    return [metric(f"{name}.{quantile}", unit, "lower", "quantile", value, n) for quantile, value in values.items()]


def sampled(name: str, n: float) -> Metric:
    """How many samples there were: the work that has to be more than none."""
    return metric(f"{name}.samples", "samples", "neither", "exact", n, n)
