# SPDX-License-Identifier: GPL-2.0
"""The shared libraries that a program needs, read from its ELF file. Nothing is run, so it may be of another CPU."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

from schedlib.errors import SchedlineError

PLACE = "/lib/schedline"
"""Where a guest has the libraries: LD_LIBRARY_PATH there."""

_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_MACHINES = {"x86_64": "EM_X86_64", "arm64": "EM_AARCH64"}
_HOSTS = {"x86_64": "x86_64", "aarch64": "arm64"}

_PIE = 0x08000000
"""DF_1_PIE: a program that can be loaded anywhere; a library does not have it."""

_LOADED_LATER = "libgcc_s.so.1"
"""The C library loads it when a thread is cancelled. No program says that it needs it."""


@dataclass(frozen=True)
class Linked:
    """What an ELF file says.

    Attributes:
        machine: as pyelftools names it, such as EM_X86_64.
        is_program: whether it can be started; neither a library nor an object can.
        interpreter: the dynamic loader that it names; empty if it is static.
        search: directories that it names for the needed libraries.
    """

    machine: str
    is_program: bool
    interpreter: str
    needed: tuple[str, ...]
    search: tuple[Path, ...]


def is_elf(path: Path) -> bool:
    """Whether a file begins as an ELF file does."""
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def linked(path: Path) -> Linked:
    """Read an ELF file; SchedlineError if it is damaged."""
    try:
        with path.open("rb") as file:
            return _read(ELFFile(file), path)
    except (ELFError, UnicodeDecodeError, ValueError, KeyError) as error:
        observed = f"{path} is not a whole ELF file: {error or type(error).__name__}"
        raise SchedlineError(observed, f"readelf -d {path}") from error


def _read(elf: ELFFile, path: Path) -> Linked:
    interpreter, needed, search, is_pie = "", [], [], False
    origin = str(path.resolve().parent)
    for segment in elf.iter_segments():
        if isinstance(segment, InterpSegment):
            interpreter = segment.get_interp_name()
        for tag in segment.iter_tags() if isinstance(segment, DynamicSegment) else ():
            # pyelftools keeps the text of a tag under the tag's own name.
            text = str(getattr(tag, tag.entry.d_tag.removeprefix("DT_").lower(), ""))
            if tag.entry.d_tag == "DT_NEEDED":
                needed.append(text)
            elif tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
                places = text.replace("${ORIGIN}", origin).replace("$ORIGIN", origin).split(":")
                search += [Path(os.path.normpath(place)) for place in places if place.startswith("/")]
            elif tag.entry.d_tag == "DT_FLAGS_1":
                is_pie = bool(tag.entry.d_val & _PIE)
    is_program = elf["e_type"] == "ET_EXEC" or (elf["e_type"] == "ET_DYN" and (bool(interpreter) or is_pie))
    return Linked(str(elf["e_machine"]), is_program, interpreter, tuple(needed), tuple(search))


def runs_on(found: Linked, arch: str) -> bool:
    """Whether it is for the machines of make's ARCH."""
    return found.machine == _MACHINES[arch]


def refuse_other_machine(path: Path, found: Linked, arch: str) -> None:
    """SchedlineError if a program cannot run on make's ARCH."""
    if not runs_on(found, arch):
        raise SchedlineError(
            f"{path} is for {found.machine.removeprefix('EM_').lower()}, and the guest is {arch}",
            f"compile it for {arch}, or choose another guest with --on",
        )


def libraries(programs: Iterable[Path], arch: str, near: Sequence[Path] = ()) -> dict[str, Path]:
    """The files that programs need besides themselves, by their path in the guest. `near`: where to look first.

    SchedlineError if one is missing on this machine.
    """
    found: dict[str, Path] = {}
    seen = set[Path]()
    waiting: list[tuple[Path, tuple[Path, ...]]] = [(program, tuple(near)) for program in programs]
    while waiting:
        path, inherited = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        said = linked(path)
        search = (*said.search, *inherited)
        for needed in filter(None, (said.interpreter, *said.needed)):
            name = Path(needed).name
            file = next(_candidates(name, search, arch), None)
            if file is None:
                missing = f"{path} needs the library {name}, and this machine has none for {arch}"
                advice = f"install it, name its directory in LD_LIBRARY_PATH, or link {path.name} with -static"
                raise SchedlineError(f"{missing}, so it could not start in the guest", advice)
            # The loader has to be where the program says that it is.
            found[needed if needed == said.interpreter else f"{PLACE}/{name}"] = file
            if needed != said.interpreter:
                waiting.append((file, search))
    later = next(_candidates(_LOADED_LATER, (), arch), None)
    if later and f"{PLACE}/libc.so.6" in found:
        found.setdefault(f"{PLACE}/{_LOADED_LATER}", later)
    return found


def with_libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Programs of this machine and the libraries that they load. A guest has them at the same paths as this machine."""
    own = list(programs)
    found = libraries(filter(is_elf, own), _HOSTS[platform.machine()])
    # A program names the place of its loader, which libc needs, too; the libraries are where they are here.
    loaders = {Path(name).name: Path(name) for name in found if not name.startswith(PLACE)}
    files = [*own, *(loaders.get(path.name, path) for path in found.values())]
    return {str(path): path for path in files}


def _candidates(name: str, search: Sequence[Path], arch: str) -> Iterator[Path]:
    """The files of this name that have the right architecture, as the dynamic loader would find them."""
    for directory in (*search, *_directories(arch)):
        path = directory / name
        if path.is_file() and is_elf(path) and runs_on(linked(path), arch):
            yield path


def _directories(arch: str) -> tuple[Path, ...]:
    """Where libraries are: as the loader of this machine looks for them, or those of a cross compiler."""
    triplet = _TRIPLETS[arch]
    asked = [Path(place) for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") if place.startswith("/")]
    if _HOSTS.get(platform.machine()) != arch:
        return (*asked, Path(f"/usr/{triplet}/lib"), Path(f"/usr/lib/{triplet}"))
    lines = [line for path in sorted(Path("/etc/ld.so.conf.d").glob("*.conf")) for line in path.read_text().split("\n")]
    configured = [Path(line.strip()) for line in lines if line.strip().startswith("/")]
    usual = (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
    return (*asked, *configured, *map(Path, usual))
