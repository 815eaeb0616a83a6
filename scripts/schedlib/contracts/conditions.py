# SPDX-License-Identifier: GPL-2.0
"""The conditions of contracts: in words, in C, and whether a kernel meets them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import eq, ge, le


@dataclass(frozen=True)
class Facts:
    """What is known of a kernel: bytes in a cache line, a pointer, a cpumask_var_t, a raw_spinlock_t; Kconfig values.

    None: it is not known.
    """

    line: int
    pointer: int | None
    mask: int | None
    lock: int | None
    config: Mapping[str, bool | None]


def in_words(condition: str) -> str:
    """What completes "needs ..."."""
    return _meaning(condition)[0]


def in_c(condition: str) -> str:
    """A constant expression of the kernel's C."""
    return _meaning(condition)[1]


def is_met(condition: str, facts: Facts) -> bool | None:
    """Whether a kernel meets a condition; None if that is not known."""
    return _meaning(condition)[2](facts)


def _meaning(condition: str) -> tuple[str, str, Callable[[Facts], bool | None]]:
    if match := re.fullmatch(r"line (==|<=|>=) (\d+)", condition):
        words, compare = {"==": ("", eq), ">=": ("at least ", ge), "<=": ("at most ", le)}[match[1]]
        size = int(match[2])
        return f"lines of {words}{size} bytes", f"SMP_CACHE_BYTES {match[1]} {size}", lambda of: compare(of.line, size)
    if match := re.fullmatch(r"mask == (\d+)", condition):
        size = int(match[1])
        words, c = f"a cpumask_var_t of {size} bytes", f"sizeof(cpumask_var_t) == {size}"
        return words, c, lambda of: None if of.mask is None else of.mask == size
    if condition.startswith("locks "):
        debugged = condition.endswith("debugged")
        c = f"sizeof(raw_spinlock_t) {'>' if debugged else '=='} sizeof(arch_spinlock_t)"
        words = f"spinlocks {'with' if debugged else 'without'} debugging"
        # An arch_spinlock_t has 4 bytes wherever SMP kernels run.
        return words, c, lambda of: None if of.lock is None else (of.lock > 4) is debugged
    if condition == "64bit":
        words, c = "CONFIG_64BIT", "IS_ENABLED(CONFIG_64BIT)"
        return words, c, lambda of: None if of.pointer is None else of.pointer == 8
    option, is_set = condition.removeprefix("!"), not condition.startswith("!")
    words, c = (option, f"IS_ENABLED({option})") if is_set else (f"{option}=n", f"!IS_ENABLED({option})")
    return words, c, lambda of: None if of.config.get(option) is None else of.config[option] is is_set
