# SPDX-License-Identifier: GPL-2.0
"""tree -> patched tree: the tests are added to a tree, then the changes on top, as commits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from schedlib.cache import read_json, write_json
from schedlib.contracts import c_tables
from schedlib.contracts.c_tables import require_members, tables
from schedlib.contracts.contract_rules import CONTRACTS, our_rules
from schedlib.contracts.struct_source import Source, read_source
from schedlib.errors import SchedlineError
from schedlib.formats import contract_file
from schedlib.git import git, try_git
from schedlib.paths import CONFIGS, KUNIT, PATCHES
from schedlib.tree import changes
from schedlib.tree.changes import ChangeState, State, change_table, present_changes
from schedlib.tree.kernel_tree import Tree, commit_tree, edit_tree, file_row

TESTS_DIRECTORY = "kernel/sched/tests"

_MAKEFILE, _KCONFIG = "kernel/sched/Makefile", "lib/Kconfig.debug"
_MAKEFILE_LINE = "obj-$(CONFIG_KUNIT) += tests/\n"
_KCONFIG_LINE = f'source "{TESTS_DIRECTORY}/Kconfig"\n\n'
_KCONFIG_ANCHOR = "endif # RUNTIME_TESTING_MENU\n"


@dataclass(frozen=True)
class Composition:
    """A patched tree.

    Attributes:
        commit: the commit with the tests and the changes on top of the tree's base.
        tests: the commit with the tests alone.
        states: one for each known change.
        expected: ids of the changes that the tree has to have.
    """

    commit: str
    tests: str
    states: tuple[ChangeState, ...]
    expected: frozenset[str]


_WRAPPED = """
# The tests of select_idle_sibling() and of the domains use static functions of these
# files, and a generated header that says which features this kernel has.
ifdef CONFIG_SCHED_CLUSTER_KUNIT_TEST
obj-y := $(patsubst fair.o,tests/wrap_fair.o,$(patsubst build_utility.o,tests/wrap_build_utility.o,$(obj-y)))

sched-features := tests/sched_kunit_features.h
targets += $(sched-features)
quiet_cmd_probe = PROBE   $@
      cmd_probe = $(CONFIG_SHELL) $< $(CC) $(c_flags) > $@
$(obj)/$(sched-features): $(src)/tests/probe.sh FORCE
	$(call if_changed_dep,probe)
$(obj)/tests/wrap_fair.o $(obj)/tests/wrap_build_utility.o: $(obj)/$(sched-features)
CFLAGS_tests/wrap_fair.o := -I$(objtree)/$(obj)/tests
CFLAGS_tests/wrap_build_utility.o := -I$(objtree)/$(obj)/tests
endif
"""

_OURS = frozenset({"probe.sh", "sched_cluster_absent.c", "sched_kunit_compat.h"})
"""The files that only our builds need; a tree that includes the tests itself (in_tree) does not need them."""

_TAILS = {"kernel/sched/fair.c": "sched_cluster_kunit.c", "kernel/sched/topology.c": "sched_topology_kunit.c"}
"""In the in_tree form: the file of the kernel that includes a test at its end, and that test."""


def kunit_files(*, in_tree: bool = False) -> dict[str, Path]:
    """The files for kernel/sched/tests/ of a tree, by their name there. A .txt file is for the host and left out."""
    return {
        path.name: path
        for path in sorted(KUNIT.iterdir())
        if path.is_file()
        and path.suffix != ".txt"
        and not (in_tree and (path.name in _OURS or path.name.startswith("wrap_")))
    }


def hooked(text: str, line: str, anchor: str | None, file: str) -> str:
    """The file's text with `line` added before the anchor, or at the end; unchanged when it has the line already."""
    if line.strip() in text:
        return text
    if anchor is None:
        return text.rstrip("\n") + "\n" + line
    if text.count(anchor) != 1:
        observed = f"{file} has no line `{anchor.strip()}` before which the tests are added"
        raise SchedlineError(observed, "use a tree nearer to 6.12 or 7.3, or report this tree's version")
    return text.replace(anchor, line + anchor)


def add_tests(tree: Tree, parent: str, author: dict[str, str] | None = None, *, in_tree: bool = False) -> str:
    """Commit the KUnit tests and their hooks on top of a commit.

    Args:
        in_tree: add an #include of each test of static functions to the end of the kernel's file, instead of building
            a wrapper that includes that file. A tree that has these #includes already keeps them.
    """
    rows: list[str] = []
    tails = {file: f'#include "tests/{test}"' for file, test in _TAILS.items()}
    in_tree = in_tree or any(line in (tree.read(file, parent) or "") for file, line in tails.items())

    def put(name: str, data: bytes) -> None:
        rows.append(file_row(tree.src, name, data))

    files = kunit_files(in_tree=in_tree)
    paths = "".join(f"{path}\n" for path in files.values()).encode()
    blobs = git(tree.src, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=paths).split()
    for (name, path), blob in zip(files.items(), blobs, strict=True):
        rows.append(f"{'100755' if path.suffix == '.sh' else '100644'} {blob}\t{TESTS_DIRECTORY}/{name}")
    if in_tree:
        for file, line in tails.items():
            tail = f"\n#ifdef CONFIG_SCHED_CLUSTER_KUNIT_TEST\n{line}\n#endif\n"
            put(file, hooked(tree.read(file, parent) or "", tail, None, file).encode())
    makefile = hooked(tree.read(_MAKEFILE, parent) or "", _MAKEFILE_LINE, None, _MAKEFILE)
    put(_MAKEFILE, (makefile if in_tree else hooked(makefile, _WRAPPED, None, _MAKEFILE)).encode())
    put(_KCONFIG, hooked(tree.read(_KCONFIG, parent) or "", _KCONFIG_LINE, _KCONFIG_ANCHOR, _KCONFIG).encode())
    rows += _table_rows(tree, parent)
    message = (KUNIT / "commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, parent, rows), parent, message, author)


@lru_cache(maxsize=8)
def declarations_of(tree: Tree, commit: str) -> Source:
    """What a commit declares."""
    return read_source(lambda file: tree.read(file, commit))


def _table_rows(tree: Tree, commit: str) -> list[str]:
    """The tables that the contracts give for the structures of a commit, where the commit does not have them."""
    source = declarations_of(tree, commit)
    files = {f"{TESTS_DIRECTORY}/{name}": text for name, text in tables(our_rules(), source).items()}
    return [file_row(tree.src, name, text.encode()) for name, text in files.items() if tree.read(name, commit) != text]


def with_tables(tree: Tree, commit: str, author: dict[str, str] | None = None) -> str:
    """A commit that has the tests, with the tables for its structures, which a change or a patch may have altered."""
    rows = _table_rows(tree, commit)
    message = (KUNIT / "tables-commit-message.txt").read_text()
    return commit_tree(tree.src, edit_tree(tree.src, commit, rows), commit, message, author) if rows else commit


def refuse_lost_members(tree: Tree, commit: str) -> None:
    """Stop when a commit has a change, and in no configuration a member that the change's rules are about.

    Raises:
        SchedlineError: there is one.
    """
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

    Raises:
        SchedlineError: unknown ids, or a revision that does not exist.
    """
    for ids, option in ((with_, "--with"), (without, "--without"), (expect or (), "--expect")):
        changes.known(ids, option)
    carried = () if tree.is_user else tuple(name for patches in changes.patch_sets(tree) for name in patches.default())
    wanted = {*carried, *with_} - set(without)
    if expect is not None:
        expected = frozenset(expect)
    elif tree.is_user:
        expected = frozenset(with_) | _changes_of_base(tree, base)
    else:
        expected = frozenset(wanted | set(carried)) | present_changes(tree)
    record = tree.directory / "compositions" / f"{_key(tree, wanted, without)}.json"
    known_before = read_json(record)
    if known_before and not try_git(tree.src, "cat-file", "-e", f"{known_before['commit']}^{{tree}}").returncode:
        states = tuple(
            ChangeState(row["id"], State(row["state"]), tuple(row["drift"])) for row in known_before["states"]
        )
        return Composition(known_before["commit"], known_before["tests"], states, expected)
    tests = add_tests(tree, tree.base)
    changed, states = changes.apply_changes(tree, tests, wanted, without)
    commit = with_tables(tree, changed)
    rows = [{"id": row.id, "state": row.state.value, "drift": row.drift} for row in states]
    write_json(record, {"commit": commit, "tests": tests, "states": rows})
    return Composition(commit, tests, states, expected)


def _changes_of_base(tree: Tree, base: str | None) -> frozenset[str]:
    revision = try_git(Path(tree.origin), "rev-parse", "--verify", "--quiet", f"{base or '@{upstream}'}^{{commit}}")
    if revision.returncode:
        if base is not None:
            raise SchedlineError(f"--base: {tree.origin} has no revision {base!r}", "git log --oneline")
        return frozenset()
    return present_changes(tree, revision.stdout.decode().strip())


def _key(tree: Tree, wanted: Collection[str], without: Collection[str]) -> str:
    digest = hashlib.sha256(f"{tree.base} {sorted(wanted)} {sorted(without)} {sorted(change_table())}".encode())
    made_by = (Path(c_tables.__file__).parent, CONTRACTS, PATCHES)
    files = [*kunit_files().values(), CONFIGS / "changes.toml", Path(__file__), Path(contract_file.__file__)]
    files += [path for directory in made_by for path in sorted(directory.rglob("*")) if path.suffix != ".pyc"]
    for path in files:
        if path.is_file():
            digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def refuse_conflicts(composition: Composition) -> None:
    """Stop when a change did not apply, with a SchedlineError that names change, file and hunk."""
    for row in composition.states:
        if row.state is State.CONFLICT:
            raise SchedlineError(
                f"{row.id} does not apply:{changes.hunks(row.drift)}",
                f"leave it out (--without {row.id}), or rebase its patch; schedline status --apply shows all changes",
            )
