# SPDX-License-Identifier: GPL-2.0
"""`schedline layout contract check`: a contract against a profile, from the command line to the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from layout_command import read, run
from toy_profiles import Rows, row
from toy_results import result

from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.verdict import Verdict

CONTRACT = """\
struct = "root_domain"
file = "kernel/sched/sched.h"
[[group]]
name = "push"
class = "read-mostly"
members = ["pd", "rto_mask"]
readers = ["pull_rt_task"]
[[group]]
name = "unused"
class = "owner"
members = ["rto_loop"]
"""
READ: Rows = (row("pd", 6_000, function="pull_rt_task"), row("rto_mask", 100, "rmw", "rt_set_overload"))
WRITTEN: Rows = (*READ, row("rto_mask", 4_113, "rmw", "rt_set_overload"), row("cpu", 9_000, function="f"))


@pytest.fixture
def contract(tmp_path: Path) -> str:
    (tmp_path / "root_domain.toml").write_text(CONTRACT)
    return str(tmp_path / "root_domain.toml")


def profile(tmp_path: Path, *quanta: Rows) -> str:
    document.write(tmp_path / "c2c.json", result(*quanta))
    return str(tmp_path / "c2c.json")


def test_a_class_that_fits(contract: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layout", "contract", "check", contract, "--profile", profile(tmp_path, READ, READ)) is Verdict.PASS
    said = capsys.readouterr().out.splitlines()
    assert said[1:4] == [
        "group   declared     measured            accesses  writes",
        "push    read-mostly  read-mostly         6,100     1.6 %",
        "unused  owner        too little to tell  0         0 %",
    ]
    assert said[-1] == "verdict: PASS" and not any(line.startswith("FAIL") for line in said)


def test_a_class_that_does_not(contract: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory with the result is taken, too."""
    profile(tmp_path, WRITTEN, WRITTEN)
    assert run("layout", "contract", "check", contract, "--profile", str(tmp_path)) is Verdict.FAIL
    said = capsys.readouterr().out
    assert "FAIL push: declared read-mostly, written 4,213 times by rt_set_overload(): 41.3 % of its" in said
    assert "push: writers that are not declared: rt_set_overload() 4,213" in said
    assert "in no group, and not cold: cpu" in said


def test_guests_that_disagree(contract: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["layout", "contract", "check", contract, "--profile", profile(tmp_path, READ, WRITTEN, WRITTEN)]
    assert run(*words) is Verdict.INCONCLUSIVE
    assert "INCONCLUSIVE push: " in capsys.readouterr().out


def test_a_structure_that_is_not_watched(contract: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--profile", profile(tmp_path, READ)]
    assert run("layout", "contract", "check", "rq", *words) is Verdict.INCONCLUSIVE
    said = capsys.readouterr().out
    assert "the profile watches root_domain, so it says nothing of struct rq" in said
    assert "next: count with another --objects" in said


def test_a_contract_without_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "root_domain.toml").write_text(CONTRACT.partition("[[group]]")[0])
    words = [str(tmp_path / "root_domain.toml"), "--profile", profile(tmp_path, WRITTEN)]
    assert run("layout", "contract", "check", *words) is Verdict.INCONCLUSIVE
    assert "it declares no class" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["root_domian", "--profile", "."], "Did you mean root_domain?"),
        (["pipe_inode_info", "--profile", "."], "contract init pipe_inode_info writes a first one"),
        (["rq"], "--profile"),
        (["missing/rq.toml", "--profile", "."], "missing/rq.toml"),
    ],
)
def test_usage_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        read("layout", "contract", "check", *words)
    assert error.value.code == 2 and message in capsys.readouterr().err


def test_what_is_no_profile(contract: str, tmp_path: Path) -> None:
    (tmp_path / "c2c.json").write_text("{}")
    with pytest.raises(SchedlineError, match="is no c2c-1"):
        run("layout", "contract", "check", contract, "--profile", str(tmp_path))
