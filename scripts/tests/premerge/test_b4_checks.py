# SPDX-License-Identifier: GPL-2.0
"""What b4 reads: an array of results, and what it says of the series under review."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.layout.patch_job import checks_text
from schedlib.premerge.series import tracked_range

TRACKING = {"series": {"change-id": "20261101-move", "first-patch-commit": "a" * 40, "revision": 2}, "patches": []}


def test_nothing_to_say_is_an_empty_array() -> None:
    assert json.loads(checks_text([])) == []


@pytest.mark.parametrize(
    ("remarks", "status"), [((), "pass"), (("pass", "warn"), "warn"), (("fail", "warn", "pass"), "fail")]
)
def test_a_result_is_as_bad_as_its_worst_remark(remarks: tuple[str, ...], status: str) -> None:
    (row,) = json.loads(checks_text([("schedline", "it says so", [(each, "why") for each in remarks])]))  # type: ignore[misc]
    assert (row["tool"], row["status"], row["summary"]) == ("schedline", status, "it says so")
    assert [each["status"] for each in json.loads(row["details"])] == list(remarks)


def tracking(directory: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (directory / "tracking.json").write_text(text)
    monkeypatch.setenv("B4_TRACKING_FILE", str(directory / "tracking.json"))


def test_the_series_under_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking(tmp_path, monkeypatch, json.dumps(TRACKING))
    assert tracked_range() == (f"{'a' * 40}~1", "b4/review/20261101-move~1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        json.dumps({"series": {"change-id": "x"}}),
        json.dumps({"series": {"change-id": "x", "first-patch-commit": "--output=/etc/passwd"}}),
        json.dumps({"series": {"change-id": "-x", "first-patch-commit": "a" * 40}}),
        json.dumps({"series": {"change-id": None, "first-patch-commit": "a" * 40}}),
        json.dumps({"series": {"change-id": "x", "first-patch-commit": 12345678}}),
    ],
)
def test_a_tracking_file_that_is_none(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracking(tmp_path, monkeypatch, text)
    with pytest.raises(SchedlineError, match="B4_TRACKING_FILE"):
        tracked_range()


def test_without_b4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("B4_TRACKING_FILE", raising=False)
    with pytest.raises(SchedlineError, match="takes the series from b4, which names none") as error:
        tracked_range()
    assert "--base" in error.value.next_step
