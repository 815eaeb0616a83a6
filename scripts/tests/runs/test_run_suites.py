# SPDX-License-Identifier: GPL-2.0
"""The suites of configs/workloads/, and the order and the plan of their runs."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from workload_runs import KNOWN, plain

from schedlib.cache import write_json
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.run_file import Head, Metric, Reading, run_of
from schedlib.names import workload_rows
from schedlib.paths import PLAN
from schedlib.runs import workload_suites
from schedlib.runs.plan import PlannedRun, new_plan, read_plan, refuse_another, shuffled, why_not_kept
from schedlib.runs.workload_suites import load_suite, suite_names

MACHINE = {"machine_name": "m", "kernel": "7.3", "build_id": "b", "boot_id": "1"}


def test_rows_are_known_without_reading_them() -> None:
    for name in suite_names():
        assert workload_rows(name) == tuple(load_suite(name).rows)


def test_the_commands_of_the_mails_are_theirs_and_groups_are_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: row.arguments for name, row in load_suite("mails").rows.items()}
    cyclictest = list(rows["cyclictest-mail"])
    assert cyclictest[:7] == ["-t", "-i200", "-h", "32", "-m", "-p", "95"]
    assert cyclictest[cyclictest.index("-D") + 1] == "60"
    assert rows["storm-mail"] == ("-m", "1", "-l", "13", "-c", "4800")
    assert {"--cyclic", "{cpus}", "--cyclic-policy", "fifo", "--minimize"} <= set(rows["stress-ng-mail"])
    ffmpeg = next(row for row in load_suite("mails").rows.values() if row.tool == "ffmpeg")
    assert ffmpeg.to_argv()[0] == "--seconds" and ffmpeg.realtime and not ffmpeg.required
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3})
    row = next(row for row in load_suite("rt").rows.values() if row.tool == "pi_stress")
    assert row.to_argv()[row.to_argv().index("-g") + 1] == "1"


ROW = 'seconds = 1\nwork = "tasks"\nmetrics = { "tasks" = "tasks" }\n'
TOOL = '[rows.a]\ntool = "hackbench"\n'
WORK = 'work = "x"\nseconds = 1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"[rows.a]\n{ROW}", "mine.toml:2: rows.a must name either a tool or a program"),
        (f'[rows.a]\ntool = "hackbnch"\n{ROW}', "an unknown tool: hackbnch\n  next: did you mean hackbench?"),
        (f'[rows.a]\nprogram = "rt_wakup"\n{ROW}', "unknown program: rt_wakup\n  next: did you mean rt_wakeup?"),
        (f"{TOOL}secnds = 1\n{ROW}", "4: rows.a.secnds is unknown\n  next: did you mean"),
        (TOOL + WORK, "mine.toml:2: rows.a lacks metrics"),
        (f"{TOOL}{WORK}metrics = {{}}\n", "mine.toml:6: rows.a.metrics is"),
        (f'{TOOL}{WORK}metrics = {{ "y" = "s" }}\n', "not one of its metrics: x"),
        (f'{TOOL}arguments = ["{{cpu}}"]\n{ROW}', "an unknown name in braces: 'cpu'"),
        (f'[rows.A]\ntool = "hackbench"\n{ROW}', "rows.A.name is 'A'"),
        ('include = ["quikc"]\n', "2: include names an unknown suite: quikc\n  next: did you mean quick?"),
        ("", "has no rows"),
        ("[rows", "Expected"),
    ],
)
def test_a_wrong_row_is_named(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_suites, "SUITES", tmp_path)
    (tmp_path / "quick.toml").touch()
    (tmp_path / "mine.toml").write_text('about = "x"\n' + text)
    with pytest.raises(SchedlineError, match=re.escape(message)):
        load_suite("mine")


def test_the_order_is_random_seeded_and_interleaved() -> None:
    rows = [f"row-{number}" for number in range(8)]
    order = shuffled(rows, 5, 7)
    assert order == shuffled(rows, 5, 7)
    assert order != shuffled(rows, 5, 8)
    rounds = [order[start : start + 8] for start in range(0, 40, 8)]
    # Each round has each row once, and the order differs between rounds.
    assert all(sorted(run.row for run in each) == rows for each in rounds)
    assert len({tuple(run.row for run in each) for each in rounds}) > 1
    assert {run.number for run in rounds[2]} == {3}


def test_a_directory_belongs_to_one_plan(tmp_path: Path) -> None:
    suite = load_suite("quick")
    plan = new_plan(suite, 3, 42, MACHINE)
    document.write(tmp_path / PLAN, plan)
    assert read_plan(tmp_path / PLAN) == plan
    assert "boot_id" not in plan.machine
    refuse_another(plan, new_plan(suite, 3, 1, MACHINE | {"boot_id": "2"}), tmp_path)
    others = {
        "runs of the suite quick": new_plan(load_suite("rt"), 3, 42, MACHINE),
        "--runs 3, not 4": new_plan(suite, 4, 42, MACHINE),
        "another kernel: 7.3, here it is 7.4": new_plan(suite, 3, 42, MACHINE | {"kernel": "7.4"}),
        "another build id": new_plan(suite, 3, 42, MACHINE | {"build_id": "c"}),
        "have changed since": msgspec.structs.replace(plan, digest="other"),
    }
    for message, other in others.items():
        with pytest.raises(SchedlineError, match=message):
            refuse_another(plan, other, tmp_path)
    (tmp_path / PLAN).write_text('{"schema": "plan-1"')
    with pytest.raises(SchedlineError, match="is no plan-1"):
        read_plan(tmp_path / PLAN)


def test_only_a_valid_measurement_of_this_plan_is_kept(tmp_path: Path) -> None:
    plan = new_plan(load_suite("quick"), 1, 42, MACHINE)
    run = PlannedRun("hackbench-quick", 1)
    head = Head("hackbench", "2026-11-22T04:34:01Z", 1.0, KNOWN)
    reading = Reading((Metric("tasks", "tasks", "neither", "exact", 40, 1),))
    good = plain(msgspec.structs.replace(run_of(head, reading), plan=plan.part(run)))
    assert why_not_kept(plan, run, tmp_path) == "No such file or directory"
    write_json(tmp_path / run.file, good)
    assert why_not_kept(plan, run, tmp_path) is None
    (tmp_path / run.file).write_text((tmp_path / run.file).read_text()[:-40])
    assert "no whole JSON document" in (why_not_kept(plan, run, tmp_path) or "")
    for bad in (
        good | {"plan": msgspec.to_builtins(plan.part(PlannedRun("hackbench-quick", 2)))},
        good | {"schema": "run-2"},
        good | {"metrics": []},
        good | {"metrics": [{"name": "tasks"}]},
        {key: value for key, value in good.items() if key != "uptime_s"},
        good | {"status": "ERROR", "reason": "killed", "metrics": []},
        good | {"status": "SKIP", "reason": "missing", "metrics": []},
    ):
        write_json(tmp_path / run.file, bad)
        assert why_not_kept(plan, run, tmp_path)
