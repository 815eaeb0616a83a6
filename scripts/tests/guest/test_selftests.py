# SPDX-License-Identifier: GPL-2.0
"""How the programs of selftests/ get into a guest, and which arguments the guest gets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import read_words, write_files, write_program
from schedlib.check import check_verb
from schedlib.check.check_boots import boot_and_judge, make_plan
from schedlib.check.check_verb import CheckOptions
from schedlib.console.expected import expected_tests
from schedlib.console.judge import TestOutcome as Outcome
from schedlib.console.judge import judge
from schedlib.errors import SchedlineError
from schedlib.guest import selftests
from schedlib.guest.command_line import Programs, command_line
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import TARGETS
from schedlib.paths import KSELFTESTS, SELFTESTS
from schedlib.tree.kernel_tree import Tree, checked_out, commit_tree, edit_tree, file_row, open_kdir
from schedlib.tree.selftest_programs import program_sources
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


@pytest.fixture
def built(kernel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Kernel, Tree]:
    """A built kernel, with stand-ins for the cross compiler and for gen_init_cpio."""
    compiler = 'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo made > "$2"; fi; shift; done'
    write_program(cache / "aarch64-linux-gnu-gcc", compiler)
    write_program(cache / "build/usr/gen_init_cpio", 'cat "$1"')
    monkeypatch.setenv("PATH", f"{cache}:{os.environ['PATH']}")
    write_files(kernel, {f"{KSELFTESTS}/kselftest.h": "/* of the tree */\n"})
    return Kernel(cache / "image", cache / "build", "gcc"), open_kdir(cache, kernel)


def test_every_program_is_in_the_initramfs(built: tuple[Kernel, Tree]) -> None:
    everything = make_plan(ARM64, CheckOptions(selftests=True), frozenset()).programs()
    listed = selftests.initramfs(*built, ARM64, everything).read_text()
    programs = set(program_sources()) - {"cpumask_contention"}  # it measures, and tests nothing
    assert len(programs) > 5
    assert "dir /sched_latency 755 0 0" in listed
    for name in ("init", *(f"sched_latency/{program}" for program in programs)):
        file = next(line for line in listed.splitlines() if line.startswith(f"file /{name} "))
        assert Path(file.split()[2]).read_text() == "made\n"


def test_header_is_the_trees_whatever_is_checked_out(
    built: tuple[Kernel, Tree], kernel: Path, cache: Path, tmp_path: Path
) -> None:
    """The header was read from the work tree, which shows the commit that was built last, not the tree's own."""
    tree = built[1]
    header = f"{KSELFTESTS}/kselftest.h"
    other = edit_tree(tree.src, tree.base, [file_row(tree.src, header, b"/* of another commit */\n")])
    write_program(cache / "gcc", 'while [ "$1" != -iquote ]; do shift; done; cat "$2/kselftest.h" > "$4"')
    with checked_out(tree, commit_tree(tree.src, other, tree.base, "other")):
        selftests.compile_program(tree, SELFTESTS / "guest_init.c", tmp_path / "program")
    assert (tmp_path / "program").read_text() == "/* of the tree */\n"


def test_program_that_does_not_compile(built: tuple[Kernel, Tree], kernel: Path, cache: Path) -> None:
    write_program(cache / "aarch64-linux-gnu-gcc", "echo broken.c: error: no such thing >&2; exit 1")
    with pytest.raises(SchedlineError, match="no such thing"):
        selftests.initramfs(*built, ARM64, ["rt_wakeup"])
    (kernel / KSELFTESTS / "kselftest.h").unlink()
    with pytest.raises(SchedlineError, match=r"has no tools/testing/selftests/kselftest\.h"):
        selftests.initramfs(built[0], open_kdir(cache, kernel), ARM64, ["rt_wakeup"])


def test_guest_runs_programs_in_place_of_kunit() -> None:
    programs = Programs(Path("archive"), ("-k",))
    words = command_line(ARM64, Path("image"), 8, ["sched_layout_kunit.expect=x"], "tcg", None, programs)
    # The words after -- are for /init. A shutdown by KUnit would come before it.
    # Without kunit.autorun only kunit.enable keeps the suites from running.
    said = "console=ttyAMA0 panic=-1 maxcpus=8 rcupdate.rcu_cpu_stall_timeout=300 kunit.enable=0"
    assert words[-4:] == ["-initrd", "archive", "-append", f"{said} sched_layout_kunit.expect=x -- -k"]


@pytest.mark.parametrize(("expected", "known"), [((), True), (("fix-cluster-key",), False)])
def test_defect_is_known_until_its_fix_is_expected(
    expected: tuple[str, ...], known: bool, built: tuple[Kernel, Tree], tmp_path: Path, cache: Path
) -> None:
    write_program(cache / "qemu", 'echo "$@"')
    options = CheckOptions(cpus=(8,), selftests=True)
    plan = make_plan(replace(ARM64, emulator=("qemu",)), options, frozenset(expected))
    boots = boot_and_judge(plan, built[0], tmp_path, "tcg", tmp_path / "archive")
    assert (Path(boots[0].log).read_text().strip().endswith("-- -k")) is known


def test_selftests_that_cannot_be() -> None:
    with pytest.raises(SchedlineError, match="only run KUnit"):
        make_plan(TARGETS["uml"], CheckOptions(selftests=True), frozenset())
    with pytest.raises(SchedlineError, match=r"no test matches 'sched_layout'\n.*suites are sched_latency"):
        read_words(check_verb, "check", "--selftests", "--only", "sched_layout")


def test_one_program_alone(built: tuple[Kernel, Tree]) -> None:
    plan = make_plan(ARM64, CheckOptions(cpus=(8,), selftests=True, only="sched_latency.rt_*"), frozenset())
    assert plan.programs() == {"rt_wakeup", "rt_push_pull"}
    assert {name.split(":")[1] for name in plan.tests(8)} == plan.programs()
    assert not any("filter_glob" in each for each in plan.parameters())
    listed = selftests.initramfs(*built, ARM64, plan.programs()).read_text()
    assert "/sched_latency/rt_wakeup" in listed and "/sched_latency/rt_push_pull" in listed
    assert "/sched_latency/sleep_storm" not in listed


def test_every_listed_name_is_one_that_a_program_prints() -> None:
    for name in expected_tests(0, None, selftests=True):
        collection, program, *test = name.split(":")
        source = (SELFTESTS / collection / f"{program}.c").read_text()
        # A macro makes some names from a distance.
        assert all(each in source or each.removesuffix("_within_baseline") in source for each in test)


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
