# SPDX-License-Identifier: GPL-2.0
"""Every example in --help and README parses; usage errors and bad input end with exit code 2."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from schedlib import main
from schedlib.names import unknown
from schedlib.paths import PROJECT
from test_docs import verbs_below


def verbs() -> dict[str, argparse.ArgumentParser]:
    return {f"schedline {' '.join(words)}": verb for words, verb in verbs_below(main.parser()).items()}


def test_each_verb_begins_with_what_most_people_want() -> None:
    for name, verb in verbs().items():
        lines = (verb.description or "").splitlines()
        assert sum(line.startswith(("  schedline ", "  git ")) for line in lines[:2]) == 2, name


def test_each_verb_has_a_make_target() -> None:
    for name in verbs():
        words = name.split()[1:]
        if len(words) == 1 + (words[0] == "dev"):
            # An operand that is not given is empty.
            assert [*filter(None, recipe(words[-1], "KDIR=x"))] == ["scripts/schedline", *words, "--kdir", "x"]


def test_the_flags_of_the_makefile_are_those_of_the_verbs() -> None:
    listed = re.search(r"^flags := (.*)$", (PROJECT / "Makefile").read_text(), re.M)
    assert listed
    every = [action for verb in verbs().values() for action in verb._actions]
    kinds = (argparse._StoreTrueAction, argparse._StoreFalseAction)
    flags = {action.option_strings[-1] for action in every if isinstance(action, kinds)}
    named = {flag.removeprefix("--").replace("-", "_").upper() for flag in flags}
    # No verb of make has these.
    assert set(listed[1].split()) == named - {"NO_MEASURE", "PAIRS", "STATUS", "STEP"}


def test_make_alone_prints_the_verbs() -> None:
    said = subprocess.run(["make", "-s", "-C", PROJECT], check=False, capture_output=True, text=True).stdout
    assert said.startswith("make VERB NAME=value is schedline VERB --name value:")
    assert main.parser().format_help() in said


def dry_run(*words: str, **environment: str) -> str:
    argv = ["make", "-n", "-C", str(PROJECT), *words]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=os.environ | environment)
    return done.stdout.replace("\\\n", " ")


def recipe(*words: str, **environment: str) -> list[str]:
    """The words of the command that make would run."""
    lines = dry_run(*words, **environment).splitlines()
    return shlex.split(next(line for line in lines if line.startswith("scripts/schedline")))


def test_make_check_installs_packages_as_root_alone() -> None:
    (line,) = (line for line in dry_run("check").splitlines() if "--install" in line)
    assert line.startswith('if [ "$(id -u)" = 0 ] && command -v apt-get') and "doctor --install check" in line
    assert "--install" not in dry_run("layout")


def test_each_make_variable_becomes_an_option(tmp_path: Path) -> None:
    words = recipe("layout", "ARCH=all", "RUNNING=1", "KDIR=")[2:]
    assert sorted(words) == ["", "--arch", "--kdir", "--running", "all"]
    assert words[words.index("--kdir") + 1] == ""
    assert recipe("gate", "BASE=a", "CANDIDATE=b", "HTML=c d")[2:] == ["a", "b", "--html", "c d"]
    hostile = f"$(touch {tmp_path}/a)'; touch {tmp_path}/b; `touch {tmp_path}/c`"
    assert hostile in recipe("layout", f"JSON={hostile.replace('$', '$$')}")
    assert not list(tmp_path.iterdir())


def test_make_takes_nothing_from_the_environment() -> None:
    """An exported ARCH or BASE silently narrowed layout and check."""
    exported = {"ARCH": "arm64", "BASE": "v7", "CONFIG": "numa", "CANDIDATE": "x", "RUNS": "a b"}
    for verb in ("layout", "c2c", "premerge", "run"):
        assert recipe(verb, **exported) == ["scripts/schedline", verb]


def test_an_unknown_make_variable_is_an_error() -> None:
    """`make check SERIE=6.12 EXPCT=rq-order` ran a plain check."""
    argv = ["make", "-C", str(PROJECT), "layout", "SERIE=6.12"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Did you mean --series?" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "--kdir", "/nonexistent"], "no such file"),
        (["check", "--kdir", "/etc"], "no kernel tree"),
        (["check", "--series", "5.4"], "no series '5.4'"),
        (["judge", "/nonexistent"], "cannot be read"),
        (["dev", "mutants", "--from", "/nonexistent"], "no such file"),
        (["gate", "/nonexistent", "/nonexistent"], "no such file"),
    ],
)
def test_bad_input_is_a_message_and_exit_2(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "activate", lambda *_, **__: None)
    assert main.start(words) == 2
    said = capsys.readouterr().err
    assert message in said and "next: " in said and "a bug" not in said and "Traceback" not in said


def test_of_many_names_the_nearest_are_listed() -> None:
    names = [f"sock.R{number}" for number in range(80)]
    said = unknown("rule", "sock.R7x", names)
    assert "Did you mean sock.R7?" in said and len(said) < 120
    assert unknown("rule", "sock.R7x", names[:3]).endswith("Known: sock.R0, sock.R1, sock.R2")
