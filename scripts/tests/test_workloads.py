# SPDX-License-Identifier: GPL-2.0
"""The workloads of selftests/, built as the guest builds them and run for real, tiny."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from schedlib import results
from schedlib.cache import cache_dir
from schedlib.paths import SELFTESTS
from schedlib.trees import Tree, fetch_series

pytestmark = pytest.mark.guest

DIRECTORY = SELFTESTS / "sched_latency"
SCHEMA = json.loads((Path(results.__file__).parent / "schemas" / "run-1.json").read_text())

TINY: Mapping[str, tuple[str, ...]] = {
    "rt_wakeup": ("--cycles", "50", "--warm-up", "0"),
    "wakeup_pingpong": ("--rounds", "2", "--slice-ms", "5", "--warm-up-ms", "0"),
}
"""Options for a run that takes no time to speak of."""

ENDLESS: Mapping[str, tuple[str, ...]] = {
    "rt_wakeup": ("--seconds", "3600"),
    "wakeup_pingpong": ("--slice-ms", "1000000"),
}
"""Options for a run that somebody has to kill."""


@dataclass(frozen=True)
class Place:
    """Compiled programs, and an environment that writes nowhere else."""

    programs: Path
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCHED_LATENCY", "KSFT"))}
        return kept | {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home), "TMPDIR": str(self.home)}

    def command(self, *words: str | Path, **more: str) -> tuple[int, str]:
        """Exit code and output."""
        done = subprocess.run(
            words, check=False, capture_output=True, text=True, timeout=300, env=self.environment | more
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def run(self, tool: str, *words: str | Path, **more: str) -> tuple[int, str]:
        return self.command(self.programs / tool, *words, **more)

    def tiny(self, tool: str, *words: str | Path, **more: str) -> tuple[int, str]:
        return self.run(tool, *TINY[tool], *words, **more)


@pytest.fixture(scope="session")
def series() -> Tree:
    """Debian's 7.3, fetched when it is not there."""
    return fetch_series(cache_dir(), "7.3")


@pytest.fixture(scope="session")
def programs(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, compiled as for a guest."""
    directory = tmp_path_factory.mktemp("programs")
    headers = series.src / "tools/testing/selftests/sched"
    for tool in TINY:
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-static", "-iquote", str(headers)]
        subprocess.run(["gcc", *flags, "-o", directory / tool, DIRECTORY / f"{tool}.c"], check=True)
    return directory


@pytest.fixture
def place(programs: Path, tmp_path: Path) -> Place:
    return Place(programs, tmp_path)


def document(path: Path) -> dict[str, Any]:
    """A run, by the schema."""
    found: dict[str, Any] = json.loads(path.read_text())
    jsonschema.validate(found, SCHEMA)
    return found


def metrics(path: Path) -> dict[str, Any]:
    return {metric["name"]: metric for metric in document(path)["metrics"]}


def realtime() -> bool:
    """May this process have SCHED_FIFO?"""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except PermissionError:
        return False
    return True


needs_realtime = pytest.mark.skipif(not realtime(), reason="SCHED_FIFO is refused here")


def tools(*names: str) -> Sequence[Any]:
    """As parameters; those that need SCHED_FIFO are skipped where there is none."""
    return [pytest.param(name, marks=needs_realtime if name.startswith("rt_") else ()) for name in names or TINY]


@pytest.mark.parametrize("tool", tools())
def test_a_run_is_a_file_by_the_schema(tool: str, place: Place, tmp_path: Path) -> None:
    code, said = place.tiny(tool, "--json", tmp_path / "run.json")
    assert code == 0, said
    assert "not ok" not in said
    found = document(tmp_path / "run.json")
    assert (found["tool"], found["status"]) == (tool, "DONE")
    assert tool in found["fingerprint"]["command_line"]
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() == found["fingerprint"]["boot_id"]
    # The same run is kept for latency_thresholds.sh, in a directory that nobody else can write to.
    kept = tmp_path / f"sched_latency-{os.geteuid()}"
    assert document(kept / f"{tool}.json") == found
    assert kept.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("tool", tools())
def test_output_is_ktap_with_a_plan_and_the_listed_names(tool: str, place: Place) -> None:
    _, said = place.tiny(tool)
    lines = said.splitlines()
    assert lines[0] == "TAP version 13"
    printed = [line.split()[2] for line in lines if line.startswith("ok ")]
    assert lines[1] == f"1..{len(printed)}"
    listed = (SELFTESTS / "tests.txt").read_text().splitlines()
    assert [line.split(":")[2] for line in listed if line.startswith(f"sched_latency:{tool}:")] == printed


@pytest.mark.parametrize("tool", tools())
def test_several_runs_are_several_files(tool: str, place: Place, tmp_path: Path) -> None:
    code, said = place.tiny(tool, "--runs", "2", "--json", tmp_path / "a.b" / "run.json")
    assert code == 1
    assert "Bail out! --json" in said
    assert "No such file or directory" in said
    code, said = place.tiny(tool, "--runs", "2", "--json", tmp_path / "run.json")
    assert code == 0, said
    for name in ("run.json", "run-2.json"):
        assert document(tmp_path / name)["status"] == "DONE"


@pytest.mark.parametrize("tool", tools())
def test_help_has_examples_and_each_option(tool: str, place: Place) -> None:
    code, said = place.run(tool, "--help")
    assert code == 0
    assert said.startswith(f"usage: {tool} [options]\n")
    for word in ("examples:", "--json FILE", "--runs N", "--record", *(w for w in TINY[tool] if w.startswith("--"))):
        assert word in said
    assert all(len(line) < 100 for line in said.splitlines())


@pytest.mark.parametrize("tool", tools())
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--runs", "0"), "--runs 0: not a whole number from 1 to 100"),
        (("--runs", "2.5"), "--runs 2.5: not a whole number from 1 to 100"),
        (("--inject-delay-us", "nan"), "--inject-delay-us nan: not a number from 0 to 1000000"),
        (("--cpus", "3-1"), "--cpus 3-1: not a list such as 0-3,8"),
        (("--cpus", "8191"), "--cpus: some are offline, or may not be used"),
        (("--cpus", "8192"), "--cpus 8192: not a list such as 0-3,8"),
        (("--runs",), "--runs is no option, or lacks its value"),
        (("--bogus",), "--bogus is no option"),
        (("word",), "word is no option"),
        (("--record", "--runs", "4"), "--record: a baseline is 5 runs or more"),
        (("--budget", "/nowhere/budget"), "/nowhere/budget: No such file or directory"),
    ],
)
def test_bad_input_is_named(words: Sequence[str], message: str, tool: str, place: Place) -> None:
    code, said = place.run(tool, *words)
    assert code == 1
    assert f"Bail out! {message}" in said


@pytest.mark.parametrize("tool", tools())
def test_one_cpu_is_enough(tool: str, place: Place, tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    code, said = place.tiny(tool, "--cpus", str(cpu), "--json", tmp_path / "run.json")
    assert code == 0, said
    assert {row["cpu"] for row in document(tmp_path / "run.json")["cpus"]} <= {cpu}


@pytest.mark.parametrize("tool", tools())
def test_only_allowed_cpus_are_used(tool: str, place: Place, tmp_path: Path) -> None:
    cpu = max(os.sched_getaffinity(0))
    words = ["taskset", "-c", str(cpu)]
    code, said = place.command(*words, place.programs / tool, *TINY[tool], "--json", tmp_path / "run.json")
    assert code == 0, said
    found = document(tmp_path / "run.json")
    assert {row["cpu"] for row in found["cpus"]} <= {cpu}
    assert f"CPUs {cpu}, " in found["fingerprint"]["machine"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("tool", tools())
def test_full_disk_is_said(tool: str, place: Place, tmp_path: Path) -> None:
    # A limit on the size of files stands in for the disk: what was begun is removed.
    limited = f'ulimit -f 1; exec "$0" "$@" --json {tmp_path}/run.json'
    code, said = place.command("sh", "-c", f"trap '' XFSZ; {limited}", place.programs / tool, *TINY[tool])
    assert code == 1
    assert f"Bail out! --json {tmp_path}/run.json: File too large" in said
    assert "the run is not kept for latency_thresholds.sh: File too large" in said
    assert not list(tmp_path.rglob("run.json*")) and not list(tmp_path.rglob("*.new"))


def endless(place: Place, tool: str, *words: str | Path) -> subprocess.Popen[str]:
    argv: list[str | Path] = [place.programs / tool, *ENDLESS[tool], *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=place.environment)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [each for child in children(pid) for each in (child, *descendants(child))]


@pytest.mark.parametrize("tool", tools())
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_leaves_nothing_behind(number: signal.Signals, tool: str, place: Place, tmp_path: Path) -> None:
    with endless(place, tool) as process:
        assert process.stdout
        while not descendants(process.pid):
            assert process.poll() is None
        process.send_signal(number)
        # All that the run has started hold the pipe: its end is the end of them all.
        process.stdout.read()
    assert process.returncode == -number
    assert not list(tmp_path.rglob("*.json*"))


@pytest.mark.parametrize("tool", tools())
def test_a_killed_run_is_no_result(tool: str, place: Place, tmp_path: Path) -> None:
    with endless(place, tool, "--json", tmp_path / "run.json") as process:
        assert process.stdout
        while not children(process.pid):
            assert process.poll() is None
        os.kill(children(process.pid)[0], signal.SIGKILL)
        said = process.stdout.read()
    assert process.returncode == 1
    assert "Bail out! the run was killed: Killed" in said
    found = document(tmp_path / "run.json")
    assert (found["status"], found["reason"]) == ("ERROR", "the run was killed: Killed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what root may")
@pytest.mark.parametrize("tool", tools(*(name for name in TINY if name.startswith("rt_"))))
def test_without_rights_rt_is_a_skip(tool: str, place: Place, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = tmp_path / tool
    shutil.copy(place.programs / tool, program)
    # The way there may be closed to others: the working directory is not.
    user = ["env", "-C", str(tmp_path), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    code, said = place.command(*user, f"./{tool}", "--json", "run.json", TMPDIR=".")
    assert code == 4, said
    assert "1..0 # SKIP SCHED_FIFO needs root" in said
    found = document(tmp_path / "run.json")
    assert found["status"] == "SKIP"
    assert found["reason"].startswith("SCHED_FIFO needs root")


def test_pingpong_waits_for_sleepers_and_sees_where_they_ran(place: Place, tmp_path: Path) -> None:
    code, said = place.tiny("wakeup_pingpong", "--json", tmp_path / "run.json")
    assert code == 0, said
    found = metrics(tmp_path / "run.json")
    for way in ("futex", "eventfd", "pipe"):
        assert found[f"{way}_same_cpu.samples"]["value"] > 0
        assert len(found[f"{way}_same_cpu.p50_of_slices"]["rounds"]) == 2
        quantiles = [found[f"{way}_same_cpu.{name}"]["value"] for name in ("p50", "p90", "p99", "p99_9", "max")]
        assert quantiles == sorted(quantiles)
        if len(os.sched_getaffinity(0)) > 1:
            ran = sum(metric["value"] for name, metric in found.items() if name.startswith(f"{way}_free.ran_"))
            assert ran == found[f"{way}_free.samples"]["value"] > 0


@needs_realtime
def test_rt_wakeup_counts_each_cycle(place: Place, tmp_path: Path) -> None:
    code, said = place.tiny("rt_wakeup", "--json", tmp_path / "run.json")
    assert code == 0, said
    cpus = len(os.sched_getaffinity(0))
    assert metrics(tmp_path / "run.json")["timer.samples"]["value"] == 50 * cpus
    assert [row["n"] for row in document(tmp_path / "run.json")["cpus"]] == [50] * cpus
