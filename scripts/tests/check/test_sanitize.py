# SPDX-License-Identifier: GPL-2.0
"""How --sanitize changes a target, and that its fragments turn the sanitizer on."""

from __future__ import annotations

import pytest

from schedlib.check.check_boots import sanitizer_off
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import SANITIZED, SANITIZERS, TARGETS, with_sanitizer
from schedlib.paths import PROJECT
from schedlib.verdict import Verdict

SWITCH = {
    "kasan": ("CONFIG_KASAN",),
    # Without CONFIG_KCSAN_EARLY_ENABLE the kernel boots with KCSAN off, and every race passes.
    "kcsan": ("CONFIG_KCSAN", "CONFIG_KCSAN_EARLY_ENABLE", "CONFIG_KCSAN_WEAK_MEMORY"),
    "lockdep": ("CONFIG_PROVE_LOCKING",),
    "ubsan": ("CONFIG_UBSAN",),
}


@pytest.mark.parametrize("name", sorted(SANITIZERS))
def test_guest_has_eight_cpus_and_more_time(name: str) -> None:
    target = with_sanitizer(TARGETS[SANITIZED], name)
    assert target.classes == (8,)
    assert target.timeout > TARGETS[SANITIZED].timeout
    assert all(load([SANITIZED, name]).values.get(option) == "y" for option in SWITCH[name])


def test_other_target_is_refused() -> None:
    with pytest.raises(SchedlineError, match="not available in a guest on uml"):
        with_sanitizer(TARGETS["uml"], "kasan")


def test_sanitizer_that_is_off_passes_nothing() -> None:
    log = (PROJECT / "scripts/tests/logs/kcsan.log").read_bytes()
    assert sanitizer_off("kcsan", log) == ()
    (problem,) = sanitizer_off("kcsan", log.replace(b"kcsan: enabled", b"kcsan: "))
    assert problem.verdict is Verdict.ERROR
    assert "kcsan is not on" in problem.text
    assert sanitizer_off("kasan", log)
    assert sanitizer_off("ubsan", log) == ()
