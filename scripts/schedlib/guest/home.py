# SPDX-License-Identifier: GPL-2.0
"""What guests send: files on a disk of their own, a slot for each sender. selftests/guest_init.sh writes it."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from pathlib import Path

SLOT = 4 << 20
"""Bytes; SLOT of guest_init.sh, in blocks."""

_BLOCK = 512
_HEAD = re.compile(rb"(\d{1,7}) ([0-9a-f]{64})\n\0*")


def empty_disk(path: Path, slots: int) -> Path:
    """A disk of so many slots; what is not written takes no space."""
    with path.open("wb") as file:
        file.truncate(slots * SLOT)
    return path


def bring_home(disk: Path, slot: int, place: Path) -> str:
    """Unpack a slot into an existing directory: plain files, all of them or none; why none, or nothing."""
    with disk.open("rb") as file:
        file.seek(slot * SLOT)
        head = _HEAD.fullmatch(file.read(_BLOCK))
        data = file.read(int(head.group(1))) if head else b""
    if not head:
        return "nothing came home from the guest"
    if hashlib.sha256(data).hexdigest().encode() != head.group(2):
        return "what came home from the guest is damaged"
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            content = archive.extractfile(member) if member.isreg() else None
            # Whatever a tool has made there: no path leads out of the place.
            if content and "/" not in name:
                (place / name).write_bytes(content.read())
    return ""
