# SPDX-License-Identifier: GPL-2.0
"""The carried placebos: size and alignment as in the candidate, and every field where it is in the base."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import our_rules
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, chosen_archs
from schedlib.layout.members import Structure
from schedlib.layout.pack_units import pack_layout
from schedlib.paths import PATCHES
from schedlib.runs.packages import PackagedKernel, of_changes, placebo_of, with_placebo
from schedlib.tree.compose import with_tests
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

PADDED = ("rd-lines", "cpupri-lines", "rq-order")


def test_every_change_has_one() -> None:
    ids = {path.stem for path in PATCHES.glob("*/placebo/*.patch")}
    assert ids == {*PADDED, "cpupri-split", "cluster-scan"}


def structures(tree: Tree, source: PackagedKernel) -> Mapping[str, Structure]:
    (arch,) = chosen_archs(["x86_64"])
    ensure_tools([Column(arch)])
    return pack_layout(cache_dir(), tree, with_tests(tree, source.commit), Column(arch), our_rules()).structures


@pytest.mark.parametrize("change", PADDED)
def test_padded_placebo(series: Tree, change: str) -> None:
    sources = of_changes(series, [change], [])
    sources.append(with_placebo(series, sources, placebo_of(series, change)))
    base, candidate, placebo = (structures(series, source) for source in sources)
    for name in ("rq", "root_domain"):
        assert (placebo[name].type.size, placebo[name].type.align) == (
            candidate[name].type.size,
            candidate[name].type.align,
        )
        stayed = {member.name: member.offset for member in placebo[name].members if member.name != "placebo"}
        assert stayed == {member.name: member.offset for member in base[name].members}
    assert base != candidate


def test_split_without_groups(series: Tree) -> None:
    sources = of_changes(series, ["cpupri-split"], ["cpupri-lines"])
    placebo = with_placebo(series, sources, placebo_of(series, "cpupri-split"))
    assert placebo.what.startswith("candidate with")
    text = series.read("kernel/sched/cpupri.c", placebo.commit) or ""
    assert "static int cpupri_group(int cpu)\n{\n\treturn 0;\n}" in text
