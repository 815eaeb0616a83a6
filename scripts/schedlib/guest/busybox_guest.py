# SPDX-License-Identifier: GPL-2.0
"""A guest with busybox: its kernel is built, it is booted, and what it sends comes home on a disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.guest import boot, busybox_image, selftests
from schedlib.guest.kvm import accelerator
from schedlib.kernel.build import Kernel, build
from schedlib.kernel.targets import Programs, Target, choose, command_line, refuse_impossible
from schedlib.kernel.topology import Topology, flat
from schedlib.progress import say
from schedlib.tree.compose import compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.left_out import configuration_of, left_out

TARGET = "qemu-x86_64"
CPUS = 8


@dataclass(frozen=True)
class Guest:
    """What is booted."""

    cache: Path
    target: Target
    topology: Topology
    kernel: Kernel
    accel: str

    def pack(self, job: str, files: Mapping[str, Path], archive: Path) -> None:
        """An initramfs for a job of selftests/, with what that needs."""
        busybox_image.pack(self.cache, self.kernel, self.target.arch, job, files, archive)

    def boot(self, archive: Path, disk: Path, log: Path, timeout: float) -> boot.Run:
        """Boot it with an initramfs; its console goes to a file."""
        cpus, words = self.topology.cpus, self.topology.arguments
        programs = Programs(archive, disk=disk)
        argv = command_line(self.target, self.kernel.image, cpus, words, self.accel, self.topology, programs)
        return boot.run_guest(argv, log, timeout)


def built(
    cache: Path,
    tree: Tree,
    on: str = TARGET,
    topology: Topology | None = None,
    *,
    with_: Sequence[str] = (),
    without: Collection[str] = (),
    config: Sequence[str] = (),
) -> Guest:
    """Build the kernel of a tree with its changes, and what workloads need.

    Raises:
        SchedlineError: there is no such guest, or the kernel does not build.
    """
    target, _ = choose(tree, on)
    if not target.emulator:
        raise SchedlineError(f"--on {target.name}: its guest has no disk that brings runs home", f"use --on {TARGET}")
    doctor.ensure([target.name, f"{target.name}-selftests", "in-guest"])
    topology = topology or flat(CPUS)
    refuse_impossible(target, topology)
    composition = compose(tree, with_=with_, without=without, expect=None, base=None)
    refuse_conflicts(composition)
    lacking = left_out(tree, composition.expected)
    configuration = configuration_of([target.name, selftests.FRAGMENT, *config], lacking)
    say(f"{tree.origin} [{', '.join(f'{row.id} {row.state.value}' for row in composition.states)}] on {target.name}")
    kernel = build(cache, tree, composition.commit, target, configuration)
    return Guest(cache, target, topology, kernel, accelerator(cache, target, kernel.image))
