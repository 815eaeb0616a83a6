# SPDX-License-Identifier: GPL-2.0
"""A result file that another tool wrote, and what a parser takes from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

from schedlib.formats.document import keys_once
from schedlib.formats.run_file import Reading
from schedlib.runs.tools.tool import Output, Unreadable
from schedlib.runs.tools.tool_table import TOOLS


@dataclass(frozen=True)
class ResultFile:
    """The content of a file.

    Attributes:
        columns: what --columns says of a CSV file, else empty.
        name: without its directory. Only for a format whose content alone does not tell what it is.
    """

    text: str
    columns: tuple[str, ...] = ()
    name: str = ""

    @cached_property
    def json(self) -> Any:
        """Its JSON value, or None if it is not JSON."""
        try:
            return json.loads(self.text, parse_constant=_no_number, object_pairs_hook=keys_once)
        except (ValueError, RecursionError):
            return None

    def has(self, *keys: str) -> bool:
        """Whether it is a JSON object with these keys."""
        return isinstance(self.json, dict) and self.json.keys() >= set(keys)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


@dataclass(frozen=True)
class ForeignRun:
    """One run, as its file tells it.

    Attributes:
        started: with time zone; None if the file does not tell it.
        about: fingerprint entries that the file tells: kernel, machine_name, command_line, settings, tool_version.
        boot: the boot that it belongs to, if the file tells it. A file without it is one boot, or part of one.
    """

    tool: str
    reading: Reading
    started: datetime | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    boot: str = ""


@dataclass(frozen=True)
class ForeignFormat:
    """A kind of result file.

    Attributes:
        make: the command that writes such a file.
        judged: patterns of names of metrics that are judged without a gates file. Of several alternatives the first
            counts that a run has.
        recognises: whether a file is of this kind, by its content.
        read: the runs in a file; Unreadable, or any error of a lookup, if it is not what the tool writes.
    """

    name: str
    make: str
    judged: tuple[tuple[str, ...], ...]
    recognises: Callable[[ResultFile], bool]
    read: Callable[[ResultFile], Sequence[ForeignRun]]


def wrapped_tool(name: str, argv: Sequence[str] = (), stdout: str = "", **files: str) -> Reading:
    """Read an output with the parser that `schedline run` has for this tool.

    Args:
        files: the files that the tool wrote, by name; `_` stands for the dot.

    Raises:
        Unreadable: it is not what the tool prints.
    """
    written = {key.replace("_", "."): text for key, text in files.items()}
    reading = TOOLS[name].parse(Output(argv, 0, stdout, "", written))
    if wrong := reading.error or reading.cannot:
        raise Unreadable(wrong)
    if reading.reported:
        raise Unreadable(f"{name} reports that it failed: {reading.reported}")
    return reading


def kernel_of(system: Mapping[str, str]) -> dict[str, str]:
    """Fingerprint entries from what uname told: release, version, nodename."""
    return {"kernel": f"{system['release']} {system['version']}", "machine_name": system["nodename"]}
