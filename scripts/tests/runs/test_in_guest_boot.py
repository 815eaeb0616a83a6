# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest` with a real kernel: the one that the other arm64 tests boot, too."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from by_schema import validate
from schedlib.gate.boots import read_side
from schedlib.kernel.machine import boot_id, running_build_id
from schedlib.paths import PROJECT

pytestmark = pytest.mark.guest

ROWS = {"storm-quick": "sleeps", "rt-wakeup-quick": "timer.samples"}


def test_workloads_of_a_guest_come_home(tmp_path: Path) -> None:
    argv = [str(PROJECT / "scripts/schedline"), "run", "--in-guest", "--on", "qemu-arm64", "--only", ",".join(ROWS)]
    argv += ["--out", str(tmp_path / "out")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    for row, work in ROWS.items():
        found = json.loads(next((tmp_path / "out").glob(f"*/{row}-1.json")).read_text())
        validate(found, "run-1")
        assert found["status"] == "DONE"
        assert found["fingerprint"]["boot_id"] not in ("", boot_id())
        assert found["fingerprint"]["build_id"] not in ("", running_build_id())
        assert "CPUs 0-7," in found["fingerprint"]["machine"]
        assert next(metric["value"] for metric in found["metrics"] if metric["name"] == work)
    assert len(read_side(tmp_path / "out", "guest").boots) == 1
