# SPDX-License-Identifier: GPL-2.0
"""built kernel -> initramfs: busybox, a job, and the machine's own tools with the libraries they are linked to."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from schedlib.guest import selftests
from schedlib.kernel.build import Kernel
from schedlib.paths import SELFTESTS
from schedlib.process import must, run
from schedlib.progress import step
from schedlib.tree.debian import Series, download

_DEBIAN = {"x86_64": "amd64", "arm64": "arm64"}
_BUSYBOX = Series("busybox", "busybox-static", ("stable",), "", "")
_MACHINES = {0x3E: "x86_64", 0xB7: "arm64"}


def why_not_for(program: Path, arch: str) -> str:
    """Why a program of this machine does not run in a guest of make's ARCH; empty if it does."""
    with program.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"\x7fELF":
        return f"{program} is a script, and the guest has only busybox"
    if _MACHINES.get(int.from_bytes(head[18:20], "little")) != arch:
        return f"{program} is for this machine's CPU, not for {arch}"
    return ""


def _linked(program: Path) -> dict[str, Path]:
    said = run(["ldd", program]).stdout.decode(errors="replace")
    return {name: Path(name) for name in re.findall(r"^\t(?:\S+ => )?(/\S+) \(", said, re.M)}


def with_libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Programs and the libraries that they load. A guest has them at the same paths as this machine."""
    found: dict[str, Path] = {}
    for program in programs:
        found |= {str(program): program} | _linked(program)
    # The C library loads libgcc_s.so.1 when a thread is cancelled; ldd does not list it.
    loaded = {str(path.with_name("libgcc_s.so.1")) for path in found.values() if path.name == "libc.so.6"}
    return found | {name: Path(name) for name in loaded if Path(name).exists()}


def busybox(cache: Path, arch: str) -> Path:
    """A static busybox: this machine's, or Debian's if this machine's cannot run in the guest.

    Raises:
        SchedlineError: there is none.
    """
    here = shutil.which("busybox")
    if here and not why_not_for(Path(here), arch) and not _linked(Path(here)):
        return Path(here)
    work = cache / "apt" / f"busybox-{arch}"
    kept = work / "busybox"
    if not kept.exists():
        with step(f"fetching busybox for {arch}"):
            package = download(_BUSYBOX, work, arch=_DEBIAN[arch])
            with tempfile.TemporaryDirectory(dir=work) as half:
                must(["dpkg-deb", "-x", package.path, half])
                next(Path(half).rglob("bin/busybox")).replace(kept)
    return kept


def pack(cache: Path, kernel: Kernel, arch: str, job: str, files: Mapping[str, Path], archive: Path) -> None:
    """Pack the initramfs of a guest that does one job of selftests/ and ends.

    Raises:
        SchedlineError: there is no busybox for it.
    """
    shell = busybox(cache, arch)
    own = {"/init": SELFTESTS / "guest_init.sh", "/job": SELFTESTS / job, "/bin/busybox": shell}
    selftests.pack(kernel, own | dict(files), (), archive)
