# SPDX-License-Identifier: GPL-2.0
"""`layout --patch`, `premerge` and `evidence verify` say the same of a change, packs and unseen lines included."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import toys
from test_evidence import series as write_series

from conftest import git
from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.check.mutants import MUTANTS, Mutant, applied, read_mutants
from schedlib.errors import DoesNotBuild
from schedlib.layout.layout_options import ColumnOptions, LayoutOptions
from schedlib.layout.patch_job import judge_patch
from schedlib.layout.patch_text import touches_layout
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.premerge import parts
from schedlib.premerge.evidence import make, verify
from schedlib.premerge.series import PatchSeries, read_series
from schedlib.tree.kernel_tree import Tree, fetch_series, open_kdir
from schedlib.verdict import Verdict

HEADER, FUTEX = "kernel/sched/sched.h", "kernel/futex/futex.h"
BUCKET = "#include <linux/cache.h>\nstruct futex_hash_bucket { u32 waiters; void *chain; } ____cacheline_aligned;\n"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the structure of a pack."""
    if doctor.missing(["build", "layout", "objtool"]):
        pytest.skip("what compiling a kernel needs is not installed")
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "toy", {FUTEX: BUCKET})


def each_says(
    tree: Tree, series: PatchSeries, options: LayoutOptions, out: Path
) -> tuple[Verdict, parts.Part, Verdict]:
    """What a patch's author, a maintainer and the maintainer's reader are told. The text is checked as it was made."""
    said = judge_patch(options, series.diff, "text")
    out.mkdir()
    part = parts.layout(tree, series, ("x86_64",), (), frozenset({"rq-order"}), out)
    write_series(out)
    made = make(out, out / "evidence.txt")
    assert verify(out / "evidence.txt", out) is made
    return said, part, made


LOST = "\n#ifdef CONFIG_NEVER_HEARD_OF\n\tu64 lost;\n#endif\n"


@pytest.mark.tools
@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        ("void *idle;", "void *idle; u32 stranger;", Verdict.FAIL, "rq-order.Q2"),
        ("void *idle;", "void *idle; /* a comment */", Verdict.PASS, ""),
        ("void *idle;", "void *sleeper;", Verdict.FAIL, "idle is sleeper now"),
        ("void *idle;", f"void *idle;{LOST}", Verdict.INCONCLUSIVE, "CONFIG_NEVER_HEARD_OF=y"),
        ("void *idle;", "void *idle;\n#define CONFIG_NEW 1\n", Verdict.INCONCLUSIVE, "CONFIG_NEW:"),
        (" ____cacheline_aligned", "", Verdict.FAIL, "futex-hash-bucket.G1"),
        ("void *chain", "void *waiting", Verdict.PASS, ""),
    ],
)
def test_the_three_say_the_same(
    old: str, new: str, verdict: Verdict, said: str, toy: Path, tmp_path: Path, cache: Path
) -> None:
    kdir = tmp_path / "linux"
    shutil.copytree(toy, kdir)
    file = kdir / (HEADER if "idle" in old else FUTEX)
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    git(kdir, "commit", "-qam", "sched: Change")
    tree = open_kdir(cache, kdir)
    series = read_series(tree, "HEAD~1", None, None)
    options = LayoutOptions(TreeOptions(kdir), columns=ColumnOptions(("x86_64",)))
    author, part, reader = each_says(tree, series, options, tmp_path / "out")
    assert author is part.verdict is reader is verdict, part
    assert said in "\n".join((part.summary, *part.lines))
    assert not any("\n" in line for line in part.lines), "a page replaces what cannot be printed"
    if "u64 lost;" in new:
        assert "1 of 1 changed lines inside of structures were not compiled" in part.summary
    if said:
        # Of a rule in a compiled configuration the evidence has the letter alone.
        sent = (tmp_path / "out/evidence.txt").read_text()
        assert said.partition(" ")[0] in sent or re.search(r"^x86_64 +64 +\S*F", sent, re.M)


@pytest.mark.guest
@pytest.mark.long
@pytest.mark.parametrize("mutant", read_mutants(MUTANTS), ids=lambda each: each.name)
def test_the_three_say_the_same_of_each_mutant(mutant: Mutant, tmp_path: Path) -> None:
    if not touches_layout(mutant.diff, ()):
        pytest.skip("it touches no structure")
    tree = fetch_series(cache_dir(), "7.3")
    composition, commit = applied(tree, mutant)
    if commit is None:
        pytest.skip("it does not apply to 7.3")
    series = PatchSeries(composition.commit, commit, (), mutant.diff)
    changes = ChangeOptions(mutant.with_, mutant.without)
    options = LayoutOptions(TreeOptions(series="7.3"), changes, ColumnOptions(("x86_64",)))
    try:
        # As a series of somebody's tree: ours gets the carried changes once more, which would mend the mutant.
        author, part, reader = each_says(replace(tree, is_user=True), series, options, tmp_path / "out")
    except DoesNotBuild:
        pytest.skip("it does not compile")
    assert author is part.verdict is reader, part
