# SPDX-License-Identifier: GPL-2.0
"""`check --sanitize`: which sanitizers there are, and what limits a guest with one has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlib.console.judge import Problem
from schedlib.errors import SchedlineError
from schedlib.kernel.targets import Target
from schedlib.verdict import Verdict

TARGET = "qemu-x86_64"
"""UML has neither KCSAN nor, with several CPUs, KASAN: it panics when it brings up the second one."""

CPUS = (8,)
"""More emulated CPUs cost time, and eight are enough for two to meet."""


@dataclass(frozen=True)
class Sanitizer:
    """One that a kernel can be built with.

    Attributes:
        slower: how much longer a guest may take.
        sign: what the kernel says when it is on; empty for one that says nothing.
    """

    slower: int
    sign: str


SANITIZERS = {
    "kasan": Sanitizer(3, "KernelAddressSanitizer initialized"),
    "kcsan": Sanitizer(3, "kcsan: enabled"),
    "lockdep": Sanitizer(2, "Lock dependency validator: "),
    "ubsan": Sanitizer(2, ""),
}
"""By name, which is that of a fragment in configs/kernel/, too."""


def scaled(target: Target, sanitizer: str) -> Target:
    """The target with the limits of a guest that a sanitizer slows down.

    Raises:
        SchedlineError: the target is another than the one for sanitizers.
    """
    if target.name != TARGET:
        raise SchedlineError(
            f"--sanitize {sanitizer}: a guest on {target.name} cannot have it",
            f"leave --on out, or use --on {TARGET}",
        )
    return replace(target, classes=CPUS, timeout=target.timeout * SANITIZERS[sanitizer].slower)


def silent(sanitizer: str, log: bytes) -> tuple[Problem, ...]:
    """A problem if the log does not say that the sanitizer is on: it would find nothing, and so pass."""
    sign = SANITIZERS[sanitizer].sign
    if sign.encode() in log:
        return ()
    return (Problem("sanitizer-off", 0, f"{sanitizer} is not on: the log lacks '{sign}'", Verdict.ERROR),)
