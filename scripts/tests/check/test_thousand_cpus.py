# SPDX-License-Identifier: GPL-2.0
"""The workloads on a simulated machine: the C library reports 1000 CPUs in 8 nodes, 125 LLCs and 250 clusters."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from workload_runs import Place, document, metrics

from schedlib.guest.selftests import compile_program
from schedlib.kernel import machine
from schedlib.runs.tool_process import why_no_fifo
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.selftest_programs import DIRECTORY

pytestmark = pytest.mark.guest

CPUS = 1000

PLAYED = Path(__file__).parent / "thousand_cpus.c"


def write_machine(root: Path) -> None:
    """Write a sysfs with cores of 2 CPUs, clusters of 4, LLCs of 8 and nodes of 125."""
    system = root / "devices/system"
    (system / "node").mkdir(parents=True)
    (system / "node/online").write_text("0-7\n")
    for node in range(8):
        (system / f"node/node{node}").mkdir(parents=True)
        (system / f"node/node{node}/cpulist").write_text(f"{node * 125}-{node * 125 + 124}\n")
    for cpu in range(CPUS):
        topology, cache = system / f"cpu/cpu{cpu}/topology", system / f"cpu/cpu{cpu}/cache/index0"
        topology.mkdir(parents=True)
        cache.mkdir(parents=True)
        for name, size in (("core", 2), ("cluster", 4), ("package", 500)):
            first = cpu // size * size
            (topology / f"{name}_cpus_list").write_text(f"{first}-{first + size - 1}\n")
        (cache / "level").write_text("3\n")
        (cache / "type").write_text("Unified\n")
        (cache / "shared_cpu_list").write_text(f"{cpu // 8 * 8}-{cpu // 8 * 8 + 7}\n")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that makes a program see that machine."""
    directory = tmp_path_factory.mktemp("machine")
    write_machine(directory)
    library = directory / "played.so"
    words = ["-shared", "-fPIC", f"-DCPUS={CPUS}", "-o", str(library), str(PLAYED), "-ldl"]
    subprocess.run(["gcc", *words], check=True)
    return {"LD_PRELOAD": str(library), "PLAYED": str(directory)}


needs_realtime = pytest.mark.skipif(why_no_fifo() != "", reason="SCHED_FIFO is refused here")

RUNS = {
    "cluster_wakeup": ("--rounds", "7", "--wakeups", "5"),
    "rt_wakeup": ("--cycles", "2", "--interval-us", "100000", "--warm-up", "0"),
    "rt_push_pull": ("--profile", "pinned-groups", "--seconds", "0.01", "--warm-up", "0"),
    "sleep_storm": ("--children", "4", "--log-loops", "2"),
    "wakeup_pingpong": ("--rounds", "1", "--slice-ms", "2", "--warm-up-ms", "0"),
}


def test_the_runner_names_a_machine_as_its_programs_do(
    played: dict[str, str], place: Place, series: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_program(series, DIRECTORY / "sleep_storm.c", tmp_path / "sleep_storm")
    place.command(tmp_path / "sleep_storm", *RUNS["sleep_storm"], "--json", tmp_path / "run.json", **played)
    theirs = document(tmp_path / "run.json")["fingerprint"]
    monkeypatch.setattr(machine, "_CPUS", Path(played["PLAYED"], "devices/system/cpu"))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(CPUS)))
    assert (machine.machine_text(), machine.machine_name()) == (theirs["machine"], theirs["machine_name"])


@pytest.mark.parametrize(
    "tool", [pytest.param(name, marks=needs_realtime if name.startswith("rt_") else ()) for name in RUNS]
)
def test_a_thousand_cpus(tool: str, played: dict[str, str], place: Place, series: Tree, tmp_path: Path) -> None:
    program = tmp_path / tool
    # Linked dynamically, so that the preloaded library answers its calls to the C library.
    compile_program(series, DIRECTORY / f"{tool}.c", program)
    code, said = place.command(program, *RUNS[tool], "--json", tmp_path / "run.json", **played)
    # The simulated machine never moves a task, so every wakee stays where it slept: two tests must fail.
    # A thousand threads on the CPUs of this machine may be late, too.
    failed = [name for name in re.findall(r"^not ok \d+ (\w+)", said, re.M) if not name.endswith("_in_time")]
    wrong = ["prev_yields", "cluster_above_chance"] if tool == "cluster_wakeup" else []
    assert failed == wrong, said
    assert code == int("\nnot ok " in said), said
    found, values = document(tmp_path / "run.json"), metrics(tmp_path / "run.json")
    assert "CPUs 0-999, 125 LLCs, 8 nodes" in found["fingerprint"]["machine"]
    if tool == "rt_wakeup":
        assert [row["cpu"] for row in found["cpus"]] == list(range(CPUS))
        assert values["timer.samples"]["value"] == 2 * CPUS
    if tool == "rt_push_pull":
        assert (values["groups.idle_groups"]["n"], values["groups.idle_groups"]["value"]) == (125, 0)
    if tool == "cluster_wakeup":
        assert values["cluster.chance"]["value"] == pytest.approx(300 / 7)
        # From the last CPU of each of seven clusters to the other cluster in its LLC, but not to its next CPU.
        assert {row["cpu"]: row["n"] for row in found["cpus"]} == dict.fromkeys((3, 7, 11, 15, 19, 23, 31), 5)
    if tool == "wakeup_pingpong":
        for near in ("same_cpu", "same_core", "same_cluster", "same_llc", "other_llc", "other_node", "free"):
            assert values[f"futex_{near}.samples"]["value"] > 0
    # Without the library the real machine is seen: it has no CPU 999.
    _, said = place.command(program, "--cpus", "999")
    assert "--cpus: some are offline" in said
