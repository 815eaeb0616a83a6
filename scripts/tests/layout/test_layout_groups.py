# SPDX-License-Identifier: GPL-2.0
"""Access groups: how many lines a group takes, and which other members its function touches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed
from toys import layout, structure, toy, toy_source

from schedlib.layout.compile import Group
from schedlib.layout.reads import group_drift, groups, lines_touched

GROUP = Group("g", "look_around", "kernel/sched/fair.c", "rq", ("a", "b"), ("also",))
WHERE = layout(structure("rq", 512, ("a", 0, 8), ("b", 8, 8), ("near", 16, 8), ("far", 64, 8), ("also", 128, 8)))
SOURCE = """\
static void other(struct rq *rq)
{
	rq->far = 1;
}

static inline void look_around(struct lb_env *env,
				struct rq *rq)
{
	struct rq *busiest;

	if (rq->a && rq->b)
		rq->near = rq->also + %s;
}

static void later(struct rq *rq)
{
	rq->far = 2;
}
"""


def test_groups_of_the_project() -> None:
    found = groups()
    assert {group.name for group in found} >= {"load-balance", "clock"}
    for group in found:
        assert all(toy_source().find(group.type, name) for name in group.members), group


def test_lines_touched() -> None:
    assert lines_touched(GROUP, WHERE) == 1
    assert lines_touched(changed(GROUP, members=("a", "far")), WHERE) == 2
    assert lines_touched(changed(GROUP, members=("wide",)), layout(structure("rq", 256, ("wide", 60, 72)))) == 3
    assert lines_touched(changed(GROUP, members=("gone",)), WHERE) is None
    assert lines_touched(GROUP, replace(WHERE, structures={})) is None


def test_lines_touched_in_the_toy_kernel() -> None:
    (balance,) = (group for group in groups() if group.name == "load-balance")
    assert lines_touched(balance, toy()) == 1
    assert lines_touched(balance, toy("WIDE")) == 2


@pytest.mark.parametrize(
    ("touched", "expected"),
    [
        ("rq->near", []),
        ("rq->far", [("far", 1)]),
        ("rq->far + rq->far", [("far", 1)]),
        ("rq->unheard_of", []),
        ("my_rq->far", []),
        ("env->dst_rq->far", []),
        ("cpu_rq(i)->far", []),
        ("busiest->far", [("far", 1)]),
        ("rq->also.far", [("also.far", 2)]),
    ],
)
def test_drift(touched: str, expected: list[tuple[str, int]]) -> None:
    assert group_drift(GROUP, SOURCE % touched, WHERE) == expected


def test_what_was_touched_from_the_start_is_no_drift() -> None:
    assert group_drift(changed(GROUP, also=()), SOURCE % "0", WHERE) == [("also", 2)]
    assert group_drift(GROUP, SOURCE % "0", WHERE) == []


def test_function_that_is_not_there() -> None:
    text = SOURCE % "rq->far"
    assert group_drift(GROUP, text.replace("look_around", "look_away"), WHERE) == []
    assert group_drift(GROUP, text.replace("struct rq *rq)\n{\n\tstruct", "struct rq *rq);\n{\n\tstruct"), WHERE) == []
    assert group_drift(GROUP, text, replace(WHERE, structures={})) == []
    assert group_drift(GROUP, text, WHERE) != []
