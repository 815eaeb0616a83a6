# SPDX-License-Identifier: GPL-2.0
"""Runs the exported workloads in a plain kernel tree, with the tree's own targets and runner."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from platform import machine

from schedlib import doctor
from schedlib.cache import cache_dir, lock, scratch, write_atomic
from schedlib.console.expected import load_expected
from schedlib.console.judge import Judgement, Problem, TestOutcome, judge
from schedlib.dev.plain_tree import clone_with_series
from schedlib.formats.document import Refused
from schedlib.formats.run_file import read_run
from schedlib.gate.boots import read_side
from schedlib.guest import home
from schedlib.guest.boot import Ending
from schedlib.guest.busybox_guest import TARGET, prepared_guest
from schedlib.options import TreeOptions
from schedlib.paths import COLLECTION, KSELFTESTS, SELFTESTS
from schedlib.process import clean_environment, dying_with_us
from schedlib.progress import say, step
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict, worst

_TIMEOUT = 1800.0
_ONE = f"{COLLECTION}:rt_wakeup"

ARCHIVE = "packed/kselftest-packages/kselftest.tar.gz"

StepRow = tuple[str, Verdict, str, Path]
"""The result of a step: its name, its verdict, a message, and its log."""


@dataclass(frozen=True)
class Step:
    """A command of the tree on the collection.

    Attributes:
        name: for output, and for the name of the log.
        expected: the tests that its log has to show; empty for a step that runs none.
        planned: whether the log begins with a version and a plan. The output of `make kselftest` does not.
    """

    name: str
    argv: tuple[str, ...]
    directory: Path
    expected: tuple[str, ...] = ()
    planned: bool = True

    @property
    def plan(self) -> bytes:
        """The TAP version and plan that the log should begin with, from the list of tests."""
        return b"TAP version 13\n1..%d\n" % sum(name.count(":") == 1 for name in self.expected)


def steps(clone: Path) -> tuple[Step, ...]:
    """The steps, in their order."""
    make = ("make", f"TARGETS={COLLECTION}", f"-j{os.cpu_count() or 1}")
    every = load_expected(SELFTESTS / "tests.txt", None)
    one = tuple(name for name in every if name == _ONE or name.startswith(f"{_ONE}:"))
    objects, installed, packed = (clone.parent / name for name in ("objects", "installed", "packed"))
    archive, unpacked = clone.parent / ARCHIVE, packed / "unpacked"
    static = ("USERLDFLAGS=-static", "LDFLAGS=-static")
    program = unpacked / _ONE.replace(":", "/")
    return (
        # A build with O= requires a clean source tree.
        Step("configure-objects", ("make", f"O={objects}", "allnoconfig"), clone),
        Step("install", (*make, f"O={objects}", f"INSTALL_PATH={installed}", "kselftest-install"), clone),
        Step("run-installed", ("./run_kselftest.sh", "-c", COLLECTION), installed, every),
        Step("run-one", ("./run_kselftest.sh", "-t", _ONE), installed, one),
        Step("configure", ("make", "allnoconfig"), clone),
        Step("merge", (*make, "kselftest-merge"), clone),
        Step("run", (*make, "kselftest"), clone, every, planned=False),
        # The programs that "run" has built are linked to shared libraries, and make would not rebuild them.
        Step("clean", (*make, "-C", KSELFTESTS, "clean"), clone),
        Step("pack", (*make, "-C", KSELFTESTS, f"INSTALL_PATH={packed}", *static, "gen_tar"), clone),
        Step("unpack", ("tar", "-xf", str(archive), f"--one-top-level={unpacked}"), clone),
        Step("static", ("sh", "-c", '! readelf -l "$1" | grep INTERP', "sh", str(program)), clone),
    )


def in_guest(cache: Path, tree: Tree, place: Path) -> StepRow:
    """Run the tarball from "pack" on a target without compiler and Python: in a guest that has only busybox."""
    every = load_expected(SELFTESTS / "tests.txt", None)
    leave_runs = [name.split(":")[1] for name in every if name.endswith(":within_limits")]
    fresh = place / "guest"
    (fresh / "runs").mkdir(parents=True)
    (fresh / "words").write_text(f"-c {COLLECTION}\n")
    disk = home.empty_disk(fresh / "disk", 1)
    image, log = fresh / "initramfs.cpio", fresh / "console.log"
    with scratch(cache) as kernel:
        guest = prepared_guest(cache, tree, kernel, "qemu-arm64" if machine() == "aarch64" else TARGET)
        guest.pack("guest_tarball.sh", {"/kselftest.tar.gz": place / ARCHIVE, "/words": fresh / "words"}, image)
        with step("the tarball in a busybox guest"):
            boot = guest.boot(image, disk, log, _TIMEOUT)
    judgement = judge(log.read_bytes(), every, ending=boot.ending, times=boot.times)
    lost = home.bring_home(disk, 0, fresh / "runs")
    problems = [Problem("runs", 0, lost, Verdict.FAIL)] if lost else not_home(fresh / "runs", leave_runs)
    judgement = judgement.with_problems(problems)
    return "run-in-guest", judgement.verdict, _counts(judgement), log


def not_home(runs: Path, workloads: Collection[str]) -> list[Problem]:
    """Problems with the runs from the guest: each workload must have left a run that the gate can read."""
    wrong = []
    for name in workloads:
        try:
            found = read_run(runs / f"{name}.json")
            why = found.reason if found.status == "ERROR" else ""
        except Refused as refused:
            why = refused.why
        if why:
            wrong.append(Problem("runs", 0, f"{name}: {why}", Verdict.FAIL))
    if not wrong:
        read_side(runs, "guest")
    return wrong


def run_step(one: Step) -> tuple[Verdict, str, Path]:
    """Run a step. Returns its verdict, a message, and its log.

    A step that runs tests is judged only by its log, because the runner exits with 0 whatever failed. The output is
    read through a pipe: the runner opens /dev/stdout again, and would overwrite the beginning of a file.
    """
    log = one.directory.parent / f"{one.name}.log"
    with step(one.name):
        try:
            done = subprocess.run(
                dying_with_us(one.argv),
                cwd=one.directory,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Verdict.ERROR, str(error), log
    write_atomic(log, done.stdout)
    if not one.expected:
        return (Verdict.FAIL if done.returncode else Verdict.PASS), f"exit {done.returncode}", log
    judgement = judge((b"" if one.planned else one.plan) + done.stdout, one.expected, ending=Ending.EXITED)
    return judgement.verdict, _counts(judgement), log


def run_steps(chosen: TreeOptions) -> Verdict:
    """Export the series into a clone of a tree, try each step there, and the tarball in a guest."""
    doctor.require(["build", *chosen.needs, "kselftest"])
    cache = cache_dir()
    tree = open_tree(cache, chosen)
    place = cache / "kselftest"
    # The logs stay there until the next command removes them.
    with lock(cache / "kselftest.lock"):
        todo = steps(clone_with_series(tree, place)[0])
        rows: list[StepRow] = []
        for one in todo:
            rows.append(_told((one.name, *run_step(one))))
            if not one.expected and rows[-1][1] is not Verdict.PASS:
                say("the steps after it are skipped")
                break
        else:
            rows.append(_told(in_guest(cache, tree, place)))
    verdict = worst([row[1] for row in rows])
    print(f"verdict: {verdict.name}")
    return verdict


def _told(row: StepRow) -> StepRow:
    name, verdict, said, log = row
    print(f"{verdict.name} {name}: {said} ({log})", flush=True)
    return row


def _counts(judgement: Judgement) -> str:
    outcomes = [test.outcome for test in judgement.tests]
    passed, skipped = outcomes.count(TestOutcome.PASS), outcomes.count(TestOutcome.SKIP)
    wrong = [test.name for test in judgement.tests if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP)]
    said = f"{passed} passed, {skipped} skipped, {len(wrong)} others"
    wrong += [f"{each.kind}: {each.text}" for each in judgement.problems if each.verdict is not Verdict.PASS]
    return said + "".join(f"\n    {text}" for text in wrong[:10])
