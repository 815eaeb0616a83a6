# SPDX-License-Identifier: GPL-2.0
"""Files that came home on a console, as selftests/send_console.sh prints them: archives with size and checksum."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from schedlib.guest import home

_BEGIN = re.compile(r"# sent (\d{1,4}): (\d{1,9}) bytes, sha256 ([0-9a-f]{64})$")
_DATA = re.compile(r"# sent (\d{1,4})= ([A-Za-z0-9+/=]{1,100})$")
_END = re.compile(r"# sent (\d{1,4}): end$")


def disk_from(console: Iterable[str], path: Path, slots: int) -> tuple[str, ...]:
    """Write what was sent to a disk, as a guest with a disk would have, see home; returns why each slot is empty.

    An archive of which any byte is missing or wrong is left out as a whole. The first whole one of a slot counts.
    """
    home.empty_disk(path, slots)
    why = ["it was not sent"] * slots
    heads: dict[int, tuple[int, str]] = {}
    parts: dict[int, list[str]] = {}
    for line in console:
        if found := _BEGIN.search(line):
            slot = int(found[1])
            heads[slot], parts[slot] = (int(found[2]), found[3]), []
            if slot < slots and why[slot]:
                why[slot] = "its transfer was cut off"
        elif (found := _DATA.search(line)) and int(found[1]) in parts:
            parts[int(found[1])].append(found[2])
        elif (found := _END.search(line)) and int(found[1]) in parts:
            slot = int(found[1])
            size, checksum = heads[slot]
            lines = parts.pop(slot)
            if slot >= slots or not why[slot]:
                continue
            content = _content(lines, size) if size <= home.LARGEST_ARCHIVE else b""
            if size > home.LARGEST_ARCHIVE:
                why[slot] = f"it has {size} bytes, which are too many"
            elif len(content) != size or hashlib.sha256(content).hexdigest() != checksum:
                why[slot] = "its transfer was damaged: the checksum differs"
            else:
                home.put(path, slot, content)
                why[slot] = ""
    return tuple(why)


def _content(parts: list[str], size: int) -> bytes:
    """The archive; empty if it cannot be unpacked."""
    try:
        unpacked = zlib.decompressobj(31)
        return unpacked.decompress(base64.b64decode("".join(parts), validate=True), size + 1)
    except (binascii.Error, zlib.error, ValueError):
        return b""
