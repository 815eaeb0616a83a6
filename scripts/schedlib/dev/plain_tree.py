# SPDX-License-Identifier: GPL-2.0
"""The exported series in a plain kernel tree: runs of the tree's own kunit.py, or compiled in many ways."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, lock
from schedlib.console.expected import expected_tests
from schedlib.dev.dev_verb import BOOT_CPUS, COMPILE_ROWS, KUNIT_RUNS, CompileRow, KunitRun, PlainTreeOptions, one_boot
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.export.export_job import export
from schedlib.git import git
from schedlib.kernel.build import make
from schedlib.kernel.kconfig import configure, load, parse_config
from schedlib.process import clean_environment, dying_with_us
from schedlib.progress import say, step
from schedlib.tree.changes import patch_sets
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.tree.suites import suite_table
from schedlib.verdict import Verdict, worst


def clone_with_series(tree: Tree, place: Path, more: Collection[str] = ()) -> tuple[Path, frozenset[str]]:
    """A new clone of a tree's head with the exported series applied by git am, and the changes that it has then.

    Args:
        more: changes for the series, beside those that our own trees get.
    """
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


@dataclass(frozen=True)
class PlainRun:
    """One run of the clone's kunit.py: its exit status, its log, and how each test ended that had to run.

    Tests of which it shows nothing have ended as "MISSING".
    """

    status: int
    log: Path
    ended: dict[str, str]
    seconds: float = 0.0

    def said(self) -> str:
        """How many tests ended how."""
        counts = Counter(self.ended.values())
        ran, skipped = counts.pop("PASS", 0), counts.pop("SKIP", 0)
        others = "".join(f", {count} {status}" for status, count in sorted(counts.items()))
        return f"{ran} passed, {skipped} skipped{others}"


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
    with step(f"kunit.py {wanted.verb} {' '.join(wanted.words)}"), log.open("wb") as file:
        try:
            done = subprocess.run(
                argv,
                cwd=clone,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=wanted.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SchedlineError(f"kunit.py did not end within {wanted.timeout:.0f} s", f"see {log}") from error
    seconds = time.monotonic() - began
    shown = outcomes(json.loads(document.read_text())) if document.is_file() else {}
    expected = exported_tests(changes, wanted.without)
    return PlainRun(done.returncode, log, {test: shown.get(test, "MISSING") for test in expected}, seconds)


def test_tree(options: PlainTreeOptions) -> Verdict:
    """Export tests and changes into a clone of a tree, and compile its scheduler or run its own kunit.py."""
    return _compile(options) if options.compile else _run(options)


def _run(options: PlainTreeOptions) -> Verdict:
    machines = {"qemu": "qemu-x86_64", "qemu-threads": "qemu-x86_64", "qemu-arm64": "qemu-arm64"}
    needed = [machine for run, machine in machines.items() if run not in options.skip]
    doctor.require(["build", *options.tree.needs, "uml", *dict.fromkeys(needed)])
    if options.boots and not shutil.which("stress-ng"):
        raise SchedlineError("stress-ng is not installed", "install the package stress-ng, or leave out --boots")
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    failed = False
    with lock(cache / "test-tree.lock"):
        clone, changes = clone_with_series(tree, cache / "test-tree")
        for name, wanted in KUNIT_RUNS.items():
            if name in options.skip:
                say(f"skipped: {name} (--skip)")
                continue
            ran = run_kunit(clone, name, wanted, changes)
            bad = {test: status for test, status in ran.ended.items() if status not in ("PASS", "SKIP")}
            # With --alltests, other suites of the kernel may fail. Ours must be present, and pass or be skipped.
            good = not bad and (ran.status == 0 or name == "alltests")
            failed |= not good
            told = f"{ran.said()}; {ran.seconds:.0f} s with the build; kunit.py exit {ran.status}, log {ran.log}"
            print(f"{'PASS' if good else 'FAIL'} {name}: {told}", flush=True)
            for test, status in bad.items():
                print(f"    {status} {test}")
        if options.boots:
            rows = [boot_row(each) for each in _boots(clone, options.boots, changes)]
            print(*boots_text(rows), sep="\n")
            failed |= any(row.bad for row in rows)
    return Verdict.FAIL if failed else Verdict.PASS


@dataclass(frozen=True)
class BootRow:
    """A boot: its CPUs, and what was wrong; empty if all tests that had to run passed or were skipped."""

    cpus: int
    bad: str


def _boots(clone: Path, boots: int, changes: Collection[str]) -> Iterator[tuple[int, PlainRun]]:
    """The boots one after the other, with the number of each."""
    with _stress():
        for number in range(boots):
            yield number, run_kunit(clone, f"boot-{number + 1}", one_boot(number), changes)


def boot_row(boot: tuple[int, PlainRun]) -> BootRow:
    """What became of a boot."""
    number, ran = boot
    bad = {test: status for test, status in ran.ended.items() if status not in ("PASS", "SKIP")}
    missing = sum(status == "MISSING" for status in bad.values())
    what = [f"{status} {test}" for test, status in bad.items() if status != "MISSING"]
    what += [f"{missing} tests are missing"] * bool(missing) + [f"kunit.py exit {ran.status}"] * bool(ran.status)
    passed = sum(status == "PASS" for status in ran.ended.values())
    return BootRow(BOOT_CPUS[number % len(BOOT_CPUS)], "; ".join(what) or "no test passed" * (not passed))


def boots_text(rows: Sequence[BootRow]) -> Iterator[str]:
    """The boots by possible CPUs, and then each one that is not good."""
    for cpus in BOOT_CPUS:
        of = [row for row in rows if row.cpus == cpus]
        if of:
            yield f"{cpus:2} possible CPUs: {sum(not row.bad for row in of)} of {len(of)} boots passed"
    for number, row in enumerate(rows, 1):
        if row.bad:
            yield f"boot-{number}, {row.cpus} possible CPUs: {row.bad}"


@contextmanager
def _stress() -> Iterator[None]:
    """Something else for all CPUs to do."""
    with subprocess.Popen(dying_with_us(["stress-ng", "--quiet", "--cpu", str(os.cpu_count() or 1)])) as process:
        try:
            yield
        finally:
            process.terminate()


def warnings_of(log: str, judged: str) -> tuple[str, ...]:
    """The warnings about files below a directory in the output of make, each once.

    Debian's sparse 0.6.4 takes module_param()'s constants for bad ones.
    """
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
            row = COMPILE_ROWS[name]
            verdict, said, found = compile_row(clone, place / "build" / name, name, row)
            verdicts.append(verdict)
            print(f"{verdict.name} {name}: {said}", flush=True)
            for line in found[:10]:
                print(f"    {line}")
    return worst(verdicts)
