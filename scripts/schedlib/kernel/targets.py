# SPDX-License-Identifier: GPL-2.0
"""The machines on which a test kernel runs: User-Mode Linux and QEMU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.kernel.topology import MOST_CPUS, Topology, qemu_words
from schedlib.process import run
from schedlib.tree.kernel_tree import Tree


@dataclass(frozen=True)
class Target:
    """Where a kernel is run.

    Attributes:
        name: the word after --on, and the base fragment in configs/kernel/.
        arch: make's ARCH.
        image: what make builds, and the file below the build directory that is run.
        image_target: make's name for it.
        classes: CPU counts of the guests that one check boots.
        timeout: seconds after which a guest is ended.
        compiler: prefix of the cross compiler, make's CROSS_COMPILE; empty for the machine's own.
        emulator: QEMU's program and the words that choose its machine; none for UML.
        console: the guest's serial port.
        disk: QEMU's name for one that the guest has.
    """

    name: str
    arch: str
    image: str
    image_target: str
    classes: tuple[int, ...]
    timeout: float
    compiler: str = ""
    emulator: tuple[str, ...] = ()
    console: str = ""
    disk: str = "virtio-blk-pci"


@dataclass(frozen=True)
class Programs:
    """What a guest runs when it has booted.

    Attributes:
        initramfs: with an /init that ends the guest.
        arguments: for /init.
        disk: a file of ours that the guest writes to, its /dev/vda.
    """

    initramfs: Path
    arguments: tuple[str, ...] = ()
    disk: Path | None = None


TARGETS = {
    target.name: target
    for target in (
        Target("uml", "um", "vmlinux", "vmlinux", (8, 64), 120),
        Target(
            "qemu-x86_64",
            "x86_64",
            "arch/x86/boot/bzImage",
            "bzImage",
            (8, 64),
            600,
            emulator=("qemu-system-x86_64",),
            console="ttyS0",
        ),
        # The newest interrupt controller: the older one ends at 8 CPUs.
        Target(
            "qemu-arm64",
            "arm64",
            "arch/arm64/boot/Image",
            "Image",
            (8, 64),
            600,
            "aarch64-linux-gnu-",
            ("qemu-system-aarch64", "-machine", "virt,gic-version=max"),
            "ttyAMA0",
            "virtio-blk-device",
        ),
    )
}


def choose(tree: Tree, wanted: str | None) -> tuple[Target, str | None]:
    """The target to use and, when it is not the default one, why.

    Raises:
        SchedlineError: an unknown target, or one that this tree cannot have.
    """
    if wanted is not None and wanted not in TARGETS:
        raise SchedlineError(f"--on: there is no target {wanted!r}", f"choose one of {', '.join(TARGETS)}")
    uml_has_smp = re.search(r"^config SMP$", tree.read("arch/um/Kconfig") or "", re.M) is not None
    if uml_has_smp or wanted not in (None, "uml"):
        return TARGETS[wanted or "uml"], None
    reason = "this tree's UML has one CPU and no cpupri"
    if wanted == "uml":
        raise SchedlineError(f"--on uml: {reason}", "use --on qemu-x86_64")
    return TARGETS["qemu-x86_64"], f"{reason}; using qemu-x86_64"


MEMORY = 512
"""MiB of a guest."""


def command_line(
    target: Target,
    image: Path,
    cpus: int,
    arguments: Sequence[str],
    accel: str,
    topology: Topology | None = None,
    programs: Programs | None = None,
) -> list[str]:
    """The command that boots a guest and ends when the guest halts; its console is standard output.

    Args:
        cpus: CPUs that are brought up.
        arguments: kernel parameters.
        accel: QEMU's accelerator, `tcg` or `kvm`; UML has none.
        topology: how the CPUs of QEMU's guest belong together.
        programs: what QEMU's guest runs in place of the KUnit suites.
    """
    online, suites = f"maxcpus={cpus}", ["kunit.enable=1", "kunit.autorun=1"]
    if target.name == "uml":
        own = ["console=tty", "con=null", "con0=fd:0,fd:1", "ssl=null", "seccomp=on", "kunit_shutdown=halt"]
        return [str(image), f"mem={MEMORY}M", *own, f"ncpus={MOST_CPUS}", online, *suites, *arguments]
    words = [f"console={target.console}", "panic=-1", online]
    if programs:
        # RT overload on emulated CPUs keeps RCU waiting for longer than it takes to be called a stall.
        words += ["kunit.enable=0", "rcupdate.rcu_cpu_stall_timeout=300", *arguments, "--", *programs.arguments]
        files = ["-kernel", str(image), "-initrd", str(programs.initramfs)]
        if programs.disk:
            # QEMU takes two commas for one.
            drive = f"file={str(programs.disk).replace(',', ',,')},if=none,id=disk,format=raw,cache=unsafe"
            files += ["-drive", drive, "-device", f"{target.disk},drive=disk"]
    else:
        words += ["kunit_shutdown=reboot", *suites, *arguments]
        files = ["-kernel", str(image)]
    console = ["-no-reboot", "-serial", "stdio", "-monitor", "none"]
    return [*_machine(target, accel, topology), *console, *files, "-append", " ".join(words)]


def _machine(target: Target, accel: str, topology: Topology | None) -> list[str]:
    bare = ["-nodefaults", "-no-user-config", "-display", "none"]
    shape = qemu_words(topology, target.arch, MEMORY) if topology else ["-smp", str(MOST_CPUS)]
    return [*target.emulator, *bare, "-accel", accel, "-cpu", "max", "-m", f"{MEMORY}M", *shape]


def refuse_impossible(target: Target, topology: Topology) -> None:
    """Let the emulator build the machine, and end before it runs.

    Raises:
        SchedlineError: the emulator that is installed cannot give a guest this shape.
    """
    if not target.emulator:
        raise SchedlineError(
            f"--topology {topology.name}: a guest on {target.name} has no topology", "use --on qemu-arm64"
        )
    if topology.llcs > 1 and target.arch != "x86_64":
        raise SchedlineError(
            f"--topology {topology.name}: only a kernel for x86 splits an LLC, by split_llc=", "use --on qemu-x86_64"
        )
    machine = _machine(target, "tcg", topology)
    tried = run([*machine, "-S", "-serial", "none", "-monitor", "stdio"], stdin=b"quit\n")
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip()
        raise SchedlineError(
            f"--topology {topology.name}: the {target.emulator[0]} of this machine cannot do that:\n    {said}",
            "use --on qemu-arm64, or put a newer QEMU (modules of x86 came with 9.1, their caches with 9.2) into PATH",
        )
