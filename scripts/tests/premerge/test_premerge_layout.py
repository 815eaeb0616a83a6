# SPDX-License-Identifier: GPL-2.0
"""What a series changes and no compiler saw is in premerge's verdict."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import toys

from conftest import git
from schedlib import doctor
from schedlib.premerge import parts
from schedlib.premerge.series import read_series
from schedlib.tree.kernel_tree import open_kdir
from schedlib.verdict import Verdict

HEADER = "kernel/sched/sched.h"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if doctor.missing(["build", "layout", "objtool"]):
        pytest.skip("what compiling a kernel needs is not installed")
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "toy")


@pytest.mark.parametrize(
    ("member", "verdict", "said"),
    [
        ("u32 stranger;", Verdict.FAIL, "rq-order.Q2"),
        ("/* a comment */", Verdict.PASS, ""),
        ("\n#ifdef CONFIG_NEVER_HEARD_OF\n\tu64 lost;\n#endif\n", Verdict.INCONCLUSIVE, "CONFIG_NEVER_HEARD_OF=y"),
    ],
)
def test_lines_that_no_compiler_saw(
    member: str, verdict: Verdict, said: str, toy: Path, tmp_path: Path, cache: Path
) -> None:
    kdir = tmp_path / "linux"
    shutil.copytree(toy, kdir)
    text = (kdir / HEADER).read_text()
    (kdir / HEADER).write_text(text.replace("void *idle;", f"void *idle; {member}"))
    git(kdir, "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-qam", "sched: Change")
    tree = open_kdir(cache, kdir)
    (tmp_path / "out").mkdir()
    series = read_series(tree, "HEAD~1", None, None)
    part = parts.layout(cache, tree, series, ("x86_64",), (), frozenset({"rq-order"}), tmp_path / "out")
    assert part.verdict is verdict, part
    assert said in "\n".join((part.summary, *part.lines))
    if verdict is Verdict.INCONCLUSIVE:
        assert "1 of 3 changed lines inside of structures were not compiled" in part.summary
