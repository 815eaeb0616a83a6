# SPDX-License-Identifier: GPL-2.0
"""tree -> patched tree: the tests are added to a tree, then the changes on top, as commits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from schedlib.cache import cached, contents_of
from schedlib.contracts import c_tables
from schedlib.contracts.c_tables import TABLE, lost_members, require_members, rule_table
from schedlib.contracts.contract_rules import CONTRACTS, our_rules
from schedlib.contracts.struct_source import Source, read_source
from schedlib.errors import SchedlineError
from schedlib.formats import contract_file
from schedlib.git import try_git
from schedlib.paths import CONFIGS, KUNIT, PATCHES
from schedlib.tree import changes
from schedlib.tree.changes import ChangeState, State, change_table, present_changes
from schedlib.tree.kernel_tree import Tree, put_files
from schedlib.tree.source import with_stub, without_hooks
from schedlib.tree.suites import KunitSuite, lacking_features, suite_table

TESTS_DIRECTORY = "kernel/sched/tests"

_MAKEFILE, _KCONFIG = "kernel/sched/Makefile", "lib/Kconfig.debug"
_MAKEFILE_LINE = "obj-$(CONFIG_KUNIT) += tests/\n"
_KCONFIG_LINE = f'source "{TESTS_DIRECTORY}/Kconfig"\n\n'
_KCONFIG_ANCHOR = "endif # RUNTIME_TESTING_MENU\n"


@dataclass(frozen=True)
class Composition:
    """A patched tree.

    Attributes:
        commit: the tests and the changes on top of the tree's base.
        tests: the tests alone.
        states: one for each known change.
        expected: ids of the changes that the tree has to have.
    """

    commit: str
    tests: str
    states: tuple[ChangeState, ...]
    expected: frozenset[str]


_COMPAT, _LACKS = "sched_kunit_compat.h", "sched_kunit_lacks.h"
"""For our builds of kernels that lack something: replacements, and what is lacking."""

Hooks = Mapping[str, tuple[str, Sequence[str]]]
"""For files of the kernel: the option, and the files of the tests that they include under this option."""


def kunit_files() -> dict[str, Path]:
    """The files of kunit/ for kernel/sched/tests/, by their name there. A .txt file is for the host and left out."""
    return {path.name: path for path in sorted(KUNIT.iterdir()) if path.is_file() and path.suffix != ".txt"}


def hooks(suites: Iterable[KunitSuite]) -> dict[str, tuple[str, list[str]]]:
    """The hooks of some suites: those that test static functions."""
    found: dict[str, tuple[str, list[str]]] = {}
    for suite in suites:
        if suite.included_by:
            found.setdefault(suite.included_by, (suite.option, []))[1].append(suite.source)
    return found


def hooked(text: str, line: str, anchor: str | None, file: str) -> str:
    """The file's text with `line` added before the anchor, or at the end; unchanged when it has the line already."""
    if line.strip() in text:
        return text
    if anchor is None:
        return text.rstrip("\n") + "\n" + line
    if text.count(anchor) != 1:
        observed = f"{file} has no line `{anchor.strip()}` where the tests are added"
        raise SchedlineError(observed, "use a tree nearer to 6.12 or 7.3, or report this tree's version")
    return text.replace(anchor, line + anchor)


def _with_hook(text: str, file: str, wanted: Hooks) -> str:
    """The text of a file of the kernel with the #include that it gets, instead of one from an earlier export."""
    bare = without_hooks(text)
    if file not in wanted:
        return bare
    option, names = wanted[file]
    includes = "".join(f'#include "tests/{name}"\n' for name in names)
    return with_stub(bare).rstrip("\n") + f"\n\n#ifdef {option}\n{includes}#endif\n"


def put_tests(
    tree: Tree,
    commit: str,
    files: Mapping[str, bytes],
    wanted: Hooks,
    message: str,
    author: dict[str, str] | None = None,
) -> str:
    """Commit files of the tests, and their hooks, on top of a commit; the same commit when it has them already."""
    found = {f"{TESTS_DIRECTORY}/{name}": data for name, data in files.items()}
    for file in hooks(suite_table().values()):
        text = tree.read(file, commit)
        if text is not None or file in wanted:
            found[file] = _with_hook(text or "", file, wanted).encode()
    found[_MAKEFILE] = hooked(tree.read(_MAKEFILE, commit) or "", _MAKEFILE_LINE, None, _MAKEFILE).encode()
    found[_KCONFIG] = hooked(tree.read(_KCONFIG, commit) or "", _KCONFIG_LINE, _KCONFIG_ANCHOR, _KCONFIG).encode()
    return put_files(tree, commit, found, message, author)


@lru_cache(maxsize=8)
def declarations_of(tree: Tree, commit: str) -> Source:
    """What a commit declares."""
    return read_source(lambda file: tree.read(file, commit))


def with_tests(tree: Tree, commit: str, without: Collection[str] = ()) -> str:
    """A commit with our KUnit tests as it needs them, on top of a commit that may have them already.

    Suites in `without` are not included into files of the kernel.

    The tests depend on the commit: the tables list its structures, and an older kernel gets replacements for what it
    lacks. So call this again when a change or a patch was applied.
    """
    files = {name: path.read_bytes() for name, path in kunit_files().items()}
    # A rule that is judged in part is not judged.
    rules = our_rules().without({each for ids, _ in lost_by(tree, commit) for each in ids})
    files[TABLE] = rule_table(rules, declarations_of(tree, commit)).encode()
    wanted = hooks(suite for suite in suite_table().values() if suite.name not in without)
    lacking = lacking_features(tree, commit)
    if lacking:
        wanted = {file: (option, [_COMPAT, *names]) for file, (option, names) in wanted.items()}
        lines = "".join(f"#define SCHED_KUNIT_LACKS_{name}\n" for name in lacking)
        files[_LACKS] = f"/* SPDX-License-Identifier: GPL-2.0 */\n{lines}".encode()
    else:
        del files[_COMPAT]
    return put_tests(tree, commit, files, wanted, "sched: Add the KUnit tests of schedline, as they fit this tree\n")


def lost_by(tree: Tree, commit: str) -> list[tuple[frozenset[str], SchedlineError]]:
    """What refuse_lost_members() refuses, all of it, with the rules that name it: they cannot be judged."""
    rules, found = our_rules(), []
    for ids, error in lost_members(rules, declarations_of(tree, commit), present_changes(tree, commit)):
        its = [rule.id for rule in rules.rules if rule.id in ids]
        told = SchedlineError(f"{', '.join(its) or 'a sign'}: {error.observed}", error.next_step)
        found.append((ids, told))
    return found


def refuse_lost_members(tree: Tree, commit: str) -> None:
    """SchedlineError if a commit has a change, and in no configuration a member that the change's rules are about."""
    require_members(our_rules(), declarations_of(tree, commit), present_changes(tree, commit))


def compose(
    tree: Tree,
    *,
    with_: Collection[str] = (),
    without: Collection[str] = (),
    expect: Collection[str] | None = None,
    base: str | None = None,
) -> Composition:
    """Add tests and changes to a tree, or take the result from the cache when the inputs are the same as before.

    Our own trees get every carried change, and both these and the upstream ones are expected. A user's tree gets the
    tests and the changes in `with_`. The changes in `expect` are expected of it, or else those in `with_` and those
    that the revision `base` (default: @{upstream}) has.

    Raises SchedlineError: unknown ids, or a revision that does not exist.
    """
    for ids, option in ((with_, "--with"), (without, "--without"), (expect or (), "--expect")):
        changes.known(ids, option)
    carried = {name for patches in changes.patch_sets(tree) for name in patches.default() if not tree.is_user}
    wanted = (carried | set(with_)) - set(without)
    if expect is not None:
        expected = frozenset(expect)
    elif tree.is_user:
        expected = frozenset(with_) | _changes_of_base(tree, base)
    else:
        expected = present_changes(tree) | wanted | carried
    made_by = [*kunit_files().values(), *sorted(CONFIGS.glob("*.toml")), CONTRACTS, PATCHES]
    made_by += [Path(__file__), Path(contract_file.__file__), Path(c_tables.__file__).parent]
    parts = (tree.base, sorted(wanted), sorted(without), sorted(change_table()), *contents_of(made_by))

    def make() -> dict[str, Any]:
        tests = with_tests(tree, tree.base)
        changed, states = changes.apply_changes(tree, tests, wanted, without)
        return {"commit": with_tests(tree, changed), "tests": tests, "states": to_builtins(states)}

    def there(known: dict[str, Any]) -> bool:
        return not try_git(tree.src, "cat-file", "-e", f"{known['commit']}^{{tree}}").returncode

    found = cached(tree.directory / "compositions", parts, make, there)
    return Composition(found["commit"], found["tests"], convert(found["states"], tuple[ChangeState, ...]), expected)


def _changes_of_base(tree: Tree, base: str | None) -> frozenset[str]:
    revision = try_git(Path(tree.origin), "rev-parse", "--verify", "--quiet", f"{base or '@{upstream}'}^{{commit}}")
    if revision.returncode:
        if base is not None:
            raise SchedlineError(f"--base: {tree.origin} has no revision {base!r}", "git log --oneline")
        return frozenset()
    return present_changes(tree, revision.stdout.decode().strip())


def refuse_conflicts(composition: Composition) -> None:
    """SchedlineError, with change, file and hunk, if a change did not apply."""
    for row in composition.states:
        if row.state is State.CONFLICT:
            raise SchedlineError(
                f"{row.id} does not apply:{changes.hunks(row.hunk_offsets)}",
                f"leave it out (--without {row.id}), or rebase its patch; schedline status --apply shows all changes",
            )
