# SPDX-License-Identifier: GPL-2.0
"""A first contract from every origin, valid as it is; and `layout contract check`: a contract against a profile."""

from __future__ import annotations

from pathlib import Path

import pytest
import toys
from layout_command import read, run
from toy_profiles import Rows, profile, row
from toy_results import result
from toys import structure

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


def test_groups_of_markers_and_of_what_somebody_says(tmp_path: Path) -> None:
    text = first_contract(DECLARED, known=SAID)
    marked, written, read_only = made(tmp_path, text).group
    assert (marked.name, marked.class_, marked.members) == ("thing_read_tx", AccessClass.READ_MOSTLY, ("ops", "mtu"))
    assert (written.name, written.members, written.class_) == ("access-1", ("sent",), AccessClass.OWNER)
    assert (read_only.name, read_only.members) == ("access-2", ("state.pending",))
    assert "# include/linux/thing.h: __cacheline_group_begin(thing_read_tx)\n" in text and "# another mail\n" in text
    assert text.endswith("# No source was found for these:\n# line 6: name\n")


def test_classes_that_do_not_fit_stay_apart(tmp_path: Path) -> None:
    contract = made(tmp_path, first_contract(DECLARED, known=SAID))
    assert [group.apart for group in contract.group] == ["thing.G1", "thing.G2", ""] and contract.exception == ()
    clauses = rules_of((tmp_path / "thing.toml",)).clauses
    assert [(clause.rule, clause.members, clause.others) for clause in clauses if clause.others] == [
        ("thing.G1", ("ops", "mtu"), ("sent",)),
        ("thing.G2", ("sent",), ("state.pending",)),
    ]
    # What shares a line now is an exception.
    contract = made(tmp_path, first_contract(declared(sent=320, state=324), known=SAID))
    [exception] = contract.exception
    assert (exception.group, exception.with_, exception.open) == ("access-1", ("access-2",), True)
    assert exception.why == "they share a line on toy: find out what that costs"
    assert [group.apart for group in contract.group] == ["thing.G1", "", ""]
    contract = made(tmp_path, first_contract(declared(mtu=320, sent=324, state=328), known=SAID))
    assert [group.apart for group in contract.group] == ["", "", ""] and len(contract.exception) == 2


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
