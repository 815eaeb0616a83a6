# SPDX-License-Identifier: GPL-2.0
"""`schedline test-tree`: the exported series in a plain kernel tree, run by the tree's own kunit.py."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor, options
from schedlib.check.check_verb import expected_tests
from schedlib.errors import SchedlineError
from schedlib.git import git
from schedlib.process import clean_environment
from schedlib.progress import say, step
from schedlib.tree.changes import patch_sets
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.tree.export import export
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@localhost")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline test-tree`."""
    parser = subparsers.add_parser(
        "test-tree",
        help="the exported series in a plain kernel tree, without schedline",
        description="Exports tests and changes, applies them with `git am` to a fresh clone, and runs the clone's own\n"
        "kunit.py: in UML, in QEMU, and with --alltests. Only the clone and Python's standard library are\n"
        "used from there on. --alltests builds half the kernel: leave it out for a quick answer.",
        epilog="examples:\n  schedline test-tree\n  schedline test-tree --skip alltests",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    parser.add_argument("--skip", type=options.ids, default=(), metavar="RUN,...", help="of uml, qemu, alltests")
    parser.set_defaults(run=_run)


def clone_with_series(tree: Tree, place: Path) -> Path:
    """A fresh clone of a tree's head with the exported series applied by git am."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    clone, series = place / "linux", place / "series"
    with step("cloning"):
        git(place, "init", "--quiet", clone)
        (clone / ".git/objects/info/alternates").write_text(f"{tree.src / '.git/objects'}\n")
        git(clone, "reset", "--quiet", "--hard", tree.head)
    names = () if tree.is_user else patch_sets(tree)[0].default()
    patches = export(tree, series, names, ())
    git(clone, *_IDENTITY, "am", *patches)
    return clone


def missing_tests(document: dict[str, object], wanted: Sequence[str]) -> list[str]:
    """The names that a kunit.py JSON document does not show as passed or skipped."""
    found: set[str] = set()

    def walk(group: dict[str, object], path: tuple[str, ...]) -> None:
        for case in group.get("test_cases", []):  # type: ignore[attr-defined]
            if case["status"] in ("PASS", "SKIP"):
                found.add(":".join((*path, case["name"])))
        for inner in group.get("sub_groups", []):  # type: ignore[attr-defined]
            walk(inner, (*path, str(inner["name"])))

    walk(document, ())
    return [name for name in wanted if name not in found]


def _hidden_kvm() -> list[str]:
    """A prefix under which QEMU finds no KVM: kunit.py prefers it, and it may hang where it opens."""
    if os.geteuid() != 0 or not Path("/dev/kvm").exists():
        return []
    return ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /dev/kvm && exec "$@"', "sh"]


_UML = ("--kernel_args=ncpus=64", "--kernel_args=maxcpus=8", "--kernel_args=seccomp=on")
_RUNS: dict[str, tuple[tuple[str, ...], float]] = {
    "uml": ((f"--kunitconfig={TESTS_DIRECTORY}", *_UML), 1200),
    "qemu": ((f"--kunitconfig={TESTS_DIRECTORY}", "--arch=x86_64", "--qemu_args=-smp 8"), 2400),
    "alltests": (("--alltests",), 5400),
}


def run_kunit(clone: Path, name: str) -> tuple[int, list[str], Path]:
    """One run of the clone's kunit.py: its exit status, our tests that it does not show, and its output.

    Raises:
        SchedlineError: it did not end in time.
    """
    words, timeout = _RUNS[name]
    (clone.parent / "build").mkdir(exist_ok=True)
    document, log = clone.parent / f"{name}.json", clone.parent / f"{name}.log"
    argv = [
        sys.executable,
        "tools/testing/kunit/kunit.py",
        "run",
        *words,
        f"--json={document}",
        f"--build_dir={clone.parent / 'build' / name}",
        f"--jobs={os.cpu_count() or 1}",
    ]
    if name == "qemu":
        argv = [*_hidden_kvm(), *argv]
    with step(f"kunit.py run {' '.join(words)}"), log.open("wb") as file:
        try:
            done = subprocess.run(
                argv,
                cwd=clone,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SchedlineError(f"kunit.py did not end within {timeout:.0f} s", f"see {log}") from error
    if not document.is_file():
        return done.returncode, ["everything: kunit.py wrote no JSON"], log
    return done.returncode, missing_tests(json.loads(document.read_text()), expected_tests(8, None)), log


def _run(arguments: argparse.Namespace) -> int:
    unknown = set(arguments.skip) - set(_RUNS)
    if unknown:
        raise SchedlineError(f"--skip: there is no run {sorted(unknown)[0]!r}", f"choose from {', '.join(_RUNS)}")
    failed = False
    with options.opened_tree(arguments) as (cache, tree):
        doctor.ensure(["uml", *([] if "qemu" in arguments.skip else ["qemu-x86_64"])])
        clone = clone_with_series(tree, cache / "test-tree")
        for name in _RUNS:
            if name in arguments.skip:
                say(f"skipped: {name} (--skip)")
                continue
            status, missing, log = run_kunit(clone, name)
            # All suites of the kernel may not pass here; ours have to be among them and pass or be skipped.
            good = not missing and (status == 0 or name == "alltests")
            failed |= not good
            print(f"{'PASS' if good else 'FAIL'} {name}: kunit.py exit {status}, log {log}")
            for test in missing:
                print(f"    not shown as passed or skipped: {test}")
    return (Verdict.FAIL if failed else Verdict.PASS).exit_code
