# SPDX-License-Identifier: GPL-2.0
"""Run files whose values are made up, the gate on them, and a figure with its goal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schedlib.paths import PROJECT

_KNOWN = ("machine_name", "machine", "configuration", "command_line")


@dataclass(frozen=True)
class Figure:
    """A measured figure and its goal."""

    name: str
    value: float
    goal: str
    unit: str

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.2f} {self.unit} (goal {self.goal})"


def made_run(
    kernel: str, boot: str, started: datetime, values: Sequence[float], machine: str = "x"
) -> dict[str, object]:
    """A run of rt_wakeup as a run file has it, with a metric for each value, in ns."""
    about = {"kernel": f"7.3-{kernel}", "build_id": kernel, "boot_id": boot, "machine": machine}
    metric = {"unit": "ns", "direction": "lower", "kind": "quantile", "n": 1000}
    return {
        "schema": "run-1",
        "tool": "rt_wakeup",
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptime_s": 60.0,
        "fingerprint": dict.fromkeys(_KNOWN, "x") | about,
        "status": "DONE",
        "reason": "",
        "metrics": [metric | {"name": f"timer.p{number}", "value": value} for number, value in enumerate(values)],
        "absent": [],
        "cpus": [],
    }


def timed_gate(words: Sequence[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Seconds that `schedline gate` takes with these words, imports included, and what it did."""
    argv = [sys.executable, str(PROJECT / "scripts/schedline"), "gate", *words]
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return time.monotonic() - start, done
