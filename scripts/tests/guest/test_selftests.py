# SPDX-License-Identifier: GPL-2.0
"""How the programs of selftests/ get into a guest, and what it is told about them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from schedlib.check.check_verb import boot_and_judge, expected_tests, make_plan
from schedlib.console.judge import Outcome, judge
from schedlib.errors import SchedlineError
from schedlib.guest import selftests
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import TARGETS, Programs, command_line
from schedlib.main import parser
from schedlib.paths import SELFTESTS
from schedlib.tree.kernel_tree import Tree, open_kdir
from schedlib.verdict import Verdict

ARM64 = TARGETS["qemu-arm64"]

LOG = b"""\
[    0.000000] Linux version 7.3.4
[    1.000000] kunit: disabled
TAP version 13
1..1
# selftests: sched_latency: cluster_partition
# TAP version 13
# 1..3
# ok 1 cluster_scanned
# %s
# ok 3 own_partition_rebuilt
%s 1 selftests: sched_latency: cluster_partition
[    9.000000] reboot: Restarting system
"""


def script(path: Path, text: str) -> None:
    """A program of our own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def built(kernel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Kernel, Tree]:
    """A built kernel, with stand-ins for the cross compiler and for gen_init_cpio."""
    script(
        cache / "aarch64-linux-gnu-gcc",
        'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo made > "$2"; fi; shift; done',
    )
    script(cache / "build/usr/gen_init_cpio", 'cat "$1"')
    monkeypatch.setenv("PATH", f"{cache}:{os.environ['PATH']}")
    return Kernel(cache / "image", cache / "build", 0.0, "gcc"), open_kdir(cache, kernel)


def test_every_program_is_in_the_initramfs(built: tuple[Kernel, Tree]) -> None:
    listed = selftests.initramfs(*built, ARM64).read_text()
    programs = [path.stem for path in (SELFTESTS / "sched_latency").glob("*.c")]
    assert "dir /sched_latency 755 0 0" in listed
    for name in ("init", *(f"sched_latency/{program}" for program in programs)):
        file = next(line for line in listed.splitlines() if line.startswith(f"file /{name} "))
        assert Path(file.split()[2]).read_text() == "made\n"


def test_program_that_does_not_compile(built: tuple[Kernel, Tree], cache: Path) -> None:
    script(cache / "aarch64-linux-gnu-gcc", "echo broken.c: error: no such thing >&2; exit 1")
    with pytest.raises(SchedlineError, match="no such thing"):
        selftests.initramfs(*built, ARM64)


def test_guest_runs_programs_in_place_of_kunit() -> None:
    programs = Programs(Path("archive"), ("-k",))
    words = command_line(ARM64, Path("image"), 8, ["sched_layout_kunit.expect=x"], "tcg", None, programs)
    assert words[words.index("-initrd") + 1] == "archive"
    # What follows -- is for /init; a shutdown by KUnit would come before it.
    # Where kunit.autorun does not exist only kunit.enable keeps the suites from running.
    assert " kunit.enable=0 " in words[-1]
    assert words[-1].endswith(" sched_layout_kunit.expect=x -- -k")
    assert "kunit_shutdown" not in words[-1]


@pytest.mark.parametrize(("expected", "known"), [((), True), (("fix-cluster-key",), False)])
def test_defect_is_known_until_its_fix_is_expected(
    expected: tuple[str, ...], known: bool, built: tuple[Kernel, Tree], tmp_path: Path, cache: Path
) -> None:
    script(cache / "qemu", 'echo "$@"')
    arguments = parser().parse_args(["check", "--selftests", "--cpus", "8"])
    plan = make_plan(replace(ARM64, emulator=("qemu",)), arguments, frozenset(expected))
    boots = boot_and_judge(plan, built[0], tmp_path, (), "tcg", tmp_path / "archive")
    assert (boots[0].log.read_text().strip().endswith("-- -k")) is known


@pytest.mark.parametrize(
    ("words", "target", "message"),
    [(["--selftests"], "uml", "KUnit alone"), (["--selftests", "--only", "sched_layout"], "qemu-arm64", "drop one")],
)
def test_selftests_that_cannot_be(words: list[str], target: str, message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        make_plan(TARGETS[target], parser().parse_args(["check", *words]), frozenset())


def test_every_listed_name_is_one_that_a_program_prints() -> None:
    for name in expected_tests(0, None, selftests=True):
        collection, program, *test = name.split(":")
        script = program.endswith(".sh")
        source = (SELFTESTS / collection / (program if script else f"{program}.c")).read_text()
        # The script makes one name from that of each program.
        assert all(each.removeprefix("measured_" if script else "") in source for each in test)


@pytest.mark.parametrize(
    ("inner", "outer", "verdict"),
    [
        (b"ok 2 other_partition_split", b"ok", Verdict.PASS),
        (b"ok 2 other_partition_split # SKIP known defect: x", b"ok", Verdict.PASS),
        (b"not ok 2 other_partition_split", b"not ok", Verdict.FAIL),
        (b"nothing", b"ok", Verdict.FAIL),
    ],
)
def test_log_of_a_guest_is_judged_by_the_list(inner: bytes, outer: bytes, verdict: Verdict) -> None:
    listed = [name for name in expected_tests(8, None, selftests=True) if "cluster_partition" in name]
    judged = judge(LOG % (inner, outer), listed)
    assert judged.verdict is verdict
    split = next(test for test in judged.tests if test.name.endswith(":other_partition_split"))
    assert (split.outcome is Outcome.SKIP) is (b"SKIP" in inner)
