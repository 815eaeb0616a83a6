# SPDX-License-Identifier: GPL-2.0
"""The libraries that a program needs are found as the dynamic loader finds them, and a missing one is named."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.guest.busybox_guest import why_not_for
from schedlib.guest.shared_libraries import PLACE, is_elf, libraries, linked, refuse_other_machine

PYTHON = Path(sys.executable).resolve()
ARCH = "x86_64" if not why_not_for(PYTHON, "x86_64") else "arm64"

pytestmark = pytest.mark.skipif(not linked(PYTHON).needed, reason="this Python is static")


def changed(place: Path, old: bytes, new: bytes) -> Path:
    """A copy of this Python with other bytes of the same length."""
    content = PYTHON.read_bytes()
    assert len(old) == len(new)
    assert old in content
    program = place / "program"
    program.write_bytes(content.replace(old, new))
    return program


def test_the_loader_finds_the_same() -> None:
    ldd = shutil.which("ldd")
    if not ldd:
        pytest.skip("no ldd to compare with")
    said = subprocess.run([ldd, PYTHON], check=True, capture_output=True, text=True).stdout
    wanted = {name: Path(path).resolve() for name, path in re.findall(r"^\t(\S+) => (/\S+) \(", said, re.M)}
    found = libraries([PYTHON], ARCH)
    assert wanted
    for name, path in wanted.items():
        assert found[f"{PLACE}/{name}"].resolve() == path
    # The loader itself is where the program says that it is.
    assert found[linked(PYTHON).interpreter].resolve() == Path(linked(PYTHON).interpreter).resolve()


def test_a_library_that_is_missing_is_named_and_one_beside_the_program_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = changed(tmp_path, b"\0libc.so.6\0", b"\0libq.so.6\0")
    with pytest.raises(SchedlineError, match=r"program needs the library libq\.so\.6"):
        libraries([program], ARCH)
    beside = tmp_path / "beside"
    beside.mkdir()
    real = libraries([PYTHON], ARCH)[f"{PLACE}/libc.so.6"]
    # A file of this name that is no library, or of another machine, is passed over.
    (beside / "libq.so.6").write_text("no library")
    with pytest.raises(SchedlineError, match="libq"):
        libraries([program], ARCH, [beside])
    (beside / "libq.so.6").write_bytes(real.read_bytes())
    assert libraries([program], ARCH, [beside])[f"{PLACE}/libq.so.6"] == beside / "libq.so.6"
    monkeypatch.setenv("LD_LIBRARY_PATH", str(beside))
    assert libraries([program], ARCH)[f"{PLACE}/libq.so.6"] == beside / "libq.so.6"


def test_a_program_of_another_machine_is_refused(tmp_path: Path) -> None:
    content = bytearray(PYTHON.read_bytes())
    content[18:20] = (183 if ARCH == "x86_64" else 62).to_bytes(2, "little")
    (tmp_path / "program").write_bytes(content)
    refuse_other_machine(PYTHON, linked(PYTHON), ARCH)
    with pytest.raises(SchedlineError, match=f"the guest is {ARCH}"):
        refuse_other_machine(tmp_path / "program", linked(tmp_path / "program"), ARCH)


def test_what_is_a_program() -> None:
    assert is_elf(PYTHON)
    assert not is_elf(Path(__file__))
    assert linked(PYTHON).is_program
    found = libraries([PYTHON], ARCH)
    plain = [path for path in found.values() if not linked(path).interpreter]
    assert plain
    assert not any(linked(path).is_program for path in plain if not path.name.startswith("ld-"))


@pytest.mark.parametrize("kept", [4, 20, 64, 200])
def test_half_of_a_program_is_refused(tmp_path: Path, kept: int) -> None:
    (tmp_path / "program").write_bytes(PYTHON.read_bytes()[:kept])
    with pytest.raises(SchedlineError, match="is not a whole ELF file"):
        linked(tmp_path / "program")
