# SPDX-License-Identifier: GPL-2.0
"""The structures of packs in a tree: a unit that points to them is compiled, and its DWARF is read."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from schedlib.layout.members import Structure, read_members
from schedlib.layout.rule_judge import Layout
from schedlib.layout.type_slice import type_slice
from schedlib.layout.unit_build import OPAQUE, UnitBuild, differing, is_reached, only_code, unit_build
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
        asked = [f"// {tag}.{path}" for tag, path in self.paths]
        return "\n".join([*rows, facts(self.tags, self.conditions), *asked, ""])


def facts(tags: Sequence[str], conditions: Sequence[str]) -> str:
    """The end of a unit: what tells the line size and which conditions hold, and points to structures."""
    rows = [f"struct {FACTS} {{", "\tchar line[SMP_CACHE_BYTES];"]
    rows += [f"\tchar holds_{at}[1 + !!({in_c(condition)})];" for at, condition in enumerate(conditions)]
    rows += [f"\tstruct {tag} *to_{tag};" for tag in tags]
    return "\n".join([*rows, f"}} {FACTS};"])


def _included(file: str, src: Path) -> str:
    return f"<{file.removeprefix(_PUBLIC).removeprefix('uapi/')}>" if file.startswith(_PUBLIC) else f'"{src / file}"'


def units_of(
    files: Mapping[str, str],
    conditions: Mapping[str, Collection[str]] | None = None,
    paths: Iterable[tuple[str, str]] = (),
) -> tuple[Unit, ...]:
    """One unit for all public headers, and one for each other file.

    Args:
        files: what declares a structure, by its tag.
        conditions: what is asked for each structure.
        paths: tags and members; those inside of members are read, too.
    """
    asked = conditions or {}
    deep = sorted({(tag, path) for tag, path in paths if "." in path})
    tags: dict[str, list[str]] = defaultdict(list)
    for tag, file in files.items():
        tags[_PUBLIC if file.startswith(_PUBLIC) else file].append(tag)
    return tuple(
        Unit(
            tuple(sorted({files[tag] for tag in its})),
            tuple(sorted(its)),
            tuple(sorted({condition for tag in its for condition in asked.get(tag, ())})),
            tuple((tag, path) for tag, path in deep if tag in its),
        )
        for _, its in sorted(tags.items())
    )


def units_for(rules: Rules, files: Mapping[str, str]) -> tuple[Unit, ...]:
    """The units that show what rules ask of the structures in some files."""
    conditions = {
        tag: {each for clause in rules.clauses if clause.type == tag for each in clause.needs} for tag in files
    }
    return units_of(files, conditions, ((tag, name) for tag, names, _ in rules.members for name in names))


class CompiledStructs(msgspec.Struct, frozen=True):
    """What units showed.

    Attributes:
        structures: by tag.
        line: bytes in a cache line; 0 if nothing was seen.
        holds: the conditions that are true.
        read: the files of the kernel that it was compiled from.
        names: the types that the structures depend on; see TypeSlice. None: it is not known.
        digest: of the declarations of these types.
        failed: the first error, if it does not build.
    """

    structures: dict[str, Structure]
    line: int = 0
    holds: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    names: frozenset[str] | None = None
    digest: str = ""
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
    # Without any structure a unit still tells the line size.
    units = units_for(rules, files) or (Unit(("include/linux/types.h",), ()),)
    # What nobody else asks is asked, too: why a rule is not applicable depends on it.
    rest = set(rules.conditions()).difference(*(unit.conditions for unit in units))
    units = (replace(units[0], conditions=tuple(sorted({*units[0].conditions, *rest}))), *units[1:])
    seen = structures_of(cache, tree, commit, column, units, before, left_out)
    if not seen.line:
        raise DoesNotBuild(
            f"no structure can be read from {tree.origin}:\n    {(left_out or [''])[0]}", "see the error"
        )
    return Layout(column.name, seen.line, "", seen.holds, frozenset(), seen.structures)


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
) -> CompiledStructs:
    """What units show together; from the cache if possible.

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
    old: dict[Unit, CompiledStructs] = {}
    if before and only_code(differing(tree, before, commit)):
        other = _place(cache, tree, before, column)
        for unit, seen in found.items():
            was = None if seen else _kept(other, unit)
            if was and not was.failed and was.read.issuperset(unit.files):
                if is_reached(tree, before, commit, was.read, was.names):
                    old[unit] = was
                else:
                    found[unit] = was
    failed = {unit: seen for unit, seen in found.items() if seen and seen.failed}
    missing = [unit for unit, seen in found.items() if seen is None or (seen.failed and left_out is None)]
    if missing:
        try:
            made = _made(cache, tree, commit, column, missing, old)
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
    all_seen = [seen for seen in found.values() if seen and not seen.failed]
    for unit, seen in failed.items():
        if len(unit.files) > 1 and left_out is not None:
            middle = len(unit.files) // 2
            halves = [replace(unit, files=files) for files in (unit.files[:middle], unit.files[middle:])]
            all_seen += [structures_of(cache, tree, commit, column, [half], left_out=left_out) for half in halves]
        elif left_out is not None:
            left_out.append(f"{unit.files[0]}: {seen.failed}")
    return CompiledStructs(
        {tag: structure for seen in all_seen for tag, structure in seen.structures.items()},
        max((seen.line for seen in all_seen), default=0),
        frozenset[str]().union(*(seen.holds for seen in all_seen)),
    )


def _made(
    cache: Path,
    tree: Tree,
    commit: str,
    column: Column,
    units: Sequence[Unit],
    old: Mapping[Unit, CompiledStructs] | None = None,
) -> list[CompiledStructs]:
    """What units show, freshly compiled: from their types if that is possible, else as make compiles them.

    Args:
        old: what some of them showed of another commit.
    """
    seen: dict[Unit, CompiledStructs] = {}
    with unit_build(cache, tree, commit, column) as build:
        if build:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                each = pool.map(lambda unit: from_types(build, unit, (old or {}).get(unit)), units)
                seen = {unit: found for unit, found in zip(units, each, strict=True) if found}
    rest = [unit for unit in units if unit not in seen]
    if rest:
        sources = {f"{unit.stem}.c": unit.text(tree.src) for unit in rest}
        tags = sorted({tag for unit in rest for tag in unit.tags})
        paths = sorted({path for unit in rest for path in unit.paths})
        conditions = {f"{unit.stem}.o": unit.conditions for unit in rest}
        read = partial(_from_object, tree.src, [*tags, FACTS], paths, conditions)
        seen |= zip(rest, all_read(cache, tree, commit, column, list(conditions), read, sources), strict=True)
    return [seen[unit] for unit in units]


def from_types(build: UnitBuild, unit: Unit, old: CompiledStructs | None) -> CompiledStructs | None:
    """What a unit shows if only the types are compiled on which its structures depend; None if that fails."""
    whole = build.preprocessed(build.written(unit.stem, unit.text(build.src)))
    types = type_slice(whole.text, (*unit.tags, FACTS)) if whole else None
    if whole is None or types is None:
        return None
    digest = sha256(f"{types.text}{build.options}".encode()).hexdigest()
    names, read = types.names | build.bounds.names, whole.read | build.bounds.read
    if old and old.digest == digest:
        return CompiledStructs(old.structures, old.line, old.holds, read, names, digest)
    path = None if OPAQUE in types.text else build.compiled(build.written(f"{unit.stem}_types", types.text))
    if path is None:
        return None
    structures, line, holds = read_unit(path, unit.tags, unit.paths, unit.conditions)
    return CompiledStructs(structures, line, holds, read, names, digest)


def read_unit(
    path: Path, tags: Sequence[str], paths: Iterable[tuple[str, str]], conditions: Sequence[str]
) -> tuple[dict[str, Structure], int, frozenset[str]]:
    """The structures of an object, the line size, and which conditions hold."""
    structures = read_members(path, [*tags, FACTS], paths)
    sizes = {member.name: member.size for member in structures.pop(FACTS).members}
    holds = frozenset(condition for at, condition in enumerate(conditions) if sizes[f"holds_{at}"] == 2)
    return structures, sizes["line"], holds


def _alone(cache: Path, tree: Tree, commit: str, column: Column, unit: Unit) -> CompiledStructs:
    """What one unit shows, or why it does not build."""
    try:
        return _made(cache, tree, commit, column, [unit])[0]
    except DoesNotBuild as error:
        if "No space left" in error.observed:
            raise
        return CompiledStructs({}, failed=error.observed.splitlines()[:2][-1].strip())


def _place(cache: Path, tree: Tree, commit: str, column: Column) -> Path:
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    return cache / "layout" / key_of(content, column, compiler_of(column.arch))


def _file(unit: Unit) -> str:
    return f"{sha256(unit.text(Path('src')).encode()).hexdigest()[:20]}.seen"


def _kept(place: Path, unit: Unit) -> CompiledStructs | None:
    try:
        return msgspec.json.decode((place / _file(unit)).read_bytes(), type=CompiledStructs)
    except (OSError, msgspec.MsgspecError):
        return None


def _from_object(
    src: Path,
    tags: Sequence[str],
    paths: Sequence[tuple[str, str]],
    conditions: Mapping[str, Sequence[str]],
    path: Path,
) -> CompiledStructs:
    """What a compiled unit shows. make has written beside it what it was compiled from."""
    listed = path.with_name(f".{path.name}.cmd").read_text(errors="replace").split()
    read = frozenset(normpath(word).removeprefix(f"{src}/") for word in listed if word.startswith(f"{src}/"))
    its = next(each for name, each in conditions.items() if path.match(name))
    return CompiledStructs(*read_unit(path, tags, paths, its), read)
