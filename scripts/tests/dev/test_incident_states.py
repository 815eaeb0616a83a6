# SPDX-License-Identifier: GPL-2.0
"""What a diff of an incident may change, and the texts that come of it."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import msgspec
import pytest

from conftest import git, write_files
from schedlib.contracts.contract_rules import Rules
from schedlib.dev import incident_states
from schedlib.dev.incident_states import Bench, states_of
from schedlib.errors import SchedlineError
from schedlib.formats.incident_file import Incident, read_incidents
from schedlib.layout.columns import pack_columns
from schedlib.layout.members import Member, Structure
from schedlib.layout.pack_units import Seen
from schedlib.layout.tables import Type
from schedlib.layout.unit_variants import Variant
from schedlib.tree.kernel_tree import open_kdir

TOY = "struct other {\n\tint x;\n};\n\nstruct toy {\n\tint a;\n\tint b;\n} __aligned(64);\n"
FILE = "include/linux/toy.h"


def diff(old: str, new: str, text: str = TOY) -> str:
    lines = unified_diff(text.splitlines(True), text.replace(old, new).splitlines(True), f"a/{FILE}", f"b/{FILE}")
    return "".join(lines)


@pytest.fixture
def bench(tmp_path: Path, cache: Path) -> Bench:
    made = tmp_path / "kernel"
    needed = ("Kbuild", "kernel/sched/sched.h", "kernel/sched/build_policy.c", "lib/kunit/test.c")
    write_files(made, {FILE: TOY, **dict.fromkeys(needed, "")})
    git(made, "init", "-q")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "toy")
    tree = open_kdir(cache, made)
    [column] = pack_columns(["x86_64"], [])
    return Bench(cache, tree, tree.base, column)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The declarations that were asked for."""
    found: list[str] = []

    def seen(cache: Path, tree: object, commit: str, column: object, variants: list[Variant]) -> list[Seen]:
        found.extend(each.declaration for each in variants)
        structure = Structure(Type("toy", 64, 64), (Member("a", "int", 0, 4), Member("b", "int", 4, 4)))
        return [Seen({"toy": structure}, 64) if "long" not in each.declaration else Seen({}) for each in variants]

    monkeypatch.setattr(incident_states, "variants_seen", seen)
    return found


def incident(bad: str, fix: str = "") -> Incident:
    return msgspec.structs.replace(read_incidents()[0], name="toy", struct="toy", change="", bad=bad, fix=fix)


def test_the_structure_with_both_diffs(bench: Bench, asked: list[str]) -> None:
    bad, fix = states_of(bench, incident(diff("\tint b;", "\tchar b;")), Rules((), ()), FILE)
    assert "char b;" in bad.text and fix.text == TOY
    # What is as in the tree has no declaration of its own.
    assert asked == ["struct toy {\nint a;\nchar b;\n} __aligned(64);", ""]
    assert bad.declaration().names == ("a", "b")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (diff("\tint x;", "\tchar x;"), "changes more than struct toy"),
        (diff("\tint c;", "\tchar c;", TOY.replace("int b", "int c")), "a diff does not apply"),
        (diff("\tint b;", "\tlong b;"), "has no struct toy"),
    ],
)
def test_wrong_diffs(bad: str, message: str, bench: Bench, asked: list[str]) -> None:
    with pytest.raises(SchedlineError, match=message):
        states_of(bench, incident(bad), Rules((), ()), FILE)
