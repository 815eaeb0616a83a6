# SPDX-License-Identifier: GPL-2.0
"""Running the workloads of selftests/ in tests: compiled as for a guest, and writing only where a test wants it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from by_schema import validate
from schedlib.formats.run_file import Head, Metric, Reading, Run, run_of
from schedlib.guest import selftests
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.selftest_programs import DIRECTORY, program_sources

WORKLOADS = sorted(name for name, path in program_sources().items() if "WORKLOAD_MAIN(" in path.read_text())
"""All programs but that of the partitions."""

_SHORT = {
    "children": 4,
    "cycles": 50,
    "log-loops": 3,
    "rounds": 2,
    "seconds": 0.05,
    "slice-ms": 5,
    "warm-up": 0,
    "warm-up-ms": 0,
    "wakeups": 20,
}
_LONGER = _SHORT | {"log-loops": 8, "seconds": 0.3, "slice-ms": 50}
_LONG = {"log-loops": 20, "seconds": 3600, "sleep-ms": 60000, "slice-ms": 1000000}
_OPTION = re.compile(r'^\t\{ "([\w-]+)", [^,]+, (?:COUNT|NUMBER|DURATION), &\w+, ([\d.e]+),', re.M)


def _options(tool: str, values: Mapping[str, float]) -> tuple[str, ...]:
    """Those of these options that the program has, with these values, or the least that it takes."""
    rows = _OPTION.findall((DIRECTORY / f"{tool}.c").read_text())
    given = {name: max(values[name], float(least)) for name, least in rows if name in values}
    return tuple(word for name, value in given.items() for word in (f"--{name}", f"{value:g}"))


TINY = {tool: _options(tool, _SHORT) for tool in WORKLOADS}
"""Options for a very short run."""

MOVED = {tool: _options(tool, _LONGER) for tool in WORKLOADS if "ran_on(" in (DIRECTORY / f"{tool}.c").read_text()}
"""Options for a run that is long enough to move its threads, of the programs that see it."""

ENDLESS = {tool: words for tool in WORKLOADS if (words := _options(tool, _LONG))}
"""Options for a run that must be killed, of the programs that have any."""

_ANOTHER_MACHINE = re.compile(r"^1\.\.0 # SKIP .*\b(?:cluster|LLC|caches)\b", re.M)


EXCUSE = "others had|something else ran"
"""In the reason of a test that is skipped for what others had of the CPUs."""


@dataclass(frozen=True)
class Place:
    """Compiled programs, and an environment that keeps their files below `home`."""

    programs: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHED_LATENCY", "KSFT"))}
        return kept | {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home), "TMPDIR": str(self.home)}

    def command(self, *words: str | Path, **more: str) -> tuple[int, str]:
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=300, env=self.environment | more
        )
        return done.returncode, done.stdout + done.stderr

    def run(self, tool: str, *words: str | Path, **more: str) -> tuple[int, str]:
        return self.command(self.programs / tool, *words, **more)

    def tiny(self, tool: str, *words: str | Path, **more: str) -> tuple[int, str]:
        return self.run(tool, *TINY[tool], *words, **more)


def ended(found: tuple[int, str], code: int = 0) -> str:
    """The output of a program that has to end with this code. The test is skipped where the machine is too small."""
    if (code, found[0]) == (0, 4) and _ANOTHER_MACHINE.search(found[1]):
        pytest.skip(found[1])
    assert found[0] == code, found[1]
    return found[1]


def compile_program(series: Tree, source: Path, program: Path) -> None:
    selftests.compile_program(series, source, program, "-Werror", "-static", "-iquote", str(DIRECTORY))


KNOWN = {
    "machine_name": "m",
    "machine": "a target",
    "kernel": "7.3.4",
    "build_id": "b",
    "boot_id": "1",
    "configuration": "",
    "command_line": "x",
}
"""The smallest valid fingerprint."""


def plain(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(run)))
    validate(found, "run-1")
    return found


def storm(
    tool: str = "sleep_storm", *, minute: int = 0, sleeps: float = 5, fingerprint: Mapping[str, str] = KNOWN
) -> dict[str, Any]:
    """A run with the metrics of sleep_storm in the suite `quick`, as in its file."""
    metrics = (
        Metric("sleeps", "sleeps", "neither", "exact", sleeps, 5),
        Metric("sleeps_per_s", "sleeps/s", "higher", "rate", 7, 5),
        Metric("oversleep.p50", "ns", "lower", "quantile", 7, 5),
        Metric("oversleep.p99", "ns", "lower", "quantile", 9, 5),
    )
    return plain(run_of(Head(tool, f"2026-11-22T07:{minute:02}:00Z", 3.5 + minute, fingerprint), Reading(metrics)))


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    validate(found, "run-1")
    return found


def metrics(path: Path) -> dict[str, Any]:
    return {metric["name"]: metric for metric in document(path)["metrics"]}
