# SPDX-License-Identifier: GPL-2.0
"""Export a series for git am: the tests, then the changes as separate patches, and the layout rules as assertions."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Collection
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.layout.emit import add_asserts
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import COLLECTION, KSELFTESTS, KUNIT, REPORTS, SELFTESTS
from schedlib.progress import say
from schedlib.tree.changes import State, apply_changes, change_table, known, left_out, read_mail
from schedlib.tree.compose import TESTS_DIRECTORY, add_tests, hooked, with_tables
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row, open_tree
from schedlib.verdict import Verdict

DOCUMENT = "Documentation/scheduler/sched-kunit.rst"

_COVER = """\
These tests check the cache-line layout of struct rq, struct root_domain and
struct cpupri_vec, and the behaviour of cpupri, as a few changes defined them.
Nothing in the tree checks them today: one more field can undo a layout
silently.

  ./tools/testing/kunit/kunit.py run --kunitconfig={directory} \\
      --kernel_args=ncpus=64 --kernel_args=maxcpus=8 --kernel_args=seccomp=on

runs them in User-Mode Linux. A layout rule of a change that the tree does not
have is skipped with the reason; sched_layout_kunit.expect=ID,... turns that
into a failure. {document} has the details.

The workloads run on the target, which should do nothing else meanwhile:

  make TARGETS=sched_latency kselftest
"""


_OTHERS = frozenset({"Makefile", "README", "config", "settings", ".gitignore"})

LOST = re.compile(r"^TEST_GEN_FILES := (\w+)\nTEST_PROGS := \1\n", re.M)
"""The bug in selftests/sched: a built program is listed as if it were a script in the source tree."""


def _author(tree: Tree) -> dict[str, str]:
    """The user's name and address in git's configuration: a series goes out under its sender's name."""
    place = Path(tree.origin) if tree.is_user and Path(tree.origin).is_dir() else tree.src
    found = [try_git(place, "config", key).stdout.decode().strip() for key in ("user.name", "user.email")]
    if not all(found):
        raise SchedlineError(
            "git knows no author for the exported patches",
            "git config --global user.name 'Your Name'; git config --global user.email you@example.org",
        )
    who = dict(zip(("NAME", "EMAIL"), found, strict=True))
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}


def _add_documentation(tree: Tree, parent: str, author: dict[str, str]) -> str:
    """Commit the documentation page, its entry in the index and the MAINTAINERS line."""
    maintainers = tree.read("MAINTAINERS", parent) or ""
    line = f"F:\t{DOCUMENT}\n"
    if line not in maintainers:
        entry = re.search(r"^SCHEDULER\n(?:.+\n)*?(?=F:)", maintainers, re.M)
        if entry is None:
            raise SchedlineError("MAINTAINERS has no SCHEDULER entry", "use a tree nearer to 6.12 or 7.3")
        maintainers = maintainers[: entry.end()] + line + maintainers[entry.end() :]
    index = "Documentation/scheduler/index.rst"
    files = {
        DOCUMENT: (KUNIT / DOCUMENT).read_text(),
        index: hooked(tree.read(index, parent) or "", "    sched-kunit\n", "    sched-debug\n", index),
        "MAINTAINERS": maintainers,
    }
    rows = [file_row(tree.src, name, text.encode()) for name, text in files.items()]
    message = (KUNIT / "Documentation/commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, parent, rows), parent, message, author)


def selftest_files() -> dict[str, tuple[bytes, str]]:
    """The files of the collection: content and git mode by their path in its directory."""
    top = SELFTESTS / COLLECTION
    return {
        path.relative_to(top).as_posix(): (path.read_bytes(), "100644")
        for path in sorted(top.rglob("*"))
        if path.suffix in (".c", ".h") or path.name in _OTHERS
    }


def _add_sched_fix(tree: Tree, parent: str, author: dict[str, str]) -> str:
    """Commit the fix of selftests/sched if the tree needs it. Without the fix, that collection does not install."""
    name = f"{KSELFTESTS}/sched/Makefile"
    text = tree.read(name, parent) or ""
    fixed = LOST.sub(r"TEST_GEN_PROGS := \1\n", text)
    if fixed == text:
        return parent
    message = read_mail(tree.src, REPORTS / "06-selftests-sched.patch").text
    row = file_row(tree.src, name, fixed.encode())
    return commit_tree(tree.src, edit_tree(tree.src, parent, [row]), parent, message, author)


def _add_selftests(tree: Tree, parent: str, author: dict[str, str]) -> str:
    """Commit the workloads. A tree without the selftests' lib.mk is not changed."""
    if tree.read(f"{KSELFTESTS}/lib.mk", parent) is None:
        return parent
    rows = [
        file_row(tree.src, f"{KSELFTESTS}/{COLLECTION}/{name}", data, mode)
        for name, (data, mode) in selftest_files().items()
    ]
    message = (SELFTESTS / "commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, parent, rows), parent, message, author)


def export(tree: Tree, out: Path, with_: Collection[str], without: Collection[str]) -> tuple[Path, ...]:
    """Write the series, and return its patches in order.

    The cover letter is a .txt file, so that `git am *.patch` takes only the patches.

    Raises:
        SchedlineError: an id is unknown, a change does not apply, the output directory is not empty, git has no
            author, or the tree is too old for a suite.
    """
    known(with_, "--with")
    known(without, "--without")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SchedlineError(f"{out} is not an empty directory", "name another: -o DIR")
    for suite in left_out(tree, (), in_tree=True):
        raise SchedlineError(
            f"{tree.origin} is too old to include the tests: {suite.name} cannot be built, {suite.why}",
            "test it without an export: schedline check --kdir PATH",
        )
    author = _author(tree)
    tests = add_tests(tree, _add_sched_fix(tree, tree.head, author), author, in_tree=True)
    documented = _add_documentation(tree, tests, author)
    commit, states = apply_changes(tree, _add_selftests(tree, documented, author), with_, without, author)
    for row in states:
        if row.state is State.CONFLICT:
            raise SchedlineError(
                f"{row.id} does not apply to {tree.origin}:\n    " + "\n    ".join(row.drift),
                "export without it, or rebase it by hand",
            )
    commit = with_tables(tree, commit, author)
    there = {row.id for row in states if row.state.is_there}
    if there:
        commit = add_asserts(tree, commit, our_rules(), there, author)
    titles = [change_table()[row.id].title for row in states if row.state in (State.APPLIED, State.REVERTED)]
    words = ("--quiet", f"--base={tree.head}", "--cover-letter", "-o", out.absolute(), f"{tree.head}..{commit}")
    git(tree.src, "format-patch", *words, env=author)
    cover = out / "0000-cover-letter.patch"
    text = cover.read_text().replace("*** SUBJECT HERE ***", "sched: KUnit tests for cache-line layout and cpupri")
    blurb = _COVER.format(directory=TESTS_DIRECTORY, document=DOCUMENT)
    if titles:
        blurb += "\nThe changes themselves follow the tests:\n" + "".join(f"  - {title}\n" for title in titles)
    write_atomic(out / "0000-cover-letter.txt", text.replace("*** BLURB HERE ***\n", blurb))
    cover.unlink()
    return tuple(sorted(out.glob("*.patch")))


def export_tree(chosen: TreeOptions, changes: ChangeOptions, out: Path | None) -> Verdict:
    """Write the series of a tree, and print where it is. Without `out`, it replaces an earlier one in the cache.

    Raises:
        SchedlineError: see export(); or the tree is not available.
    """
    doctor.require(["compile", *chosen.needs])
    cache = cache_dir()
    tree = open_tree(cache, chosen)
    if out is None:
        out = cache / "exports" / f"{tree.name}-{tree.head[:12]}"
        shutil.rmtree(out, ignore_errors=True)
    patches = export(tree, out, changes.with_, changes.without)
    if tree.dirty:
        say(f"note: {tree.dirty} uncommitted files are not part of the series; it is made for {tree.head[:12]}")
    print(*patches, f"cover letter: {out / '0000-cover-letter.txt'}", sep="\n")
    print(f"next: git am -s {shlex.quote(str(out))}/*.patch")
    return Verdict.PASS
