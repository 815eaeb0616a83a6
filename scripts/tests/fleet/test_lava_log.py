# SPDX-License-Identifier: GPL-2.0
"""LAVA's log: each record is read, a job is split into its boots, and the files on a console are whole, or none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import lava_logs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlib.fleet.lava_log import disk_from, read_log, records
from schedlib.guest import home
from schedlib.paths import SELFTESTS


def said(line: str) -> object:
    found = list(records(line))
    return found[0][2] if found else None


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
    assert [at for at, _, _ in found] == [datetime(2026, 11, 25, 10, tzinfo=UTC)] * 2


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


# Files on a console: whole, or not at all, with the reason.

FILES = {"run.json": b'{"a": 1}\n', "stdout": bytes(range(256)) * 50}


def came(lines: list[str], place: Path, slots: int = 2) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """Why each slot is empty, and the files of slot 1."""
    why = disk_from(lines, place / "disk", slots)
    unpacked = place / "unpacked"
    unpacked.mkdir()
    said = home.bring_home(place / "disk", 1, unpacked)
    assert bool(said) == bool(why[1])
    return why, {path.name: path.read_bytes() for path in unpacked.iterdir()}


def test_files_come_home(tmp_path: Path) -> None:
    lines = ["[    1.0] noise", *lava_logs.sent(1, FILES), "ok 1 x"]
    assert came(lines, tmp_path) == (("it was not sent", ""), FILES)


@pytest.mark.tools
def test_the_script_sends_what_is_read(tmp_path: Path) -> None:
    place = tmp_path / "files"
    place.mkdir()
    for name, content in FILES.items():
        (place / name).write_bytes(content)
    script = (SELFTESTS / "send_console.sh").read_text().replace("/tmp/sent", f"{tmp_path}/sent")  # noqa: S108
    argv = ["busybox", "sh", "-c", f"{script}\nsend 1 {place}"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert said.startswith("schedline: ready\n# sent 1: ")
    lines = said.splitlines()
    # It is sent twice, and one of the two may be damaged.
    for at in (3, len(lines) - 3):
        broken = [*lines[:at], "[    8.0] a message of the kernel", *lines[at + 1 :]]
        assert disk_from(broken, tmp_path / "disk", 2) == ("it was not sent", "")
    both = [line.swapcase() if "= " in line else line for line in lines]
    assert "damaged" in disk_from(both, tmp_path / "disk", 2)[1]
    assert came(lines, tmp_path) == (("it was not sent", ""), FILES)


def without(number: int) -> Callable[[list[str]], list[str]]:
    return lambda lines: lines[:number] + lines[number + 1 :]


def one_letter(lines: list[str]) -> list[str]:
    middle = len(lines) // 2
    letter = "B" if lines[middle][20] != "B" else "C"
    return [*lines[:middle], lines[middle][:20] + letter + lines[middle][21:], *lines[middle + 1 :]]


def interrupted(lines: list[str]) -> list[str]:
    line = lines[3]
    return [*lines[:3], line[:50] + "[    8.000000] a message of the kernel", line[50:], *lines[4:]]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without(2), "damaged"),
        (one_letter, "damaged"),
        (interrupted, "damaged"),
        (lambda lines: lines[:-1], "cut off"),
        (lambda lines: lines[:4], "cut off"),
        (lambda lines: lines[1:], "it was not sent"),
        (lambda lines: [line.replace("# sent 1", "# sent 7") for line in lines], "it was not sent"),
        (lambda lines: [lines[0].replace(" bytes", "0 bytes"), *lines[1:]], "damaged"),
    ],
)
def test_a_damaged_transfer_is_none(spoil: Callable[[list[str]], list[str]], said: str, tmp_path: Path) -> None:
    why, found = came(spoil(lava_logs.sent(1, FILES)), tmp_path)
    assert said in why[1]
    assert found == {}


def test_what_unpacks_to_too_much_is_not_kept(tmp_path: Path) -> None:
    bomb = lava_logs.sent(1, {"bomb": bytes(3 * home.SLOT)})
    why, found = came(bomb, tmp_path)
    assert ("too many" in why[1], found) == (True, {})
    said = f"# sent 1: 100 bytes, sha256 {'0' * 64}"
    assert "damaged" in disk_from([said, *bomb[1:]], tmp_path / "disk", 2)[1]


def test_the_first_whole_transfer_counts(tmp_path: Path) -> None:
    cut = lava_logs.sent(1, FILES)[:3]
    second = lava_logs.sent(1, {"other": b""})
    assert came([*cut, *lava_logs.sent(1, FILES), *second], tmp_path)[1] == FILES
