# SPDX-License-Identifier: GPL-2.0
"""Kernels to be measured: the choice of commits, one configuration for all, and a placebo that is one."""

from __future__ import annotations

import fcntl
from collections.abc import Mapping
from pathlib import Path

import pytest

from conftest import SCHED_H, git, read_words
from golden import Golden
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, chosen_archs
from schedlib.layout.members import Structure
from schedlib.layout.pack_units import pack_layout
from schedlib.paths import PATCHES
from schedlib.runs import kernels_verb, packages
from schedlib.runs.packages import PACKAGES, KernelSize, PackagedKernel, boot_lines
from schedlib.tree.compose import with_tests
from schedlib.tree.kernel_tree import Tree, open_kdir

PLACEBO = """\
From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: Somebody <somebody@localhost>
Date: Sun, 22 Nov 2026 00:00:00 +0000
Subject: [PATCH] sched: Pad

---
--- a/kernel/sched/sched.h
+++ b/kernel/sched/sched.h
@@ -{line},3 +{line},4 @@
 {before}
 {after}
+{pad}
 {end}
"""


@pytest.fixture
def tree(kernel: Path, cache: Path) -> Tree:
    """A user's tree with two revisions: base, and head with an aligned pd."""
    git(kernel, "tag", "base")
    header = kernel / "kernel/sched/sched.h"
    header.write_text(SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;"))
    git(kernel, "commit", "-qam", "head")
    return open_kdir(cache, kernel)


def padding(tree: Tree, commit: str, path: Path) -> Path:
    """A patch that adds a member behind pd, made for sched.h of this commit."""
    lines = (tree.read("kernel/sched/sched.h", commit) or "").splitlines()
    place = next(number for number, line in enumerate(lines) if "*pd" in line)
    words = {"line": place, "before": lines[place - 1], "after": lines[place], "end": lines[place + 1]}
    path.write_text(PLACEBO.format(**words, pad="\tchar\t\t\tplacebo[128];"))
    return path


def test_revisions(tree: Tree) -> None:
    base, candidate = packages.of_revisions(tree, "base", "HEAD")
    assert (base.role, candidate.role) == ("base", "candidate")
    assert "1 insertion" in packages.differences(tree, [base, candidate])[0]


@pytest.mark.parametrize("words", [("base", "nowhere"), ("--exec=x", "HEAD"), ("HEAD", "HEAD")])
def test_revisions_that_cannot_be_compared(tree: Tree, words: tuple[str, str]) -> None:
    with pytest.raises(SchedlineError, match=r"no revision|the same commit"):
        packages.of_revisions(tree, *words)


@pytest.mark.parametrize("place", [0, 1], ids=["base", "candidate"])
def test_placebo_goes_where_it_applies(tree: Tree, tmp_path: Path, place: int) -> None:
    chosen = packages.of_revisions(tree, "base", "HEAD")
    mail = padding(tree, chosen[place].commit, tmp_path / "pad.patch")
    placebo = packages.with_placebo(tree, chosen, mail)
    text = tree.read("kernel/sched/sched.h", placebo.commit) or ""
    assert "placebo[128]" in text
    assert ("____cacheline_aligned" in text) == bool(place)


def test_placebos_that_are_none(tree: Tree, tmp_path: Path) -> None:
    chosen = packages.of_revisions(tree, "base", "HEAD")
    mail = tmp_path / "pad.patch"
    mail.write_text(PLACEBO.format(line=1, before="not", after="there", pad="x", end="y"))
    with pytest.raises(SchedlineError, match="neither to the base nor"):
        packages.with_placebo(tree, chosen, mail)
    with pytest.raises(SchedlineError, match="no placebo for fix-share-id"):
        packages.placebo_of(tree, "fix-share-id")


def test_configurations_that_differ() -> None:
    base = {"CONFIG_A": "y", "CONFIG_B": "n"}
    assert packages.refuse_other_configuration("candidate", base, dict(base)) == []
    only = packages.refuse_other_configuration("candidate", base, base | {"CONFIG_NEW": "y", "CONFIG_OFF": "n"})
    assert only == ["only in candidate: CONFIG_NEW=y"]
    with pytest.raises(SchedlineError, match="CONFIG_B n and y"):
        packages.refuse_other_configuration("candidate", base, base | {"CONFIG_B": "y"})


def test_configuration_is_the_same_to_the_last_byte() -> None:
    text = packages.wanted_text("CONFIG_A=y\n# CONFIG_B is not set\n")
    assert packages.parse(text) == {
        "CONFIG_A": "y",
        "CONFIG_B": "n",
        "CONFIG_LOCALVERSION_AUTO": "n",
        packages.ALIGNED: "y",
    }
    assert packages.ALIGNED not in packages.wanted_text("CONFIG_A=y\n", aligned=False)


def test_mitigations_that_alignment_changes() -> None:
    before = {"CONFIG_CFI": "y", "CONFIG_FUNCTION_PADDING_BYTES": "16", "CONFIG_MITIGATION_SLS": "y"}
    after = {"CONFIG_CFI": "n", "CONFIG_FUNCTION_PADDING_BYTES": "64", "CONFIG_MITIGATION_SLS": "y"}
    assert packages.changed_mitigations(before, after) == ["CONFIG_CFI: y -> n"]


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (64, "kmalloc-64"),
        (65, "kmalloc-96"),
        (193, "kmalloc-256"),
        (1984, "kmalloc-2k"),
        (8192, "kmalloc-8k"),
        (13248, "4 pages"),
        (8193, "4 pages"),
        (16385, "8 pages"),
    ],
)
def test_slab_class(size: int, name: str) -> None:
    assert packages.slab_class(size) == name


@pytest.mark.parametrize("other", [KernelSize(1856, 64), KernelSize(1984, None), None])
def test_placebo_of_another_size_is_none(other: KernelSize | None) -> None:
    candidate = {"root_domain": KernelSize(1984, 64), "rq": KernelSize(3456, 64)}
    packages.refuse_other_sizes(candidate, dict(candidate))
    with pytest.raises(SchedlineError, match="struct root_domain is no placebo"):
        packages.refuse_other_sizes(candidate, {"rq": KernelSize(3456, 64)} | ({"root_domain": other} if other else {}))


def test_the_next_commands_are_told(golden: Golden) -> None:
    base, candidate = (
        PackagedKernel(role, f"7.3.4-schedline-{role}", "0" * 40, "x", (f"linux-{role}.{kind}",), {})
        for role, kind in (("base", "deb"), ("candidate", "tar.xz"))
    )
    golden("kernels.txt", "\n".join([*boot_lines([base, candidate], Path("/kernels")), ""]))


GOOD = "--config {config} --change rd-lines"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--config {top} --change rd-lines", None),
        ("--config {config}", "name either two revisions or"),
        (f"{GOOD} --base a --head b", "name either two revisions or"),
        ("--config {config} --base a --head b", "--base and --head must be given together, with --kdir"),
        ("--config {config} --kdir {top} --base a", "--base and --head must be given together, with --kdir"),
        ("--config {empty} --change rd-lines", "has no CONFIG_ line"),
        (f"{GOOD},cpupri-lines --placebo", "belongs to one change"),
        (f"{GOOD} --placebo {{top}}", None),
        ("--config /nonexistent --change rd-lines", None),
        ("--config {config} --change rd-line", None),
        (f"{GOOD} --with nope", None),
        (f"{GOOD} --placebo /nonexistent", None),
        (f"{GOOD} --out {{config}}", None),
        (f"{GOOD} --out {{config}}/below", None),
    ],
)
def test_bad_words_are_refused_before_anything_is_fetched(tmp_path: Path, words: str, message: str | None) -> None:
    (tmp_path / "config").write_text("CONFIG_A=y\n")
    (tmp_path / "empty").write_text("")
    given = words.format(config=tmp_path / "config", empty=tmp_path / "empty", top=tmp_path).split()
    with pytest.raises(SchedlineError if message else SystemExit, match=message) as error:
        read_words(kernels_verb, "kernels", *given)
    assert "\n  next: " in str(error.value) if message else str(error.value) == "2"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("--change rd-lines --placebo", "rd-lines None None True deb"),
        ("--change rd-lines --package tar", "rd-lines None None False tar"),
        ("--kdir {top} --base a --head b --placebo {config}", " a b {config} deb"),
    ],
)
def test_what_is_asked_for(tmp_path: Path, words: str, wanted: str) -> None:
    config = tmp_path / "config"
    config.write_text("CONFIG_A=y\n")
    given = words.format(top=tmp_path, config=config).split()
    found = read_words(kernels_verb, "kernels", "--config", str(config), *given)
    told = f"{' '.join(found.changes)} {found.base} {found.head} {found.placebo} {found.package}"
    assert (found.config, told) == (config, wanted.format(config=config))
    assert found.package in PACKAGES


def test_nobody_else_builds_or_removes_kernels_meanwhile(tree: Tree, cache: Path) -> None:
    """Two commands with the same configuration built in the same directory at the same time."""
    with packages.place_of(cache, tree, "CONFIG_A=y\n", "x86") as place:
        with place.with_name(f"{place.name}.lock").open("a") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with packages.place_of(cache, tree, "CONFIG_B=y\n", "x86") as other:
            assert other != place


PADDED = ("rd-lines", "cpupri-lines", "rq-order")


def test_every_change_has_a_placebo() -> None:
    ids = {path.stem for path in PATCHES.glob("*/placebo/*.patch")}
    assert ids == {*PADDED, "cpupri-split", "cluster-scan"}


def structures(tree: Tree, source: PackagedKernel) -> Mapping[str, Structure]:
    (arch,) = chosen_archs(["x86_64"])
    ensure_tools([Column(arch)])
    return pack_layout(cache_dir(), tree, with_tests(tree, source.commit), Column(arch), our_rules()).structures


@pytest.mark.guest
@pytest.mark.parametrize("change", PADDED)
def test_a_padded_placebo_has_the_size_of_the_candidate_and_the_order_of_the_base(series: Tree, change: str) -> None:
    sources = packages.of_changes(series, [change], [])
    sources.append(packages.with_placebo(series, sources, packages.placebo_of(series, change)))
    base, candidate, placebo = (structures(series, source) for source in sources)
    for name in ("rq", "root_domain"):
        mine, wanted = placebo[name].type, candidate[name].type
        assert (mine.size, mine.align) == (wanted.size, wanted.align)
        stayed = {member.name: member.offset for member in placebo[name].members if member.name != "placebo"}
        assert stayed == {member.name: member.offset for member in base[name].members}
    assert base != candidate


@pytest.mark.guest
def test_the_placebo_of_the_split_has_no_groups(series: Tree) -> None:
    sources = packages.of_changes(series, ["cpupri-split"], ["cpupri-lines"])
    placebo = packages.with_placebo(series, sources, packages.placebo_of(series, "cpupri-split"))
    assert placebo.what.startswith("candidate with")
    text = series.read("kernel/sched/cpupri.c", placebo.commit) or ""
    assert "static int cpupri_group(int cpu)\n{\n\treturn 0;\n}" in text
