# SPDX-License-Identifier: GPL-2.0
"""The command itself: exit codes, crashes, readers that close the pipe, and missing libraries."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schedlib import environment, main
from schedlib.errors import SchedlineError
from schedlib.options import SECTIONS
from schedlib.paths import PROJECT
from schedlib.progress import LETTER, counted, wrapped
from test_docs import verbs_below

COMMAND = str(PROJECT / "scripts/schedline")
LOGS = Path(__file__).parent / "logs"


def failing(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(main, "main", fail)


def test_a_bug_is_an_error_and_no_verdict(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(KeyError("rto_mask"), monkeypatch)
    assert main.start(["check", "--kdir", "a b"]) == 2
    said = capsys.readouterr().err
    assert "a bug in schedline" in said and "KeyError" in said and "next: report it" in said
    (kept,) = (cache / "crashes").iterdir()
    assert "Traceback" in kept.read_text() and "check --kdir 'a b'" in kept.read_text()


def test_a_full_disk_leaves_no_file_that_nobody_is_told_of(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(OSError(28, "No space left on device"), monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (cache / "crashes").touch()
    assert main.start(["check"]) == 2
    assert list(tmp_path.glob("schedline-*")) == []


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        OSError(28, "No space left on device"),
        KeyboardInterrupt(),
        SystemExit(2),
        SchedlineError("x", "y"),
    ],
)
def test_bisect_skips_a_commit_that_has_no_verdict(
    error: BaseException, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(error, monkeypatch)
    assert main.start(["check", "--bisect"]) == 125
    assert main.start(["check"]) == 2


@pytest.mark.parametrize(("code", "told"), [(0, 0), (1, 1), (3, 125)])
def test_bisect_keeps_a_verdict_and_skips_what_is_inconclusive(
    code: int, told: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "main", lambda _: code)
    assert main.start(["check", "--bisect"]) == told


@pytest.mark.parametrize(("log", "code"), [("pass.log", 0), ("fail.log", 1)])
def test_a_reader_that_leaves_does_not_change_the_exit_code(log: str, code: int, tmp_path: Path) -> None:
    """`schedline judge x | head -1` ended with 2."""
    script = '"$0" "$1" judge --tests "$2" "$3" | true; echo ${PIPESTATUS[0]}'
    tests = tmp_path / "none.txt"
    tests.write_text("")
    argv = ["bash", "-c", script.replace(' --tests "$2"', ""), sys.executable, COMMAND, str(tests), str(LOGS / log)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert done.stdout.strip() == str(code), done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "nothing",
        "check --with nope",
        "check --on vax",
        "check --expect nope",
        "check --only nosuch",
        "check --only 'a b'",
        "check --topology nope",
        "check --kdir ''",
        "check --kdir x --series 7.3",
        "check --cpus 0",
        "check --cpus many",
        "check --cpus 8 --topology smt2",
        "check --kernel-arg 'x; reboot'",
        "layout --arch vax",
        "c2c --objects nope",
        "gate runs",
        "gate '' ''",
        "gate /nonexistent /nonexistent",
        "run --suite nope",
    ],
)
def test_options_are_checked_before_anything_is_installed(
    words: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown name was rejected only after a kernel had been downloaded."""
    monkeypatch.setattr(main, "activate", lambda name, **_: pytest.fail(f"it installs {name}"))
    assert main.start(shlex.split(words)) == 2
    assert not list(cache.iterdir())


def test_help_imports_the_standard_library_alone() -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(PROJECT / 'scripts')!r}); from schedlib.main import parser; parser();"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('elftools', 'msgspec', 'rich', 'numpy', 'scipy', 'jinja2', 'matplotlib')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_fits_on_one_screen() -> None:
    lines = main.parser().format_help().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 120


def test_nothing_is_downloaded_where_it_must_not_be(cache: Path) -> None:
    with pytest.raises(SchedlineError, match="doctor --install run"):
        environment.activate("core", download=False)
    assert not (cache / "python").exists()


def test_a_hook_says_nothing_of_libraries_that_are_installed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """b4 took the line for a failed check. What pip unpacks is in the cache: kill -9 left it in /tmp."""

    def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
        assert Path(os.environ["TMPDIR"]).is_relative_to(cache / "scratch")
        if "venv" in argv:
            Path(argv[-1]).mkdir(parents=True)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(environment, "_run", run)
    assert environment.pinned("core").is_relative_to(cache / "python")
    assert capsys.readouterr().err == ""


def test_libraries_are_those_of_the_interpreter_not_of_the_environment_that_runs_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pytest runs in such an environment: it found nothing of what `make check` had installed."""
    made = environment._place("core")
    assert made.parent == cache / "python"
    (tmp_path / "python").symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert environment._place("core") == made
    monkeypatch.setattr(sys, "executable", "/bin/true")
    assert environment._place("core") != made


def shell(words: str, **given: Any) -> subprocess.CompletedProcess[str]:
    """A command line of bash, which has $S for schedline and $L for a log that passes."""
    log = LOGS / "pass_three_suites.log"
    environment = os.environ | {"S": COMMAND, "L": str(log)}
    return subprocess.run(["bash", "-c", words], capture_output=True, text=True, env=environment, check=False, **given)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        "$S judge $L > /dev/full",
        "$S judge $L 2> /dev/full > /dev/full",
        "$S judge $L >&-",
        "$S judge $L --json /dev/full",
        "$S judge - <&-",
        "$S --help > /dev/full",
    ],
)
def test_output_that_cannot_be_written_is_an_error(words: str) -> None:
    done = shell(words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr + done.stdout
    assert "2> /dev/full" in words or len(done.stderr.strip().splitlines()) <= 3
    assert Path("/dev/full").is_char_device()


def test_bisect_skips_a_commit_whose_verdict_cannot_be_written() -> None:
    assert shell("$S check --bisect --no-such-option > /dev/full").returncode == 125


@pytest.mark.parametrize("words", ["--json -", "--json /dev/stdout", "--json /dev/fd/1"])
def test_a_document_on_standard_output_is_alone_there(words: str, tmp_path: Path) -> None:
    for redirected in ("", " > out", " >> out"):
        done = shell(f"$S judge $L {words}{redirected}", cwd=tmp_path)
        text = (tmp_path / "out").read_text() if redirected else done.stdout
        if redirected == " >> out":
            text = text[len(text) // 2 :]
        assert done.returncode == 0
        assert json.loads(text)["schema"] == "check-1"
        assert "3 suites" in done.stderr or "passed" in done.stderr


def test_outputs_are_written_through_and_never_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "target").write_text("old")
    (tmp_path / "target").chmod(0o600)
    (tmp_path / "link").symlink_to("target")
    done = shell("cat fifo > read & $S judge $L --json fifo && wait && $S judge $L --json link", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fifo").is_fifo() and (tmp_path / "link").is_symlink()
    for written in ("read", "target"):
        assert json.loads((tmp_path / written).read_text())["schema"] == "check-1"
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o600


def test_a_second_signal_does_not_interrupt_the_cleanup() -> None:
    code = """
import atexit, os, signal
from schedlib import main
atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))
main.main = lambda words: os.kill(os.getpid(), signal.SIGTERM)
raise SystemExit(main.start([]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT / "scripts", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"")


def test_without_words_it_shows_the_help_and_the_cheapest_door_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.start([]) == 2
    said = capsys.readouterr().out
    assert said.index("layout --kdir ~/linux --patch") < said.index("schedline check")
    assert said.index("a patch or a tree:") < said.index("a real machine:") < said.index("\nother:")


def test_options_of_a_verb_with_many_are_in_sections() -> None:
    help_of = {name: verb.format_help() for name, verb, _ in main.verbs_of(main.parser())}
    for name in ("check", "c2c", "layout", "premerge"):
        assert "\nthe kernel:\n" in help_of[name] and "\nresults:\n" in help_of[name], name
    assert "\nthe kernel:\n" not in help_of["fetch"]
    # What is read is no result, and rows of a suite do not run in a guest.
    below = {" ".join(name): verb.format_help() for name, verb in verbs_below(main.parser()).items()}
    for prog, option in (("c2c suggest", "--trace"), ("run", "--only"), ("gate plan", "--only")):
        said = below[prog]
        assert said.index(f"\n  {option} ") < re.search(r"\n(the kernel|a real machine):\n", said).start(), prog  # type: ignore[union-attr]
    known = {word for text in help_of.values() for word in re.findall(r"--([a-z][a-z0-9-]*)", text)}
    assert {word for words in SECTIONS.values() for word in words.split()} <= known


def test_one_is_not_plural() -> None:
    assert [counted(number, "CPU") for number in (0, 1, 2)] == ["0 CPUs", "1 CPU", "2 CPUs"]
    assert counted(2, "patch", "patches") == "2 patches"


def test_lines_of_a_mail_fit_and_no_path_is_cut() -> None:
    path = "/results/" + "a-long-name/" * 9 + "candidate"
    lines = wrapped(f"{path}: skipped 1 file: " + "not a format that is known, " * 5)
    assert lines[0] == f"{path}:"
    assert lines[1].startswith("    skipped 1 file:")
    assert all(len(line) <= LETTER for line in lines[1:])
