# SPDX-License-Identifier: GPL-2.0
"""Each condition: its words, its C, and whether a kernel meets it."""

from __future__ import annotations

import pytest

from schedlib.contracts.conditions import Facts, in_c, in_words, is_met

KNOWN = Facts(64, 8, 8, 4, {"CONFIG_SMP": True, "CONFIG_X": False, "CONFIG_Y": None})
LOCKS = "spinlocks with"
UNKNOWN = Facts(128, None, None, None, {})


@pytest.mark.parametrize(
    ("condition", "words", "expression", "met", "elsewhere"),
    [
        ("line == 64", "lines of 64 bytes", "SMP_CACHE_BYTES == 64", True, False),
        ("line >= 64", "lines of at least 64 bytes", "SMP_CACHE_BYTES >= 64", True, True),
        ("line <= 64", "lines of at most 64 bytes", "SMP_CACHE_BYTES <= 64", True, False),
        ("mask == 8", "a cpumask_var_t of 8 bytes", "sizeof(cpumask_var_t) == 8", True, None),
        ("mask == 64", "a cpumask_var_t of 64 bytes", "sizeof(cpumask_var_t) == 64", False, None),
        ("locks plain", f"{LOCKS}out debugging", "sizeof(raw_spinlock_t) == sizeof(arch_spinlock_t)", True, None),
        ("locks debugged", f"{LOCKS} debugging", "sizeof(raw_spinlock_t) > sizeof(arch_spinlock_t)", False, None),
        ("64bit", "CONFIG_64BIT", "IS_ENABLED(CONFIG_64BIT)", True, None),
        ("CONFIG_SMP", "CONFIG_SMP", "IS_ENABLED(CONFIG_SMP)", True, None),
        ("!CONFIG_SMP", "CONFIG_SMP=n", "!IS_ENABLED(CONFIG_SMP)", False, None),
        ("!CONFIG_X", "CONFIG_X=n", "!IS_ENABLED(CONFIG_X)", True, None),
        ("CONFIG_Y", "CONFIG_Y", "IS_ENABLED(CONFIG_Y)", None, None),
    ],
)
def test_condition(condition: str, words: str, expression: str, met: bool | None, elsewhere: bool | None) -> None:
    assert in_words(condition) == words
    assert in_c(condition) == expression
    assert is_met(condition, KNOWN) is met
    assert is_met(condition, UNKNOWN) is elsewhere
