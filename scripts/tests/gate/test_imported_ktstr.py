# SPDX-License-Identifier: GPL-2.0
"""Sidecars of ktstr. Those in recorded/ktstr/ were made by hand from ktstr's source: recorded/SOURCES.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from campaigns import main
from foreign_files import ktstr
from test_imported import RECORDED, judged_values, read, refused

from schedlib.errors import SchedlineError
from schedlib.formats.run_file import NOT_RECORDED, Metric
from schedlib.formats.strict import MAXIMUM

OLD, NEW = "0.4.9-made.json", "0.50.0-made.json"
BOTH = (OLD, NEW)


def sidecar(name: str = NEW, **fields: Any) -> dict[str, Any]:
    """A sidecar with other values in some of its fields."""
    found: dict[str, Any] = json.loads((RECORDED / "ktstr" / name).read_text())
    return found | fields


def with_stats(name: str, **fields: Any) -> dict[str, Any]:
    found = sidecar(name)
    return found | {"stats": found["stats"] | fields}


def metrics(place: Path, found: Mapping[str, Any]) -> dict[str, Metric]:
    run = read(place, "a.ktstr.json", json.dumps(found)).runs[0][1]
    return {each.name: each for each in run.metrics}


def test_values_have_a_unit_and_a_direction(tmp_path: Path) -> None:
    found = read(tmp_path / "old", "a.ktstr.json", json.dumps(sidecar(OLD)))
    tool = "wake_beside_fio-1n2l4c1t"
    assert judged_values(found) == {
        (tool, "median_wake_latency_us"): (16, "us"),
        (tool, "p99_wake_latency_us"): (96.5, "us"),
        (tool, "payload.jobs.0.read.iops"): (51200, "iops"),
        (tool, "payload.jobs.0.read.lat_ns.mean"): (19250.5, "ns"),
    }
    found = read(tmp_path / "new", "a.ktstr.json", json.dumps(sidecar()))
    assert {name: value for (_, name), value in judged_values(found).items()} == {
        "median_wake_latency_us": (8, "us"),
        "p99_wake_latency_us": (60, "us"),
        "iteration_rate": (1500, "1/s"),
    }


DIRECTIONS = {
    "lower": "worst_spread worst_gap_ms worst_migration_ratio avg_imbalance_ratio avg_dsq_depth worst_run_delay_us "
    "worst_wake_latency_cv worst_wake_latency_tail_ratio worst_timer_latency_us request_p99_latency_us_whole "
    "taobench_serve_p50_us_whole schbench_msg_run_delay_ns_per_sched",
    "higher": "iteration_rate worst_iterations_per_cpu_sec worst_page_locality schbench_total_loops_per_cpu_sec "
    "taobench_fast_ops_per_cpu_sec_whole",
    "neither": "total_iterations total_migrations worst_iterations_per_worker taobench_slow_ops_per_cpu_sec_whole "
    "total_run_delay max_task_lat_cri rps_p50_whole total_irq_pressure_us",
}
"""Some of METRICS of 0.50.0, with its polarity; LowerBetter is lower, Informational is neither."""


def test_directions_are_those_of_the_registry(tmp_path: Path) -> None:
    names = {name: way for way, listed in DIRECTIONS.items() for name in listed.split()}
    typed = sidecar()["stats"].keys()
    found = metrics(tmp_path, with_stats(NEW, ext_metrics={name: 1.0 for name in names if name not in typed}))
    assert {name: found[name].direction for name in names} == names


def test_the_worst_of_a_name_stays_only_with_a_maximum(tmp_path: Path) -> None:
    found = metrics(
        tmp_path, with_stats(NEW, ext_metrics={"worst_p999_timer_latency_us": 7.0, "worst_run_delay_us": 9.0})
    )
    assert found["p999_timer_latency_us"].value == 7 and found["worst_run_delay_us"].value == 9
    assert MAXIMUM.search("worst_run_delay_us") and not MAXIMUM.search("p999_timer_latency_us")


def test_a_maximum_of_a_program_is_not_taken(tmp_path: Path) -> None:
    [fio] = sidecar(OLD)["metrics"]
    figures = [
        each | {"name": f"jobs.0.read.lat_ns.{name}"}
        for each, name in zip(fio["metrics"], ("p99", "max"), strict=False)
    ]
    found = metrics(tmp_path, sidecar(OLD, metrics=[fio | {"metrics": figures}]))
    assert [name for name in found if name.startswith("payload")] == ["payload.jobs.0.read.lat_ns.p99"]


def test_work_per_second_had_a_direction_until_it_was_per_second_of_cpu_time(tmp_path: Path) -> None:
    wanted = {"total_iterations": "higher", "total_migrations": "lower", "worst_iterations_per_worker": "higher"}
    for name, place in ((OLD, "old"), (NEW, "new")):
        found = metrics(tmp_path / place, sidecar(name))
        assert {each: found[each].direction for each in wanted} == (
            wanted if name == OLD else dict.fromkeys(wanted, "neither")
        )


def test_iterations_are_judged_if_nothing_better_is_there(tmp_path: Path) -> None:
    spinning = {"worst_median_wake_latency_us": 0.0, "worst_p99_wake_latency_us": 0.0}
    found = read(tmp_path, "a.ktstr.json", json.dumps(with_stats(OLD, **spinning) | {"metrics": []}))
    assert list(judged_values(found).values()) == [(88000, "iterations")]


def test_a_zero_of_an_old_sidecar_is_no_sample_and_of_a_new_one_is_a_value(tmp_path: Path) -> None:
    run = read(tmp_path / "old", "a.ktstr.json", json.dumps(sidecar(OLD))).runs[0][1]
    assert run.value("worst_page_locality") is None
    assert run.why_absent("worst_page_locality") == "nothing was sampled"
    run = read(tmp_path / "new", "a.ktstr.json", json.dumps(sidecar())).runs[0][1]
    assert run.value("worst_page_locality") == 0
    assert run.why_absent("worst_page_locality") is None
    assert run.why_absent("worst_cross_node_migration_ratio") == "nothing was sampled"


def test_what_a_sidecar_tells_is_in_the_fingerprint(tmp_path: Path) -> None:
    run = read(tmp_path / "old", "a.ktstr.json", json.dumps(sidecar(OLD))).runs[0][1]
    assert (run.fingerprint["kernel"], run.fingerprint["tool_version"]) == ("6.14.2 fedcba9", "abc1234")
    assert run.fingerprint["machine"] == "x86_64 Made CPU, 8 CPUs, 1 nodes, host's kernel 6.12.0-made"
    assert json.loads(run.fingerprint["settings"])["scheduler"] == "scx_rusty"
    assert (run.fingerprint["order"], f"{run.started:%FT%TZ}") == ("start times in the files", "2026-04-27T10:00:07Z")
    untold = sidecar(OLD, kernel_version=None, kernel_commit=None, host=None, project_commit=None)
    run = read(tmp_path / "untold", "a.ktstr.json", json.dumps(untold)).runs[0][1]
    assert {run.fingerprint[entry] for entry in ("kernel", "machine")} == {NOT_RECORDED}
    assert "tool_version" not in run.fingerprint


@pytest.mark.parametrize(("more", "code"), [((), 1), (({"metrics": [], "exit_code": 0},), 0)])
def test_figures_of_a_program_that_failed_or_was_not_alone_are_absent(
    more: tuple[dict[str, Any], ...], code: int, tmp_path: Path
) -> None:
    fio = sidecar(OLD)["metrics"][0]
    found = sidecar(OLD, metrics=[fio | {"exit_code": code}, *more])
    run = read(tmp_path, "a.ktstr.json", json.dumps(found)).runs[0][1]
    assert not [each for each in run.metrics if each.name.startswith("payload")]
    assert "nothing says whose" in str(run.why_absent("payload.jobs.0.read.iops"))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"passed": False, "skipped": True}, "the test was skipped"),
        # Up to 0.4.9 a skipped test has passed, too.
        ({"skipped": True}, "the test was skipped"),
        ({"expected_failure": True}, "the test was meant to fail"),
    ],
)
def test_a_test_that_did_not_run_is_told_and_gives_no_value(fields: dict[str, Any], why: str, tmp_path: Path) -> None:
    alone = json.dumps(sidecar(**fields))
    assert "no file of a known format with a result; it has 1 others" in refused(tmp_path, "a.ktstr.json", alone)
    found = read(tmp_path, "b.ktstr.json", json.dumps(sidecar()))
    assert [name for name, _ in found.runs] == ["b.ktstr.json"]
    assert found.notes == (f"{tmp_path}: skipped 1 file: ktstr sidecar: {why}",)


@pytest.mark.parametrize("name", BOTH)
def test_a_test_that_failed_is_an_error(name: str, tmp_path: Path) -> None:
    read(tmp_path, "a.ktstr.json", json.dumps(sidecar(name)))
    said = refused(tmp_path, "b.ktstr.json", json.dumps(sidecar(name, passed=False, inconclusive=True)))
    assert "b.ktstr.json: it looks like ktstr sidecar, but: the test wake_" in said and "did not pass" in said


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: without(found, "stats"), "missing required field `stats`"),
        (lambda found: without(found, "passed"), "missing required field `passed`"),
        (lambda found: found | {"skipped": "no"}, "Expected `bool`, got `str` - at `$.skipped`"),
        (lambda found: found | {"stats": without(found["stats"], "worst_gap_ms")}, "missing required field `worst_"),
        (lambda found: found | {"stats": found["stats"] | {"worst_spread": "3"}}, "at `$.stats.worst_spread`"),
        # This is how ktstr writes what is not finite.
        (lambda found: found | {"stats": found["stats"] | {"worst_spread": None}}, "at `$.stats.worst_spread`"),
        (lambda found: found | {"stats": found["stats"] | {"ext_metrics": {"x": True}}}, "Expected `float`"),
        (lambda found: found | {"stats": found["stats"] | {"worst_gap_ms": -1}}, "worst_gap_ms is negative"),
        (lambda found: found | {"timestamp": ""}, "Invalid RFC3339 encoded datetime - at `$.timestamp`"),
        (lambda found: found | {"throughput_denomination": "steps"}, "Invalid enum value 'steps'"),
        (lambda found: found | {"metrics": [{"exit_code": 0}]}, "missing required field `metrics` - at `$.metrics"),
    ],
)
def test_bad_sidecar(name: str, change: Any, message: str, tmp_path: Path) -> None:
    assert message in refused(tmp_path, "a.ktstr.json", json.dumps(change(sidecar(name))))


def test_a_sidecar_that_is_cut_off(tmp_path: Path) -> None:
    text = (RECORDED / "ktstr" / NEW).read_text()
    assert "no whole JSON document" in refused(tmp_path, "a.ktstr.json", text[:-1])


def test_a_dump_beside_a_sidecar_is_no_result(tmp_path: Path) -> None:
    read(tmp_path, "a.ktstr.json", json.dumps(sidecar()))
    found = read(tmp_path, "a.failure-dump.json", json.dumps({"schema": "single", "maps": []}))
    assert [name for name, _ in found.skipped] == ["a.failure-dump.json"]


TURNS = [0, 3, 4, 7, 8, 11, 12, 15, 16, 19]
OTHERS = [slot + 1 if slot % 2 == 0 else slot - 1 for slot in TURNS]


def test_two_kernels_are_compared_test_by_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ktstr(ktstr(tmp_path / "base", TURNS), TURNS, test_name="wake_storm")
    same = ktstr(ktstr(tmp_path / "same", OTHERS, kernel_version="7.1.0"), OTHERS, test_name="wake_storm")
    with pytest.raises(SchedlineError, match="mixes runs whose kernel differs"):
        main(["gate", str(base), str(same), "--unit", "boot", "--trust"])
    ktstr(same, OTHERS, kernel_version="7.1.0", test_name="wake_storm")
    assert main(["gate", str(base), str(same), "--unit", "boot", "--trust"]) == 0
    said = capsys.readouterr().out
    assert "wake_storm-1n1l4c1t" in said and "wake_steady-1n1l4c1t" in said
    assert "machine not recorded" not in said
    slow = ktstr(tmp_path / "slow", OTHERS, 1.5, kernel_version="7.1.0")
    ktstr(slow, OTHERS, kernel_version="7.1.0", test_name="wake_storm")
    assert main(["gate", str(base), str(slow), "--unit", "boot", "--trust"]) == 1


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"scheduler": "scx_rusty"}, "settings of wake_steady-1n1l4c1t differs"),
        # As in versions that counted work per second.
        ({"throughput_denomination": "wall"}, "settings of wake_steady-1n1l4c1t differs"),
        ({"project_commit": "fedcba9"}, "tool_version of wake_steady-1n1l4c1t differs"),
        ({"host": {"cpu_model": "Other CPU"}}, "machine differs"),
    ],
)
def test_what_else_differs_is_refused(fields: dict[str, Any], differs: str, tmp_path: Path) -> None:
    base, other = ktstr(tmp_path / "base", TURNS), ktstr(tmp_path / "other", OTHERS, **fields)
    with pytest.raises(SchedlineError, match=differs):
        main(["gate", str(base), str(other), "--unit", "boot", "--trust"])


def test_two_schedulers_are_compared_on_purpose(tmp_path: Path) -> None:
    base, other = ktstr(tmp_path / "base", TURNS), ktstr(tmp_path / "other", OTHERS, scheduler="scx_rusty")
    slow = ktstr(tmp_path / "slow", OTHERS, 1.5, scheduler="scx_rusty")
    gates = tmp_path / "gates.toml"
    gates.write_text(
        '[gate]\ncompared = ["settings"]\n[[metric]]\ntool = "wake_steady-1n1l4c1t"\nname = "p99_wake_latency_us"\n'
        'direction = "lower"\nmethod = "rank"\nbudget = 3\ndetect = 15\n'
    )
    words = ["--unit", "boot", "--trust", "--gates", str(gates)]
    assert main(["gate", str(base), str(other), *words]) == 0
    assert main(["gate", str(base), str(slow), *words]) == 1


def test_a_test_that_one_kernel_skips_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ktstr(ktstr(tmp_path / "base", TURNS), TURNS, test_name="wake_storm")
    skips = ktstr(tmp_path / "skips", OTHERS)
    ktstr(skips, OTHERS, test_name="wake_storm", passed=False, skipped=True)
    assert main(["gate", str(base), str(skips), "--unit", "boot", "--trust"]) == 2
    said = " ".join(capsys.readouterr().out.split())
    assert "skipped 10 files: ktstr sidecar: the test was skipped" in said
    assert "candidate lacks it" in said
