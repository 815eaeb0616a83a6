# SPDX-License-Identifier: GPL-2.0
"""The structures of packs in a tree: a unit that points to them is compiled, and its DWARF is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from os.path import normpath
from pathlib import Path

import msgspec

from schedlib.cache import read_json, write_atomic, write_json
from schedlib.contracts.conditions import in_c
from schedlib.contracts.contract_rules import Rules
from schedlib.errors import DoesNotBuild
from schedlib.git import git
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.compile import Column, all_read, compiler_of, key_of
from schedlib.layout.members import Structure, read_paths
from schedlib.layout.rule_judge import Layout, from_members
from schedlib.progress import say
from schedlib.tree.kernel_tree import Tree

FACTS = "schedline_facts"
"""The structure of a unit that tells the line size, and which conditions hold."""

_PUBLIC = "include/"

_BEFORE = ("cache", "cpumask", "spinlock", "rcupdate", "irq")
"""Headers that others expect to be there already."""

_BEFORE_PRIVATE = ("irq_work", "mmu_context", "sched/cputime", "blk-mq")
"""The same for private headers, where the tree has them: those of 6.12 and 6.1 rely on what their .c files include."""


@dataclass(frozen=True)
class Unit:
    """A C file that points to structures: a compiler describes what something points to.

    Attributes:
        files: what it includes: public headers, or one other file.
        tags: the structures. One that is not declared there is left out of the object.
        conditions: see contracts/conditions.py.
        paths: tags and members inside of members. The structures that they go through are read, too.
    """

    files: tuple[str, ...]
    tags: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()

    @property
    def stem(self) -> str:
        """The file, from the top of the build directory. Every tree has a Makefile in kernel/."""
        first = self.files[0]
        return "kernel/schedline_" + ("headers" if first.startswith(_PUBLIC) else re.sub(r"\W", "_", first))

    def text(self, src: Path) -> str:
        """The unit, for a kernel source in `src`."""
        first = self.files[0]
        rows = [f"#include <linux/{name}.h>" for name in _BEFORE]
        if first.endswith(".h") and not first.startswith(_PUBLIC):
            names = (f"<linux/{name}.h>" for name in _BEFORE_PRIVATE)
            rows += [f"#if __has_include({name})\n#include {name}\n#endif" for name in names]
        includes = [f"#include {_included(file, src)}" for file in self.files]
        # A .c file has to come first: it may define what changes the meaning of a header.
        rows = [*includes, *rows] if first.endswith(".c") else [*rows, *includes]
        rows += [f"struct {FACTS} {{", "\tchar line[SMP_CACHE_BYTES];"]
        rows += [f"\tchar holds_{at}[1 + !!({in_c(condition)})];" for at, condition in enumerate(self.conditions)]
        rows += [f"\tstruct {tag} *to_{tag};" for tag in self.tags]
        rows += [f"}} {FACTS};", *(f"// {tag}.{path}" for tag, path in self.paths)]
        return "\n".join([*rows, ""])


def _included(file: str, src: Path) -> str:
    return f"<{file.removeprefix(_PUBLIC).removeprefix('uapi/')}>" if file.startswith(_PUBLIC) else f'"{src / file}"'


def units_of(
    files: Mapping[str, str], conditions: tuple[str, ...], paths: Iterable[tuple[str, str]] = ()
) -> tuple[Unit, ...]:
    """One unit for all public headers, and one for each other file.

    Args:
        files: what declares a structure, by its tag.
        paths: tags and members; those inside of members are read, too.
    """
    deep = sorted({(tag, path) for tag, path in paths if "." in path})
    tags: dict[str, list[str]] = defaultdict(list)
    for tag, file in files.items():
        tags[_PUBLIC if file.startswith(_PUBLIC) else file].append(tag)
    return tuple(
        Unit(
            tuple(sorted({files[tag] for tag in its})),
            tuple(sorted(its)),
            conditions,
            tuple((tag, path) for tag, path in deep if tag in its),
        )
        for _, its in sorted(tags.items())
    )


class _Seen(msgspec.Struct, frozen=True):
    """What a unit showed.

    Attributes:
        structures: by tag.
        read: the files of the kernel that it was compiled from.
        failed: the first error, if it does not build.
    """

    structures: dict[str, Structure]
    read: frozenset[str]
    failed: str = ""


def pack_layout(
    cache: Path,
    tree: Tree,
    commit: str,
    column: Column,
    rules: Rules,
    before: str = "",
    left_out: list[str] | None = None,
) -> Layout:
    """The structures of packs, as a commit has them. Those whose file this tree lacks are left out.

    Args:
        before: another commit. A unit that reads no file in which the two differ is not compiled again.
        left_out: if given, files that do not build in this tree are left out, too, and it gets them with the error.

    Raises:
        Dropped: this architecture cannot have the configuration.
        SchedlineError: no compiler, or a unit does not build.
    """
    listed = git(tree.src, "ls-tree", "-z", "--name-only", commit, "--", *sorted(set(rules.files.values())))
    files = {tag: file for tag, file in rules.files.items() if file in listed.split("\0")}
    conditions = rules.conditions()
    # Without any structure a unit still tells the line size.
    paths = ((tag, name) for tag, names, _ in rules.members for name in names)
    units = units_of(files, conditions, paths) or (Unit(("include/linux/types.h",), (), conditions),)
    structures = structures_of(cache, tree, commit, column, units, before, left_out)
    facts = structures.pop(FACTS, None)
    if facts is None:
        raise DoesNotBuild(
            f"no structure can be read from {tree.origin}:\n    {(left_out or [''])[0]}", "see the error"
        )
    sizes = {member.name: member.size for member in facts.members}
    holds = frozenset(condition for at, condition in enumerate(conditions) if sizes[f"holds_{at}"] == 2)
    return from_members(column.name, rules, structures, sizes["line"], holds, frozenset(), "")


def pack_layouts(
    cache: Path, tree: Tree, commits: tuple[str, str], column: Column, rules: Rules
) -> tuple[Layout, Layout] | None:
    """The structures of packs before and after; None, and a word why, if this architecture has no such configuration.

    Raises:
        SchedlineError: see pack_layout().
    """
    before, after = commits
    try:
        return (
            pack_layout(cache, tree, before, column, rules),
            pack_layout(cache, tree, after, column, rules, before),
        )
    except Dropped as dropped:
        say(f"no column {column.name}: {dropped.observed}")
        return None


def structures_of(
    cache: Path,
    tree: Tree,
    commit: str,
    column: Column,
    units: Sequence[Unit],
    before: str = "",
    left_out: list[str] | None = None,
) -> dict[str, Structure]:
    """The structures of units, and FACTS, by tag; from the cache if possible.

    Args:
        before, left_out: see pack_layout().

    Raises:
        Dropped: this architecture cannot have the configuration.
        SchedlineError: no compiler, or a unit does not build.
    """
    place = _place(cache, tree, commit, column)
    if known := read_json(place / "dropped.json"):
        raise Dropped(known["observed"], known["next_step"])
    found = {unit: _kept(place, unit) for unit in units}
    if before:
        differing = git(tree.src, "diff", "--name-only", "-z", before, commit).split("\0")
        if not any("Kconfig" in file or "Makefile" in file for file in differing):
            for unit, seen in found.items():
                was = None if seen else _kept(_place(cache, tree, before, column), unit)
                if was and not was.failed and was.read.issuperset(unit.files) and was.read.isdisjoint(differing):
                    found[unit] = was
                    write_atomic(place / _file(unit), msgspec.json.encode(was))
    failed = {unit: seen for unit, seen in found.items() if seen and seen.failed}
    missing = [unit for unit, seen in found.items() if seen is None or (seen.failed and left_out is None)]
    if missing:
        try:
            made = _made(cache, tree, commit, column, missing)
        except Dropped as error:
            write_json(place / "dropped.json", {"observed": error.observed, "next_step": error.next_step})
            raise
        except DoesNotBuild:
            if left_out is None:
                raise
            made = [_alone(cache, tree, commit, column, unit) for unit in missing]
        for unit, seen in zip(missing, made, strict=True):
            write_atomic(place / _file(unit), msgspec.json.encode(seen))
            found[unit] = seen
            if seen.failed:
                failed[unit] = seen
    structures = {tag: structure for seen in found.values() if seen for tag, structure in seen.structures.items()}
    for unit, seen in failed.items():
        if len(unit.files) > 1 and left_out is not None:
            middle = len(unit.files) // 2
            halves = [replace(unit, files=files) for files in (unit.files[:middle], unit.files[middle:])]
            for half in halves:
                structures |= structures_of(cache, tree, commit, column, [half], left_out=left_out)
        elif left_out is not None:
            left_out.append(f"{unit.files[0]}: {seen.failed}")
    return structures


def _made(cache: Path, tree: Tree, commit: str, column: Column, units: Sequence[Unit]) -> list[_Seen]:
    """What units show, freshly compiled."""
    sources = {f"{unit.stem}.c": unit.text(tree.src) for unit in units}
    tags = sorted({tag for unit in units for tag in unit.tags})
    paths = sorted({path for unit in units for path in unit.paths})
    names = [f"{unit.stem}.o" for unit in units]
    return all_read(cache, tree, commit, column, names, partial(_seen, tree.src, [*tags, FACTS], paths), sources)


def _alone(cache: Path, tree: Tree, commit: str, column: Column, unit: Unit) -> _Seen:
    """What one unit shows, or why it does not build."""
    try:
        return _made(cache, tree, commit, column, [unit])[0]
    except DoesNotBuild as error:
        if "No space left" in error.observed:
            raise
        return _Seen({}, frozenset(), error.observed.splitlines()[:2][-1].strip())


def _place(cache: Path, tree: Tree, commit: str, column: Column) -> Path:
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    return cache / "layout" / key_of(content, column, compiler_of(column.arch))


def _file(unit: Unit) -> str:
    return f"{sha256(unit.text(Path('src')).encode()).hexdigest()[:20]}.json"


def _kept(place: Path, unit: Unit) -> _Seen | None:
    try:
        return msgspec.json.decode((place / _file(unit)).read_bytes(), type=_Seen)
    except (OSError, msgspec.MsgspecError):
        return None


def _seen(src: Path, tags: Sequence[str], paths: Sequence[tuple[str, str]], path: Path) -> _Seen:
    """What a compiled unit shows. make has written beside it what it was compiled from."""
    listed = path.with_name(f".{path.name}.cmd").read_text(errors="replace").split()
    read = frozenset(normpath(word).removeprefix(f"{src}/") for word in listed if word.startswith(f"{src}/"))
    return _Seen(read_paths(path, tags, paths), read)
