# SPDX-License-Identifier: GPL-2.0
"""Every example in --help and README parses; usage errors and bad input end with exit code 2."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from conftest import FILES, write_files
from schedlib.main import main, parser
from schedlib.paths import PROJECT


def verbs() -> dict[str, argparse.ArgumentParser]:
    """The parser of each verb."""
    action = next(each for each in parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def examples() -> list[str]:
    """The command lines that begin with schedline in every epilog, and those of README."""
    texts = [each.epilog or "" for each in (parser(), *verbs().values())]
    found = [match for text in texts for match in re.findall(r"^ +(?:git bisect run )?(schedline .*)$", text, re.M)]
    readme = re.findall(r"(?:^|run \S*/)(?:scripts/)?(schedline .*)$", (PROJECT / "README.md").read_text(), re.M)
    return [re.split(r"\s{2,}| # ", line)[0] for line in (*found, *readme)]


@pytest.mark.parametrize("line", examples())
def test_example_parses(line: str) -> None:
    parser().parse_args(shlex.split(line)[1:])


@pytest.mark.parametrize("verb", sorted(verbs()))
def test_each_verb_has_an_example_and_a_make_target(verb: str) -> None:
    assert f"schedline {verb}" in (verbs()[verb].epilog or "")
    assert verb == "judge" or re.search(rf"^{verb}:", (PROJECT / "Makefile").read_text(), re.M)


def test_make_alone_prints_the_verbs() -> None:
    said = subprocess.run(["make", "-s", "-C", PROJECT], check=True, capture_output=True, text=True).stdout
    assert "make check" in said
    assert "make test " in said


def test_make_variables_are_quoted(tmp_path: Path) -> None:
    hostile = f"$(touch {tmp_path}/a)'; touch {tmp_path}/b; `touch {tmp_path}/c`"
    argv = ["make", "-n", "-C", str(PROJECT), "check", f"OUT={hostile.replace('$', '$$')}"]
    recipe = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    line = next(each for each in recipe.splitlines() if "scripts/schedline" in each)
    assert hostile in shlex.split(line)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nothing"],
        ["check", "--cpus", "0"],
        ["check", "--cpus", "many"],
        ["check", "--cpus", "8", "--topology", "smt2"],
        ["check", "--only", "a b"],
        ["check", "--kernel-arg", "x; reboot"],
        ["check", "--kdir", "x", "--series", "7.3"],
        ["gate", "runs"],
        ["gate", "", ""],
    ],
)
def test_usage_errors(words: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2


def schedline(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    argv = [str(PROJECT / "scripts/schedline"), *words]
    return subprocess.run(argv, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "--kdir", "/nonexistent"], "No such file"),
        (["check", "--kdir", "/etc"], "no kernel tree"),
        (["check", "--series", "5.4"], "no series '5.4'"),
        (["judge", "/nonexistent"], "cannot be read"),
        (["mutants", "--from", "/nonexistent"], "no mutants"),
        (["gate", "/nonexistent", "/nonexistent"], "is no directory"),
    ],
)
def test_bad_input_is_a_message_and_exit_2(words: list[str], message: str) -> None:
    done = schedline(*words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "next: " in done.stderr
    assert "Traceback" not in done.stderr


def test_bisect_turns_an_error_into_125(tmp_path: Path) -> None:
    write_files(tmp_path / "tree", {name: text for name, text in FILES.items() if name != "Kbuild"})
    assert schedline("check", "--kdir", str(tmp_path / "tree"), "--bisect").returncode == 125
