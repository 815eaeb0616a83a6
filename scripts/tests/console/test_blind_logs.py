# SPDX-License-Identifier: GPL-2.0
"""Logs in forms for which the reader was not written: logs/blind/answers.tsv has the right answers.

To add one, put the log beside the others, and a row into the table. Of the first sixty, by somebody who had not read
the reader, seven came out wrong the first time, none a false pass; of the 38 after them seven, one a false pass; of
the next 38 eight, seven false passes: the end of a CI job said that a command failed. What is still wrong is in WRONG.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from schedlib.console.judge import judge
from schedlib.verdict import Verdict

LOGS = Path(__file__).parents[1] / "logs/blind"
ROWS = list(csv.DictReader((LOGS / "answers.tsv").open(), delimiter="\t"))
WRONG = {
    "28-kunitpy-parsed.log": "the report of kunit.py is not read; the answer says where the raw log is",
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_blind_log(row: dict[str, str]) -> None:
    found = judge((LOGS / row["file"]).read_bytes())
    right = (found.verdict is Verdict.PASS) == (row["answer"] == "PASS")
    assert right == (row["file"] not in WRONG), found.problems


def test_nothing_is_missing_and_no_wrong_answer_is_a_pass() -> None:
    assert {row["file"] for row in ROWS} == {path.name for path in LOGS.glob("*.log")}
    assert len(ROWS) >= 136
    assert all(row["answer"] == "PASS" for row in ROWS if row["file"] in WRONG)
