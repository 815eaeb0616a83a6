# SPDX-License-Identifier: GPL-2.0
"""Files that guests send back on a disk of their own, in one slot for each sender; send_disk.sh writes them."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path

SLOT = 4 << 20
"""Bytes of a slot; SLOT in selftests/send_disk.sh is the same number in blocks."""

_BLOCK = 512
_HEAD = re.compile(rb"(\d{1,7}) ([0-9a-f]{64})\n\0*")


def empty_disk(path: Path, slots: int) -> Path:
    with path.open("wb") as file:
        file.truncate(slots * SLOT)
    return path


LARGEST_ARCHIVE = SLOT - _BLOCK


def put(disk: Path, slot: int, data: bytes) -> None:
    """Write an archive, which is not larger than LARGEST_ARCHIVE, into a slot, as a guest does."""
    head = f"{len(data)} {hashlib.sha256(data).hexdigest()}\n".encode()
    with disk.open("r+b") as file:
        file.seek(slot * SLOT)
        file.write(head.ljust(_BLOCK, b"\0") + data)


def bring_home(disk: Path, slot: int, place: Path) -> str:
    """Unpack the plain files of a slot into an existing directory, all or none; returns why none, or an empty text."""
    with disk.open("rb") as file:
        file.seek(slot * SLOT)
        head = _HEAD.fullmatch(file.read(_BLOCK))
        data = file.read(int(head.group(1))) if head else b""
    if not head:
        return "the guest returned no data"
    if hashlib.sha256(data).hexdigest().encode() != head.group(2):
        return "the data that the guest returned are damaged"
    try:
        # Nothing is decompressed: a few bytes could become more than memory holds.
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                # A hole of a sparse file costs nothing in an archive.
                content = archive.extractfile(member) if member.isreg() and member.size <= len(data) else None
                # Never write outside of `place`, whatever names the tools in the guest have chosen.
                if content and "/" not in name and name not in ("", ".", ".."):
                    (place / name).write_bytes(content.read())
    except (tarfile.TarError, EOFError, ValueError, OSError):
        return "the data that the guest returned are no archive"
    return ""
