# SPDX-License-Identifier: GPL-2.0
"""`schedline judge`: what it prints, writes and returns."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import read_words
from schedlib.check import judge_verb
from schedlib.check.judge_verb import judge_logs
from schedlib.console.judge import judge
from schedlib.errors import SchedlineError
from schedlib.paths import PROJECT

LOGS = Path(__file__).parents[1] / "logs"


def run(*words: str | Path) -> int:
    return judge_logs(read_words(judge_verb, "judge", *map(str, words))).exit_code


@pytest.mark.parametrize(
    ("logs", "code"),
    [
        *(("pass", 0), ("fail", 1), ("no_banner", 2), ("all_skipped", 3), ("pass all_skipped", 3)),
        ("all_skipped panic no_banner", 1),
    ],
)
def test_exit_code_is_that_of_the_worst(logs: str, code: int) -> None:
    assert run(*(LOGS / f"{log}.log" for log in logs.split())) == code


def test_failures_come_first_and_problems_quote_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    run(LOGS / "panic_stamped.log")
    out = capsys.readouterr().out
    order = [out.index(text) for text in ("FAIL demo_fail:bad, line", "FAIL: panic, line", "15 tests: ", "skipped (")]
    assert order == sorted(order)
    assert "Kernel panic - not syncing: BUG!" in out
    assert "skipped (needs CONFIG_NUMA): demo_pass:skipped, demo_fail:skipped" in out
    assert out.splitlines()[-1] == "verdict: FAIL"


def test_list_of_tests_and_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests, log = tmp_path / "tests.txt", LOGS / "pass_three_suites.log"
    listed = [test.name for test in judge(log.read_bytes()).tests]
    tests.write_text("".join(f"{name}\n" for name in (*listed, "kunit_stub:big classes=64")))
    assert run("--tests", tests, "--cpus", "8", log) == 0
    assert run("--tests", tests, log) == 1
    assert "MISSING kunit_stub:big: not in the log" in capsys.readouterr().out


def test_require(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--require", "demo_pass:good", LOGS / "pass.log") == 0
    assert run("--require", "demo_pass:good,demo_pass:skipped", LOGS / "pass.log") == 2
    assert "demo_pass:skipped was skipped (needs CONFIG_NUMA)" in capsys.readouterr().out


def test_ending(tmp_path: Path) -> None:
    log = tmp_path / "no_shutdown.log"
    log.write_bytes((LOGS / "pass.log").read_bytes().replace(b"reboot: System halted\n", b""))
    assert run("--ending", "exited", log) == 1
    assert run(log) == 3


def test_a_pass_of_a_log_without_an_end_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dmesg = tmp_path / "dmesg.log"
    rows = (LOGS / "dmesg_levels.log").read_bytes().splitlines(keepends=True)
    dmesg.write_bytes(b"".join(rows[:-1]))
    for logs, said in (
        ([dmesg], "PASS, as far as the log goes"),
        ([dmesg, LOGS / "pass.log"], "PASS, as far as the log goes"),
        ([dmesg, LOGS / "fail.log"], "FAIL"),
        ([LOGS / "pass.log"], "PASS"),
    ):
        run(*logs)
        assert capsys.readouterr().out.splitlines()[-1] == f"verdict: {said}"


def test_expected_failures_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(LOGS / "ksft_xfail.log") == 0
    assert "expected failure: pull without RT_PUSH_IPI: demo:" in capsys.readouterr().out


@pytest.mark.parametrize("mode", [0o500, None], ids=["read-only", "impossible"])
def test_neither_a_cache_nor_a_library_is_needed(mode: int | None, tmp_path: Path) -> None:
    """An empty read-only cache made `judge` fail. -S hides site-packages, so only the standard library is available."""
    cache = tmp_path / "cache" if mode else Path("/dev/null/cache")
    if mode:
        cache.mkdir(mode=mode)
    command = [sys.executable, "-S", str(PROJECT / "scripts/schedline"), "judge", str(LOGS / "pass.log")]
    files = ["--json", str(tmp_path / "r.json"), "--junit", str(tmp_path / "r.xml")]
    env = {"SCHEDLINE_CACHE": str(cache), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*command, *files], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # Python writes compiled modules there if it can, and root always can.
    assert not mode or {path.name for path in cache.iterdir()} <= {"pycache"}


def test_files(tmp_path: Path) -> None:
    json_file, junit_file = tmp_path / "r.json", tmp_path / "r.xml"
    assert run("--json", json_file, "--junit", junit_file, LOGS / "pass.log", LOGS / "fail.log") == 1
    assert [boot["name"] for boot in json.loads(json_file.read_text())["boots"]] == ["pass", "fail"]
    assert junit_file.read_bytes().startswith(b"<?xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.xml"]


def test_logs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    run("--json", tmp_path / "r.json", LOGS / "pass.log", LOGS / "pass.log")
    assert [boot["name"] for boot in json.loads((tmp_path / "r.json").read_text())["boots"]] == ["1-pass", "2-pass"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((LOGS / "fail.log").read_bytes())))
    assert run("-") == 1


def test_what_cannot_be_judged(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    for log in (empty, tmp_path, tmp_path / "none", Path("/dev/null")):
        with pytest.raises(SchedlineError):
            run(log)
    with pytest.raises(SchedlineError, match="--tests"):
        run("--cpus", "8", LOGS / "pass.log")
    with pytest.raises(SystemExit):
        run("--json", LOGS / "pass.log" / "r.json", LOGS / "pass.log")


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "evil.log"
    log.write_bytes(
        (LOGS / "fail.log").read_bytes().replace(b"count and mask", b"\x07\x9b31m\x1b]0;title\x07 caf\xc3\xa9")
    )
    assert run(log) == 1
    out = capsys.readouterr().out
    assert not {char for char in out if ord(char) < 32} - {"\n"}
    assert "caf\u00e9" in out
