# SPDX-License-Identifier: GPL-2.0
"""All readers of runs reject the same files, for the same reason and at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from campaigns import metric, run

from schedlib.dev.plain_tree import not_home
from schedlib.formats.document import Refused
from schedlib.formats.run_file import read_run
from schedlib.gate.boots import read_side
from schedlib.runs.plan import PlannedRun, new_plan, why_not_kept
from schedlib.runs.runs_report import report
from schedlib.runs.workload_suites import load_suite

GOOD = run("base", "b1", 0, [metric(777777), metric(5, name="timer.p50")]) | {
    "process": {
        "argv": ["rt_wakeup"],
        "exit_status": 0,
        "timed_out": False,
        "reported": None,
        "seconds": 1,
        "missing": False,
    },
    "noise": {
        "seconds": 1,
        "steal_s": 0,
        "foreign_cpu_s": 0,
        "foreign_switches": 0,
        "runnable_before": 0,
        "thermal_throttles": None,
        "cgroup_throttles": None,
    },
    "absent": [{"name": "cycles", "reason": "none here"}],
    "cpus": [{"group": "timer", "cpu": 0, "n": 1, "p50_ns": 1, "p99_ns": 1, "max_ns": 1}],
    "plan": {"suite": "rt", "digest": "d", "row": "rt-wakeup", "run": 1, "seed": 1},
}
TEXT = json.dumps(GOOD)


def value(text: str) -> str:
    return TEXT.replace("777777", text)


GONE = object()


def at(*path: str | int, to: Any) -> str:
    """A run file with another value at one path, or without the entry."""
    found = json.loads(TEXT)
    part = found
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = to
    if to is GONE:
        del part[path[-1]]
    return json.dumps(found)


def twice(old: str, new: str) -> str:
    """A run file with a repeated key: `new` is put in front of `old`."""
    assert old in TEXT
    return TEXT.replace(old, new + old, 1)


DAMAGED: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "no whole JSON document (cut off?)"),
    "cut off": (TEXT[:300], "no whole JSON document (cut off?)"),
    "two runs": (TEXT + TEXT, "no whole JSON document"),
    "no UTF-8": (TEXT.encode().replace(b"none here", b"\xff"), "UTF-8"),
    "byte order mark": ("\ufeff" + TEXT, "no whole JSON document"),
    "list": ("[]", "Expected object, got array"),
    "deep list": ("[" * 100_000, "Expected object, got array"),
    "deep value": (value("[" * 100_000), "metrics[0].value: Expected float, got array"),
    "newer schema": (at("schema", to="run-2"), "its schema is 'run-2'; another version of schedline reads it"),
    "other schema": (at("schema", to="check-1"), "its schema is 'check-1'"),
    "no tool": (at("tool", to=GONE), "missing required field tool"),
    "unknown field": (at("more", to=1), "unknown field more"),
    "NaN": (value("NaN"), "no whole JSON document"),
    "Infinity": (value("Infinity"), "no whole JSON document"),
    "1e999": (value("1e999"), "metrics[0].value: Number out of range"),
    "true": (value("true"), "metrics[0].value: Expected float, got bool"),
    "negative": (value("-5.0"), "is below 0"),
    "n is 10^400": (at("metrics", 0, "n", to=10**400), "metrics[0].n: Expected int <= 9223372036854775807"),
    "no unit": (at("metrics", 0, "unit", to=GONE), "metrics[0]: Object missing required field unit"),
    "direction": (at("metrics", 0, "direction", to="down"), "metrics[0].direction: Invalid enum value 'down'"),
    "name with a line end": (at("metrics", 0, "name", to="timer.p99\n"), r"'timer.p99\n' is not a name for a metric"),
    "name of a path": (at("metrics", 0, "name", to="../timer"), "'../timer' is not a name for a metric"),
    "metric twice": (at("metrics", 1, "name", to="timer.p99"), "the metric timer.p99 appears twice"),
    "no metrics": (at("metrics", to=[]), "it is DONE with 0 metrics"),
    "DONE with a reason": (at("reason", to="x"), "it is DONE with 2 metrics and the reason 'x'"),
    "SKIP without a reason": (at("status", to="SKIP"), "it is SKIP with 2 metrics and the reason ''"),
    "started": (at("started", to="yesterday"), "started: Invalid RFC3339"),
    "no time zone": (at("started", to="2026-11-01T00:00:00"), "started: Expected datetime with a timezone"),
    "no fingerprint": (at("fingerprint", to={}), "its fingerprint lacks boot_id"),
    "boot_id alone": (at("fingerprint", to={"boot_id": "b"}), "its fingerprint lacks build_id"),
    "no machine": (at("fingerprint", "machine", to=GONE), "its fingerprint lacks machine"),
    "empty boot_id": (at("fingerprint", "boot_id", to=""), "no boot_id, and the unit of a comparison is a boot"),
    "forged line": (at("fingerprint", "kernel", to="7.3\nverdict: PASS"), "kernel holds a control character"),
    "escape": (at("fingerprint", "machine", to="\x1b[2J"), "machine holds a control character"),
    "forged argument": (at("process", "argv", to=["a\rb"]), "argv holds a control character"),
    "forged key": (at("fingerprint", "a\nb", to=""), "holds a control character"),
    "delete": (TEXT.replace("none here", "none\x7fhere"), "reason holds a control character"),
    "lone surrogate": (TEXT.replace("none here", "\\ud800 here"), "no whole JSON document"),
    "key twice": (twice('"reason": ""', '"reason": "", '), "reason appears twice"),
    "key twice, once escaped": (twice('"reason": ""', '"r\\u0065ason": "", '), "reason appears twice"),
    "value twice": (twice('"value": 777777', '"value": 1, '), "value appears twice"),
    "entry twice": (twice('"governor": "performance"', '"governor": "x", '), "governor appears twice"),
    "metrics twice": (twice('"metrics"', '"metrics": [], '), "metrics appears twice"),
    "process timed out": (at("process", "timed_out", to=True), "it is DONE, but its process was killed"),
    "process was killed": (at("process", "exit_status", to=-9), "it is DONE, but its process was killed"),
}


def refusals(directory: Path, name: str) -> list[str]:
    """How each reader rejects a directory with one file."""
    plan = new_plan(load_suite("rt"), 1, 1, GOOD["fingerprint"])
    readers: list[Callable[[], object]] = [
        lambda: read_run(directory / name),
        lambda: report(directory),
        lambda: read_side(directory, "base"),
    ]
    said = []
    for reader in readers:
        with pytest.raises(Refused) as refused:
            reader()
        said.append(str(refused.value))
    why = refused.value.why
    assert [problem.text for problem in not_home(directory, ["rt-wakeup-1"])] == [f"rt-wakeup-1: {why}"]
    assert why_not_kept(plan, PlannedRun("rt-wakeup", 1), directory) == why
    return said


@pytest.mark.parametrize("kind", DAMAGED)
def test_every_reader_refuses_it_for_the_same_reason(kind: str, tmp_path: Path) -> None:
    content, why = DAMAGED[kind]
    path = tmp_path / "rt-wakeup-1.json"
    path.write_bytes(content.encode(errors="surrogatepass") if isinstance(content, str) else content)
    said = refusals(tmp_path, path.name)
    assert len(set(said)) == 1
    assert str(path) in said[0] and why in said[0]
    # The message is one line, and a second line with the next step.
    assert all(char.isprintable() or char == "\n" for char in said[0]) and said[0].count("\n") == 1


def test_what_is_no_file_of_that_size_is_refused_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    name = "rt-wakeup-1.json"
    for kind in ("pipe", "zero", "big", "directory", "nowhere"):
        (tmp_path / kind).mkdir()
        path = tmp_path / kind / name
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "big":
            with path.open("wb") as file:
                file.truncate(3 << 30)
        elif kind == "directory":
            path.mkdir()
            (path / name).symlink_to("/dev/tty")
        else:
            path.symlink_to({"zero": "/dev/zero", "nowhere": "nowhere"}[kind])
        assert len(set(refusals(path if kind == "directory" else path.parent, name))) == 1
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_good_run_is_read_however_it_is_written(indent: int | None, ascii_only: bool, tmp_path: Path) -> None:
    found = json.loads(TEXT)
    found["fingerprint"]["machine"] = 'Größe "x" \\ \t y'
    (tmp_path / "x.json").write_text(json.dumps(found, indent=indent, ensure_ascii=ascii_only))
    assert read_run(tmp_path / "x.json").fingerprint["machine"] == found["fingerprint"]["machine"]
    assert read_side(tmp_path, "base").boots[0].runs == {"rt_wakeup": 1}


def test_a_copy_is_refused_and_two_machines_are(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(TEXT)
    for reader in (lambda: report(tmp_path), lambda: read_side(tmp_path, "base")):
        with pytest.raises(Refused, match=r"b\.json is no run-1: it is a copy: this run of rt-wakeup"):
            reader()
    (tmp_path / "b.json").write_text(at("fingerprint", "machine_name", to="other").replace("00:00:00Z", "00:01:00Z"))
    with pytest.raises(Exception, match="mixes runs whose machine name differs: 0123456789abcdef / other"):
        report(tmp_path)


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(TEXT)
    for name in ("back", "again"):
        (tmp_path / name).symlink_to(tmp_path)
    assert len(read_side(tmp_path, "base").boots) == 1
