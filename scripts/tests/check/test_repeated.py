# SPDX-License-Identifier: GPL-2.0
"""An earlier verdict is repeated only while everything that it depends on is unchanged."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from schedlib.check import check_job
from schedlib.check.check_boots import make_plan
from schedlib.check.check_verb import CheckOptions
from schedlib.kernel.build import KernelPlan
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS
from schedlib.paths import PROJECT
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

LINES = ("guest  verdict", "verdict: PASS")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The directory of an earlier check."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/results.json").write_text('{"status": "PASS"}')
    return tmp_path / "out"


def test_verdict_and_text_are_told_again(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = results.parent
    check_job.remember(cache / "d1.json", Verdict.PASS, results, LINES)
    assert check_job.repeat(cache / "d1.json", cache / "also.json") is Verdict.PASS
    said = capsys.readouterr()
    assert said.out == "".join(f"{line}\n" for line in LINES)
    assert "so its verdict is repeated" in said.err
    assert json.loads((cache / "also.json").read_text()) == {"status": "PASS"}


@pytest.mark.parametrize("verdict", Verdict)
def test_only_what_goes_alike_the_next_time_is_repeated(verdict: Verdict, results: Path) -> None:
    check_job.remember(results.parent / "d1.json", verdict, results, LINES)
    again = verdict if verdict in (Verdict.PASS, Verdict.FAIL) else None
    assert check_job.repeat(results.parent / "d1.json", None) is again
    # Of another state, and when the results are changed or gone.
    assert check_job.repeat(results.parent / "d2.json", None) is None
    (results / "results.json").write_text("{}")
    assert check_job.repeat(results.parent / "d1.json", None) is None
    (results / "results.json").unlink()
    assert check_job.repeat(results.parent / "d1.json", None) is None


CHANGES = frozenset({"rq-order", "rd-lines", "cpupri-lines", "cluster-scan"})


def planned(tmp_path: Path, options: CheckOptions, commit: str, fragments: tuple[str, ...]) -> str:
    """The state of a check that is planned but not run."""
    tree = Tree("7.3", tmp_path, "", "", "linux", is_user=False)
    composition = Composition(commit, "", (), CHANGES)
    kernel = KernelPlan(tree, TARGETS["uml"], composition, load(["uml", *fragments]), commit)
    return check_job.state(kernel, make_plan(kernel.target, options, CHANGES))


@pytest.mark.tools
def test_another_process_finds_the_same_state(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from schedlib.check.check_verb import CheckOptions\n"
        "import sys; from test_repeated import planned; print(planned(Path(sys.argv[1]), CheckOptions(), 'c1', ()))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    path = os.pathsep.join(map(str, (PROJECT / "scripts", Path(__file__).parent)))
    # Another hash seed gives another order of each set.
    seeds = [os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed} for seed in ("1", "2", "3", "4")]
    assert len({subprocess.run(words, env=env, check=True, capture_output=True).stdout for env in seeds}) == 1


@pytest.mark.tools
def test_each_part_of_the_state_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = CheckOptions()
    same = planned(tmp_path, options, "c1", ())
    assert planned(tmp_path, options, "c1", ()) == same
    # The place of the results and the option --again do not change what is judged.
    assert planned(tmp_path, replace(options, json=Path("x"), again=True), "c1", ()) == same
    others = [
        planned(tmp_path, options, "c2", ()),
        planned(tmp_path, options, "c1", ("lockdep",)),
        planned(tmp_path, replace(options, cpus=(8,)), "c1", ()),
        planned(tmp_path, replace(options, require=("rq-order.Q1",)), "c1", ()),
        planned(tmp_path, replace(options, verbose=True), "c1", ()),
    ]
    for name, other in (("compiler_version", lambda _: "gcc 99"), ("machine_text", lambda: "another machine")):
        with monkeypatch.context() as patched:
            patched.setattr(check_job, name, other)
            others.append(planned(tmp_path, options, "c1", ()))
    monkeypatch.setattr(check_job, "KUNIT", tmp_path)
    for text in ("sched_layout:changes\n", "sched_layout:others\n"):
        (tmp_path / "tests.txt").write_text(text)
        others.append(planned(tmp_path, options, "c1", ()))
    assert len({same, *others}) == len(others) + 1


def test_a_check_is_made_with_no_other_folder() -> None:
    program = (
        "import sys, schedlib.check.check_job\n"
        "print({name.split('.')[1] for name in sys.modules if name.startswith('schedlib.') and name.count('.') > 1})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT / "scripts", check=True, capture_output=True, text=True
    )
    assert ast.literal_eval(done.stdout) <= set(check_job.MADE_WITH)
