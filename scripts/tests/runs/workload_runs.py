# SPDX-License-Identifier: GPL-2.0
"""Running the workloads of selftests/ in tests: compiled as for a guest, and writing only where a test wants it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from by_schema import validate
from schedlib.formats.run_file import Head, Metric, Reading, Run, run_of
from schedlib.guest import selftests
from schedlib.paths import SELFTESTS
from schedlib.tree.kernel_tree import Tree

DIRECTORY = SELFTESTS / "sched_latency"

WORKLOADS = sorted(path.stem for path in DIRECTORY.glob("*.c") if "WORKLOAD_MAIN(" in path.read_text())
"""All programs but that of the partitions."""

TINY: Mapping[str, tuple[str, ...]] = {
    "cpumask_contention": ("--rounds", "1", "--seconds", "0.02"),
    "rt_push_pull": ("--seconds", "0.05", "--warm-up", "0"),
    "rt_wakeup": ("--cycles", "50", "--warm-up", "0"),
    "sleep_storm": ("--children", "4", "--log-loops", "3"),
    "wakeup_pingpong": ("--rounds", "2", "--slice-ms", "5", "--warm-up-ms", "0"),
}
"""Options for a very short run."""

ENDLESS: Mapping[str, tuple[str, ...]] = {
    "cpumask_contention": ("--seconds", "3600"),
    "rt_push_pull": ("--seconds", "3600"),
    "rt_wakeup": ("--seconds", "3600"),
    "sleep_storm": ("--sleep-ms", "60000", "--log-loops", "20"),
    "wakeup_pingpong": ("--slice-ms", "1000000"),
}
"""Options for a run that must be killed."""


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
    """The output of a program that has to end with this code."""
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
