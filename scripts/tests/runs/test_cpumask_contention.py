# SPDX-License-Identifier: GPL-2.0
"""The mask experiment, built as the kernel builds it and run with another machine's topology."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from workload_runs import document, metrics

from schedlib.git import git
from schedlib.guest import selftests
from schedlib.paths import SELFTESTS
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

SOURCE = SELFTESTS / "sched_latency/cpumask_contention.c"
QUICK = ("--rounds", "3", "--seconds", "0.05")
VARIANTS = ("global", "node", "llc", "llc_bytes")


def compiled(series: Tree, directory: Path, text: str) -> Path:
    """The program, compiled with the Makefile's flags."""
    source, program = directory / "program.c", directory / "program"
    source.write_text(text)
    selftests.compile_program(series, source, program, "-Werror", "-iquote", str(SOURCE.parent))
    return program


@pytest.fixture(scope="session")
def program(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unmodified program."""
    return compiled(series, tmp_path_factory.mktemp("program"), SOURCE.read_text())


def run(program: Path, *words: str | Path, preload: Path | None = None) -> tuple[int, str]:
    """Exit code and output."""
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
    """Two nodes with one LLC of 4 CPUs each."""
    return machine(tmp_path / "sys", 8, 2, 2)


def test_each_cpu_is_told_of_in_each_variant(program: Path, two_by_two: Path, tmp_path: Path) -> None:
    run(program, *QUICK, "--sysfs", two_by_two, "--json", tmp_path / "run.json")
    rows = document(tmp_path / "run.json")["cpus"]
    assert {row["group"] for row in rows} == {"empty", *VARIANTS}
    # On a loaded machine some CPUs may not take turns in every round.
    assert {row["cpu"] for row in rows} <= set(range(8))
    assert all(1 <= row["n"] <= 3 and row["p50_ns"] <= row["max_ns"] for row in rows)


def test_two_llcs_and_nodes_are_compared(program: Path, two_by_two: Path, tmp_path: Path) -> None:
    code, said = run(program, "--sysfs", two_by_two, *QUICK, "--json", tmp_path / "masks.json")
    assert code == 0, said
    assert said.startswith("TAP version 13\n1..10\n")
    assert "8 CPUs, 2 nodes, 2 LLCs, lines of 64 bytes; 3 rounds of 0.05 s" in said
    assert "the figures mean nothing" in said
    for variant in VARIANTS:
        assert f"kept_{variant}\n" in said
    found = metrics(tmp_path / "masks.json")
    masks = {variant: found[f"{variant}.masks"]["value"] for variant in VARIANTS}
    assert masks == {"global": 1, "node": 2, "llc": 2, "llc_bytes": 2}
    for variant in ("empty", *VARIANTS):
        assert found[f"{variant}.operations"]["value"] > 0
        assert len(found[f"{variant}.ns_per_operation"]["rounds"]) == 3
    # With other load on the machine, a round can show an operation as cheaper than none. The run then says so.
    absent = [each["name"] for each in document(tmp_path / "masks.json")["absent"]]
    for variant in VARIANTS[1:]:
        assert (f"{variant}.percent_of_global" in found) is (f"{variant}.percent_of_global" not in absent)
    assert " llc_not_dearer # SKIP " in said


def test_more_cpus_than_a_cpu_set_has(program: Path, tmp_path: Path) -> None:
    root = machine(tmp_path / "sys", 1100, 4, 44)
    code, said = run(program, "--sysfs", root, "--rounds", "1", "--seconds", "0.3", "--json", tmp_path / "masks.json")
    assert code == 0, said
    found = metrics(tmp_path / "masks.json")
    assert [found[f"{variant}.masks"]["value"] for variant in VARIANTS] == [1, 4, 44, 44]
    assert all(found[f"{variant}.lost"]["value"] == 0 for variant in VARIANTS)
    code, said = run(program, "--sysfs", root, "--rounds", "1", "--seconds", "0.05", "--cpus", "1023-1099,3")
    assert code == 0, said
    assert "on CPUs 3,1023-1099, runs: 1\n" in said


@pytest.mark.parametrize(
    ("shape", "words", "variants", "reason"),
    [
        ((8, 1, 2), (), ("node",), "one NUMA node: its mask is the global one"),
        ((8, 2, 1), (), ("llc",), "one LLC: its mask is the global one"),
        ((8, 2, 1), (), ("llc_bytes",), "one LLC: its bytes are on lines that all CPUs write"),
        ((8, 2, 0), (), ("llc", "llc_bytes"), "sysfs shows no last level cache of these CPUs"),
        ((8, 0, 2), (), ("node",), "sysfs shows no node of these CPUs"),
        ((4, 2, 4), (), ("llc",), "each CPU would have a mask of its own, so no CPUs share one"),
        ((8, 2, 2), ("--cpus", "0,4"), ("node", "llc", "llc_bytes"), "one or two CPUs are too few for contention"),
    ],
)
def test_what_a_machine_cannot_show_is_said(
    shape: tuple[int, int, int],
    words: Sequence[str],
    variants: Sequence[str],
    reason: str,
    program: Path,
    tmp_path: Path,
) -> None:
    code, said = run(program, "--sysfs", machine(tmp_path, *shape), *QUICK, *words)
    assert code == 0, said
    for variant in variants:
        assert f" compared_{variant} # SKIP {reason}\n" in said
        assert f"{variant}.percent_of_global " not in said


def test_masks_that_are_changed_without_a_locked_instruction_lose_bits(program: Path, two_by_two: Path) -> None:
    # Threads that share one CPU would lose nothing: this needs two CPUs of the host.
    code, said = run(program, "--sysfs", two_by_two, "--rounds", "1", "--seconds", "0.5", "--racy")
    assert code == 1
    assert "not ok 2 kept_global\n" in said
    assert "ok 5 kept_llc_bytes\n" in said


@pytest.mark.parametrize(
    ("old", "new", "fails"),
    [
        # Each group takes the mask of the first group.
        ("[cpus[i].group[variant]] = mask;", "[cpus[i].group[variant]] = masks[variant][0] ?: mask;", "lines_apart"),
        ("cpus[i].turn = 1;\n\t\tif (variant", "cpus[i].turn = 0;\n\t\tif (variant", "kept_node"),
        ("return 1UL << cpu->place[variant] % BITS;", "return 1UL << cpu->place[variant] % 2;", "kept_global"),
        (
            "return masks[variant][cpu->group[variant]] + cpu->place[variant];",
            "return masks[variant][cpu->group[variant]] + cpu->place[variant] / 2;",
            "kept_llc_bytes",
        ),
        ("set, __ATOMIC_RELAXED", "!set, __ATOMIC_RELAXED", "kept_llc_bytes"),
    ],
)
def test_mutants_die(old: str, new: str, fails: str, series: Tree, two_by_two: Path, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert text.count(old) == 1
    mutant = compiled(series, tmp_path, text.replace(old, new))
    code, said = run(mutant, "--sysfs", two_by_two, *QUICK)
    assert code == 1
    assert any(line.startswith("not ok") and line.endswith(fails) for line in said.splitlines()), said


def test_bad_input_is_named(program: Path) -> None:
    code, said = run(program, "--sysfs", "/nowhere")
    assert code == 1
    assert "Bail out! /nowhere/devices/system/cpu/online cannot be read" in said


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cpu/online", "0-x\n", "cpu/online: '0-x' is no list of CPUs"),
        ("cpu/cpu3/cache/index2/shared_cpu_list", "0-2\n", "'0-2' is no list with CPU 3"),
    ],
)
def test_sysfs_that_cannot_be(name: str, text: str, message: str, program: Path, two_by_two: Path) -> None:
    (two_by_two / "devices/system" / name).write_text(text)
    code, said = run(program, "--sysfs", two_by_two)
    assert code == 1
    assert message in said


def test_help_has_examples(program: Path) -> None:
    code, said = run(program, "--help")
    assert code == 0
    assert "examples:" in said
    assert not said.startswith("TAP")


def test_cycles_where_the_machine_counts_them(program: Path, two_by_two: Path, tmp_path: Path) -> None:
    # A counter that never advances, in place of one that a virtual machine may lack.
    shim = tmp_path / "shim.c"
    shim.write_text('#include <fcntl.h>\nlong syscall(long n, ...) { (void)n; return open("/dev/zero", O_RDONLY); }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "shim.so", shim], check=True)
    words = ["--sysfs", str(two_by_two), *QUICK, "--json", str(tmp_path / "masks.json")]
    code, said = run(program, *words, preload=tmp_path / "shim.so")
    assert code == 0
    assert "no cycles" not in said
    found = [metric for name, metric in metrics(tmp_path / "masks.json").items() if "cycles" in name]
    assert len(found) == 5
    assert all(set(metric["rounds"]) == {0} for metric in found)


def test_the_kernels_makefiles_build_it(series: Tree, tmp_path: Path) -> None:
    selftests = "tools/testing/selftests"
    parts = [
        f"{selftests}/{name}" for name in ("Makefile", "lib.mk", "kselftest.h", "kselftest_harness.h", "kselftest")
    ]
    archive = tmp_path / "tree.tar"
    git(series.src, "archive", "-o", archive, "HEAD", "scripts/subarch.include", *parts)
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    directory = tmp_path / selftests / "sched_latency"
    shutil.copytree(SELFTESTS / "sched_latency", directory)
    argv = ["make", "-C", str(directory.parent), "TARGETS=sched_latency"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    built = {path.stem for path in directory.glob("*.c")}
    assert all((directory / name).is_file() for name in built)
    # .gitignore in a kernel tree lists exactly the programs that are built there.
    assert set((directory / ".gitignore").read_text().splitlines()[1:]) == built
