# SPDX-License-Identifier: GPL-2.0
"""What is read from the output of make, and when a row of the compile table fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib.dev.dev_verb import COMPILE_ROWS, CompileRow
from schedlib.dev.plain_tree import compile_row, warnings_of
from schedlib.kernel.kconfig import load
from schedlib.verdict import Verdict

MAKEFILE = """\
allnoconfig:
\tprintf 'CONFIG_A=y\\nCONFIG_CC_VERSION_TEXT="gcc 1"\\n' > $(O)/.config
kernel/sched/:
\tmkdir -p $(O)/kernel/sched
\ttouch $(O)/kernel/sched/core.o
\t@echo '%s'
"""


def compiled(
    tmp_path: Path, said: str, compiler: str = "make", words: tuple[str, ...] = ()
) -> tuple[Verdict, str, tuple[str, ...]]:
    """Compile a toy kernel whose make prints one line."""
    (tmp_path / "Makefile").write_text(MAKEFILE % said)
    (tmp_path / "a.config").write_text("CONFIG_A=y\n")
    row = CompileRow("x86_64", compiler, words, (str(tmp_path / "a.config"),))
    return compile_row(tmp_path, tmp_path / "build", "toy", row)


@pytest.mark.tools
def test_a_warning_about_the_scheduler_fails_and_another_does_not(tmp_path: Path) -> None:
    verdict, said, found = compiled(tmp_path, "mm/slub.c:1:2: warning: unused")
    assert (verdict, found) == (Verdict.PASS, ())
    assert said.startswith("1 objects, 0 warnings, gcc 1")
    line = "/src/kernel/sched/tests/sched_cpupri_kunit.c:10:5: warning: unused"
    assert compiled(tmp_path, line)[::2] == (Verdict.FAIL, (line,))


@pytest.mark.tools
def test_what_does_not_compile_fails(tmp_path: Path) -> None:
    verdict, said, _ = compiled(tmp_path, "x'; exit 1; echo '")
    assert verdict is Verdict.FAIL
    assert "does not build" in said


def test_a_missing_compiler_is_no_pass(tmp_path: Path) -> None:
    assert compiled(tmp_path, "", compiler="no-such-gcc")[:2] == (Verdict.ERROR, "no-such-gcc is not installed")


def test_a_warning_that_is_printed_twice_is_one() -> None:
    one = "../kernel/sched/sched.h:3:1: warning: x\n"
    assert warnings_of(f"{one}  CC kernel/sched/core.o\n{one}", "kernel/sched/") == (one.strip(),)
    assert warnings_of("include/linux/sched/topology.h:3:1: warning: x\n", "kernel/sched/") == ()
    assert warnings_of(one, "kernel/sched/tests/") == ()


@pytest.mark.tools
def test_a_checker_that_make_left_out_is_no_pass(tmp_path: Path) -> None:
    """Debian's sparse is too old for make, which only said so: the row passed without it."""
    row = ("make", ("C=2",))
    verdict, said, _ = compiled(tmp_path, "Makefile:1311: C=2 specified, but sparse is not available", *row)
    assert verdict is Verdict.ERROR
    assert "make ran no make" in said
    assert compiled(tmp_path, "  CHECK   kernel/sched/core.c", *row)[0] is Verdict.PASS


@pytest.mark.parametrize("name", COMPILE_ROWS)
def test_every_row_asks_for_the_suites_that_it_can_have(name: str) -> None:
    values = load(COMPILE_ROWS[name].fragments).values
    suites = {"LAYOUT", "CPUPRI"} | ({"TOPOLOGY"} if values["CONFIG_SMP"] == "y" else set())
    assert all(values[f"CONFIG_SCHED_{suite}_KUNIT_TEST"] == "y" for suite in suites)
