# SPDX-License-Identifier: GPL-2.0
"""Which changes a built kernel has: by layout, member or symbol, and never present without something seen."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import toy

from conftest import git
from schedlib.layout.rule_judge import Layout, Presence
from schedlib.layout.status_verb import Found, of_kernel, of_tree, symbols_of
from schedlib.layout.tables import Condition
from schedlib.tree.kernel_tree import open_kdir

DATA = frozenset({"runqueues", "init_task"})


def found(where: Layout, symbols: frozenset[str] | None = DATA) -> dict[str, Found]:
    """Every change by its id."""
    return {row.change: row for row in of_kernel(toys.real_rules(), where, symbols)}


def presence(where: Layout, symbols: frozenset[str] | None = DATA) -> dict[str, str]:
    """What is said of every change."""
    return {name: row.presence.value for name, row in found(where, symbols).items()}


def test_toy_kernel() -> None:
    assert presence(toy()) == {
        "rq-order": "present",
        "rd-lines": "present",
        "cpupri-lines": "present",
        "cpupri-split": "n/a",
        "cluster-scan": "absent",
    }


@pytest.mark.parametrize(
    ("older", "change"), [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines"), ("TOGETHER", "cpupri-lines")]
)
def test_change_by_layout(older: str, change: str) -> None:
    assert presence(toy()) | {change: "absent"} == presence(toy(older))
    evidence = found(toy(older))[change].evidence
    assert evidence and all(text.startswith("not so: struct ") for text in evidence)
    assert all(text.startswith("so: struct ") for text in found(toy())[change].evidence)


def test_part_of_a_change() -> None:
    where = toy("OLD_RQ")
    idle = where.fields["rq", "idle"]
    half = replace(
        where,
        fields={
            **where.fields,
            ("rq", "nr_running"): replace(idle, member="nr_running", offset=0),
            ("rq", "__lock"): replace(idle, member="__lock", offset=512),
        },
    )
    row = found(half)["rq-order"]
    assert row.presence is Presence.PARTIAL
    assert [text.partition(":")[0] for text in row.evidence] == ["so", "not so", "not so"]


def test_change_that_cannot_be_told() -> None:
    row = found(toy("-CONFIG_SMP"))["cpupri-lines"]
    assert (row.presence, set(row.evidence)) == (Presence.NA, {"n/a: needs CONFIG_SMP"})
    unaligned = {name: replace(kind, align=None) for name, kind in toy().types.items()}
    row = found(replace(toy(), types=unaligned))["cpupri-lines"]
    assert row.presence is Presence.PRESENT
    assert "n/a: the alignment of a type is not recorded there" in row.evidence
    unknown = replace(toy(), holds=toy().holds - {Condition.SMP}, unknown=frozenset({Condition.SMP}))
    assert found(unknown)["cpupri-lines"].presence is Presence.NA


def test_split_masks_show_where_they_are_chosen() -> None:
    assert found(toy("CONFIG_SCHED_CPUPRI_SPLIT"))["cpupri-split"].presence is Presence.PRESENT
    assert found(toy())["cpupri-split"] == Found("cpupri-split", Presence.NA, ("n/a: needs CONFIG_SCHED_CPUPRI_SPLIT",))


@pytest.mark.parametrize(
    ("symbols", "expected", "evidence"),
    [
        (DATA | {"sd_share_id"}, Presence.PRESENT, "the symbol sd_share_id is there"),
        (DATA, Presence.ABSENT, "there is no symbol sd_share_id"),
        (frozenset({"schedule"}), Presence.NA, "listed neither"),
        (frozenset({"sd_share_id"}), Presence.PRESENT, "is there"),
        (frozenset(), Presence.NA, "listed neither"),
        (None, Presence.NA, "listed neither"),
    ],
)
def test_change_by_symbol(symbols: frozenset[str] | None, expected: Presence, evidence: str) -> None:
    row = found(toy(), symbols)["cluster-scan"]
    assert row.presence is expected
    assert len(row.evidence) == 1 and evidence in row.evidence[0]


def test_change_by_source(kernel: Path, cache: Path) -> None:
    before = {row.change: row for row in of_tree(open_kdir(cache, kernel))}
    assert {row.presence for row in before.values()} == {Presence.ABSENT}
    header = kernel / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace("*pd;", "*pd ____cacheline_aligned;"))
    git(kernel, "commit", "-q", "-a", "-m", "half of it")
    after = {row.change: row for row in of_tree(open_kdir(cache, kernel))}
    assert after["rd-lines"].presence is Presence.PARTIAL
    assert after["rd-lines"].evidence[0] == "kernel/sched/sched.h has `*pd ____cacheline_aligned`"
    assert "has nothing like" in after["rd-lines"].evidence[1]
    assert after["rq-order"].presence is Presence.ABSENT


def vmlinux(directory: Path) -> Path:
    """An object with two symbols."""
    source = directory / "v.c"
    source.write_text("int runqueues;\nstatic int sd_share_id = 1;\nint *user(void) { return &sd_share_id; }\n")
    assert toys.gcc(source, directory / "vmlinux").returncode == 0
    return directory / "vmlinux"


def test_symbols(tmp_path: Path) -> None:
    names = symbols_of(vmlinux(tmp_path))
    assert names is not None
    assert {"runqueues", "sd_share_id", "user"} <= names
    assert "" not in names
    assert found(toy(), names)["cluster-scan"].presence is Presence.PRESENT


def test_symbols_that_cannot_be_had(tmp_path: Path) -> None:
    toys.needs("strip")
    path = vmlinux(tmp_path)
    subprocess.run(["strip", "-s", str(path)], check=True)
    assert symbols_of(path) is None
    assert symbols_of(tmp_path) is None
    assert symbols_of(tmp_path / "missing") is None
    for data in (b"", b"\x7fELF", b"\x9f\xeb\x01\x00", b"text\n"):
        (tmp_path / "x").write_bytes(data)
        assert symbols_of(tmp_path / "x") is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_gives_symbols_or_none(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    broken = bytearray(toys.fields_object().read_bytes())
    places = st.one_of(st.integers(0, 63), st.integers(-1600, -1))
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        broken[place] = value
    path = tmp_path_factory.getbasetemp() / "symbols-vmlinux"
    path.write_bytes(broken)
    names = symbols_of(path)
    assert names is None or all(isinstance(name, str) for name in names)
