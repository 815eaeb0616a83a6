# SPDX-License-Identifier: GPL-2.0
"""The targets that a test kernel is built for: User-Mode Linux and machines of QEMU."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from schedlib.errors import SchedlineError

if TYPE_CHECKING:
    # Options are checked against TARGETS before any library is installed.
    from schedlib.tree.kernel_tree import Tree


@dataclass(frozen=True)
class Target:
    """A machine that a kernel runs on.

    Attributes:
        name: the word after --on, and the base fragment in configs/kernel/.
        arch: make's ARCH.
        image: the file that is booted, as a path below the build directory.
        classes: CPU counts of the guests that one check boots, each for `timeout` seconds at most.
        compiler: prefix of the cross compiler, make's CROSS_COMPILE; empty for the machine's own.
        emulator: QEMU's program and the options that choose its machine; empty for UML.
        console, disk: the guest's serial port, and the QEMU device for its disk.
    """

    name: str
    arch: str
    image: str
    classes: tuple[int, ...] = (8, 64)
    timeout: float = 600
    compiler: str = ""
    emulator: tuple[str, ...] = ()
    console: str = ""
    disk: str = "virtio-blk-pci"

    @property
    def goal(self) -> str:
        """The goal of make that builds the image."""
        return self.image.rpartition("/")[2]


TARGETS = {
    target.name: target
    for target in (
        Target("uml", "um", "vmlinux", timeout=120),
        Target("qemu-x86_64", "x86_64", "arch/x86/boot/bzImage", emulator=("qemu-system-x86_64",), console="ttyS0"),
        Target(
            "qemu-arm64",
            "arm64",
            "arch/arm64/boot/Image",
            compiler="aarch64-linux-gnu-",
            # The newest interrupt controller (GIC): GICv2 supports only 8 CPUs.
            emulator=("qemu-system-aarch64", "-machine", "virt,gic-version=max"),
            console="ttyAMA0",
            disk="virtio-blk-device",
        ),
    )
}


SANITIZED = "qemu-x86_64"
"""The target of `check --sanitize`. UML has no KCSAN. With KASAN it panics when it brings up a second CPU."""

SANITIZERS = {
    "kasan": (3, "KernelAddressSanitizer initialized"),
    "kcsan": (3, "kcsan: enabled"),
    "lockdep": (2, "Lock dependency validator: "),
    "ubsan": (2, ""),
}
"""By name, which is also the name of a fragment in configs/kernel/: the factor for a guest's time limit, and what the
kernel says when the sanitizer is on, if anything."""


def with_sanitizer(target: Target, sanitizer: str) -> Target:
    """The target with a sanitizer's limits for guests; SchedlineError if it is not the one for sanitizers."""
    if target.name != SANITIZED:
        observed = f"--sanitize {sanitizer}: not available in a guest on {target.name}"
        raise SchedlineError(observed, f"leave --on out, or use --on {SANITIZED}")
    # More emulated CPUs cost time, and eight are enough for races between two of them.
    return replace(target, classes=(8,), timeout=target.timeout * SANITIZERS[sanitizer][0])


def choose(tree: Tree, wanted: str | None) -> tuple[Target, str | None]:
    """The target to use and, if this tree cannot use the default one, the reason.

    Raises SchedlineError: an unknown target, or one that this tree does not support.
    """
    if wanted is not None and wanted not in TARGETS:
        raise SchedlineError(f"--on: there is no target {wanted!r}", f"choose one of {', '.join(TARGETS)}")
    if wanted not in (None, "uml") or re.search(r"^config SMP$", tree.read("arch/um/Kconfig") or "", re.M):
        return TARGETS[wanted or "uml"], None
    reason = "this tree's UML has one CPU and no cpupri"
    if wanted == "uml":
        raise SchedlineError(f"--on uml: {reason}", "use --on qemu-x86_64")
    return TARGETS["qemu-x86_64"], f"{reason}; using qemu-x86_64"
