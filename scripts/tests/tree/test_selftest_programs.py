# SPDX-License-Identifier: GPL-2.0
"""What is read from the sources of the kselftests: the names of tests, and the texts of patches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlib.console.expected import load_expected
from schedlib.errors import SchedlineError
from schedlib.tree import selftest_programs
from schedlib.tree.selftest_programs import (
    FORMER_NAMES,
    experiments,
    message,
    program_sources,
    read_tests,
    selftest_names,
)

ROWS = """\
#define COMPARED(pair, unit)\t\\
\t{ .name = #pair "_within_baseline", .rule = BASELINE, .reference = unit }
#define EACH(pair)\t"a_" #pair, "b_" #pair

static const struct test tests[] = {
\t/* A comment. */
\t{ .name = "all_woke", .rule = DONE, .metrics = { EACH(near) } },
\tCOMPARED(near, IPI), COMPARED(far,
\t\t\t\t     SYSCALL),
};
static const struct other others[] = {
\t{ .name = "no_test" },
};
"""
CALLS = """\
\tksft_test_result(scanned("at first"), "at_first\\n");
\tif (known)
\t\tksft_test_result_code(KSFT_SKIP, "later", "a reason");
\telse
\t\tksft_test_result(scanned("later"),
\t\t\t\t "later\\n");
\tksft_print_msg("no_test\\n");
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [(ROWS, ("all_woke", "near_within_baseline", "far_within_baseline")), (CALLS, ("at_first", "later"))],
    ids=["rows", "calls"],
)
def test_the_names_of_tests_are_read(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(text)
    assert read_tests(tmp_path / "x.c") == names


def test_a_program_without_tests_or_a_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nothing were expected of it, any log would pass."""
    monkeypatch.setattr(selftest_programs, "DIRECTORY", tmp_path)
    (tmp_path / "Makefile").touch()
    (tmp_path / "x.c").write_text("// SPDX-License-Identifier: GPL-2.0\nint main(void)\n{\n}\n")
    with pytest.raises(SchedlineError, match=r"x\.c has no test that can be read"):
        selftest_names()
    with pytest.raises(SchedlineError, match=r"x\.c does not begin with a comment"):
        message("x")


def test_former_names_are_of_tests_that_are_there() -> None:
    assert set(load_expected(FORMER_NAMES, None)) <= set(selftest_names())


def test_a_workload_calls_itself_as_its_file() -> None:
    for name, source in program_sources().items():
        assert re.findall(r'^WORKLOAD_MAIN\("(\w+)"', source.read_text(), re.M) in ([name], []), name


def test_what_only_measures_is_a_program() -> None:
    assert experiments() and experiments() < set(program_sources())
