# SPDX-License-Identifier: GPL-2.0
"""Files on a console: whole, or not at all, with the reason."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import lava_logs
import pytest

from schedlib.fleet.lava_log import disk_from
from schedlib.guest import home
from schedlib.paths import SELFTESTS

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
