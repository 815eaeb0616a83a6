# SPDX-License-Identifier: GPL-2.0
"""The exported series in a plain kernel tree: runs of its own kunit.py, compiled in many ways, and its kselftests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from typing import BinaryIO

from schedlib import doctor
from schedlib.cache import cache_dir, lock, scratch, write_atomic
from schedlib.console.expected import expected_tests
from schedlib.console.judge import Judgement, Problem, TestOutcome, judge
from schedlib.dev.dev_verb import BOOT_CPUS, COMPILE_ROWS, KUNIT_RUNS, CompileRow, KunitRun, PlainTreeOptions, one_boot
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.export.export_job import export
from schedlib.formats.document import Refused
from schedlib.formats.run_file import read_run
from schedlib.gate.boots import read_side
from schedlib.git import git
from schedlib.guest import home
from schedlib.guest.boot import Ending
from schedlib.guest.busybox_guest import TARGET, prepared_guest
from schedlib.kernel.build import make
from schedlib.kernel.kconfig import configure, load, parse_config
from schedlib.options import TreeOptions
from schedlib.paths import COLLECTION, KSELFTESTS
from schedlib.process import clean_environment, dying_with_us
from schedlib.progress import say, step
from schedlib.tree.changes import patch_sets
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.tree.selftest_programs import selftest_names
from schedlib.tree.suites import suite_table
from schedlib.verdict import Verdict, worst

_TIMEOUT = 1800.0
_ONE = f"{COLLECTION}:rt_wakeup"

ARCHIVE = "packed/kselftest-packages/kselftest.tar.gz"


def clone_with_series(tree: Tree, place: Path, more: Collection[str] = ()) -> tuple[Path, frozenset[str]]:
    """A clone of a tree's head with the exported series, and `more` changes, by git am; the changes it then has."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    clone = place / "linux"
    with step("cloning"):
        git(place, "init", "--quiet", clone)
        (clone / ".git/objects/info/alternates").write_text(f"{tree.src / '.git/objects'}\n")
        git(clone, "reset", "--quiet", "--hard", tree.head)
    carried = () if tree.is_user else patch_sets(tree)[0].default()
    series = export(tree, place / "series", (*carried, *more), ())
    git(clone, "-c", "user.name=test", "-c", "user.email=test@localhost", "am", *series.patches)
    return clone, series.changes


def outcomes(document: dict[str, object]) -> dict[str, str]:
    """The status of each test in a kunit.py JSON document, by its full name."""
    found: dict[str, str] = {}

    def walk(group: dict[str, object], path: tuple[str, ...]) -> None:
        for case in group.get("test_cases", []):  # type: ignore[attr-defined]
            # In the exported form a row's name is its id and a sentence.
            found[":".join((*path, case["name"].partition(": ")[0]))] = case["status"]
        for inner in group.get("sub_groups", []):  # type: ignore[attr-defined]
            walk(inner, (*path, str(inner["name"])))

    walk(document, ())
    return found


def _called(
    what: str, argv: Sequence[str], directory: Path, timeout: float, into: BinaryIO | int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    with step(what):
        return subprocess.run(
            dying_with_us(argv),
            cwd=directory,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=into,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
        )


def _told(name: str, verdict: Verdict, said: str, lines: Iterable[str] = ()) -> Verdict:
    print("\n    ".join([f"{verdict.name} {name}: {said}", *lines]), flush=True)
    return verdict


@dataclass(frozen=True)
class PlainRun:
    """A run of a clone's kunit.py, and how each test ended that had to run: "MISSING" if nothing is shown of it."""

    status: int
    log: Path
    ended: dict[str, str]
    seconds: float = 0.0

    @property
    def bad(self) -> dict[str, str]:
        return {test: status for test, status in self.ended.items() if status not in ("PASS", "SKIP")}

    def said(self) -> str:
        counts = Counter(self.ended.values())
        ran, skipped = counts.pop("PASS", 0), counts.pop("SKIP", 0)
        others = "".join(f", {count} {status}" for status, count in sorted(counts.items()))
        return f"{ran} passed, {skipped} skipped{others}"

    def wrong(self) -> str:
        """What was wrong with it; empty if some tests passed, and the others were skipped."""
        missing = list(self.bad.values()).count("MISSING")
        what = [f"{status} {test}" for test, status in self.bad.items() if status != "MISSING"]
        what += [f"{missing} tests are missing"] * bool(missing) + [f"kunit.py exit {self.status}"] * bool(self.status)
        return "; ".join(what) or "no test passed" * ("PASS" not in self.ended.values())


def exported_tests(changes: Collection[str], without: Collection[str] = ()) -> tuple[str, ...]:
    """The tests that a tree with the series and these changes has to run, except suites in `without`."""
    idle = [name for name, suite in suite_table().items() if not suite.fits(changes)]
    return expected_tests(8, None, (*without, *idle), changes=changes)


def run_kunit(clone: Path, name: str, wanted: KunitRun, changes: Collection[str]) -> PlainRun:
    """Run the kunit.py of a clone that has the series, and some changes. name: of the files that it leaves."""
    (clone.parent / "build").mkdir(exist_ok=True)
    document, log = clone.parent / f"{name}.json", clone.parent / f"{name}.log"
    document.unlink(missing_ok=True)
    argv = [sys.executable, "tools/testing/kunit/kunit.py", wanted.verb, *wanted.words, f"--json={document}"]
    argv += [f"--build_dir={clone.parent / 'build' / wanted.build}"]
    argv += [f"--jobs={os.cpu_count() or 1}"] if wanted.verb == "run" else []
    if name.startswith("qemu") and os.geteuid() == 0 and Path("/dev/kvm").exists():
        # kunit.py prefers KVM, which may hang although it can be opened. Hide it from QEMU.
        argv = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /dev/kvm && exec "$@"', "sh", *argv]
    began = time.monotonic()
    with log.open("wb") as file:
        try:
            done = _called(f"kunit.py {wanted.verb} {' '.join(wanted.words)}", argv, clone, wanted.timeout, file)
        except subprocess.TimeoutExpired as error:
            raise SchedlineError(f"kunit.py did not end within {wanted.timeout:.0f} s", f"see {log}") from error
    seconds = time.monotonic() - began
    shown = outcomes(json.loads(document.read_text())) if document.is_file() else {}
    expected = exported_tests(changes, wanted.without)
    return PlainRun(done.returncode, log, {test: shown.get(test, "MISSING") for test in expected}, seconds)


def test_tree(options: PlainTreeOptions) -> Verdict:
    if options.compile:
        return _compile(options)
    machines = {"qemu": "qemu-x86_64", "qemu-threads": "qemu-x86_64", "qemu-arm64": "qemu-arm64"}
    needed = [machine for run, machine in machines.items() if run not in options.skip]
    doctor.require(["build", *options.tree.needs, "uml", *dict.fromkeys(needed)])
    if options.boots and not shutil.which("stress-ng"):
        raise SchedlineError("stress-ng is not installed", "install the package stress-ng, or leave out --boots")
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    verdicts = []
    with lock(cache / "test-tree.lock"):
        clone, changes = clone_with_series(tree, cache / "test-tree")
        for name, wanted in KUNIT_RUNS.items():
            if name in options.skip:
                say(f"skipped: {name} (--skip)")
                continue
            ran = run_kunit(clone, name, wanted, changes)
            # With --alltests, other suites of the kernel may fail. Ours must be present, and pass or be skipped.
            good = not ran.bad and (ran.status == 0 or name == "alltests")
            said = f"{ran.said()}; {ran.seconds:.0f} s with the build; kunit.py exit {ran.status}, log {ran.log}"
            bad = (f"{status} {test}" for test, status in ran.bad.items())
            verdicts.append(_told(name, Verdict.PASS if good else Verdict.FAIL, said, bad))
        if options.boots:
            stress = ["stress-ng", "--quiet", "--cpu", str(os.cpu_count() or 1)]
            with subprocess.Popen(dying_with_us(stress)) as process:
                try:
                    boots = [run_kunit(clone, f"boot-{at + 1}", one_boot(at), changes) for at in range(options.boots)]
                finally:
                    process.terminate()
            print(*boots_text(boots), sep="\n")
            verdicts += [Verdict.FAIL for each in boots if each.wrong()]
    return worst([*verdicts, Verdict.PASS])


def boots_text(boots: Sequence[PlainRun]) -> Iterator[str]:
    for at, cpus in enumerate(BOOT_CPUS):
        if of := boots[at :: len(BOOT_CPUS)]:
            yield f"{cpus:2} possible CPUs: {sum(not each.wrong() for each in of)} of {len(of)} boots passed"
    for number, each in enumerate(boots):
        if each.wrong():
            yield f"boot-{number + 1}, {BOOT_CPUS[number % len(BOOT_CPUS)]} possible CPUs: {each.wrong()}"


def warnings_of(log: str, judged: str) -> tuple[str, ...]:
    """The warnings about files below a directory in the output of make, each once."""
    found = re.findall(rf"^.*\b{judged}\S+ (?:warning|error): (?!bad constant expression).*$", log, re.M)
    return tuple(dict.fromkeys(line.strip() for line in found))


def compile_row(src: Path, build: Path, name: str, row: CompileRow) -> tuple[Verdict, str, tuple[str, ...]]:
    """Compile the scheduler of a source as a row says. Returns the verdict, what was seen, and the warnings.

    A compiler that is not installed, or a checker that make left out, is an ERROR: nothing was looked at.
    """
    if not shutil.which(row.compiler):
        return Verdict.ERROR, f"{row.compiler} is not installed", ()
    started = time.monotonic()
    try:
        with step(f"compiling {name}"):
            configure(src, build, row.arch, load(row.fragments), row.words)
            make(src, build, row.arch, [*row.words, "W=1", "kernel/sched/"])
    except DoesNotBuild as error:
        return Verdict.FAIL, error.observed, ()
    except SchedlineError as error:
        return Verdict.ERROR, error.observed, ()
    log = (build / "build.log").read_text(errors="replace")
    if "C=2" in row.words and "\n  CHECK " not in log:
        return Verdict.ERROR, f"make ran no {row.compiler}: see {build / 'build.log'}", ()
    found = warnings_of(log, row.judged)
    objects = sum(1 for _ in (build / "kernel/sched").rglob("*.o"))
    compiler = parse_config((build / ".config").read_text())["CONFIG_CC_VERSION_TEXT"].strip('"')
    said = f"{objects} objects, {len(found)} warnings, {compiler}, {time.monotonic() - started:.0f} s"
    return (Verdict.FAIL if found else Verdict.PASS), said, found


def _compile(options: PlainTreeOptions) -> Verdict:
    doctor.require(["build", *options.tree.needs, "objtool"])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    verdicts = []
    with lock(cache / "compile-series.lock"):
        place = cache / "compile-series"
        clone, _ = clone_with_series(tree, place)
        for name in options.compile:
            verdict, said, found = compile_row(clone, place / "build" / name, name, COMPILE_ROWS[name])
            verdicts.append(_told(name, verdict, said, found[:10]))
    return worst(verdicts)


@dataclass(frozen=True)
class Step:
    """A command of the tree on the collection.

    `expected`: the tests that its log has to show. `planned`: whether the log begins with a version and a plan, which
    the output of `make kselftest` does not.
    """

    name: str
    argv: tuple[str, ...]
    directory: Path
    expected: tuple[str, ...] = ()
    planned: bool = True


def steps(clone: Path) -> tuple[Step, ...]:
    make = ("make", f"TARGETS={COLLECTION}", f"-j{os.cpu_count() or 1}")
    every = selftest_names()
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


def _in_guest(cache: Path, tree: Tree, place: Path) -> tuple[Verdict, str]:
    """Run the tarball from "pack" on a target without compiler and Python: in a guest that has only busybox."""
    every = selftest_names()
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
    return judgement.verdict, f"{_counts(judgement)} ({log})"


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


def run_step(one: Step) -> tuple[Verdict, str]:
    """Run a step. Returns its verdict, and a message with its log.

    A step that runs tests is judged only by its log, because the runner exits with 0 whatever failed. The output is
    read through a pipe: the runner opens /dev/stdout again, and would overwrite the beginning of a file.
    """
    log = one.directory.parent / f"{one.name}.log"
    try:
        done = _called(one.name, one.argv, one.directory, _TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Verdict.ERROR, f"{error} ({log})"
    write_atomic(log, done.stdout)
    if not one.expected:
        return (Verdict.FAIL if done.returncode else Verdict.PASS), f"exit {done.returncode} ({log})"
    plan = b"TAP version 13\n1..%d\n" % sum(name.count(":") == 1 for name in one.expected)
    judgement = judge((b"" if one.planned else plan) + done.stdout, one.expected, ending=Ending.EXITED)
    return judgement.verdict, f"{_counts(judgement)} ({log})"


def kselftest(chosen: TreeOptions) -> Verdict:
    """Export the series into a clone of a tree, try each step there, and the tarball in a guest."""
    doctor.require(["build", *chosen.needs, "kselftest"])
    cache = cache_dir()
    tree = open_tree(cache, chosen)
    place = cache / "kselftest"
    verdicts: list[Verdict] = []
    # The logs stay there until the next command removes them.
    with lock(cache / "kselftest.lock"):
        for one in steps(clone_with_series(tree, place)[0]):
            verdicts.append(_told(one.name, *run_step(one)))
            if verdicts[-1] is not Verdict.PASS and not one.expected:
                say("the steps after it are skipped")
                break
        else:
            verdicts.append(_told("run-in-guest", *_in_guest(cache, tree, place)))
    print(f"verdict: {worst(verdicts).name}")
    return worst(verdicts)


def _counts(judgement: Judgement) -> str:
    outcomes = [test.outcome for test in judgement.tests]
    passed, skipped = outcomes.count(TestOutcome.PASS), outcomes.count(TestOutcome.SKIP)
    wrong = [test.name for test in judgement.tests if test.outcome not in (TestOutcome.PASS, TestOutcome.SKIP)]
    said = f"{passed} passed, {skipped} skipped, {len(wrong)} others"
    wrong += [f"{each.kind}: {each.text}" for each in judgement.problems if each.verdict is not Verdict.PASS]
    return said + "".join(f"\n    {text}" for text in wrong[:10])
