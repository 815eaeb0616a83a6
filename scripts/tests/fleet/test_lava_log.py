# SPDX-License-Identifier: GPL-2.0
"""LAVA's log: each record is read, whatever YAML makes of its text, and a job is split into its boots."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import lava_logs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlib.fleet.lava_log import read_log, records


def said(line: str) -> object:
    found = list(records(line))
    return found[0].said if found else None


AT = '"dt": "2026-11-25T10:00:00", "lvl"'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (rf'{{{AT}: "target", "msg": "a \"b\" \\ \e[0m\x01\u2028\t\_\/"}}', 'a "b" \\ \x1b[0m\x01\u2028\t\xa0/'),
        ("- {dt: '2026-11-25T10:00:00', lvl: target, msg: 'it''s'}", "it's"),
        ("{'dt': '2026-11-25T10:00:00', lvl: target, msg: ok 1 x}", "ok 1 x"),
        (rf'{{{AT}: "x", "msg": {{"n": !!int "5", "e": [a, {{"b": []}}]}}}}', {"n": "5", "e": ["a", {"b": []}]}),
    ],
)
def test_a_record_is_read(text: str, wanted: object) -> None:
    assert said(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        '{"dt": "2026-11-25T10:00:00", "lvl": "target", "msg": "cut o',
        '{"dt": "2026-11-25T10:00:00", "lvl": "target"}',
        '{"dt": "never", "lvl": "target", "msg": "x"}',
        '{"dt": "2026-11-25T10:00:00", "msg": "x"} more',
        "{" * 1000,
        '{"dt": "2026-11-25T10:00:00", "msg": ' + "[" * 1000 + "]" * 1000 + "}",
    ],
)
def test_what_is_no_record_is_left_out(text: str) -> None:
    assert said(text) is None


@given(st.text(max_size=200))
def test_no_text_is_an_exception(text: str) -> None:
    read_log(text)
    read_log("- {" + text)


def test_a_part_that_is_no_text_is_not_printed() -> None:
    """Ten aliases of ten aliases, and so on: written out, they would need more memory than there is."""
    bomb = "[&a0 [x]" + "".join(f", &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)) + "]"
    parts = f"definition: lava, case: job, result: fail, error_type: {bomb}, error_msg: why"
    assert read_log(f"- {{dt: '2026-11-25T10:00:00', lvl: results, msg: {{{parts}}}}}").trouble == ("", "why")


def test_times_are_utc() -> None:
    times = ("2026-11-25T10:00:00", "2026-11-25T11:00:00+01:00")
    found = records("\n".join(f'{{"dt": "{time}", "lvl": "a", "msg": "x"}}' for time in times))
    assert [each.at for each in found] == [datetime(2026, 11, 25, 10, tzinfo=UTC)] * 2


def test_a_job_is_split_into_its_boots(tmp_path: Path) -> None:
    directory = lava_logs.campaign(tmp_path)
    consoles = lava_logs.boots(directory)
    found = read_log(lava_logs.log(consoles))
    assert [[line for _, line in console] for console in found.boots] == consoles
    assert found.ended and found.trouble == ("", "")
    assert found.key.endswith(f"/{lava_logs.JOB}")
    assert found.begun == datetime(2026, 11, 25, 10, 0, 0, 1, tzinfo=UTC)


def test_a_log_that_stops_has_no_end(tmp_path: Path) -> None:
    text = lava_logs.log(lava_logs.boots(lava_logs.campaign(tmp_path)))
    assert not read_log(text[: len(text) // 2]).ended
    assert read_log(lava_logs.log([], lava_logs.INFRASTRUCTURE)).trouble == ("Infrastructure", "Connection closed")
