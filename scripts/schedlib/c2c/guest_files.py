# SPDX-License-Identifier: GPL-2.0
"""What a guest has when it runs a program of the user: the program, its libraries, a shell, files, the marker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from schedlib.c2c.c2c_options import OwnProgram
from schedlib.errors import SchedlineError
from schedlib.guest.shared_libraries import is_elf, libraries, linked, refuse_other_machine, runs_on

MARKER = "/bin/schedline-count"
COMMAND = "/schedline/command"
DIRECTORIES = ("/dev", "/files")

MOST = 128 << 20
"""Bytes that a guest's memory has room for, twice: packed and unpacked."""

_MOST_COMMAND = 32000
_SHELL = "/bin/busybox"


def check(own: OwnProgram, arch: str) -> None:
    """Check what can be known of a program before a kernel is built.

    Raises:
        SchedlineError: it cannot be started in a guest of make's ARCH, or needs a library that is missing.
    """
    packed(own, arch, Path("/"), Path("/"))
    if len(command(own)) > _MOST_COMMAND:
        raise SchedlineError(f"the arguments of {own.file.name} are too long", f"write a script: {_MOST_COMMAND} bytes")


def command(own: OwnProgram) -> bytes:
    """The content of the command file; see scripts/c2c/guest_runner.c."""
    start = [_SHELL, "sh"] if own.is_script else []
    words = ["marked" if own.marked else "whole", *start, _place(own), *own.arguments]
    return b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)


def packed(own: OwnProgram, arch: str, marker: Path, shell: Path) -> dict[str, Path]:
    """The files of this machine that the guest needs, by their path in the guest; without /init and the command.

    Args:
        marker: the program that marks where counting starts and stops.
        shell: a static busybox, for a script.

    Raises:
        SchedlineError: the program cannot be started there, a library is missing, or the files are too many.
    """
    files = dict(_files_of(own.files)) if own.files else {}
    # Libraries among the files need others, too. Objects, and programs of another machine, are only data.
    programs = [path for path in files.values() if is_elf(path) and runs_on(linked(path), arch)]
    near = sorted({path.parent for path in programs})
    if own.is_script:
        _refuse_program(own.file)
    else:
        _refuse_no_program(own.file, arch)
        programs.append(own.file)
    found = {_place(own): own.file, MARKER: marker} | ({_SHELL: shell} if own.is_script else {}) | files
    found |= libraries(programs, arch, near)
    for name in found:
        # The kernel's own packer reads names up to the next space.
        if name.split() != [name]:
            raise SchedlineError(f"{name!r}: a name with a space cannot be packed for the guest", "rename it")
    size = sum(path.stat().st_size for path in found.values() if path.is_file())
    if size > MOST:
        observed = f"the program and its files have {size >> 20} MiB, and a guest has room for {MOST >> 20}"
        raise SchedlineError(observed, "leave files out of --files")
    return found


def staged(files: Mapping[str, Path], place: Path) -> dict[str, Path]:
    """The same files under names without spaces, as links in an empty directory."""
    found = {}
    for number, (name, path) in enumerate(sorted(files.items())):
        found[name] = place / str(number)
        found[name].symlink_to(path.resolve())
    return found


def _place(own: OwnProgram) -> str:
    return f"/program/{own.file.name}"


def _refuse_program(path: Path) -> None:
    if is_elf(path):
        raise SchedlineError(f"--script: {path} is a program", f"schedline c2c --program {path}")


def _refuse_no_program(path: Path, arch: str) -> None:
    if not is_elf(path):
        observed = f"--program: {path} is no ELF program, and the kernel of the guest starts no other"
        raise SchedlineError(observed, f"schedline c2c --script {path} runs a script in busybox's shell")
    found = linked(path)
    refuse_other_machine(path, found, arch)
    if not found.is_program:
        raise SchedlineError(f"--program: {path} cannot be started: it is a library or an object", "link a program")


def _files_of(directory: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            yield f"/files/{path.relative_to(directory)}", path
        elif path.is_symlink():
            raise SchedlineError(f"--files: {path} is a link to nothing", f"rm {path}")
