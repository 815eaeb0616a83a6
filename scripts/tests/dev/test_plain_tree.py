# SPDX-License-Identifier: GPL-2.0
"""What has to appear in the output of a plain tree's kunit.py."""

from __future__ import annotations

import re

from schedlib.console.expected import expected_tests
from schedlib.dev.dev_options import KUNIT_RUNS
from schedlib.dev.plain_tree import missing_tests
from schedlib.paths import KUNIT


def test_alltests_is_not_asked_for_what_it_does_not_build() -> None:
    """It was asked for all suites, and so it failed on every tree."""
    options = (KUNIT / "Kconfig").read_text().split("\nconfig ")
    on_request = {part.split()[0] for part in options if "\tbool" in part and "default KUNIT_ALL_TESTS" not in part}
    assert on_request == {"SCHED_CLUSTER_KUNIT_TEST", "SCHED_WAKEUP_KUNIT_TEST"}
    makefile = (KUNIT / "Makefile").read_text()
    built = {
        name
        for line in re.findall(r"CONFIG_SCHED_(?:LAYOUT|CPUPRI)_KUNIT_TEST\) \+= (.*)", makefile)
        for name in line.split()
    }
    suites = {name.split(":")[0] for name in expected_tests(8, None, KUNIT_RUNS["alltests"].without)}
    assert {f"{suite}_kunit.o" for suite in suites} - {"sched_cpupri_private_kunit.o"} <= built
    assert "sched_layout" in suites


def test_a_test_that_failed_or_is_not_there_is_missing() -> None:
    cases = [{"name": "a", "status": "PASS"}, {"name": "b", "status": "SKIP"}, {"name": "c", "status": "FAIL"}]
    document: dict[str, object] = {"sub_groups": [{"name": "suite", "test_cases": cases}]}
    wanted = [f"suite:{name}" for name in "abcd"]
    assert missing_tests(document, wanted) == ["suite:c", "suite:d"]
