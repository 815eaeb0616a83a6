# SPDX-License-Identifier: GPL-2.0
"""`check --sanitize`: the sanitizers, and the limits of a guest that has one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlib.console.judge import Problem
from schedlib.errors import SchedlineError
from schedlib.kernel.targets import Target
from schedlib.verdict import Verdict

TARGET = "qemu-x86_64"
"""UML has no KCSAN. With KASAN it panics when it brings up a second CPU."""

CPUS = (8,)
"""More emulated CPUs cost time, and eight are enough for races between two of them."""


@dataclass(frozen=True)
class Sanitizer:
    """A sanitizer: the factor for a guest's time limit, and what the kernel says when it is on, if anything."""

    slower: int
    sign: str


SANITIZERS = {
    "kasan": Sanitizer(3, "KernelAddressSanitizer initialized"),
    "kcsan": Sanitizer(3, "kcsan: enabled"),
    "lockdep": Sanitizer(2, "Lock dependency validator: "),
    "ubsan": Sanitizer(2, ""),
}
"""By name, which is also the name of a fragment in configs/kernel/."""


def scaled(target: Target, sanitizer: str) -> Target:
    """The target with a sanitizer's limits for guests; SchedlineError if it is not the one for sanitizers."""
    if target.name != TARGET:
        observed = f"--sanitize {sanitizer}: not available in a guest on {target.name}"
        raise SchedlineError(observed, f"leave --on out, or use --on {TARGET}")
    return replace(target, classes=CPUS, timeout=target.timeout * SANITIZERS[sanitizer].slower)


def silent(sanitizer: str, log: bytes) -> tuple[Problem, ...]:
    """A problem if the log does not say that the sanitizer is on: a guest without it finds nothing and passes."""
    sign = SANITIZERS[sanitizer].sign
    if sign.encode() in log:
        return ()
    return (Problem("sanitizer-off", 0, f"{sanitizer} is not on: the log lacks '{sign}'", Verdict.ERROR),)
