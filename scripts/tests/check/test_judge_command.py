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
from golden import Golden
from schedlib.check import judge_verb
from schedlib.check.judge_verb import judge_logs
from schedlib.console.judge import judge
from schedlib.errors import SchedlineError
from schedlib.paths import PROJECT

LOGS = Path(__file__).parents[1] / "logs"


@pytest.fixture(autouse=True)
def among_the_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(LOGS)


def run(*words: str | Path) -> int:
    return judge_logs(read_words(judge_verb, "judge", *map(str, words))).exit_code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *(("pass.log", 0), ("fail.log", 1), ("no_banner.log", 2), ("all_skipped.log", 3)),
        *(("pass.log all_skipped.log", 3), ("all_skipped.log panic.log no_banner.log", 1)),
        *(("--require demo_pass:good pass.log", 0), ("--require demo_pass:good,demo_pass:skipped pass.log", 2)),
        *(("--tests {listed} --cpus 8 pass_three_suites.log", 0), ("--tests {listed} pass_three_suites.log", 1)),
        *(("--ending exited {cut}", 1), ("{cut}", 3)),
    ],
)
def test_exit_code_is_that_of_the_worst(words: str, code: int, tmp_path: Path) -> None:
    listed, cut = tmp_path / "tests.txt", tmp_path / "cut.log"
    names = [test.name for test in judge(Path("pass_three_suites.log").read_bytes()).tests]
    listed.write_text("".join(f"{name}\n" for name in (*names, "kunit_stub:big classes=64")))
    cut.write_bytes(Path("pass.log").read_bytes().replace(b"reboot: System halted\n", b""))
    assert run(*words.format(listed=listed, cut=cut).split()) == code


def test_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    """Failures first; a pass of a log that lacks its end says so; nothing does anything to the terminal."""
    made, listed = tmp_path / "evil.log", tmp_path / "tests.txt"
    made.write_bytes(Path("fail.log").read_bytes().replace(b"count and", b"\x07\x9b31m\x1b]0;title\x07 caf\xc3\xa9"))
    listed.write_text("demo_pass:good\ndemo_pass:lost\n")
    dmesg = tmp_path / "dmesg.log"
    dmesg.write_bytes(b"".join(Path("dmesg_levels.log").read_bytes().splitlines(keepends=True)[:-1]))
    for words in (
        ["--require", "demo_pass:skipped", "panic_stamped.log", "ksft_mixed.log", "ksft_xfail.log"],
        *([made], ["--tests", listed, "pass.log"], [dmesg], [dmesg, "pass.log"], [dmesg, "fail.log"]),
    ):
        run(*words)
    said = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    assert not {char for char in said if ord(char) < 32} - {"\n"}
    golden("judge.txt", said)


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


def test_files_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("fail.log").read_bytes())))
    json_file, junit_file = tmp_path / "r.json", tmp_path / "r.xml"
    assert run("--json", json_file, "--junit", junit_file, "pass.log", "-", "pass.log") == 1
    assert [boot["name"] for boot in json.loads(json_file.read_text())["boots"]] == ["1-pass", "stdin", "3-pass"]
    assert junit_file.read_bytes().startswith(b"<?xml")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.xml"]


def test_what_cannot_be_judged(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    for log in (empty, tmp_path, tmp_path / "none", Path("/dev/null")):
        with pytest.raises(SchedlineError):
            run(log)
    with pytest.raises(SchedlineError, match="--tests"):
        run("--cpus", "8", "pass.log")
    with pytest.raises(SystemExit):
        run("--json", "pass.log/r.json", "pass.log")
