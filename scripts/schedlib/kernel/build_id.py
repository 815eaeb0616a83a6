# SPDX-License-Identifier: GPL-2.0
"""The one reader of a kernel's build-id: of a vmlinux, and of the running kernel."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a machine that is to be measured reads only its running kernel's build-id, and has no pyelftools
    from elftools.elf.elffile import ELFFile

_NOTES = Path("/sys/kernel/notes")
_GNU_BUILD_ID = 3


def build_id_of(elf: ELFFile) -> str:
    """The build-id of a vmlinux, in hexadecimal digits; empty if it has none."""
    order = "<" if elf.little_endian else ">"
    notes = (section.data() for section in elf.iter_sections("SHT_NOTE"))
    return next(filter(None, (in_notes(each, order) for each in notes)), "")


def running_build_id() -> str:
    """The build-id of the running kernel, in hexadecimal digits; empty if the kernel does not show it."""
    with suppress(OSError):
        return in_notes(_NOTES.read_bytes(), "=")
    return ""


def in_notes(notes: bytes, order: str) -> str:
    """The build-id in ELF notes of a byte order (struct's prefix); empty if they have none or are truncated."""
    place = 0
    with suppress(struct.error):
        while place + 12 <= len(notes):
            owner, size, kind = struct.unpack_from(f"{order}III", notes, place)
            start = place + 12 + (owner + 3 & ~3)
            if kind == _GNU_BUILD_ID and notes[place + 12 : place + 15] == b"GNU":
                return notes[start : start + size].hex() if start + size <= len(notes) else ""
            place = start + (size + 3 & ~3)
    return ""
