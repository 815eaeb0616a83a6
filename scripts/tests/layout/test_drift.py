# SPDX-License-Identifier: GPL-2.0
"""What is found between two kernels, on small structures and their negative twins; `layout drift` on toy kernels."""

from __future__ import annotations

import shutil
from dataclasses import replace as changed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import layout_command
import pytest
import toys
from layout_command import run, said
from msgspec.structs import replace
from test_packs import FILES, POLL, THING
from toys import clause, layout, structure

from conftest import git, write_files
from golden import Golden
from schedlib.contracts.contract_rules import Clause, Rule, Rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.contract_file import ANY_LINE, AccessClass, ClauseKind, MemberGroup
from schedlib.layout import pack_units
from schedlib.layout.columns import composed_tree, pack_columns
from schedlib.layout.drift import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    DriftStep,
    LayoutDriftDocument,
    judge_kernels,
)
from schedlib.layout.drift_job import text, totals
from schedlib.layout.kernel_text import declaring_files, text_of_commit
from schedlib.layout.rule_judge import Layout
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.verdict import Verdict

TOGETHER = clause(ClauseKind.ON_LINE, "a b", ANY_LINE, rule="s.G1", tag="s")
CLOSED = clause(ClauseKind.ALONE, "a b", rule="s.G2", tag="s")
APART = clause(ClauseKind.APART, "a", rule="s.G3", tag="s", others="w v")

BASE = (("a", 0, 8), ("b", 8, 8), ("w", 64, 8), ("v", 72, 8), ("c", 128, 8))


def rules_of(*clauses: Clause, members: str = "", readers: str = "") -> Rules:
    rules = tuple(Rule(name, "", "it is hot", "here") for name in dict.fromkeys(each.rule for each in clauses))
    named = tuple(("s", tuple(name.split("|")), frozenset[str]()) for name in members.split())
    groups = (("s", MemberGroup("g", AccessClass.READ_MOSTLY, ("a", "b"), readers=tuple(readers.split()))),)
    return Rules(rules, clauses, members=named, files={"s": "include/linux/s.h"}, groups=groups)


def shape(*members: tuple[str, int, int], size: int = 256) -> Layout:
    return layout(structure("s", size, *members))


def moved(**places: tuple[int, int] | None) -> Layout:
    """The base with some members elsewhere, gone (None), or added."""
    rows = {name: (at, size) for name, at, size in BASE} | places
    return shape(*sorted(((name, *row) for name, row in rows.items() if row), key=lambda each: each[1]))


def between(rules: Rules, *layouts: Layout) -> list[DriftFinding]:
    """What is found between the last two of some kernels."""
    judged = judge_kernels(rules, [(str(at), each) for at, each in enumerate(layouts)])
    held = {name for each in judged[:-1] for name, row in each.results.items() if row.outcome.value == "pass"}
    return list(DriftStep(rules, judged[-2], judged[-1]).findings(held))


def moves_of(rules: Rules, *layouts: Layout) -> list[DriftMove]:
    before, after = judge_kernels(rules, [(str(at), each) for at, each in enumerate(layouts)])
    return list(DriftStep(rules, before, after).moves())


@pytest.mark.parametrize("kept", [TOGETHER, CLOSED, APART])
def test_nothing_is_found_where_nothing_changed(kept: Clause) -> None:
    assert between(rules_of(kept, members="a b w"), moved(), moved()) == []
    assert moves_of(rules_of(kept), moved(), moved()) == []


@pytest.mark.parametrize(
    ("kept", "places", "members", "text"),
    [
        (TOGETHER, {"b": (64, 8)}, ("b",), "b (line 1) not on line 0 with a"),
        (CLOSED, {"new": (16, 8)}, ("new",), "new on line 0, kept for a, b"),
        (APART, {"w": (16, 8)}, ("a", "w"), "a on a line with w"),
    ],
)
def test_broken(kept: Clause, places: dict[str, tuple[int, int]], members: tuple[str, ...], text: str) -> None:
    rules = rules_of(kept, readers="look")
    (found,) = between(rules, moved(), moved(**places))
    assert (found.kind, found.contract, found.members) == (DriftKind.BROKEN, "s", members)
    assert text in found.text and "Why: it is hot" in found.text and found.readers == ("look",)
    # The other way round it is mended; and what never held is not broken.
    (found,) = between(rules, moved(**places), moved())
    assert found.kind is DriftKind.MENDED
    assert between(rules, moved(**places), moved(**places)) == []


WITHOUT = shape(("a", 0, 8), ("c", 128, 8))


@pytest.mark.parametrize(
    ("layouts", "kind"),
    [
        # Between them is a kernel of which the rule says nothing.
        ((moved(), WITHOUT, moved(b=(64, 8))), DriftKind.BROKEN),
        ((WITHOUT, moved(b=(64, 8))), DriftKind.NEVER_HELD),
        ((WITHOUT, moved()), DriftKind.CAME),
        ((moved(), WITHOUT), DriftKind.WENT),
    ],
)
def test_rules_that_come_and_go(layouts: tuple[Layout, ...], kind: DriftKind) -> None:
    (found,) = between(rules_of(TOGETHER), *layouts)
    assert found.kind is kind and found.kind.is_red is (kind is DriftKind.BROKEN)
    assert found.kind.is_amber is (kind in (DriftKind.NEVER_HELD, DriftKind.WENT))
    assert ("nothing to compare with" in found.text) is (kind is DriftKind.WENT)


NAMED = rules_of(APART, members="a b w v", readers="look")
SIGN = Clause("x", ClauseKind.FOLLOWS, frozenset(), True, 0, "s", ("w",), ("a",))
OF_A_CHANGE = changed(rules_of(TOGETHER, SIGN), rules=(Rule("s.G1", "x", "it is hot", "here"),))
AWAY, LATER = moved(a=(80, 8), b=(88, 8)), moved(b=(64, 8))
ROOM, FULL = moved(c=(16, 40)), moved(c=(16, 48))


@pytest.mark.parametrize(
    ("rules", "before", "after", "expected"),
    [
        # A further member on the lines of a broken rule.
        (rules_of(APART), moved(w=(16, 8)), moved(w=(16, 8), v=(24, 8)), (DriftKind.INTRUDER, ("a", "v"), "")),
        (rules_of(APART), moved(w=(16, 8), v=(24, 8)), moved(w=(16, 8)), None),
        (rules_of(CLOSED), moved(x=(16, 8)), moved(x=(16, 8), y=(24, 8)), (DriftKind.INTRUDER, ("y",), "")),
        # What lies between scattered members says nothing of lines: 6.1 has none of the groups that 7.3 keeps together.
        (rules_of(clause(ClauseKind.UNBROKEN, "a c", rule="s.G4", tag="s")), moved(), moved(x=(96, 8)), None),
        # Members that are apart from their group are not a member that joins.
        (rules_of(TOGETHER), LATER, moved(b=(128, 8)), None),
        # An absent change is a broken rule once a kernel had it.
        (OF_A_CHANGE, moved(), AWAY, (DriftKind.BROKEN, None, "x is not in this tree")),
        (OF_A_CHANGE, AWAY, AWAY, None),
        (rules_of(TOGETHER), ROOM, FULL, (DriftKind.FULL, None, "line 0: the last 8 free bytes are taken")),
        (rules_of(TOGETHER), FULL, FULL, None),
        (rules_of(TOGETHER), FULL, ROOM, None),
        # Bytes that are free but cannot be used by the group: its last member ends the line.
        (
            rules_of(TOGETHER),
            moved(a=(40, 8), b=(48, 8)),
            moved(a=(40, 8), b=(56, 8)),
            (DriftKind.FULL, None, "0 bytes are left behind b, there were 8"),
        ),
        # A member without a contract joins.
        (NAMED, moved(), moved(c=(24, 8)), (DriftKind.JOINED, ("c",), "c came to a line of a (s.G3)")),
        (NAMED, moved(c=(24, 8)), moved(c=(24, 8)), None),
        (NAMED, moved(c=(24, 8)), moved(), None),
        # What the contract names is a matter of its rules, and a marker has no bytes.
        (rules_of(APART, members="a b w v c"), moved(), moved(c=(24, 8)), None),
        (NAMED, moved(), moved(mark=(24, 0)), None),
        # So is a second name for the bytes of a member that it names.
        (NAMED, moved(), moved(alias=(0, 8)), None),
        # A member that is gone.
        (rules_of(APART, members="a b|old w v"), moved(), moved(v=None), (DriftKind.GONE, ("v",), "")),
        (rules_of(APART, members="a b|old w v"), moved(), moved(b=None, old=(8, 8)), None),
        (rules_of(APART, members="a b|old w v"), moved(v=None), moved(), None),
    ],
)
def test_what_is_found(
    rules: Rules, before: Layout, after: Layout, expected: tuple[DriftKind, tuple[str, ...] | None, str] | None
) -> None:
    found = between(rules, before, after)
    assert [each.kind for each in found] == ([expected[0]] if expected else [])
    if expected:
        assert expected[1] in (None, found[0].members) and expected[2] in found[0].text


def test_a_finding_names_the_readers() -> None:
    (found,) = between(NAMED, moved(), moved(c=(24, 8)))
    assert found.readers == ("look",)


def test_members_that_begin_on_another_line() -> None:
    marker = "__cacheline_group_begin__fast"
    found = moves_of(rules_of(TOGETHER, members="w"), moved(v=None), moved(w=(128, 8), **{marker: (136, 0)}))
    assert found == [DriftMove("s", "0", "1", (), "w", 1, 2, True), DriftMove("s", "0", "1", (), "v", None, 1, False)]
    assert moves_of(rules_of(TOGETHER), layout(structure("t", 8)), moved()) == []


def drifted() -> LayoutDriftDocument:
    """Something of every kind."""
    columns, kernels = ("x86_64", "arm64"), ("6.12", "7.3")

    def finding(kind: DriftKind, *columns: str) -> DriftFinding:
        members = ("sk_backlog", "sk_drops", "sk_rcvbuf", "sk_filter")
        words = "all lie entirely on one line; not so sk_backlog (line 5). Why: each packet takes them"
        return DriftFinding(kind, "sock", *kernels, columns, ("sock.G1",), members, ("tcp_recvmsg",), words)

    every = [(name, column, kernel) for name in ("quiet", "file") for column in columns for kernel in kernels]
    cells = [cell(*where, 3) for where in every]
    cells += [cell("sock", "x86_64", "6.12", 3), cell("sock", "x86_64", "7.3", 2, 1)]
    cells += [cell("sock", "arm64", kernel, 3) for kernel in kernels]
    return LayoutDriftDocument(
        schema="layout-drift-2",
        tool="schedline",
        started=datetime(2026, 11, 24, tzinfo=UTC),
        command="schedline layout drift 6.12 7.3 --arch x86_64,arm64",
        fingerprint={"machine": "x86_64", "compiler x86_64": "gcc 12"},
        status=Verdict.FAIL,
        kernels=tuple(DriftKernel(name, f"source {name}", "0" * 40, (f"note {name}",)) for name in kernels),
        cells=tuple(cells),
        findings=(finding(DriftKind.BROKEN, "x86_64"), *(finding(kind, *columns) for kind in list(DriftKind)[2:])),
        moves=(DriftMove("sock", *kernels, columns, "sk_backlog", 3, 5, True),),
    )


def cell(contract: str, column: str, kernel: str, passed: int, failed: int = 0) -> DriftCell:
    ids = [f"{contract}.G{number}" for number in range(1, 9)]
    return DriftCell(contract, column, kernel, 64, 760, tuple(ids[failed : failed + passed]), tuple(ids[:failed]), ())


def test_totals() -> None:
    """A rule that speaks of two structures is one."""
    assert totals(drifted())[1:] == [["x86_64", "64", "9 pass", "8 pass, 1 FAIL"], ["arm64", "64", "9 pass", "9 pass"]]
    other = replace(drifted().cells[-1], contract="other")
    assert totals(replace(drifted(), cells=(*drifted().cells, other))) == totals(drifted())


def test_the_text(golden: Golden) -> None:
    lines = list(text(drifted()))
    assert max(map(len, lines)) <= 100
    golden("drift.txt", "\n".join([*lines, ""]))


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy kernel with a public and a private structure."""
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "old", FILES)


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    write_files(tmp_path / "mine", {"thing.toml": THING, "poll.toml": POLL})
    return tmp_path / "mine"


@pytest.fixture
def newer(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "new")


def drift(base: Path, newer: Path, contracts: Path) -> dict[str, Any]:
    """The document of both trees, with the contracts of the scheduler and of a directory."""
    out = contracts.parent / "out.json"
    words = ["layout", "drift", str(base), str(newer), "--pack", "sched", "--contracts", str(contracts)]
    found = layout_command.document(out, *words)
    document.read(out, LayoutDriftDocument, "")
    return found


def rules(found: dict[str, Any], kind: str) -> set[str]:
    """The rules of the findings of a kind."""
    return {rule for each in found["findings"] if each["kind"] == kind for rule in each["rules"]}


@pytest.mark.tools
def test_two_trees(base: Path, newer: Path, contracts: Path, cache: Path) -> None:
    """A rule of a pack, and a change of ours that went away: it is judged as part of the same unit."""
    found = drift(base, newer, contracts)
    assert (found["status"], found["findings"], found["moves"]) == ("PASS", [], [])
    assert {cell["contract"] for cell in found["cells"]} >= {"rq", "root_domain", "cpupri", "poll", "thing"}
    toys.edit(newer, "fs/private.c", "u32 lock;", "u32 lock; char big[64];")
    found = drift(base, newer, contracts)
    [row] = [each for each in found["findings"] if each["kind"] == "broken"]
    assert (found["status"], row["contract"], row["rules"], row["members"]) == ("FAIL", "poll", ["poll.G1"], ["list"])
    assert [each["member"] for each in found["moves"] if each["named"]] == ["list"]
    toys.edit(newer, "kernel/sched/sched.h", "#pragma once\n", "#pragma once\n#define OLD_RQ 1\n")
    found = drift(base, newer, contracts)
    assert found["status"] == "FAIL" and {"rq-order.Q1", "rq-order.Q2", "poll.G1"} <= rules(found, "broken")
    # Mended, it is no failure: these rules come.
    found = drift(newer, base, contracts)
    assert found["status"] == "PASS" and "rq-order.Q1" in rules(found, "came")


@pytest.mark.tools
def test_built_kernels(base: Path, contracts: Path, cache: Path) -> None:
    def built(name: str, poll: str) -> str:
        place = contracts.parent / name
        place.mkdir()
        text = "#include <linux/types.h>\n" + toys.SCHED_H.replace('#include "cpudeadline.h"', "")
        text += FILES["include/linux/thing.h"] + poll
        (place / "x.c").write_text(text + "struct rq a; struct root_domain b; struct thing c; struct poll d;")
        assert toys.gcc(place / "x.c", place / "vmlinux", "-g", *toys.defines()).returncode == 0
        return str(place / "vmlinux")

    old = built("a", "struct poll { u32 lock; void *list; };")
    new = built("b", "struct poll { u32 lock, x[32]; void *list; };")
    words = ["--pack", "sched", "--contracts", str(contracts)]
    verdict, told = said("layout", "drift", old, new, *words)
    assert verdict is Verdict.FAIL and "poll.G1" in told
    assert run("layout", "drift", old, str(base), *words) is Verdict.PASS
    # None is of this architecture: nothing is compared, and that is no PASS.
    verdict, told = said("layout", "drift", old, new, *words, "--arch", "arm64")
    assert verdict is Verdict.INCONCLUSIVE and "not compared here" in " ".join(told.split())


@pytest.mark.tools
def test_a_structure_that_an_older_tree_declares_elsewhere(
    base: Path, newer: Path, contracts: Path, cache: Path
) -> None:
    """Contracts name the file of a new kernel."""
    (newer / "include/linux/thing.h").rename(newer / "include/linux/thing_types.h")
    text = (contracts / "thing.toml").read_text().replace("include/linux/thing.h", "include/linux/thing_types.h")
    (contracts / "thing.toml").write_text(text)
    git(newer, "add", "-A")
    git(newer, "commit", "-q", "-m", "moved")
    found = drift(base, newer, contracts)
    assert [cell["passed"] for cell in found["cells"] if cell["contract"] == "thing"] == [["thing.G1"]] * 2
    assert (found["status"], found["findings"]) == ("PASS", [])


@pytest.mark.tools
def test_a_file_that_does_not_build_is_left_out(base: Path, newer: Path, contracts: Path, cache: Path) -> None:
    """One header of an old kernel that does not stand alone must not hide all others."""
    write_files(newer, {"include/linux/other.h": "struct other { struct lacking it; };\n"})
    write_files(contracts, {"other.toml": THING.replace("thing", "other").replace("read", "it")})
    git(newer, "add", "-A")
    git(newer, "commit", "-q", "-m", "other")
    packed = pack_rules((), (contracts,))
    tree, composition = composed_tree(TreeOptions(newer, None), ChangeOptions())
    [column] = pack_columns(["x86_64"], [])
    assert declaring_files(text_of_commit(tree, composition.commit), packed.files)["other"] == "include/linux/other.h"
    with pytest.raises(SchedlineError, match="does not build"):
        pack_units.pack_layout(cache, tree, composition.commit, column, packed)
    for _ in range(2):
        left_out: list[str] = []
        layout = pack_units.pack_layout(cache, tree, composition.commit, column, packed, left_out=left_out)
        assert set(layout.structures) == {"thing", "poll"}
        [said] = left_out
        assert said.startswith("include/linux/other.h: ") and "incomplete type" in said
    found = drift(base, newer, contracts)
    notes = found["kernels"][1]["notes"]
    assert found["status"] == "PASS" and any("x86_64: include/linux/other.h" in note for note in notes)


@pytest.mark.tools
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("7.3", "7.3 alone cannot drift"),
        ("7.2 7.3 7.2", "7.2 is named twice"),
        ("empty .", "is no kernel tree"),
        ("text more --pack sched", "neither an ELF file nor BTF"),
    ],
)
def test_wrong_operands(words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_files(tmp_path, {"text": "no kernel", "more": "no kernel"})
    with pytest.raises(SchedlineError, match=message):
        run("layout", "drift", *words.split())
