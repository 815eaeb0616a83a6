# SPDX-License-Identifier: GPL-2.0
"""`check --sanitize`: which sanitizers there are, and what limits a guest with one has."""

from __future__ import annotations

from dataclasses import replace

from schedlib.errors import SchedlineError
from schedlib.targets import Target

TARGET = "qemu-x86_64"
"""UML has neither KCSAN nor, with several CPUs, KASAN: it panics when it brings up the second one."""

CPUS = (8,)
"""More emulated CPUs cost time, and eight are enough for two to meet."""

SLOWER = {"kasan": 3, "kcsan": 3, "lockdep": 2, "ubsan": 2}
"""By name, which is that of a fragment in configs/kernel/, too: how much longer a guest may take."""


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
    return replace(target, classes=CPUS, timeout=target.timeout * SLOWER[sanitizer])
