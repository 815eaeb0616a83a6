# SPDX-License-Identifier: GPL-2.0
"""`schedline run --in-guest` with a real kernel: one workload and, where it is installed, one tool."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from schedlib.gate.runs import read_side
from schedlib.paths import PROJECT
from schedlib.workloads.machine import boot_id, build_id
from workload_runs import SCHEMA

pytestmark = pytest.mark.guest

TOOL = "cyclictest" if shutil.which("cyclictest") else ""


def test_workloads_of_a_guest_come_home(tmp_path: Path) -> None:
    rows = ["storm-quick", "cyclictest-quick"]
    argv = [str(PROJECT / "scripts/schedline"), "run", "--in-guest", "--only", ",".join(rows)]
    argv += ["--out", str(tmp_path / "out")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    # A required tool that is not there is an error, and nothing else is.
    assert done.returncode == (0 if TOOL else 2), done.stdout + done.stderr
    for row in rows[: 2 if TOOL else 1]:
        found = json.loads((tmp_path / f"out/{row}-1.json").read_text())
        jsonschema.validate(found, SCHEMA)
        assert found["status"] == "DONE"
        assert found["fingerprint"]["boot_id"] not in ("", boot_id())
        assert found["fingerprint"]["build_id"] not in ("", build_id())
        assert "CPUs 0-7," in found["fingerprint"]["machine"]
        assert next(metric["value"] for metric in found["metrics"] if metric["name"] in ("sleeps", "latency.samples"))
    assert len(read_side(tmp_path / "out", "guest").boots) == 1
