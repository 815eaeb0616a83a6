# SPDX-License-Identifier: GPL-2.0
"""Small changes to logs (logs/lies.toml): a harmless change must pass, and one that hides something must not."""

from __future__ import annotations

import gzip
import html
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlib.console.judge import OPEN_END, judge
from schedlib.guest.boot import Ending
from schedlib.verdict import Verdict

LOGS = Path(__file__).parents[1] / "logs"
LIES: dict[str, dict[str, Any]] = tomllib.loads((LOGS / "lies.toml").read_text())
SOUND = [
    case["log"] for case in tomllib.loads((LOGS / "verdicts.toml").read_text())["case"] if case["verdict"] == "PASS"
]

EXPECTATION = "# kunit_current_test: EXPECTATION FAILED at lib/kunit/a.c:7"
RESULT = "    ok 1 kunit_current_test"
_HUGE = b"\x7f" * 20_000


def _cut(log: bytes, mark: bytes) -> tuple[bytes, bytes]:
    before, found, after = log.partition(mark)
    assert found
    return before, after


def _rows(log: bytes) -> list[bytes]:
    return log.splitlines(keepends=True)


def _half(log: bytes) -> int:
    """Where the second suite begins."""
    return log.index(b"    KTAP version 1", log.index(b"\nok 1 "))


def each(form: Callable[[str, int], object]) -> Callable[[bytes], bytes]:
    """A function that writes each line of a log in another form; the form gets the number of the line, too."""

    def change(log: bytes) -> bytes:
        return "".join(f"{form(row, number)}\n" for number, row in enumerate(log.decode().splitlines())).encode()

    return change


def _record(number: int, **fields: object) -> str:
    """A record of dmesg --json."""
    return json.dumps({"pri": 6, "time": number / 100, **fields}, indent=3) + ","


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "crlf": lambda log: log.replace(b"\n", b"\r\n"),
    "colours": lambda log: re.sub(rb"(?m)^(.+)$", b"\x1b[2K\x1b[1;32m\\1\x1b[0m", log),
    "not_utf8": lambda log: log.replace(b"@@", b"\xff\xfe\xc3"),
    "huge": lambda log: log.replace(b"@@", _HUGE),
    "utf16": lambda log: log.decode().encode("utf-16"),
    "gzip": gzip.compress,
    "lava": each(lambda row, _: "- " + json.dumps({"dt": "2026-11-21T00:42:48.000000", "lvl": "target", "msg": row})),
    "lava_finished": lambda log: (
        b"".join(_rows(log)[:-1])
        + b'- {"dt": "2026-11-21T00:42:49.000000", "lvl": "info", "msg": "Job finished correctly"}\n'
    ),
    "stamps": each(lambda row, _: f"[   12.345678][    T1] {row}"),
    "clock_goes_back": lambda log: b"".join(
        b"[   %d.345678] " % (12 if place < len(_rows(log)) // 2 else 7) + row for place, row in enumerate(_rows(log))
    ),
    "osc": lambda log: re.sub(rb"(?m)^(.+)$", b"\x1b]3008;start=6f2a;type=boot\x1b\\\\\\1", log),
    "make_error": lambda log: log + b"make[1]: *** [../lib.mk:118: run_tests] Error 2\n",
    "dates": each(lambda row, _: f"[Sat Nov 21 01:07:18 2026] {row}"),
    "host_clock": each(lambda row, _: f"2026-11-21T00:42:40.240 {row}"),
    "until_halted": lambda log: _cut(log, b"halted\n")[0] + b"halted\n",
    "until_at": lambda log: _cut(log, b"@@")[0],
    "from_at": lambda log: _cut(log, b"@@")[1],
    "from_ktap": lambda log: log[log.index(b"KTAP version 1") :],
    "last_line_lost": lambda log: b"".join(_rows(log)[:-1]),
    "last_totals_fail": lambda log: b"".join(_rows(log)[:-1]) + _rows(log)[-1].replace(b"fail:0", b"fail:1"),
    "twice": lambda log: log + log,
    "then_pass": lambda log: log + sound("pass"),
    "restarted": lambda log: _cut(log, b"@@")[0] + log.replace(b"@@", b""),
    "first_half_twice": lambda log: log[: _half(log)] + log,
    "second_half_twice": lambda log: log + log[_half(log) :],
    # Forms for which the reader was not written, see test_blind_logs.py.
    "journal": each(lambda row, n: row if row.startswith("Mar ") else f"Mar  4 09:00:{n % 60:02} box kernel: {row}"),
    "journal_json": each(lambda row, _: json.dumps({"PRIORITY": "6", "_TRANSPORT": "kernel", "MESSAGE": row})),
    "docker_json": each(lambda row, _: json.dumps({"log": f"{row}\n", "stream": "stdout"})),
    "journal_export": each(lambda row, n: f"__CURSOR=s=1;i={n}\nPRIORITY=6\n_TRANSPORT=kernel\nMESSAGE={row}\n"),
    "journal_pretty": each(lambda row, _: f'{{\n\t"PRIORITY" : "6",\n\t"MESSAGE" : {json.dumps(row)}\n}}'),
    "dmesg_json": lambda log: b'{\n   "dmesg": [\n' + each(lambda row, n: _record(n, msg=row))(log) + b"   ]\n}\n",
    "kmsg_with_keys": each(lambda row, n: f"6,{n},{n}000,-;{row}\n SUBSYSTEM=kunit\n DEVICE=+x:y"),
    "page": lambda log: b"<html><pre>\n" + each(lambda row, n: f'<span id="L{n}">{html.escape(row)}</span>')(log),
    "mail": lambda log: b"Somebody wrote:\n" + each(lambda row, _: f"> {row}")(b"".join(_rows(log)[1:])),
    "two_consoles": each(lambda row, _: f"{row}\n{row}"),
}


def sound(name: str) -> bytes:
    return (LOGS / f"{name}.log").read_bytes()


def made(lie: dict[str, Any]) -> bytes:
    """The log of one kind of lie."""
    log = sound(lie.get("log", "pass_three_suites"))
    before = [[RESULT, "\n".join([*lie["before"], RESULT])]] if "before" in lie else []
    for old, new in [*before, *lie.get("edit", ())]:
        assert old.encode() in log, old
        log = log.replace(old.encode(), new.replace("$0", old).replace("$E", EXPECTATION).encode(), 1)
    for name in lie.get("change", "").split():
        log = CHANGES[name](log)
    return log


def listed(lie: dict[str, Any]) -> list[str]:
    """The tests of the sound log, if this lie is judged against them."""
    return [test.name for test in judge(sound(lie.get("log", "pass_three_suites"))).tests] if lie.get("tests") else []


@pytest.mark.parametrize("name", LIES)
def test_lie(name: str) -> None:
    lie = LIES[name]
    judgement = judge(made(lie), listed(lie), ending=Ending(lie.get("ending", "unknown")))
    kinds = {f"({each.kind})" if each.verdict is Verdict.PASS else each.kind for each in judgement.problems}
    assert (judgement.verdict.name, sorted(kinds)) == (
        lie.get("verdict", "FAIL"),
        sorted(lie.get("problems", "").split()),
    )


def test_only_harmless_changes_may_pass() -> None:
    passing = {name for name, lie in LIES.items() if lie.get("verdict") == "PASS"}
    assert passing == {name for name in LIES if name.startswith("harmless-")}
    different = {(made(lie), tuple(listed(lie)), lie.get("ending")) for lie in LIES.values()}
    assert len(different) == len(LIES)


@pytest.mark.parametrize("name", sorted(set(SOUND)))
def test_a_failed_expectation_fails_at_every_line_of_a_sound_log(name: str) -> None:
    rows = _rows(sound(name))
    for place in range(len(rows) + 1):
        log = b"".join([*rows[:place], f"    {EXPECTATION}\n".encode(), *rows[place:]])
        judgement = judge(log)
        assert judgement.verdict is Verdict.FAIL
        wrong = [(each.kind, each.line) for each in judgement.problems if each.verdict is not Verdict.PASS]
        assert wrong == [("expectation", place + 1)]


# The end of a log.


def plain_pass(log: bytes) -> bool:
    """Whether the log passes without the remark that it may go on."""
    judgement = judge(log)
    return judgement.verdict is Verdict.PASS and OPEN_END not in {problem.kind for problem in judgement.problems}


def cuts(log: bytes, every_byte: bool) -> Iterator[int]:
    """Where to cut a log: at each byte, or at the ends of its lines and in the middle of them."""
    if every_byte:
        yield from range(len(log))
        return
    end = 0
    for row in _rows(log):
        yield from (end, end + len(row) // 2)
        end += len(row)


@pytest.mark.parametrize("name", sorted(set(SOUND)))
def test_no_log_whose_end_is_missing_is_a_plain_pass(name: str) -> None:
    log = sound(name)
    for length in cuts(log, every_byte=name in ("pass_three_suites", "ksft_pass")):
        assert plain_pass(log[:length]) == (not log[length:].strip()), log[:length][-60:]
