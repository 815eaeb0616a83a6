# SPDX-License-Identifier: GPL-2.0
"""The mask experiment, built as the kernel builds it and run with another machine's topology."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from workload_runs import document, ended, metrics

from schedlib.guest import selftests
from schedlib.paths import SELFTESTS
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

SOURCE = SELFTESTS / "sched_latency/cpumask_contention.c"
QUICK = ("--rounds", "3", "--seconds", "0.05")
VARIANTS = ("global", "node", "llc", "llc_bytes")


def compiled(series: Tree, directory: Path, text: str) -> Path:
    source, program = directory / "program.c", directory / "program"
    source.write_text(text)
    selftests.compile_program(series, source, program, "-Werror", "-iquote", str(SOURCE.parent))
    return program


@pytest.fixture(scope="session")
def program(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(series, tmp_path_factory.mktemp("program"), SOURCE.read_text())


def run(program: Path, *words: str | Path, preload: Path | None = None) -> tuple[int, str]:
    environment = {"PATH": os.environ["PATH"], "SCHED_LATENCY_RESULTS": str(program.parent)}
    if preload:
        environment["LD_PRELOAD"] = str(preload)
    done = subprocess.run([program, *words], check=False, capture_output=True, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout + done.stderr


def machine(root: Path, cpus: int, nodes: int, llcs: int) -> Path:
    """A sysfs with this number of CPUs, divided evenly among the nodes and among the LLCs."""
    system = root / "devices/system"

    def write(name: str, text: object) -> None:
        (system / name).parent.mkdir(parents=True, exist_ok=True)
        (system / name).write_text(f"{text}\n")

    write("cpu/online", f"0-{cpus - 1}")
    write("node/online", f"0-{nodes - 1}" if nodes else "")
    for node in range(nodes):
        write(f"node/node{node}/cpulist", f"{node * cpus // nodes}-{(node + 1) * cpus // nodes - 1}")
    for cpu in range(cpus):
        first = cpu * llcs // cpus * (cpus // llcs) if llcs else 0
        last = first + cpus // llcs - 1 if llcs else 0
        caches = [(1, "Data", cpu), (1, "Instruction", cpu), (3, "Unified", f"{first}-{last}")]
        for index, (level, kind, shared) in enumerate(caches if llcs else []):
            cache = f"cpu/cpu{cpu}/cache/index{index}"
            write(f"{cache}/level", level)
            write(f"{cache}/type", kind)
            write(f"{cache}/shared_cpu_list", shared)
            write(f"{cache}/coherency_line_size", 64)
    return root


@pytest.fixture
def two_by_two(tmp_path: Path) -> Path:
    return machine(tmp_path / "sys", 8, 2, 2)


def test_two_llcs_and_nodes_are_compared(program: Path, two_by_two: Path, tmp_path: Path) -> None:
    said = ended(run(program, "--sysfs", two_by_two, *QUICK, "--json", tmp_path / "masks.json"))
    for variant in VARIANTS:
        assert f"kept_{variant} # {variant}.lost 0 bits\n" in said
    found = metrics(tmp_path / "masks.json")
    masks = {variant: found[f"{variant}.masks"]["value"] for variant in VARIANTS}
    assert masks == {"global": 1, "node": 2, "llc": 2, "llc_bytes": 2}
    for variant in ("empty", *VARIANTS):
        assert found[f"{variant}.operations"]["value"] > 0
        assert f"{variant}.ns_per_operation" in found
    # With other load on the machine, a round can show an operation as cheaper than none. The run then says so.
    absent = [each["name"] for each in document(tmp_path / "masks.json")["absent"]]
    for variant in VARIANTS[1:]:
        assert (f"{variant}.percent_of_global" in found) is (f"{variant}.percent_of_global" not in absent)


def test_more_cpus_than_a_cpu_set_has(program: Path, tmp_path: Path) -> None:
    root = machine(tmp_path / "sys", 1100, 4, 44)
    ended(run(program, "--sysfs", root, "--rounds", "1", "--seconds", "0.3", "--json", tmp_path / "masks.json"))
    found = metrics(tmp_path / "masks.json")
    assert [found[f"{variant}.masks"]["value"] for variant in VARIANTS] == [1, 4, 44, 44]
    assert all(found[f"{variant}.lost"]["value"] == 0 for variant in VARIANTS)
    ended(run(program, "--sysfs", root, "--rounds", "1", "--seconds", "0.05", "--cpus", "1023-1099,3"))


@pytest.mark.parametrize(
    ("shape", "words", "variants"),
    [
        ((8, 1, 2), (), ("node",)),
        ((8, 2, 1), (), ("llc", "llc_bytes")),
        ((8, 2, 0), (), ("llc", "llc_bytes")),
        ((8, 0, 2), (), ("node",)),
        ((4, 2, 4), (), ("llc",)),
        ((8, 2, 2), ("--cpus", "0,4"), ("node", "llc", "llc_bytes")),
    ],
)
def test_what_a_machine_cannot_show_is_absent(
    shape: tuple[int, int, int], words: Sequence[str], variants: Sequence[str], program: Path, tmp_path: Path
) -> None:
    ended(run(program, "--sysfs", machine(tmp_path, *shape), *QUICK, *words, "--json", tmp_path / "run.json"))
    found = document(tmp_path / "run.json")
    for variant in variants:
        assert any(f"{variant}.percent_of_global".startswith(each["name"]) for each in found["absent"])
        assert f"{variant}.percent_of_global" not in metrics(tmp_path / "run.json")


def test_masks_that_are_changed_without_a_locked_instruction_lose_bits(
    series: Tree, two_by_two: Path, tmp_path: Path
) -> None:
    # Slow enough for others to interfere. Threads that share one CPU would lose nothing: this needs two of the host.
    slow = 'for (int i = 0; i < 100; i++) __asm__ volatile(""); __atomic_store_n(word,'
    text = SOURCE.read_text()
    for old, value in (
        ("__atomic_or_fetch(word, bit, __ATOMIC_RELAXED);", "had | bit"),
        ("__atomic_and_fetch(word, ~bit, __ATOMIC_RELAXED);", "had & ~bit"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, f"({{ unsigned long had = *word; {slow} {value}, __ATOMIC_RELAXED); }});")
    racy = compiled(series, tmp_path, text)
    said = ended(run(racy, "--sysfs", two_by_two, "--rounds", "1", "--seconds", "0.5"), 1)
    assert "not ok 1 kept_global # " in said
    assert "\nok 4 kept_llc_bytes # " in said


@pytest.mark.parametrize(
    ("old", "new", "fails"),
    [
        ("cpus[i / 2].turn = 1;", "cpus[i / 2].turn = 0;", "kept_node"),
        ("1UL << place % BITS;", "1UL << place % 2;", "kept_global"),
        ("variant == LLC_BYTES ? place :", "variant == LLC_BYTES ? place / 2 :", "kept_llc_bytes"),
        ("set, __ATOMIC_RELAXED", "!set, __ATOMIC_RELAXED", "kept_llc_bytes"),
    ],
)
def test_mutants_die(old: str, new: str, fails: str, series: Tree, two_by_two: Path, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert text.count(old) == 1
    mutant = compiled(series, tmp_path, text.replace(old, new))
    said = ended(run(mutant, "--sysfs", two_by_two, *QUICK), 1)
    assert any(line.startswith("not ok") and fails in line.split() for line in said.splitlines()), said


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cpu/online", None, "Bail out! {}/devices/system/cpu/online: no list of CPUs"),
        ("cpu/online", "0-x\n", "cpu/online: no list of CPUs"),
        ("cpu/cpu3/cache/index2/shared_cpu_list", "0-2\n", "'0-2' is no list with CPU 3"),
    ],
)
def test_sysfs_that_cannot_be(name: str, text: str | None, message: str, program: Path, two_by_two: Path) -> None:
    path = two_by_two / "devices/system" / name
    path.unlink()
    if text:
        path.write_text(text)
    said = ended(run(program, "--sysfs", two_by_two), 1)
    assert message.format(two_by_two) in said
