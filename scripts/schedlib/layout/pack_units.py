# SPDX-License-Identifier: GPL-2.0
"""The structures of packs in a tree: a unit that points to them is compiled, and its DWARF is read."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from os.path import normpath
from pathlib import Path

import msgspec

from schedlib.cache import read_json, write_atomic, write_json
from schedlib.contracts.contract_rules import Rules, in_c
from schedlib.contracts.struct_source import type_in_c
from schedlib.errors import DoesNotBuild
from schedlib.git import git
from schedlib.kernel.build import first_error
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.compile import Column, all_read, compiler_of, key_of
from schedlib.layout.debug_info import FACTS, pointer_to
from schedlib.layout.members import Structure, read_members
from schedlib.layout.rule_judge import Layout
from schedlib.layout.unit_build import UnitBuild, differing, only_code, reaches, unit_build
from schedlib.tree.kernel_tree import Tree

GUARD = "#"
"""Begins a condition that is an #if of a structure's source: GUARD, tag, GUARD, expression."""

_PUBLIC = "include/"

_BEFORE = ("cache", "cpumask", "spinlock", "rcupdate", "irq")
"""Headers that others expect to be there already."""

_BEFORE_ONE = ("irq_work", "mmu_context", "sched/cputime", "blk-mq")
"""The same for a header alone, where the tree has them: many rely on what their .c files include."""


@dataclass(frozen=True)
class Unit:
    """A C file that points to structures: a compiler describes what something points to.

    Attributes:
        files: what it includes: public headers, or one other file.
        tags: the structures. One that is not declared there is left out of the object.
        conditions: see contract_rules.py.
        paths: tags and members inside of members.
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
        if first.endswith(".h") and len(self.files) == 1:
            names = (f"<linux/{name}.h>" for name in _BEFORE_ONE)
            rows += [f"#if __has_include({name})\n#include {name}\n#endif" for name in names]
        places = (f"<{file[len(_PUBLIC) :]}>" if file.startswith(_PUBLIC) else f'"{src / file}"' for file in self.files)
        includes = [f"#include {place}" for place in places]
        # A .c file has to come first: it may define what changes the meaning of a header.
        rows = [*includes, *rows] if first.endswith(".c") else [*rows, *includes]
        asked = [f"// {tag}.{path}" for tag, path in self.paths] + [f"// {tag}" for tag in self.tags if " " in tag]
        # To point to a structure without a tag that is not there is an error.
        text = (src / first).read_text(errors="replace") if (src / first).is_file() else ""
        here = [tag for tag in self.tags if " " not in tag or tag.rpartition(" ")[2] in text]
        return "\n".join([*rows, facts(here, self.conditions), *asked, ""])


def facts(tags: Sequence[str], conditions: Sequence[str]) -> str:
    """The end of a unit: what tells the line size and which conditions hold, and points to structures."""
    rows = [f"struct {FACTS} {{", "\tchar line[SMP_CACHE_BYTES];"]
    for at, condition in enumerate(conditions):
        if condition.startswith(GUARD):
            both = f"\tchar holds_{at}[2];\n#else\n\tchar holds_{at}[1];"
            rows.append(f"#if {condition.split(GUARD, 2)[2]}\n{both}\n#endif")
        else:
            rows.append(f"\tchar holds_{at}[1 + !!({in_c(condition)})];")
    rows += [f"\t{type_in_c(tag)} *{pointer_to(tag)};" for tag in tags]
    return "\n".join([*rows, f"}} {FACTS};"])


def units_of(files: Mapping[str, str], rules: Rules | None = None) -> tuple[Unit, ...]:
    """One unit for all public headers, and one for each other file, with what rules ask of the structures there.

    Args:
        files: what declares a structure, by its tag.
    """
    asked, deep = defaultdict[str, set[str]](set), set[tuple[str, str]]()
    if rules:
        for clause in rules.clauses:
            asked[clause.type] |= clause.needs
        for tag, conditions in rules.asked.items():
            asked[tag] |= conditions
        # Those inside of members are read, too.
        deep = {(tag, name) for tag, names, _ in rules.members for name in names if "." in name}
    tags = defaultdict[str, list[str]](list)
    for tag, file in files.items():
        tags[_PUBLIC if file.startswith(_PUBLIC) else file].append(tag)
    return tuple(
        Unit(
            tuple(sorted({files[tag] for tag in its})),
            tuple(sorted(its)),
            tuple(sorted({condition for tag in its for condition in asked[tag]})),
            tuple((tag, path) for tag, path in sorted(deep) if tag in its),
        )
        for _, its in sorted(tags.items())
    )


class CompiledStructs(msgspec.Struct, frozen=True):
    """What units showed.

    Attributes:
        line: bytes in a cache line; 0 if nothing was seen.
        holds: the conditions that are true.
        read: the files of the kernel that it was compiled from.
        declaring: those of them that declare what the structures depend on.
        digest: of these declarations.
        failed: the first error, if it does not build.
    """

    structures: dict[str, Structure]
    line: int = 0
    holds: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    declaring: frozenset[str] = frozenset()
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
    units = units_of(files, rules) or (Unit(("include/linux/types.h",), ()),)
    # What nobody else asks is asked, too: why a rule is not applicable depends on it.
    rest = set(rules.conditions()).difference(*(unit.conditions for unit in units))
    units = (replace(units[0], conditions=tuple(sorted({*units[0].conditions, *rest}))), *units[1:])
    seen = _Cell(cache, tree, commit, column).seen(units, before, left_out)
    if not seen:
        error = (left_out or [""])[0]
        raise DoesNotBuild(f"no structure can be read from {tree.origin}:\n    {error}", "see the error")
    return joined(column.name, seen, max(each.line for each in seen))


def joined(name: str, seen: Collection[CompiledStructs], line: int) -> Layout:
    """What units show together."""
    structures = {tag: structure for each in seen for tag, structure in each.structures.items()}
    holds = frozenset[str]().union(*(each.holds for each in seen))
    return Layout(name, line, "", holds, frozenset(), structures)


@dataclass(frozen=True)
class _Cell:
    """A commit in one configuration, and what is kept of it in the cache."""

    cache: Path
    tree: Tree
    commit: str
    column: Column

    @cached_property
    def place(self) -> Path:
        content = git(self.tree.src, "rev-parse", f"{self.commit}^{{tree}}")
        return self.cache / "layout" / key_of(content, self.column, compiler_of(self.column.arch))

    def _file(self, unit: Unit) -> Path:
        return self.place / f"{sha256(unit.text(Path('src')).encode()).hexdigest()[:20]}.units"

    def kept(self, unit: Unit) -> CompiledStructs | None:
        """What a unit showed before; None if that is not known."""
        try:
            return msgspec.json.decode(self._file(unit).read_bytes(), type=CompiledStructs)
        except (OSError, msgspec.MsgspecError):
            return None

    def seen(self, units: Sequence[Unit], before: str, left_out: list[str] | None) -> list[CompiledStructs]:
        """What units show, those left out that do not build; see pack_layout()."""
        if known := read_json(self.place / "dropped.json"):
            raise Dropped(known["observed"], known["next_step"])
        found = {unit: seen for unit in units if (seen := self.kept(unit)) and not (seen.failed and left_out is None)}
        old: dict[Unit, CompiledStructs] = {}
        if before and only_code(changed := differing(self.tree, before, self.commit)):
            other = replace(self, commit=before)
            for unit in (each for each in units if each not in found):
                was = other.kept(unit)
                if was and not was.failed and was.read.issuperset(unit.files):
                    is_new = not was.structures.keys() >= set(unit.tags)
                    is_new = is_new and not changed.keys().isdisjoint(unit.files)
                    (old if is_new or self._reached(was, changed, before) else found)[unit] = was
        if missing := [unit for unit in units if unit not in found]:
            made = self._made(missing, old) if left_out is None else self._as_far_as_possible(missing, old)
            for unit, seen in made.items():
                write_atomic(self._file(unit), msgspec.json.encode(seen))
            found |= made
        good = [found[unit] for unit in units if not found[unit].failed]
        for unit in (each for each in units if found[each].failed):
            if len(unit.files) > 1:
                middle = len(unit.files) // 2
                for files in (unit.files[:middle], unit.files[middle:]):
                    good += self.seen([replace(unit, files=files)], "", left_out)
            elif left_out is not None:
                left_out.append(f"{unit.files[0]}: {found[unit].failed}")
        return good

    def _reached(self, was: CompiledStructs, changed: Collection[str], before: str) -> bool:
        for file in changed:
            if file.endswith(".h") or file in was.read:
                old, new = self.tree.read(file, before), self.tree.read(file, self.commit)
                # A new header may be found instead of another one.
                is_new = old is None and file.endswith(".h")
                if is_new or (file in was.read and reaches(old or "", new or "", file in was.declaring)):
                    return True
        return False

    def _as_far_as_possible(
        self, units: Sequence[Unit], old: Mapping[Unit, CompiledStructs]
    ) -> dict[Unit, CompiledStructs]:
        try:
            return self._made(units, old)
        except DoesNotBuild as error:
            if len(units) > 1:
                return {unit: seen for each in units for unit, seen in self._as_far_as_possible([each], {}).items()}
            if "No space left" in error.observed:
                raise
            return {units[0]: CompiledStructs({}, failed=first_error(error.observed).splitlines()[0].strip())}

    def _made(self, units: Sequence[Unit], old: Mapping[Unit, CompiledStructs]) -> dict[Unit, CompiledStructs]:
        """What units show, freshly compiled: from their types if that is possible, else as make compiles them."""
        found: dict[Unit, CompiledStructs] = {}
        try:
            with (
                unit_build(self.cache, self.tree, self.commit, self.column) as build,
                ThreadPoolExecutor(os.cpu_count()) as pool,
            ):
                seen = pool.map(lambda unit: from_types(build, unit, old.get(unit)) if build else None, units)
                found = {unit: each for unit, each in zip(units, seen, strict=True) if each}
            if rest := [unit for unit in units if unit not in found]:
                sources = {f"{unit.stem}.c": unit.text(self.tree.src) for unit in rest}
                objects, left = [f"{unit.stem}.o" for unit in rest], iter(rest)
                read = partial(_from_object, self.tree.src, left)
                made = all_read(self.cache, self.tree, self.commit, self.column, objects, read, sources)
                found |= zip(rest, made, strict=True)
        except Dropped as error:
            write_json(self.place / "dropped.json", {"observed": error.observed, "next_step": error.next_step})
            raise
        return found


def from_types(build: UnitBuild, unit: Unit, old: CompiledStructs | None) -> CompiledStructs | None:
    """What a unit shows if only the types are compiled on which its structures depend; None if that fails."""
    names = [tag.rpartition(" ")[2] for tag in unit.tags]
    types = build.types_of(build.written(unit.stem, unit.text(build.src)), (*names, FACTS))
    if types is None:
        return None
    text, read, declaring = types[0], types[1] | build.bounds.read, types[2] | build.bounds.read
    digest = sha256(f"{text}{build.options}".encode()).hexdigest()
    if old and old.digest == digest:
        return msgspec.structs.replace(old, read=read, declaring=declaring)
    path = build.compiled(build.written(f"{unit.stem}_types", text))
    return CompiledStructs(*read_unit(path, unit), read, declaring, digest) if path else None


def read_unit(path: Path, unit: Unit) -> tuple[dict[str, Structure], int, frozenset[str]]:
    """The structures of an object, the line size, and which conditions hold."""
    structures = read_members(path, [*unit.tags, FACTS], unit.paths)
    sizes = {member.name: member.size for member in structures.pop(FACTS).members}
    holds = frozenset(condition for at, condition in enumerate(unit.conditions) if sizes[f"holds_{at}"] == 2)
    return structures, sizes["line"], holds


def _from_object(src: Path, units: Iterator[Unit], path: Path) -> CompiledStructs:
    """What the object of the next unit shows. make has written beside it what it was compiled from."""
    listed = path.with_name(f".{path.name}.cmd").read_text(errors="replace").split()
    read = frozenset(normpath(word).removeprefix(f"{src}/") for word in listed if word.startswith(f"{src}/"))
    return CompiledStructs(*read_unit(path, next(units)), read, read)
