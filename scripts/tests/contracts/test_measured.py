# SPDX-License-Identifier: GPL-2.0
"""Classes measured by a profile, and contracts held against them. Each threshold is tried from both sides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as struct_with
from toy_profiles import profile, row
from toy_results import result

from schedlib.contracts.measured import LEAST, Profile, Use, check_group, measured_class, ungrouped, verdict_of
from schedlib.formats.contract_file import AccessClass, Contract, MemberGroup
from schedlib.verdict import Verdict


def group(
    class_: AccessClass, *members: str, readers: tuple[str, ...] = (), writers: tuple[str, ...] = ()
) -> MemberGroup:
    return MemberGroup("g", class_, members, readers=readers, writers=writers)


def use(reads: int = 0, writes: int = 0, fetched_reads: int = 0, fetched_writes: int = 0) -> Use:
    return Use(Counter(r=reads), Counter(w=writes), fetched_reads, fetched_writes)


@pytest.mark.parametrize(
    ("used", "whole", "expected"),
    [
        (use(), 10**6, None),
        (use(LEAST - 1), LEAST - 1, None),
        (use(LEAST), LEAST, AccessClass.READ_MOSTLY),
        (use(10_000), 10**6, AccessClass.COLD),
        (use(10_001), 10**6, AccessClass.READ_MOSTLY),
        (use(9_500, 500), 20_000, AccessClass.READ_MOSTLY),
        (use(9_499, 501), 20_000, AccessClass.OWNER),
        (use(8_000, 2_000, 2_000), 20_000, AccessClass.OWNER),
        (use(8_000, 2_000, 2_001), 20_000, AccessClass.PUBLISHED),
        (use(8_000, 2_000, 4_000, 500), 20_000, AccessClass.PUBLISHED),
        (use(8_000, 2_000, 0, 501), 20_000, AccessClass.SHARED),
    ],
)
def test_classes(used: Use, whole: int, expected: AccessClass | None) -> None:
    assert measured_class(used, whole) is expected


@pytest.mark.parametrize("declared", list(AccessClass))
@pytest.mark.parametrize("measured", ["read-mostly", "owner", "published", "shared"])
def test_more_traffic_than_declared_fails(declared: AccessClass, measured: str) -> None:
    rows = {
        "read-mostly": (row("x", 9_000),),
        "owner": (row("x", 5_000), row("x", 5_000, "store")),
        "published": (row("x", 5_000, essential=4_000), row("x", 5_000, "store")),
        "shared": (row("x", 5_000), row("x", 5_000, "rmw", essential=4_000)),
    }[measured]
    order = ["cold", "read-mostly", "owner", "published", "shared"]
    checked = check_group(group(declared, "x"), profile(rows, rows))
    assert [each and each.value for each in checked.measured] == [measured, measured]
    fits = declared is AccessClass.LOCK or order.index(measured) <= order.index(declared.value)
    assert checked.verdict is (Verdict.PASS if fits else Verdict.FAIL)
    assert bool(checked.text) is not fits


def test_what_is_said() -> None:
    rows = (row("x", 9_000), row("x", 4_113, "store", "enqueue_task"), row("y", 900, "load"))
    more = (*rows, row("x", 100, "rmw", "dequeue_task"))
    for class_, used, told in (
        ("read-mostly", rows, "written 4,113 times by enqueue_task(): 31.4 % of its 13,113 accesses"),
        ("read-mostly", more, "written 4,213 times, 4,113 of them by enqueue_task(): 31.9 % of its 13,213 accesses"),
        ("cold", rows, "and 93.6 % of all accesses to the structure are to it: 13,113 times, 9,000 of them by f()"),
    ):
        assert check_group(group(AccessClass(class_), "x"), profile(used)).text == f"declared {class_}, {told}"


def test_guests_that_do_not_agree_are_inconclusive() -> None:
    few, many = (row("x", 9_800), row("x", 200, "store")), (row("x", 5_000), row("x", 5_000, "store"))
    checked = check_group(group(AccessClass.READ_MOSTLY, "x"), profile(few, many, few))
    assert checked.verdict is Verdict.INCONCLUSIVE and "in 1 of 3 guests" in checked.text
    # One that fits beside it does not turn that into a PASS.
    fine = check_group(group(AccessClass.SHARED, "x"), profile(few, many, few))
    assert (fine.verdict, verdict_of([fine, checked])) == (Verdict.PASS, Verdict.INCONCLUSIVE)
    assert verdict_of([fine, replace(checked, verdict=Verdict.FAIL)]) is Verdict.FAIL
    assert verdict_of([fine]) is Verdict.PASS and verdict_of([]) is Verdict.INCONCLUSIVE
    # What was not used proves nothing.
    unused = check_group(group(AccessClass.READ_MOSTLY, "y"), profile((row("x", 9_000),)))
    assert unused.verdict is verdict_of([unused]) is Verdict.INCONCLUSIVE


def test_functions() -> None:
    rows = (row("x", 9_000, function="f.constprop.0"), row("x", 600, "rmw", "g"), row("x", 40, "load", "rare"))
    declared = group(AccessClass.SHARED, "x", readers=("f", "g", "h"), writers=("i",))
    absent = ("declared readers that never came: h", "declared writers that never came: i")
    assert check_group(declared, profile(rows)).notes[:2] == absent
    notes = check_group(group(AccessClass.SHARED, "x"), profile(rows)).notes
    assert notes == ("readers that are not declared: f() 9,000", "writers that are not declared: g() 600")


def test_members_inside_of_members_and_other_memory() -> None:
    outside = struct_with(row("x", 77_000), owner="rq")
    behind = struct_with(row("*x", 77_000), prefix="*x")
    beside = struct_with(row("x", 77_000), neighbour=True)
    rows = (row("cpupri.pri_to_cpu[3].count", 5_000), row("cpu", 2_000), outside, behind, beside)
    found = profile(rows)
    assert [each.accesses for each in found.uses(["cpupri"])] == [5_000]
    assert [each.accesses for each in found.uses(["cpupri.pri_to_cpu[0].count|none"])] == [5_000]
    assert [each.accesses for each in found.uses(["cpu", "cp"])] == [2_000]
    assert found.members() == ("cpu", "cpupri") and found.wholes[0].accesses == 7_000
    contract = Contract("root_domain", group=(group(AccessClass.SHARED, "cpupri.pri_to_cpu[0].count"),))
    assert ungrouped(contract, found) == ("cpu",)


def test_a_structure_that_is_not_watched() -> None:
    watched = profile((row("x", 1),))
    assert watched.is_watched and not Profile(result((row("x", 1),)), "rq", "c2c.json").is_watched
    assert "rt on 8 CPUs" in watched.about and str(Path.home()) not in watched.about
