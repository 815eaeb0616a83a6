# SPDX-License-Identifier: GPL-2.0
"""Export a series for git am: fixes, one suite or program per patch, and each change, followed by its tests.

In kunit/, symbols mark code that not every tree gets: `#ifndef SCHED_KUNIT_EXPORTED` what only our own builds need,
`#ifndef SCHED_KUNIT_NO_SIGNS` what only the signs of changes use,
`#ifndef SCHED_KUNIT_NO_<change>` the tests of a change, `#ifndef SCHED_KUNIT_RQ_ORDER_ALONE` what the rules of rq-order
do not use, `#ifdef SCHED_KUNIT_LACKS_<feature>` what an older kernel
needs. Our own builds define only the last, and only for such a kernel. Here the tree's own unifdef resolves all of
them, so that an exported file has no dead branches.

In a text, a line `[needs: NAME ...]` stands in front of lines that are only true of some series. They end at the next
such line or at an empty line, and stay if the series has all the names: changes, suites, tests (suite:case), or
documents of Documentation/process/. So a finding can only be told where the test that shows it is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.console.expected import load_expected
from schedlib.contracts.c_tables import TABLE, rule_table
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.git import git, try_git
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import COLLECTION, KSELFTESTS, KUNIT, PROJECT
from schedlib.process import must, run
from schedlib.progress import say
from schedlib.tree.changes import State, apply_changes, change_table, hunks, known, patch_sets, present_changes
from schedlib.tree.compose import (
    TESTS_DIRECTORY,
    declarations_of,
    hooked,
    hooks,
    kunit_files,
    put_tests,
    refuse_lost_members,
)
from schedlib.tree.kernel_tree import Tree, at, open_tree, put_files, sender
from schedlib.tree.selftest_programs import LIBRARY, TEXT_OF_LIBRARY, files_of, message, program_sources
from schedlib.tree.suites import KunitSuite, feature_table, lacking_features, left_out, suite_table
from schedlib.verdict import Verdict

DOCUMENT = "Documentation/scheduler/sched-kunit.rst"

MESSAGES = KUNIT / "commit-messages"
"""The texts of the commits that add a suite, the tests of a change, or the documentation."""

_SPLIT_OPTIONS = ("CPUPRI_GLOBAL", "CPUPRI_ARRAYS", "CPUPRI_SBM", "CPUPRI_SPLIT", "RTO_COUNT_SPLIT")
"""What cpupri-split adds below CONFIG_SCHED_. Without it they are undefined."""

_PARTS = {"Makefile": "\n\n", ".kunitconfig": "\n\n", "Kconfig": "\n(?=config )"}
"""The files that grow with the suites, and what separates their parts."""


PROCESS = ("generated-content", "coding-assistants")
"""What a kernel may say about tools, in Documentation/process/NAME.rst."""

_TAG = re.compile(r"\[needs: (.+)\]$")


@dataclass(frozen=True)
class ExportedSeries:
    """The patches in their order, the changes that the tree has with all of them, and why it does not have the rest."""

    patches: tuple[Path, ...]
    changes: frozenset[str]
    left_out: tuple[str, ...]


@contextmanager
def _built_unifdef(tree: Tree) -> Iterator[Path]:
    """The tree's unifdef, built for this machine; SchedlineError if the tree has none."""
    source = tree.read("scripts/unifdef.c", tree.head)
    if source is None:
        observed = f"{tree.origin} has no scripts/unifdef.c, which adapts the tests to a tree"
        raise SchedlineError(observed, "use a whole tree")
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        program, file = Path(scratch, "unifdef"), Path(scratch, "unifdef.c")
        file.write_text(source)
        must(["gcc", "-w", "-o", program, file])
        yield program


def _symbols(there: Collection[str], lacking: Collection[str]) -> list[str]:
    """What is defined, or not, for a tree that has some of the changes, and lacks some of the features."""
    symbols = ["-DSCHED_KUNIT_EXPORTED", "-DSCHED_KUNIT_NO_SIGNS"]
    symbols += [f"-{'D' if name in lacking else 'U'}SCHED_KUNIT_LACKS_{name}" for name in feature_table()]
    for change in change_table():
        symbols.append(f"-{'U' if change in there else 'D'}SCHED_KUNIT_NO_{change.upper().replace('-', '_')}")
    alone = all(rule.change == "rq-order" for rule in our_rules().only(there).rules)
    symbols.append(f"-{'D' if alone else 'U'}SCHED_KUNIT_RQ_ORDER_ALONE")
    if "cpupri-split" not in there:
        symbols += [f"-UCONFIG_SCHED_{name}" for name in _SPLIT_OPTIONS]
    return symbols


def _resolved(unifdef: Path, file: Path, symbols: Sequence[str]) -> bytes:
    """A file with the branches that these symbols leave, if it is C."""
    if file.suffix not in (".c", ".h"):
        return file.read_bytes()
    done = run([unifdef, "-B", *symbols], stdin=file.read_bytes())
    if done.returncode > 1:
        raise SchedlineError(f"unifdef failed: {done.stderr.decode(errors='replace')}", "report it")
    return done.stdout


def _kept_tests(
    tree: Tree, commit: str, unifdef: Path, suites: Sequence[KunitSuite], there: Collection[str]
) -> dict[str, bytes]:
    """The files of some suites for kernel/sched/tests/, for a commit that has some of the changes."""
    symbols = _symbols(there, lacking_features(tree, commit))
    texts = {name: _resolved(unifdef, path, symbols) for name, path in kunit_files().items()}
    texts[TABLE] = rule_table(our_rules().only(there), declarations_of(tree, commit)).encode()
    grown = {name: _grown(texts[name].decode(), split, suites) for name, split in _PARTS.items()}
    roots = [f"{name}.c" for name in re.findall(r"(\w+)\.o\b", grown["Makefile"])]
    roots += [name for _, names in hooks(suites).values() for name in names]
    found = _closure(roots, texts)
    return {name: texts[name] for name in found} | {name: text.encode() for name, text in grown.items()}


def _grown(text: str, split: str, suites: Sequence[KunitSuite]) -> str:
    """The parts of a file that name no suite but these."""
    known = frozenset[str]().union(*(suite.words for suite in suites))
    others = frozenset[str]().union(*(suite.words for suite in suite_table().values())) - known
    parts = [part for part in re.split(split, text) if others.isdisjoint(re.findall(r"[\w.]+", part))]
    return ("\n" if "(?=" in split else split).join(parts).rstrip("\n") + "\n"


def _closure(roots: Sequence[str], texts: Mapping[str, bytes]) -> list[str]:
    """The files that some files need: those that they #include, and so on."""
    found: list[str] = []
    todo = [name for name in roots if name in texts]
    while todo:
        name = todo.pop(0)
        if name not in found:
            found.append(name)
            todo += [each for each in re.findall(r'^#include "([^"/]+)"$', texts[name].decode(), re.M) if each in texts]
    return found


def holds(changes: Collection[str] | None, suites: Collection[str] | None) -> frozenset[str]:
    """The names that a series holds which has these changes and these suites; None: all."""
    tests = load_expected(KUNIT / "tests.txt", None, changes)
    found = set(change_table() if changes is None else changes)
    for test in tests:
        if suites is None or test.split(":")[0] in suites:
            found.update(test[: match.start()] for match in re.finditer(r":|$", test))
    return frozenset(found)


def told(file: Path, held: Collection[str]) -> str:
    """The text of a file, as it is true of a series that holds these names; SchedlineError for a name of none."""
    known = holds(None, None).union(PROCESS)
    kept: list[str] = []
    keep = True
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if tag := _TAG.match(line):
            names = set(tag[1].split())
            if unknown := sorted(names - known):
                raise SchedlineError(f"{file}:{number}: no series has {unknown[0]}", "name a change, a suite or a test")
            keep = names <= set(held)
        elif not line:
            keep = True
            kept += [""] if kept and kept[-1] else []
        elif keep:
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"


@dataclass(frozen=True)
class _Series:
    """A series in the making, and the commit that it has reached."""

    tree: Tree
    author: dict[str, str]
    unifdef: Path
    commit: str

    def put(self, files: dict[str, bytes], message: str, made_from: Path) -> _Series:
        """One patch more, which writes these files. It has the date of the file of ours that it was made from."""
        return replace(self, commit=put_files(self.tree, self.commit, files, message, self._dated(made_from)))

    def put_suites(self, more: Collection[str], message: Path, made_from: Path) -> _Series:
        """One patch more: the tree's suites as they fit the changes that it has now, and some suites more."""
        suites = [suite for suite in suite_table().values() if suite.name in more or self.has(suite)]
        files = _kept_tests(self.tree, self.commit, self.unifdef, suites, self.there())
        text = told(message, holds(self.there(), [suite.name for suite in suites]))
        commit = put_tests(self.tree, self.commit, files, hooks(suites), text, self._dated(made_from))
        return replace(self, commit=commit)

    def put_each(self, suites: Sequence[KunitSuite]) -> _Series:
        """One patch for each of some suites that the tree does not have as they are today."""
        series = self
        for suite in suites:
            series = series.put_suites([suite.name], MESSAGES / f"{suite.name}.txt", KUNIT / suite.source)
        return series

    def put_change(self, name: str) -> _Series:
        """The patch of a change, then the suites that only now have something to test, then its tests."""
        series, _ = self.change((name,), ())
        series = series.put_each([suite for suite in series.fitting() if not series.has(suite)])
        message = MESSAGES / f"{name}.txt"
        return series.put_suites((), message, message)

    def fitting(self) -> tuple[KunitSuite, ...]:
        """The suites that have something to test in the tree."""
        return tuple(suite for suite in suite_table().values() if suite.fits(self.there()))

    def has(self, suite: KunitSuite) -> bool:
        return self.tree.read(f"{TESTS_DIRECTORY}/{suite.source}", self.commit) is not None

    def held(self) -> frozenset[str]:
        """What a text about the series as it is now may tell of."""
        return holds(self.there(), [suite.name for suite in suite_table().values() if self.has(suite)])

    def change(self, with_: Collection[str], without: Collection[str]) -> tuple[_Series, tuple[str, ...]]:
        """The patches of some changes more, or of their reverts; and which changes were applied, in their order."""
        commit, states = apply_changes(self.tree, self.commit, with_, without, self.author)
        for row in states:
            if row.state is State.CONFLICT:
                observed = f"{row.id} does not apply to {self.tree.origin}:{hunks(row.hunk_offsets)}"
                raise SchedlineError(observed, "export without it, or rebase it by hand")
        return replace(self, commit=commit), tuple(row.id for row in states if row.state is State.APPLIED)

    def there(self) -> frozenset[str]:
        """The changes that the commit has."""
        return present_changes(self.tree, self.commit)

    def _dated(self, file: Path) -> dict[str, str]:
        """The author at the time of SOURCE_DATE_EPOCH, of a file's last commit, or without git of its modification."""
        if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
            return self.author | {"GIT_AUTHOR_DATE": f"@{epoch} +0000"}
        committed = try_git(PROJECT, "log", "-1", "--format=%cI", "--", file).stdout.decode().strip()
        return self.author | {"GIT_AUTHOR_DATE": committed or f"@{file.stat().st_mtime:.0f} +0000"}


def _add_documentation(series: _Series) -> _Series:
    maintainers = series.tree.read("MAINTAINERS", series.commit) or ""
    entry = re.search(r"^SCHEDULER\n(?:(?!F:).+\n)*((?:F:.*\n)+)", maintainers, re.M)
    if entry is None:
        raise SchedlineError("MAINTAINERS has no SCHEDULER entry", "use a tree nearer to 6.12 or 7.3")
    listed = entry[1].splitlines(keepends=True)
    for line in (f"F:\t{DOCUMENT}\n", f"F:\t{KSELFTESTS}/{COLLECTION}/\n"):
        if line not in listed:
            listed.append(line)
    maintainers = maintainers[: entry.start(1)] + "".join(sorted(listed)) + maintainers[entry.end(1) :]
    index = "Documentation/scheduler/index.rst"
    pages = hooked(series.tree.read(index, series.commit) or "", "    sched-kunit\n", "    sched-debug\n", index)
    page = told(KUNIT / DOCUMENT, series.held())
    files = {DOCUMENT: page, index: pages, "MAINTAINERS": maintainers}
    message = told(MESSAGES / "documentation.txt", series.held())
    return series.put({name: text.encode() for name, text in files.items()}, message, KUNIT / DOCUMENT)


def _add_selftests(series: _Series) -> _Series:
    """Add the library, and the programs one by one. A tree without the selftests' lib.mk is not changed."""
    if series.tree.read(f"{KSELFTESTS}/lib.mk", series.commit) is None:
        return series
    place = f"{KSELFTESTS}/{COLLECTION}"
    there = {name for name in program_sources() if series.tree.read(f"{place}/{name}.c", series.commit) is not None}

    listed = f"{KSELFTESTS}/Makefile"
    targets = hooked(
        series.tree.read(listed, series.commit) or "", f"TARGETS += {COLLECTION}\n", "TARGETS += seccomp\n", listed
    )

    def put(text: str, made_from: Path) -> _Series:
        files = {f"{place}/{name}": data for name, data in files_of(there).items()}
        return series.put(files | {listed: targets.encode()}, text, made_from)

    series = put(TEXT_OF_LIBRARY.read_text(), LIBRARY)
    for program, source in program_sources().items():
        there.add(program)
        series = put(message(program), source)
    return series


def _fixes(tree: Tree, there: Collection[str]) -> tuple[str, ...]:
    """The carried fixes of the cluster scan that a tree with these changes lacks: their tests fail without them."""
    if "cluster-scan" not in there:
        return ()
    names = [name for name in change_table() if name.startswith("fix-") and name not in there]
    return tuple(name for name in names if any(patches.patch(name).is_file() for patches in patch_sets(tree)))


def _left_out(tree: Tree, there: Collection[str]) -> tuple[str, ...]:
    lines = []
    for change in change_table():
        if change not in there:
            carried = any(patches.patch(change).is_file() for patches in patch_sets(tree))
            how = f"--with {change} adds both" if carried else "no patch of it is carried"
            lines.append(f"left out: the tests of {change}, which is not in this tree ({how})")
    for suite in suite_table().values():
        if not suite.ours and not suite.fits(there):
            lines.append(f"left out: {suite.name}, which tests only {', '.join(suite.only_with)}")
    return tuple(lines)


def _refuse_old(tree: Tree) -> None:
    """Stop if a tree lacks what the tests use; only our own builds have replacements, with a SchedlineError."""
    lacking = [f"{suite.name} cannot be built: {suite.why}" for suite in left_out(tree, ())]
    needed = {name for name, feature in feature_table().items() if not feature.optional}
    missing = needed.intersection(lacking_features(tree, tree.head))
    lacking += [f"it lacks {name}, see configs/features.toml" for name in sorted(missing)]
    if lacking:
        observed = f"{tree.origin} is too old to include the tests; {lacking[0]}"
        raise SchedlineError(observed, "test it without an export: schedline check --kdir PATH")


def export(tree: Tree, out: Path, with_: Collection[str], without: Collection[str]) -> ExportedSeries:
    """Write the series into a new or empty directory.

    The cover letter is a .txt file, so that `git am *.patch` takes only the patches. SchedlineError: an id is unknown,
    a change does not apply, git has no author, or the tree is too old, or has everything already.
    """
    known(with_, "--with")
    known(without, "--without")
    tree = at(tree, tree.head)
    _refuse_old(tree)
    if not (author := sender(tree)):  # a series goes out under its sender's name
        raise SchedlineError(
            "git knows no author for the exported patches",
            "git config --global user.name 'Your Name'; git config --global user.email you@example.org",
        )
    with _built_unifdef(tree) as unifdef:
        series, _ = _Series(tree, author, unifdef, tree.head).change((), without)
        # All at once shows the order, and whether all apply.
        wanted = {*with_, *_fixes(tree, series.there())} - set(without)
        _, order = series.change(wanted, ())
        fixes = [name for name in order if name.startswith("fix-")]
        for name in fixes:
            series, _ = series.change((name,), ())
        series = series.put_each(series.fitting())
        changes = [name for name in order if name not in fixes]
        for name in changes:
            series = series.put_change(name)
        series = _add_selftests(_add_documentation(series))
    if series.commit == tree.head:
        raise SchedlineError(f"{tree.origin} has everything that the series would add", "there is nothing to export")
    refuse_lost_members(tree, series.commit)
    _write(series, out, *([change_table()[name].title for name in names] for names in (fixes, changes)))
    there = series.there()
    return ExportedSeries(tuple(sorted(out.glob("*.patch"))), there, _left_out(tree, there))


def _write(series: _Series, out: Path, fixes: Sequence[str], changes: Sequence[str]) -> None:
    head, commit = series.tree.head, series.commit
    words = ("--quiet", f"--base={head}", "--cover-letter", "-o", out.absolute(), f"{head}..{commit}")
    # Two exports of one tree are the same bytes if the caller fixes the time, the cover letter's date included.
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    given = {"GIT_COMMITTER_DATE": f"@{epoch} +0000"} if epoch else {}
    git(series.tree.src, "format-patch", *words, env=series.author | given)
    cover = out / "0000-cover-letter.patch"
    subject, _, blurb = told(KUNIT / "cover-letter.txt", series.held()).partition("\n\n")
    told_of = {"begins with these fixes": fixes, "has these changes, each followed by its tests": changes}
    for what, titles in told_of.items():
        if titles:
            blurb += f"\nThe series {what}:\n\n" + "".join(f"  - {title}\n" for title in titles)
    text = cover.read_text().replace("*** SUBJECT HERE ***", subject).replace("*** BLURB HERE ***\n", blurb)
    write_atomic(out / "0000-cover-letter.txt", text)
    cover.unlink()
    process = [name for name in PROCESS if series.tree.read(f"Documentation/process/{name}.rst") is not None]
    write_atomic(out / "SENDER", told(KUNIT / "sender.txt", series.held().union(process)))


def export_tree(chosen: TreeOptions, changes: ChangeOptions, out: Path | None) -> Verdict:
    """Write the series of a tree, and print where it is. Without `out`, it replaces an earlier one in the cache."""
    doctor.require(["compile", *chosen.needs])
    cache = cache_dir()
    tree = open_tree(cache, chosen)
    if out is None:
        out = cache / "exports" / f"{tree.name}-{tree.head[:12]}"
        shutil.rmtree(out, ignore_errors=True)
    series = export(tree, out, changes.with_, changes.without)
    if tree.dirty:
        say(f"note: {tree.dirty} uncommitted files are not part of the series; it is made for {tree.head[:12]}")
    print(*series.patches, f"cover letter: {out / '0000-cover-letter.txt'}", *series.left_out, sep="\n")
    print(f"before you send it: {out / 'SENDER'}")
    print(f"next: git am -s {shlex.quote(str(out))}/*.patch")
    return Verdict.PASS
