# SPDX-License-Identifier: GPL-2.0
"""The command that boots a guest: the only module that knows the options of QEMU and User-Mode Linux."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import cached
from schedlib.errors import SchedlineError
from schedlib.guest.boot import run_guest
from schedlib.kernel.machine import boot_id
from schedlib.kernel.targets import Target
from schedlib.kernel.topology import Topology
from schedlib.options import MOST_CPUS
from schedlib.process import run
from schedlib.progress import step

MEMORY = 512
"""Memory of a guest in MiB, split among its NUMA nodes."""

PATIENT = "rcupdate.rcu_cpu_stall_timeout=300"
"""A busy host delays RCU on CPUs that share its own for longer than the default stall timeout; so does RT overload."""

UNTIMED = "no_timer_check"
"""x86 panics if the timer does not tick in time, which on a busy host is no defect. With KVM it does not look."""

CONSOLE = ("-no-reboot", "-serial", "stdio", "-monitor", "none")
"""The console is standard output, and a reboot ends QEMU."""


PROBE_TIMEOUT = 20.0
"""Seconds; even with TCG a small kernel prints its banner in less than two."""


@dataclass(frozen=True)
class Programs:
    """What a guest runs: an initramfs whose /init ends it, arguments for /init, and a file of the host as /dev/vda."""

    initramfs: Path
    arguments: tuple[str, ...] = ()
    disk: Path | None = None


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
        accel: QEMU's accelerator, `tcg` or `kvm`; UML has none, and no topology and no programs.
        programs: what the guest runs in place of the KUnit suites.
    """
    online, suites = f"maxcpus={cpus}", ["kunit.enable=1", "kunit.autorun=1"]
    if target.name == "uml":
        own = ["console=tty", "con=null", "con0=fd:0,fd:1", "ssl=null", "seccomp=on", "kunit_shutdown=halt", PATIENT]
        # By itself UML makes ~/.uml.
        own.append(f"uml_dir={image.parent / 'uml'}/")
        return [str(image), f"mem={MEMORY}M", *own, f"ncpus={MOST_CPUS}", online, *suites, *arguments]
    parameters = [f"console={target.console}", "panic=-1", online]
    parameters += [UNTIMED] if target.arch == "x86_64" else []
    parameters += [PATIENT] if programs or accel == "tcg" else []
    words = [*machine(target, topology), "-accel", accel]
    if not programs:
        return [*words, *what_boots(image, None, [*parameters, "kunit_shutdown=reboot", *suites, *arguments])]
    if programs.disk:
        # QEMU reads two commas as one literal comma.
        drive = f"file={str(programs.disk).replace(',', ',,')},if=none,id=disk,format=raw,cache=unsafe"
        words += ["-drive", drive, "-device", f"{target.disk},drive=disk"]
    parameters += ["kunit.enable=0", *arguments, "--", *programs.arguments]
    return [*words, *what_boots(image, programs.initramfs, parameters)]


def machine(target: Target, topology: Topology | None, console: Sequence[str] = CONSOLE) -> list[str]:
    """QEMU and the options for its machine. Without a topology no CPUs are grouped."""
    bare = ["-nodefaults", "-no-user-config", "-display", "none"]
    shape = shape_words(topology, target.arch) if topology else ["-smp", str(MOST_CPUS)]
    return [*target.emulator, *bare, *console, "-cpu", "max", "-m", f"{MEMORY}M", *shape]


def what_boots(image: Path, initramfs: Path | None, parameters: Sequence[str]) -> list[str]:
    """The options for the kernel, its initramfs and its parameters."""
    archive = ["-initrd", str(initramfs)] if initramfs else []
    return ["-kernel", str(image), *archive, "-append", " ".join(parameters)]


def shape_words(topology: Topology, arch: str) -> list[str]:
    """The options that give QEMU's machine of make's ARCH this shape."""
    clusters = "clusters" if arch == "arm64" else "modules"
    # On x86 no value of the option means "no modules", and QEMU before 9.1 does not have the option.
    level = f",{clusters}={topology.clusters}" if arch == "arm64" or topology.clusters > 1 else ""
    cores = f"cores={topology.cores},threads={topology.threads}"
    words = ["-smp", f"{topology.cpus},sockets={topology.sockets}{level},{cores}"]
    if arch != "arm64" and topology.clusters > 1:
        # On x86 Linux treats the CPUs that share an L2 cache as a cluster. It reads the sharing from leaf 4 of CPUID,
        # on Intel's CPUs only. level=0x1e hides leaf 0x1f: QEMU 10.0.2 fails an assertion when Linux reads it. The
        # last -cpu option wins.
        words += ["-cpu", "max,vendor=GenuineIntel,level=0x1e"]
        words += ["-machine", "smp-cache.0.cache=l2,smp-cache.0.topology=module"]
    size = topology.cpus // topology.nodes
    filled = topology.nodes - topology.memoryless
    for node in range(topology.nodes if topology.nodes > 1 else 0):
        cpus = f"node,nodeid={node},cpus={node * size}-{node * size + size - 1}"
        if node < filled:
            words += ["-object", f"memory-backend-ram,id=node{node},size={MEMORY // filled}M"]
            cpus += f",memdev=node{node}"
        words += ["-numa", cpus]
    return words


def refuse_impossible(target: Target, topology: Topology) -> None:
    """SchedlineError if the emulator cannot create this machine: start it with the CPUs stopped, and quit."""
    asked = f"--topology {topology.name}"
    if not target.emulator:
        able = "qemu-arm64" if topology.clusters > 1 else "qemu-x86_64"
        raise SchedlineError(f"{asked}: a guest on {target.name} has no topology", f"use --on {able}")
    if topology.llcs > 1 and target.arch != "x86_64":
        raise SchedlineError(f"{asked}: only a kernel for x86 splits an LLC, by split_llc=", "use --on qemu-x86_64")
    words = machine(target, topology, ("-serial", "none", "-monitor", "stdio"))
    tried = run([*words, "-S", "-accel", "tcg"], stdin=b"quit\n")
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip()
        raise SchedlineError(
            f"{asked}: the {target.emulator[0]} of this machine cannot do that:\n    {said}",
            "use --on qemu-arm64, or put a newer QEMU (modules of x86 came with 9.1, their caches with 9.2) into PATH",
        )


def accelerator(cache: Path, target: Target, image: Path) -> str:
    """`kvm` when this image boots with it on this machine, else `tcg`; tried once for each boot of the machine.

    An accessible /dev/kvm proves nothing.
    """
    if target.emulator[:1] != (f"qemu-system-{platform.machine()}",) or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"

    def tried() -> dict[str, bool]:
        log = cache / "kvm-probe.log"
        with step("testing whether a guest boots with KVM"):
            run_guest(command_line(target, image, 1, ["kunit.filter_glob=none"], "kvm"), log, PROBE_TIMEOUT)
        return {"boots": b"Linux version" in log.read_bytes()}

    return "kvm" if cached(cache / "kvm", (boot_id(),), tried)["boots"] else "tcg"
