# SPDX-License-Identifier: GPL-2.0
"""A build-id is read the same way from notes of either byte order, from a file, and from the running kernel."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from schedlib.kernel import machine
from schedlib.kernel.machine import build_id_of, in_notes, running_build_id

ID = bytes.fromhex("0123456789abcdef01")


def note(order: str, owner: bytes, kind: int, data: bytes) -> bytes:
    head = struct.pack(f"{order}III", len(owner), len(data), kind)
    return head + owner.ljust(-(-len(owner) // 4) * 4, b"\0") + data.ljust(-(-len(data) // 4) * 4, b"\0")


@pytest.mark.parametrize("order", ["<", ">"])
def test_notes_of_others_are_passed_over(order: str) -> None:
    others = note(order, b"Linux\0", 3, b"\x01\x02\x03\x04") + note(order, b"GNU\0", 5, b"x" * 5)
    assert in_notes(others + note(order, b"GNU\0", 3, ID), order) == ID.hex()
    assert in_notes(others, order) == ""


def test_half_a_note_is_none() -> None:
    whole = note("<", b"GNU\0", 3, ID)
    assert {in_notes(whole[:length], "<") for length in range(16 + len(ID))} == {""}


@pytest.mark.tools
def test_a_file_and_the_running_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "vmlinux"
    words = ["gcc", "-shared", "-nostdlib", f"-Wl,--build-id=0x{ID.hex()}", "-o", str(library), "-x", "c", "/dev/null"]
    subprocess.run(words, check=True)
    with library.open("rb") as file:
        assert build_id_of(ELFFile(file)) == ID.hex()
    subprocess.run(["objcopy", "-R", ".note.gnu.build-id", library], check=True)
    with library.open("rb") as file:
        assert build_id_of(ELFFile(file)) == ""
    (tmp_path / "notes").write_bytes(note("=", b"GNU\0", 3, ID))
    monkeypatch.setattr(machine, "_NOTES", tmp_path / "notes")
    assert running_build_id() == ID.hex()
    monkeypatch.setattr(machine, "_NOTES", tmp_path / "nothing")
    assert running_build_id() == ""
    monkeypatch.setattr(machine, "_CPUS", tmp_path / "nothing")
    assert ", 0 LLCs, 0 nodes" in machine.machine_text()
    assert machine.fingerprint()["governor"] == ""
