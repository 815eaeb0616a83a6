# SPDX-License-Identifier: GPL-2.0
"""The workloads are compiled on the machine that is to be measured, with what it has, or come in a bundle.

A bundle runs on a machine with Python alone: no network, no compiler, no kernel source, no home, no cache.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import elftools
import msgspec
import pytest
from workload_runs import storm

from conftest import git, read_words, write_files
from schedlib import doctor
from schedlib.cache import write_json
from schedlib.errors import SchedlineError
from schedlib.gate.boots import read_side
from schedlib.options import DEFAULT_SERIES, TreeOptions
from schedlib.runs import programs, run_verb
from schedlib.runs.programs import compiled
from schedlib.runs.run_verb import PackOptions
from schedlib.tree import debian
from schedlib.verdict import Verdict

pytestmark = pytest.mark.slow

COMPILER = """\
[ "$1" = --version ] && echo "gcc 99" && exit
while [ "$1" != -iquote ]; do shift; done
cat "$2/kselftest.h" > "$4"
[ "$4" ] && chmod +x "$4"
"""


@pytest.fixture(autouse=True)
def compiler(fake: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that copies a header, on a machine without a network."""
    fake("gcc", COMPILER)
    monkeypatch.setattr(doctor, "require", lambda _: None)
    monkeypatch.setattr(debian, "download", lambda *_, **__: pytest.fail("it downloads a kernel"))


def with_header(kernel: Path, text: str) -> None:
    write_files(kernel, {"tools/testing/selftests/kselftest.h": text})
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "header")


def test_missing_header_is_named_and_not_downloaded(cache: Path) -> None:
    """170 MB of kernel were downloaded silently for one header."""
    with pytest.raises(SchedlineError, match=r"the programs include the kernel's kselftest\.h") as error:
        compiled(cache, ["sleep_storm"])
    assert error.value.next_step.startswith("schedline run --pack FILE on another machine")
    assert not (cache / "trees").exists()


def test_any_kernel_of_the_series_will_do(kernel: Path, cache: Path) -> None:
    with_header(kernel, "/* of the kernel */\n")
    tree = cache / "trees" / DEFAULT_SERIES
    tree.mkdir(parents=True)
    kernel.rename(tree / "src")
    base = git(tree / "src", "rev-parse", "HEAD").strip()
    write_json(tree / "manifest.json", {"package": "linux-source-of-old", "version": "1", "base": base})
    place = compiled(cache, ["sleep_storm", "rt_wakeup"])
    assert {path.name for path in place.iterdir()} == {"sleep_storm", "rt_wakeup"}
    assert (place / "rt_wakeup").read_text() == "/* of the kernel */\n"
    # Existing programs are not compiled again.
    (tree / "manifest.json").unlink()
    assert compiled(cache, ["rt_wakeup"]) == place


def test_a_machine_that_measures_need_not_build_kernels() -> None:
    needed = {need.name for need in doctor.NEEDS if need.jobs & set(doctor.JOBS["run"].needs)}
    assert {"gcc", "git", "the C library's headers", "cyclictest"} <= needed
    assert not needed & {"flex", "bison", "bc", "make", "apt-get"}


@pytest.fixture
def unpacked(kernel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle, unpacked. Its programs are scripts that write a run."""
    write = f'while [ "$1" != --json ]; do shift; done\ncat > "$2" <<\'END\'\n{json.dumps(storm())}\nEND\n'
    with_header(kernel, f"#!/bin/sh\n{write}")
    libraries = tmp_path / "environment/lib/python3/site-packages"
    for library in (msgspec, elftools):
        shutil.copytree(Path(str(library.__file__)).parent, libraries / library.__name__)
    (libraries / "pip").mkdir()
    monkeypatch.setattr(programs, "pinned", lambda _: tmp_path / "environment/bin/python")
    archive = tmp_path / "bundle.tar.gz"
    assert programs.pack(PackOptions(archive, tree=TreeOptions(kdir=kernel))) is Verdict.PASS
    place = tmp_path / "target"
    place.mkdir()
    subprocess.run(["tar", "-C", place, "-xf", archive], check=True)
    return place / "schedline"


def run_there(unpacked: Path, *words: str) -> subprocess.CompletedProcess[str]:
    there = unpacked.parent / "bin"
    if not there.exists():
        there.mkdir()
        (there / "python3").symlink_to(sys.executable)
        for name in ("sh", "cat"):
            (there / name).symlink_to(f"/bin/{name}")
    alone = ["unshare", "-n"] if os.geteuid() == 0 else []
    argv = [*alone, "env", "-i", f"PATH={there}", "HOME=", str(unpacked / "schedline"), *words]
    return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)


def test_a_machine_with_python_alone_can_be_measured(unpacked: Path) -> None:
    """It wanted a compiler, a kernel source of 170 MB, and pip."""
    out = unpacked.parent / "runs"
    words = ["run", "--suite", "quick", "--only", "storm-quick", "--out", str(out)]
    done = run_there(unpacked, *words)
    assert done.returncode == 0, done.stderr
    assert "sleeps_per_s  7 sleeps/s" in done.stdout
    assert len(list(out.glob("*/storm-quick-1.json"))) == 1
    assert read_side(out, "base").boots
    # What it writes stays in the bundle and in --out.
    assert {path.name for path in unpacked.parent.iterdir()} == {"schedline", "runs", "bin"}
    # Without what the bundle brings the same fails.
    (unpacked / "bundle.json").rename(unpacked.parent / "kept")
    done = run_there(unpacked, *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_libraries_of_another_python_are_named(unpacked: Path) -> None:
    place = next((unpacked / "libraries").iterdir())
    place.rename(place.with_name("3.99-pdp11"))
    about = json.loads((unpacked / "bundle.json").read_text())
    (unpacked / "bundle.json").write_text(json.dumps(about | {"pythons": ["3.99"], "machine": "pdp11"}))
    done = run_there(unpacked, "run", "--suite", "quick", "--list")
    assert done.returncode == 2
    assert "this bundle is for pdp11 with Python 3.99" in done.stderr
    assert f"schedline run --pack FILE --python {sys.version_info.major}.{sys.version_info.minor}" in done.stderr


def test_a_gate_without_its_libraries_is_told(unpacked: Path) -> None:
    (unpacked.parent / "runs").mkdir()
    done = run_there(unpacked, "gate", str(unpacked.parent / "runs"), str(unpacked.parent / "runs"))
    assert done.returncode == 2
    assert "this bundle lacks the libraries of gate" in done.stderr


def test_a_plan_needs_the_bundle_alone(unpacked: Path) -> None:
    campaign = str(unpacked.parent / "campaign")
    words = ["--boots", "6..20", "--kernels", "base=a,candidate=b", "--next-command", "boot {version}"]
    done = run_there(unpacked, "gate", "plan", *words, "--out", campaign)
    assert done.returncode == 0, done.stderr
    assert run_there(unpacked, "gate", "plan", campaign, "--status").returncode == 3
    script = (Path(campaign) / "each-boot.sh").read_text()
    assert f"{unpacked}/scripts/schedline gate plan {campaign} --step" in script


def test_words_of_a_bundle(tmp_path: Path) -> None:
    file = str(tmp_path / "bundle.tar.gz")
    found = read_words(run_verb, "run", "--pack", file, "--python", "3.12,3.13", "--looks")
    assert (found.pythons, found.looks) == (("3.12", "3.13"), True)
    for words, message in (
        (["--pack", file, "--suite", "quick"], "--pack runs nothing, and has no --suite"),
        (["--pack", file, "--in-guest"], "has no --in-guest"),
        (["--suite", "quick", "--looks"], "--python and --looks are for a bundle"),
    ):
        with pytest.raises(SchedlineError, match=message):
            read_words(run_verb, "run", *words)
    with pytest.raises(SystemExit):
        read_words(run_verb, "run", "--pack", file, "--python", "3.9")
