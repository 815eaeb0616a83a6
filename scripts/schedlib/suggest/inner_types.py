# SPDX-License-Identifier: GPL-2.0
"""The structures inside of structures: where one lies in others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.layout.members import Member, Structure, read_members

_DEEPEST = 8
"""Structures in each other that are looked into."""


@dataclass(frozen=True)
class InnerTypes:
    """Structures of a kernel, with those of their members as far as these were read."""

    structures: Mapping[str, Structure]

    def places(self, container: str, tag: str) -> tuple[tuple[str, int], ...]:
        """Where a structure lies in another one: the paths of the members, and their offsets."""
        return tuple(self._places(container, tag, _DEEPEST))

    def _places(self, container: str, tag: str, deep: int) -> Iterator[tuple[str, int]]:
        structure = self.structures.get(container)
        for member in structure.members if structure and deep else ():
            inner = inner_tag(container, member)
            step = member.size // max(member.count, 1)
            for number in range(member.count if inner else 0):
                name = f"{member.name}[{number}]" if member.count > 1 else member.name
                offset = member.offset + number * step
                if inner == tag:
                    yield name, offset
                else:
                    for path, inside in self._places(inner, tag, deep - 1):
                        yield f"{name}.{path}", offset + inside


def inner_tag(tag: str, member: Member) -> str:
    """The structure that a member is; empty if it is none, or only points to one."""
    kind, _, name = member.type.partition(" ")
    if kind != "struct" or "*" in name:
        return ""
    # One without a tag goes by the path of the member.
    return name or f"{tag}.{member.name}"


def read_inner_types(vmlinux: Path, tags: Iterable[str]) -> InnerTypes:
    """Some structures of a kernel, and all that are inside of them.

    Raises:
        SchedlineError: the kernel has no debug information of the first of them.
    """
    wanted = sorted(set(tags))
    found = dict(read_members(vmlinux, wanted))
    asked = set(wanted)
    for _ in range(_DEEPEST):
        inside = {inner_tag(tag, member) for tag, each in found.items() for member in each.members}
        wanted = sorted(name for name in inside - asked - found.keys() if name.isidentifier())
        if not wanted:
            break
        asked |= set(wanted)
        try:
            found |= read_members(vmlinux, wanted)
        except SchedlineError:  # none of them has a definition
            break
    return InnerTypes(found)
