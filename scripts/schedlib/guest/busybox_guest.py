# SPDX-License-Identifier: GPL-2.0
"""A guest with busybox: builds its kernel, boots it, and gets its results back on a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.guest import boot, busybox_image, selftests
from schedlib.guest.command_line import Programs, command_line, refuse_impossible
from schedlib.guest.kvm import accelerator
from schedlib.kernel.build import Kernel
from schedlib.kernel.prepare import plan_kernel, prepare_kernel
from schedlib.kernel.targets import Target, choose
from schedlib.kernel.topology import Topology, flat
from schedlib.options import ChangeOptions
from schedlib.progress import say
from schedlib.tree.kernel_tree import Tree

TARGET = "qemu-x86_64"
CPUS = 8


@dataclass(frozen=True)
class Guest:
    """A guest that is ready to boot."""

    cache: Path
    target: Target
    topology: Topology
    kernel: Kernel
    accel: str

    def pack(self, job: str, files: Mapping[str, Path], archive: Path) -> None:
        """Write an initramfs for a job of selftests/, with the files that the job needs."""
        busybox_image.pack(self.cache, self.kernel, self.target.arch, job, files, archive)

    def boot(self, archive: Path, disk: Path, log: Path, timeout: float) -> boot.GuestRun:
        """Boot it with an initramfs; its console goes to a file."""
        cpus, words = self.topology.cpus, self.topology.arguments
        programs = Programs(archive, disk=disk)
        argv = command_line(self.target, self.kernel.image, cpus, words, self.accel, self.topology, programs)
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
    """Build the kernel of a tree with its changes and the options that workloads need.

    Args:
        place: an empty directory for the kernel; it has to exist as long as the guest is used.

    Raises:
        SchedlineError: there is no such guest, or the kernel does not build.
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
