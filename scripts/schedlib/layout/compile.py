# SPDX-License-Identifier: GPL-2.0
"""tree -> object: compiles single units for any architecture, without linking or booting.

configs/layout.toml has the architectures and configurations, and the members that functions touch together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from platform import machine
from typing import Annotated, TypeVar

import msgspec

from schedlib.cache import digest_of, lock, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.kernel.build import compiler_version, make_as_configured
from schedlib.kernel.kconfig import Configuration, load
from schedlib.paths import CONFIGS
from schedlib.progress import step
from schedlib.tree.kernel_tree import Tree, checked_out

RECORD = "schedline.types"
"""The file of a build directory that tells for which commit make ran last; see unit_build()."""

UNLINKED = ("KCFLAGS=-g", "CONFIG_OBJTOOL=", "CONFIG_DEBUG_INFO_BTF=")
"""Variables of make for single units: objtool and resolve_btfids take longer to build, and need libelf."""

_T = TypeVar("_T")

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


def chosen_archs(names: Sequence[str]) -> tuple[Arch, ...]:
    """Architectures by name, as --arch gives them."""
    table = arch_table()
    if unknown := [name for name in names if name not in table]:
        raise SchedlineError(f"--arch: there is no {unknown[0]!r}", f"choose from {', '.join(table)}")
    return tuple(table[name] for name in names)


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


def all_read(
    cache: Path,
    tree: Tree,
    commit: str,
    column: Column,
    units: Sequence[str],
    read: Callable[[Path], _T],
    sources: Mapping[str, str] | None = None,
) -> list[_T]:
    """Compile objects of a commit, in a build directory that is kept; returns what `read` makes of each.

    Args:
        sources: files that are put into the build directory first. make takes them for a part of the kernel.

    Raises:
        Dropped: this architecture cannot have the configuration.
        SchedlineError: no compiler, or a unit does not build.
    """
    wanted = column.configuration()
    build = column_directory(cache, tree, column)
    variables = [f"CROSS_COMPILE={column.arch.compiler}"]
    with (
        lock(build.with_name(f"{build.name}.lock")),
        checked_out(tree, commit),
        step(f"compiling {units[0] if len(units) == 1 else f'{len(units)} files'} for {column.name}"),
    ):
        (build / RECORD).unlink(missing_ok=True)
        for name, text in (sources or {}).items():
            write_atomic(build / name, text)
        make_as_configured(tree, build, column.arch.make, wanted, variables, [*UNLINKED, *units])
        return [read(build / unit) for unit in units]
