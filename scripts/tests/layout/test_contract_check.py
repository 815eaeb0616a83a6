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


def written(place: Path, text: str) -> str:
    (place / "root_domain.toml").write_text(text)
    return str(place / "root_domain.toml")


TABLE = """\
group   declared     measured            accesses  writes
push    read-mostly  read-mostly         6,100     1.6 %
unused  owner        too little to tell  0         0 %
"""
TOLD = """\
FAIL push: declared read-mostly, written 4,213 times by rt_set_overload(): 41.3 % of its 10,213 accesses
push: writers that are not declared: rt_set_overload() 4,213
in no group, and not cold: cpu
verdict: FAIL
"""


@pytest.mark.parametrize(
    ("what", "quanta", "verdict", "told"),
    [
        ("mine", (READ, READ), Verdict.PASS, [TABLE, "\nverdict: PASS\n"]),
        ("mine", (WRITTEN, WRITTEN), Verdict.FAIL, [TOLD]),
        ("mine", (READ, WRITTEN, WRITTEN), Verdict.INCONCLUSIVE, ["INCONCLUSIVE push: "]),
        (
            "rq",
            (READ,),
            Verdict.INCONCLUSIVE,
            ["the profile watches root_domain, so it says nothing of struct rq\n  next: count with another --objects"],
        ),
        ("no groups", (WRITTEN,), Verdict.INCONCLUSIVE, ["it declares no class"]),
    ],
)
@pytest.mark.parametrize("is_directory", [False, True])
def test_a_contract_and_a_profile(
    what: str,
    quanta: tuple[Rows, ...],
    verdict: Verdict,
    told: list[str],
    is_directory: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mine = written(tmp_path, CONTRACT.partition("[[group]]")[0] if what == "no groups" else CONTRACT)
    document.write(tmp_path / "c2c.json", result(*quanta))
    profile = str(tmp_path if is_directory else tmp_path / "c2c.json")
    assert run("layout", "contract", "check", "rq" if what == "rq" else mine, "--profile", profile) is verdict
    said = capsys.readouterr().out
    assert all(text in said for text in told) and ("\nFAIL" in said) is (verdict is Verdict.FAIL)


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


def test_what_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "c2c.json").write_text("{}")
    with pytest.raises(SchedlineError, match="is no c2c-1"):
        run("layout", "contract", "check", written(tmp_path, CONTRACT), "--profile", str(tmp_path))
