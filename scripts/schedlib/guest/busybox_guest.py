# SPDX-License-Identifier: GPL-2.0
"""A guest with busybox, a job, the machine's own tools with their libraries, and a disk that returns its results."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.guest import boot, selftests
from schedlib.guest.command_line import Programs, accelerator, command_line, refuse_impossible
from schedlib.guest.shared_libraries import is_elf, linked, runs_on
from schedlib.kernel.build import Kernel, plan_kernel, prepare_kernel
from schedlib.kernel.targets import Target, choose
from schedlib.kernel.topology import Topology, flat
from schedlib.options import ChangeOptions
from schedlib.paths import SELFTESTS
from schedlib.process import must
from schedlib.progress import say, step
from schedlib.tree.debian import Series, download
from schedlib.tree.kernel_tree import Tree

TARGET = "qemu-x86_64"
CPUS = 8

_DEBIAN = {"x86_64": "amd64", "arm64": "arm64"}
_BUSYBOX = Series("busybox", "busybox-static", ("stable",), "", "")


def why_not_for(program: Path, arch: str) -> str:
    """Why a program of this machine does not run in a guest of make's ARCH; empty if it does."""
    if not is_elf(program):
        return f"{program} is a script, and the guest has only busybox"
    return "" if runs_on(linked(program), arch) else f"{program} is for this machine's CPU, not for {arch}"


def busybox(cache: Path, arch: str) -> Path:
    """A static busybox: this machine's, or Debian's if that cannot run in a guest; SchedlineError if there is none."""
    here = shutil.which("busybox")
    if here and not why_not_for(Path(here), arch) and not linked(Path(here)).needed:
        return Path(here)
    work = cache / "apt" / f"busybox-{arch}"
    kept = work / "busybox"
    if not kept.exists():
        with step(f"fetching busybox for {arch}"):
            package, _ = download(_BUSYBOX, work, arch=_DEBIAN[arch])
            with tempfile.TemporaryDirectory(dir=work) as half:
                must(["dpkg-deb", "-x", package, half])
                next(Path(half).rglob("bin/busybox")).replace(kept)
    return kept


def scripts(job: str, send: str, *, slow: bool) -> dict[str, str]:
    """The scripts of selftests/ for a guest, by their path there; `slow`: times mean nothing there, it is emulated."""
    return {"/init": "guest_init.sh", "/job": job, "/send": send} | ({"/slow": send} if slow else {})


@dataclass(frozen=True)
class Guest:
    """A guest that is ready to boot."""

    cache: Path
    target: Target
    topology: Topology
    kernel: Kernel
    accel: str

    def pack(self, job: str, files: Mapping[str, Path], archive: Path) -> None:
        """Write an initramfs for a job of selftests/ with the files that it needs, and with busybox()."""
        shell = busybox(self.cache, self.target.arch)
        own = {name: SELFTESTS / script for name, script in scripts(job, "send_disk.sh", slow=True).items()}
        selftests.pack(self.kernel, own | {"/bin/busybox": shell} | dict(files), (), archive)

    def boot(self, archive: Path, disk: Path, log: Path, timeout: float) -> boot.GuestRun:
        """Boot it with an initramfs; its console goes to a file."""
        shape, programs = self.topology, Programs(archive, disk=disk)
        argv = command_line(self.target, self.kernel.image, shape.cpus, shape.arguments, self.accel, shape, programs)
        return boot.run_guest(argv, log, timeout)


def prepared_guest(
    cache: Path,
    tree: Tree,
    place: Path,
    on: str = TARGET,
    topology: Topology | None = None,
    changes: ChangeOptions | None = None,
    config: Sequence[str] = (),
) -> Guest:
    """Build the kernel of a tree with the options that workloads need, and copy it to `place`, an empty directory.

    Raises SchedlineError: there is no such guest, or the kernel does not build.
    """
    target, _ = choose(tree, on)
    if not target.emulator:
        raise SchedlineError(f"--on {target.name}: its guest has no disk that returns the runs", f"use --on {TARGET}")
    doctor.require([f"{target.name}-selftests", "in-guest"])
    topology = topology or flat(CPUS)
    refuse_impossible(target, topology)
    plan = plan_kernel(tree, target, [selftests.FRAGMENT, *config], changes=changes)
    say(f"{plan.describe()} on {target.name}")
    kernel = prepare_kernel(cache, plan, place)
    return Guest(cache, target, topology, kernel, accelerator(cache, target, kernel.image))
