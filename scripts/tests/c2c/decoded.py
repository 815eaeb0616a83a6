# SPDX-License-Identifier: GPL-2.0
"""The plugin's decoders: how they classify an instruction that the assembler produced."""

from __future__ import annotations

import ctypes
import subprocess
from enum import IntEnum
from pathlib import Path

from schedlib.c2c.c2c_options import SOURCES


class Traffic(IntEnum):
    """`enum traffic` of scripts/c2c/arch.h."""

    PLAIN = 0
    ATOMIC = 1
    STORE = 2
    STACK = 3


class Decoder:
    """scripts/c2c/<name>.c, compiled for this machine.

    Args:
        directory: for the library.
    """

    def __init__(self, name: str, directory: Path) -> None:
        path = directory / f"{name}.so"
        flags = ["-O1", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
        warnings = ["-Wall", "-Wextra", "-Werror"]
        subprocess.run(["gcc", *flags, *warnings, "-o", str(path), str(SOURCES / f"{name}.c")], check=True)
        library = ctypes.CDLL(str(path))
        self._traffic, self._mark = library[f"{name}_traffic"], library[f"{name}_mark"]

    def traffic(self, code: bytes) -> Traffic:
        """The kind of access that the plugin counts for the instruction."""
        return Traffic(self._traffic(code, ctypes.c_size_t(len(code))))

    def mark(self, code: bytes) -> int:
        """The marker that the instruction encodes; 0 for none."""
        return int(self._mark(code, ctypes.c_size_t(len(code))))


def assembled(directory: Path, text: str, compiler: str = "") -> bytes:
    """The bytes of one instruction.

    Args:
        compiler: prefix of the cross compiler; empty for the machine's own.
    """
    (directory / "one.s").write_text(f"{text}\n")
    subprocess.run([f"{compiler}gcc", "-c", "-o", "one.o", "one.s"], check=True, cwd=directory)
    copy = [f"{compiler}objcopy", "-O", "binary", "-j", ".text", "one.o", "one.bin"]
    subprocess.run(copy, check=True, cwd=directory)
    return (directory / "one.bin").read_bytes()
