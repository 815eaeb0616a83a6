# SPDX-License-Identifier: GPL-2.0
"""configs/layout.toml: the columns of the matrix, and the members that functions touch together."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec

from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.paths import CONFIGS

Words = Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]


class Arch(Strict, frozen=True):
    """An architecture.

    Attributes:
        name: as Debian calls it.
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
    """An access group.

    Attributes:
        name: such as "load-balance".
        function, file: the function that touches the members, and its file.
        type: tag of the structure.
        members: the members that should be together.
        also: other members that the function touched when the group was defined.
    """

    name: Word
    function: Word
    file: Word
    type: Word
    members: Words
    also: tuple[Word, ...]


class LayoutData(Strict, frozen=True):
    """The whole file. configs: the configurations of the matrix, in addition to each architecture's own."""

    configs: tuple[Word, ...]
    arch: dict[str, Arch]
    group: dict[str, Group]


@cache
def layout_data() -> LayoutData:
    """The content of the file.

    Raises:
        SchedlineError: something in it is wrong.
    """
    return read_toml(CONFIGS / "layout.toml", LayoutData, keys="name", below=("arch", "group"))
