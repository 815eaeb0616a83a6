# SPDX-License-Identifier: GPL-2.0
"""A kselftest, a program of c2c and a topology are one file each: copies of the templates, in a copy of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from workload_runs import EXCUSE

from conftest import git
from schedlib.c2c.c2c_options import WORKLOADS
from schedlib.cache import cache_dir
from schedlib.kernel.topology import Topology, load_topology
from schedlib.paths import CONFIGS, KSELFTESTS, PROJECT, SELFTESTS
from schedlib.tree.kernel_tree import Tree, cached_series
from schedlib.tree.selftest_programs import program_sources

TOPOLOGY = CONFIGS / "topologies/clusters.toml"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which somebody has added a file of each kind."""
    top = tmp_path_factory.mktemp("house") / "schedline"
    for name in (
        "configs",
        "kunit",
        "patches",
        "selftests",
        "scripts/c2c",
        "scripts/schedlib",
        "scripts/schedline",
        "scripts/lock.txt",
    ):
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        copy(PROJECT / name, top / name)
    text = (SELFTESTS / "template.c").read_text()
    (top / "selftests/sched_latency/brand_new.c").write_text(re.sub(r'"template"', '"brand_new"', text))
    shutil.copy(top / "scripts/c2c/guest_stat.c", top / "scripts/c2c/guest_brand_new.c")
    shutil.copy(TOPOLOGY, top / "configs/topologies/brandnew.toml")
    return top


def told(house: Path, *words: str | Path) -> str:
    """What the copy's schedline says, or with -c its Python."""
    argv = [sys.executable, *(() if words[0] == "-c" else ["schedline"]), *words]
    place = house / "scripts"
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=place)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_kselftest_is_one_file(house: Path) -> None:
    code = """
from schedlib.console.expected import expected_tests
from schedlib.guest.selftests import own_programs
print(*expected_tests(8, "sched_latency.brand_new", selftests=True), *own_programs(), sep="\\n")
"""
    said = told(house, "-c", code).split()
    tests = ("every_task_woke", "woken_in_time", "late_within_baseline", "late_tail_within_baseline", "within_limits")
    whole = "sched_latency:brand_new"
    assert [name for name in said if name.startswith(whole)] == [whole, *(f"{whole}:{test}" for test in tests)]
    assert "/sched_latency/brand_new" in said
    assert "template" not in program_sources()


@pytest.fixture(scope="module")
def tree() -> Tree:
    found = cached_series(cache_dir(), "7.3")
    if found is None or not shutil.which("gcc"):
        pytest.skip("needs a kernel tree in the cache, and gcc: schedline fetch")
    return found


@pytest.mark.tools
def test_a_kselftest_is_built_and_exported_with_its_own_patch(
    house: Path, tree: Tree, kernel: Path, tmp_path: Path
) -> None:
    names = ("Makefile", "lib.mk", "kselftest.h", "kselftest_harness.h", "kselftest")
    parts = [f"{KSELFTESTS}/{name}" for name in names]
    git(tree.src, "archive", "-o", str(tmp_path / "tree.tar"), "HEAD", "scripts", *parts)
    subprocess.run(["tar", "-xf", tmp_path / "tree.tar", "-C", kernel], check=True)
    git(kernel, "add", "-A", "-f")
    git(kernel, "commit", "-q", "-m", "selftests")
    ours = kernel / KSELFTESTS / "sched_latency"
    shutil.copytree(house / "selftests/sched_latency", ours)
    argv = ["make", "-n", "-C", str(ours)]
    assert "brand_new.c" in subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(ours)
    code = """
import sys
from pathlib import Path
from schedlib.export.export_job import export
from schedlib.tree.kernel_tree import open_kdir
cache, kdir, out = map(Path, sys.argv[1:])
export(open_kdir(cache, kdir), out, (), ())
"""
    (tmp_path / "cache").mkdir()
    told(house, "-c", code, tmp_path / "cache", kernel, tmp_path / "out")
    git(kernel, "am", "-q", *map(str, sorted((tmp_path / "out").glob("*.patch"))))
    [added] = git(kernel, "log", "--format=%H", "--grep=^selftests/sched_latency: Add brand_new").split()
    changed = git(kernel, "show", "--format=", "--name-only", added).split()
    assert changed == [f"{KSELFTESTS}/sched_latency/{name}" for name in ("Makefile", "brand_new.c")]
    assert "+TEST_GEN_PROGS += brand_new\n" in git(kernel, "show", added)
    assert "How late does an ordinary task wake up from a sleep?" in git(kernel, "show", "--format=%b", added)
    build(ours)
    [library] = git(kernel, "log", "--format=%H", "--grep=^selftests/sched_latency: Add a library").split()
    git(kernel, "worktree", "add", "-q", str(tmp_path / "library"), library)
    subprocess.run(["make", "-C", tmp_path / "library" / KSELFTESTS / "sched_latency"], check=True)
    # The programs are ignored, and nothing else is.
    assert git(kernel, "status", "--porcelain") == ""


def build(directory: Path) -> None:
    """Build the collection in a tree by the kernel's own Makefiles, without a warning; run the new program."""
    argv = ["make", f"-j{os.cpu_count() or 1}", "-C", str(directory.parent), "TARGETS=sched_latency"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    for name in (*program_sources(), "brand_new"):
        assert (directory / name).is_file(), name
    argv = [str(directory / "brand_new"), "--seconds", "0.05", "--inject-delay-us", "20000"]
    said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    assert "\n1..5\n" in said and "\nok 1 every_task_woke" in said
    assert re.search(rf"^not ok 2 woken_in_time|^ok 2 woken_in_time # SKIP .*(?:{EXCUSE})", said, re.M)


@pytest.mark.tools
def test_the_template_compiles_with_all_warnings(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "kselftest.h").write_text(tree.read(f"{KSELFTESTS}/kselftest.h") or "")
    paths = ["-iquote", str(SELFTESTS / "sched_latency"), "-iquote", str(tmp_path)]
    argv = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o", str(tmp_path / "template.o"), *paths]
    subprocess.run([*argv, SELFTESTS / "template.c"], check=True)


def test_a_program_of_c2c_is_one_file(house: Path, tmp_path: Path) -> None:
    said = told(house, "c2c", "--help")
    assert re.search(r"^ +brand-new +processes ask for the status of one file$", said, re.M)
    assert "brand-new" not in WORKLOADS


@pytest.mark.tools
def test_a_program_of_c2c_is_compiled(house: Path, tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from schedlib.c2c.plugin_guest import program
print(program(Path({str(tmp_path)!r}), "brand-new"))
"""
    assert Path(told(house, "-c", code).strip()).is_file()


def test_a_topology_is_one_file(house: Path) -> None:
    code = """
from schedlib.check.check_boots import make_plan
from schedlib.check.check_verb import CheckOptions
from schedlib.guest.command_line import machine
from schedlib.kernel.targets import TARGETS
from schedlib.names import topology_names
plan = make_plan(TARGETS["qemu-arm64"], CheckOptions(topology="brandnew"), frozenset())
assert "brandnew" in topology_names()  # what --topology takes
print(plan.classes, *machine(plan.target, plan.topology))
"""
    said = told(house, "-c", code)
    assert said.startswith("(16,) ") and "clusters=4,cores=4,threads=1" in said


def test_the_template_of_a_topology_has_all_keys(tmp_path: Path) -> None:
    text = re.sub(r"^# (\w+ = \d+)$", r"\1", TOPOLOGY.read_text(), flags=re.M)
    found = tomllib.loads(text)
    assert {"name", *found} == {field.name for field in msgspec.structs.fields(Topology)}
    # What is commented out is what is taken without it.
    assert msgspec.convert({"name": "clusters", **found}, Topology) == load_topology("clusters")
