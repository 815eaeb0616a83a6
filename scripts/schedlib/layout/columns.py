# SPDX-License-Identifier: GPL-2.0
"""The columns that --arch and --config name, the tools that compile them, and the tree that they are compiled from.

configs/layout.toml has the architectures and configurations, and the members that functions touch together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from platform import machine
from typing import Annotated

import msgspec

from schedlib import doctor
from schedlib.cache import cache_dir, digest_of
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.kernel.build import compiler_version
from schedlib.kernel.kconfig import Configuration, load
from schedlib.layout.layout_options import DEFAULT_ARCH, LayoutOperand
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import CONFIGS
from schedlib.process import run
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, open_tree

Words = Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]


class Arch(Strict, frozen=True):
    """An architecture, as Debian calls it.

    Attributes:
        make: make's ARCH.
        compiler: prefix of the compiler, make's CROSS_COMPILE; empty for the machine's own.
        package: Debian's package with the compiler.
        base: fragments that each of its configurations begins with.
    """

    name: Word
    make: Word
    compiler: str
    package: Word
    base: Words


class Group(Strict, frozen=True):
    """An access group, such as "load-balance": members of a structure that should be together."""

    name: Word
    type: Word
    members: Words


class LayoutData(Strict, frozen=True):
    """The whole file. configs: the configurations of the matrix, in addition to each architecture's own."""

    configs: tuple[Word, ...]
    arch: dict[str, Arch]
    group: dict[str, Group]


@once
def layout_data() -> LayoutData:
    """The content of the file."""
    return read_toml(CONFIGS / "layout.toml", LayoutData, keys="name", below=("arch", "group"))


def arch_table() -> dict[str, Arch]:
    """Every architecture, by name; this machine's own has no prefix."""
    return {
        name: msgspec.structs.replace(arch, compiler="") if arch.compiler.startswith(f"{machine()}-") else arch
        for name, arch in layout_data().arch.items()
    }


@dataclass(frozen=True)
class Column:
    """One column of the matrix: an architecture, and fragments on top of its base joined by `+`."""

    arch: Arch
    config: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.arch.name}+{self.config}" if self.config else self.arch.name

    @once  # noqa: B019  a column lives as long as the process
    def configuration(self) -> Configuration:
        """The lines requested of Kconfig."""
        return load([*self.arch.base, *(part for part in self.config.split("+") if part)])


def key_of(content: str, column: Column, compiler: str) -> str:
    """The name of an object in the cache: of everything that it is made of. `content`: id of the git tree."""
    return digest_of(f"{content} {column.arch.make} {column.configuration().asked()} {compiler}")


@once
def compiler_of(arch: Arch) -> str:
    """The compiler version of an architecture; cached, because a matrix has many columns."""
    return compiler_version(arch.compiler)


def column_directory(cache: Path, tree: Tree, column: Column) -> Path:
    """The build directory of a column."""
    return cache / "builds" / f"{tree.name}-layout-{column.arch.name}-{column.configuration().digest()}"


def columns_for(archs: Sequence[str], configs: Sequence[str]) -> tuple[Column, ...]:
    """The columns that the options ask for; without configs only each architecture's own configuration."""
    names = list(arch_table()) if "all" in archs else archs or [DEFAULT_ARCH]
    wanted = ["", *layout_data().configs] if "all" in configs else configs or [""]
    return tuple(Column(arch_table()[arch], config) for arch in names for config in wanted)


def pack_columns(archs: Sequence[str], configs: Sequence[str]) -> tuple[Column, ...]:
    """The same for packs: with the subsystems of configs/kernel/packs.config in each."""
    return tuple(
        Column(column.arch, "+".join(filter(None, ("packs", column.config)))) for column in columns_for(archs, configs)
    )


def ensure_tools(columns: Sequence[Column], more: Collection[str] = ()) -> None:
    """SchedlineError if this machine lacks what compiling these columns needs, or `more` jobs of doctor."""
    packages = {column.arch.package: column.arch for column in columns if column.arch.compiler}
    compilers = [
        doctor.Need(f"{arch.compiler}gcc", package, f"compiles for {arch.name}", frozenset({"layout"}))
        for package, arch in packages.items()
    ]
    if any("randstruct" in column.config.split("+") for column in columns):
        major = run(["gcc", "-dumpversion"]).stdout.decode().split(".")[0].strip()
        headers = f"usr/lib/gcc/*/{major}/plugin/include/gcc-plugin.h"
        why = "shuffles structures in the configuration randstruct"
        compilers.append(
            doctor.Need("gcc's plugin headers", f"gcc-{major}-plugin-dev", why, frozenset({"layout"}), headers)
        )
    doctor.require(["layout", "build", *more], compilers)


def composed_tree(
    chosen: TreeOptions, changes: ChangeOptions, *, expect: Collection[str] | None = None, base: str | None = None
) -> tuple[Tree, Composition]:
    """The tree that the options name, with tests and changes on top; SchedlineError if a change does not apply."""
    doctor.require(["build", *chosen.needs])
    tree = open_tree(cache_dir(), chosen)
    composition = compose(tree, with_=changes.with_, without=changes.without, expect=expect, base=base)
    refuse_conflicts(composition)
    return tree, composition


def composed_operand(operand: LayoutOperand) -> tuple[Tree, Composition]:
    """The tree that an operand names, with the tests, and of the carried changes those alone that it names."""
    carried = PatchSet(operand.series).default() if operand.series else ()
    without = tuple(name for name in carried if name not in operand.changes)
    return composed_tree(TreeOptions(operand.path, operand.series), ChangeOptions(operand.changes, without))
