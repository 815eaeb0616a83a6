# SPDX-License-Identifier: GPL-2.0
"""The conditions of contracts: in words, in C, and whether a kernel meets them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"line (==|<=|>=) (\d+)")
_MASK = re.compile(r"mask == (\d+)")


@dataclass(frozen=True)
class Facts:
    """What is known of a kernel. None: it is not known.

    Attributes:
        line: bytes in a cache line.
        pointer: bytes in a pointer.
        mask: bytes in a cpumask_var_t.
        lock: bytes in a raw_spinlock_t.
        config: Kconfig values by their CONFIG_ name.
    """

    line: int
    pointer: int | None
    mask: int | None
    lock: int | None
    config: Mapping[str, bool | None]


def in_words(condition: str) -> str:
    """What completes "needs ..."."""
    if match := _LINE.fullmatch(condition):
        least_or_most = {"==": "", ">=": "at least ", "<=": "at most "}[match[1]]
        return f"lines of {least_or_most}{match[2]} bytes"
    if match := _MASK.fullmatch(condition):
        return f"a cpumask_var_t of {match[1]} bytes"
    if condition.startswith("locks "):
        return f"spinlocks {'with' if condition.endswith('debugged') else 'without'} debugging"
    if condition == "64bit":
        return "CONFIG_64BIT"
    return f"{condition.removeprefix('!')}=n" if condition.startswith("!") else condition


def in_c(condition: str) -> str:
    """A constant expression of the kernel's C."""
    if match := _LINE.fullmatch(condition):
        return f"SMP_CACHE_BYTES {match[1]} {match[2]}"
    if match := _MASK.fullmatch(condition):
        return f"sizeof(cpumask_var_t) == {match[1]}"
    if condition.startswith("locks "):
        compared = ">" if condition.endswith("debugged") else "=="
        return f"sizeof(raw_spinlock_t) {compared} sizeof(arch_spinlock_t)"
    if condition == "64bit":
        return "IS_ENABLED(CONFIG_64BIT)"
    return f"{'!' if condition.startswith('!') else ''}IS_ENABLED({condition.removeprefix('!')})"


def is_met(condition: str, facts: Facts) -> bool | None:
    """Whether a kernel meets a condition; None if that is not known."""
    if match := _LINE.fullmatch(condition):
        wanted = int(match[2])
        return {"==": facts.line == wanted, ">=": facts.line >= wanted, "<=": facts.line <= wanted}[match[1]]
    if match := _MASK.fullmatch(condition):
        return None if facts.mask is None else facts.mask == int(match[1])
    if condition.startswith("locks "):
        # An arch_spinlock_t has 4 bytes wherever SMP kernels run.
        return None if facts.lock is None else (facts.lock > 4) is condition.endswith("debugged")
    if condition == "64bit":
        return None if facts.pointer is None else facts.pointer == 8
    value = facts.config.get(condition.removeprefix("!"))
    return None if value is None else value is not condition.startswith("!")
