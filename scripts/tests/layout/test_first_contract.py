# SPDX-License-Identifier: GPL-2.0
"""A first contract from every origin, valid as it is; and `layout contract check`: a contract against a profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys
from layout_command import run, said
from toy_profiles import Rows, profile, row
from toy_results import result
from toys import structure

from golden import Golden
from schedlib.contracts.contract_rules import rules_of
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.contract_file import AccessClass, Contract, read_contract
from schedlib.layout.first_contract import Declaration, DraftGroup, first_contract
from schedlib.layout.members import Member, Structure, Type
from schedlib.verdict import Verdict

NAMES = (
    *("__cacheline_group_begin__thing_read_tx", "ops", "mtu", "__cacheline_group_end__thing_read_tx"),
    *("sent", "state", "name"),
)


def declared(**places: int) -> Declaration:
    """struct thing with its members of 4 bytes on lines of their own, or at some places."""
    at = {name: 64 * number for number, name in enumerate(NAMES)} | places
    members = [Member(name, "struct state" if name == "state" else "int", at[name], 4) for name in NAMES]
    thing = Structure(Type("thing", 512, 64), tuple(members))
    return Declaration(
        "thing", "include/linux/thing.h", "", [toys.layout(thing, structure("state", 4, ("pending", 0, 4)))]
    )


DECLARED = declared()
SAID = (
    DraftGroup("access-1", AccessClass.OWNER, ("sent",), "a mail"),
    DraftGroup("access-2", AccessClass.READ_MOSTLY, ("state.pending",), "another mail"),
)
USED: Rows = (
    row("name", 5_000, "store", "rename_it", essential=4_000),
    row("name", 900, "load", "show_it"),
    row("ops", 90_000, "store", "send_it"),
)


def made(tmp_path: Path, text: str) -> Contract:
    path = tmp_path / "thing.toml"
    path.write_text(text)
    rules_of((path,))
    return read_contract(path)


def test_groups_of_markers_and_of_what_somebody_says(tmp_path: Path, golden: Golden) -> None:
    text = first_contract(DECLARED, known=SAID)
    golden("first.toml", text)
    assert [group.name for group in made(tmp_path, text).group] == ["thing_read_tx", "access-1", "access-2"]


@pytest.mark.parametrize(
    ("places", "apart", "exceptions"),
    [
        ({}, ["thing.G1", "thing.G2", ""], 0),
        # What shares a line now is an exception.
        ({"sent": 320, "state": 324}, ["thing.G1", "", ""], 1),
        ({"mtu": 320, "sent": 324, "state": 328}, ["", "", ""], 2),
    ],
    ids=["apart", "two share", "all share"],
)
def test_classes_that_do_not_fit(places: dict[str, int], apart: list[str], exceptions: int, tmp_path: Path) -> None:
    contract = made(tmp_path, first_contract(declared(**places), known=SAID))
    assert [group.apart for group in contract.group] == apart and len(contract.exception) == exceptions
    if exceptions == 1:
        [found] = contract.exception
        assert (found.group, found.with_, found.open) == ("access-1", ("access-2",), True)


def plain(*members: tuple[str, int, int]) -> Declaration:
    """A structure of which no source speaks."""
    return Declaration("thing", "fs/thing.c", "", [toys.layout(structure("thing", 128, *members))])


@pytest.mark.parametrize("known", [DECLARED, plain(("name", 0, 4), ("ops", 4, 4))])
def test_groups_of_a_profile(known: Declaration, tmp_path: Path) -> None:
    """A profile adds what no other origin speaks of, and changes nothing of what they say."""
    text = first_contract(known, profile(USED, USED, USED))
    contract = made(tmp_path, text)
    groups = contract.groups()
    assert groups["measured-shared"].members == ("name",)
    assert (groups["measured-shared"].readers, groups["measured-shared"].writers) == (("show_it",), ("rename_it",))
    assert "# measured: c2c.json: rt on 8 CPUs, qemu-x86_64, kernel aa: 84.7 % of 5,900 accesses are writes" in text
    assert ("measured-owner" in groups) is (known is not DECLARED)
    assert "# name" not in text.partition("# No source was found")[2]
    # Guests that do not agree measure nothing.
    other = (row("name", 5_900), row("ops", 90_000, "store"))
    assert "measured-shared" not in made(tmp_path, first_contract(known, profile(USED, other))).groups()


def test_a_structure_of_which_nothing_is_known(tmp_path: Path) -> None:
    """The example that is given then is valid without its comment signs."""
    text = first_contract(plain(("lock", 0, 4), ("list", 4, 4), ("rest", 64, 4)))
    assert made(tmp_path, text).group == ()
    assert text.endswith("# No source was found for these:\n# line 0: lock, list\n# line 1: rest\n")
    example = text.partition("such as this:\n#\n")[2].partition("\n\n")[0]
    lines = "\n".join(line.removeprefix("#").strip() for line in example.splitlines())
    contract = made(tmp_path, text.partition("# Nothing")[0] + lines)
    assert contract.group[0].members == ("lock", "list") and contract.group[0].promise[0].keep == "on one line"
    assert "# [[rule]]" not in first_contract(DECLARED)


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


@pytest.mark.parametrize(
    ("what", "quanta", "verdict", "told"),
    [
        ("mine", (READ, READ), Verdict.PASS, ""),
        ("mine", (WRITTEN, WRITTEN), Verdict.FAIL, ""),
        ("mine", (READ, WRITTEN, WRITTEN), Verdict.INCONCLUSIVE, "INCONCLUSIVE push: "),
        ("rq", (READ,), Verdict.INCONCLUSIVE, "the profile watches root_domain, so it says nothing of struct rq\n"),
        ("no groups", (WRITTEN,), Verdict.INCONCLUSIVE, "it declares no class"),
    ],
    ids=["holds", "broken", "guests differ", "another structure", "no groups"],
)
def test_a_contract_and_a_profile(
    what: str, quanta: tuple[Rows, ...], verdict: Verdict, told: str, tmp_path: Path, golden: Golden
) -> None:
    mine = written(tmp_path, CONTRACT.partition("[[group]]")[0] if what == "no groups" else CONTRACT)
    document.write(tmp_path / "c2c.json", result(*quanta))
    words = ["layout", "contract", "check", "rq" if what == "rq" else mine, "--profile"]
    found, text = said(*words, str(tmp_path / "c2c.json"))
    assert (found, text.replace("c2c.json", tmp_path.name)) == said(*words, str(tmp_path))
    assert found is verdict and told in text and ("\nFAIL" in text) is (verdict is Verdict.FAIL)
    if verdict is Verdict.FAIL:
        golden("contract-check.txt", text)


def test_what_is_no_profile(tmp_path: Path) -> None:
    (tmp_path / "c2c.json").write_text("{}")
    with pytest.raises(SchedlineError, match="is no c2c-1"):
        run("layout", "contract", "check", written(tmp_path, CONTRACT), "--profile", str(tmp_path))
