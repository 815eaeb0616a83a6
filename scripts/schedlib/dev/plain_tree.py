# SPDX-License-Identifier: GPL-2.0
"""Runs the exported series in a plain kernel tree, with the tree's own kunit.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, lock
from schedlib.console.expected import expected_tests
from schedlib.dev.dev_options import KUNIT_RUNS, PlainTreeOptions
from schedlib.errors import SchedlineError
from schedlib.export.export_job import export
from schedlib.git import git
from schedlib.process import clean_environment
from schedlib.progress import say, step
from schedlib.tree.changes import patch_sets
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict


def clone_with_series(tree: Tree, place: Path) -> Path:
    """A new clone of a tree's head with the exported series applied by git am."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    clone, series = place / "linux", place / "series"
    with step("cloning"):
        git(place, "init", "--quiet", clone)
        (clone / ".git/objects/info/alternates").write_text(f"{tree.src / '.git/objects'}\n")
        git(clone, "reset", "--quiet", "--hard", tree.head)
    names = () if tree.is_user else patch_sets(tree)[0].default()
    patches = export(tree, series, names, ())
    git(clone, "-c", "user.name=test", "-c", "user.email=test@localhost", "am", *patches)
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


def _run_kunit(clone: Path, name: str) -> tuple[int, list[str], Path]:
    """Run the clone's kunit.py once. Returns its exit status, those of our tests that it does not show, and its log."""
    wanted = KUNIT_RUNS[name]
    (clone.parent / "build").mkdir(exist_ok=True)
    document, log = clone.parent / f"{name}.json", clone.parent / f"{name}.log"
    argv = [sys.executable, "tools/testing/kunit/kunit.py", "run", *wanted.words, f"--json={document}"]
    argv += [f"--build_dir={clone.parent / 'build' / name}", f"--jobs={os.cpu_count() or 1}"]
    if name == "qemu" and os.geteuid() == 0 and Path("/dev/kvm").exists():
        # kunit.py prefers KVM, which may hang although it can be opened. Hide it from QEMU.
        argv = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null /dev/kvm && exec "$@"', "sh", *argv]
    with step(f"kunit.py run {' '.join(wanted.words)}"), log.open("wb") as file:
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
    if not document.is_file():
        return done.returncode, ["everything: kunit.py wrote no JSON"], log
    expected = expected_tests(8, None, wanted.without)
    return done.returncode, missing_tests(json.loads(document.read_text()), expected), log


def run_series(options: PlainTreeOptions) -> Verdict:
    """Export tests and changes into a clone of a tree, and run them with its own kunit.py.

    Raises:
        SchedlineError: the tree is not available, the series does not apply, or kunit.py does not end.
    """
    doctor.require(["build", *options.tree.needs, "uml", *([] if "qemu" in options.skip else ["qemu-x86_64"])])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    failed = False
    with lock(cache / "test-tree.lock"):
        clone = clone_with_series(tree, cache / "test-tree")
        for name in KUNIT_RUNS:
            if name in options.skip:
                say(f"skipped: {name} (--skip)")
                continue
            status, missing, log = _run_kunit(clone, name)
            # With --alltests, other suites of the kernel may fail. Ours must be present, and pass or be skipped.
            good = not missing and (status == 0 or name == "alltests")
            failed |= not good
            print(f"{'PASS' if good else 'FAIL'} {name}: kunit.py exit {status}, log {log}")
            for test in missing:
                print(f"    not shown as passed or skipped: {test}")
    return Verdict.FAIL if failed else Verdict.PASS
