# SPDX-License-Identifier: GPL-2.0
"""A ramdisk: an archive in the kernel's format `newc` (Documentation/driver-api/early-userspace/buffer-format.rst)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_DIRECTORY = 0o040755
_PROGRAM = 0o100755
_TERMINAL = 0o020600
_CONSOLE = (5, 1)
"""The device of /dev/console, without which the first process has no output."""


def ramdisk(files: Mapping[str, Path | bytes]) -> bytes:
    """The archive of files, by their path in it, and of all directories above them.

    The same files give the same bytes.
    """
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents} | {"/dev", "/proc", "/sys"}
    members = [_member(number, name, _DIRECTORY) for number, name in enumerate(sorted(parents - {"/"}), 1)]
    members.append(_member(len(members) + 1, "/dev/console", _TERMINAL, device=_CONSOLE))
    for name, content in sorted(files.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        members.append(_member(len(members) + 1, name, _PROGRAM, data))
    return b"".join([*members, _member(0, "/TRAILER!!!", 0)])


def _member(number: int, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    path = name.lstrip("/").encode() + b"\0"
    links = 2 if mode == _DIRECTORY else 1
    fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(head + path) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
