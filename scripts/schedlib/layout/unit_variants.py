# SPDX-License-Identifier: GPL-2.0
"""The structures of a unit when one of them is declared in another way: many of these, without a commit for each.

A unit is preprocessed once. A declaration is preprocessed with the unit's macros, and stands in the place of the one
that the unit has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from schedlib.cache import write_atomic
from schedlib.git import git
from schedlib.layout.compile import Column, compiler_of, key_of
from schedlib.layout.pack_units import FACTS, Seen, Unit, shown
from schedlib.layout.type_slice import chunks_of, type_slice
from schedlib.layout.unit_build import UnitBuild, unit_build
from schedlib.process import run
from schedlib.tree.kernel_tree import Tree

FAILED = "it does not compile"

_MACRO = ("#define ", "#undef ")


@dataclass(frozen=True)
class Variant:
    """A unit, one of its structures, and the declaration that this has instead; empty: as it is."""

    unit: Unit
    tag: str = ""
    declaration: str = ""


def variants_seen(
    cache: Path,
    tree: Tree,
    commit: str,
    column: Column,
    asked: Sequence[Variant],
    done: Callable[[int], None] = lambda _: None,
) -> list[Seen]:
    """What each unit shows; from the cache if possible. One that does not compile has `failed`.

    Args:
        done: told now and then how many were made.

    Raises:
        Dropped: this architecture cannot have the configuration.
        SchedlineError: no compiler, or nothing builds.
    """
    content = git(tree.src, "rev-parse", f"{commit}^{{tree}}")
    place = cache / "layout" / f"{key_of(content, column, compiler_of(column.arch))}-variants"
    found = {each: _kept(place, each) for each in asked}
    missing: dict[Unit, list[Variant]] = {}
    for each, seen in found.items():
        if seen is None:
            missing.setdefault(each.unit, []).append(each)
    if missing:
        guard, made = Lock(), list[Variant]()

        def keep(variant: Variant, seen: Seen) -> None:
            write_atomic(place / _file(variant), msgspec.json.encode(seen))
            with guard:
                found[variant] = seen
                made.append(variant)
                done(len(made))

        with unit_build(cache, tree, commit, column) as build, ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = enumerate(missing.items())
            list(pool.map(lambda row: _unit_seen(build, row[0], row[1][0], row[1][1], keep), rows))
    return [seen for each in asked if (seen := found[each])]


def _unit_seen(
    build: UnitBuild | None, number: int, unit: Unit, variants: Sequence[Variant], keep: Callable[[Variant, Seen], None]
) -> None:
    """All variants of one unit."""
    failed = Seen({}, failed=FAILED)
    made = None
    if build:
        place = build.place / f"unit-{number}"
        place.mkdir()
        made = _Prepared.of(replace(build, place=place), unit)
    for variant in variants:
        keep(variant, (made.seen(variant) if made else None) or failed)


@dataclass(frozen=True)
class _Prepared:
    """A unit after the preprocessor, its macros, and the declarations on which its structures depend."""

    build: UnitBuild
    unit: Unit
    whole: str
    slice: str
    macros: Path

    @classmethod
    def of(cls, build: UnitBuild, unit: Unit) -> _Prepared | None:
        """None if this unit has to be left to make."""
        done = build.preprocessed(unit.stem, unit.text(build.src), "-dD")
        if done is None:
            return None
        macros = build.place / "macros.h"
        write_atomic(macros, "".join(f"{line}\n" for line in done.text.splitlines() if line.startswith(_MACRO)))
        whole = re.sub(r"^#.*\n", "", done.text, flags=re.M)
        pragma = "".join(f"{line}\n" for line in done.text.splitlines() if line.startswith("#pragma"))
        types = type_slice(pragma + whole, (*unit.tags, FACTS))
        made = cls(build, unit, whole, types.text, macros) if types else None
        return made if made and made.seen(Variant(unit)) else None

    def seen(self, variant: Variant) -> Seen | None:
        """None if it does not compile."""
        if not variant.declaration:
            return self._compiled(self.slice)
        source = self.build.place / "declaration.c"
        source.write_text(variant.declaration)
        target = source.with_suffix(".i")
        words: list[str | Path] = [
            self.build.command[0],
            "-E",
            "-P",
            "-w",
            "-imacros",
            self.macros,
            "-o",
            target,
            source,
        ]
        if run(words, cwd=self.build.build).returncode:
            return None
        new = target.read_text(errors="replace").strip()
        # What a new member needs may be missing in the slice.
        return self._compiled(_with(self.slice, variant.tag, new)) or self._compiled(self._whole_slice(variant, new))

    def _whole_slice(self, variant: Variant, new: str) -> str:
        types = type_slice(_with(self.whole, variant.tag, new), (*self.unit.tags, FACTS))
        return types.text if types else ""

    def _compiled(self, text: str) -> Seen | None:
        unit = self.unit
        path = self.build.compiled(unit.stem, text) if text else None
        if path is None:
            return None
        return Seen(*shown(path, unit.tags, unit.paths, unit.conditions), frozenset(), frozenset())


def _with(text: str, tag: str, declaration: str) -> str:
    """Preprocessed text with another declaration of a structure; empty if it has none."""
    old = next((chunk for chunk in chunks_of(text) if re.match(rf"\s*(?:typedef\s+)?struct\s+{tag}\s*\{{", chunk)), "")
    return text.replace(old, f"\n{declaration}\n", 1) if old else ""


def _file(variant: Variant) -> str:
    said = f"{variant.unit.text(Path('src'))}\0{variant.tag}\0{variant.declaration}"
    return f"{sha256(said.encode(errors='replace')).hexdigest()[:20]}.seen"


def _kept(place: Path, variant: Variant) -> Seen | None:
    try:
        return msgspec.json.decode((place / _file(variant)).read_bytes(), type=Seen)
    except (OSError, msgspec.MsgspecError):
        return None
