# SPDX-License-Identifier: GPL-2.0
"""A kernel with one field moved is caught by the counts alone: mutants of configs/mutants/, each built and booted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from schedlib import options
from schedlib.build import build
from schedlib.c2c.diff import judge, load_metrics, refuse_unlike, verdict_of
from schedlib.c2c.document import Result
from schedlib.c2c.measure import Subject, Wanted, measure, subject
from schedlib.c2c.run import Setting
from schedlib.cache import cache_dir
from schedlib.paths import CONFIGS
from schedlib.targets import TARGETS
from schedlib.topology import Topology
from schedlib.trees import apply_diff
from schedlib.verdict import Verdict

pytestmark = pytest.mark.guest

GATES = CONFIGS / "gates/c2c.toml"
WANTED = Wanted("rt", ("rq", "root_domain"), (100,), Setting(Topology("", 1, 1, 1, 8, 1), 64, 100, 200, 300.0), False)

CAUGHT = {
    "rd-lines/overloaded-first": "root_domain.overloaded",
    "rd-lines/rto_count-last": "root_domain.overloaded",
    "rd-lines/overloaded-unaligned": "root_domain",
    "cpupri-lines/unaligned": "root_domain",
    "cpupri-lines/count-behind-mask": "root_domain",
    "cpupri-lines/mask-next-to-next-count": "root_domain",
    "rq-order/lock-first": "rq",
    "rq-order/lock-with-clocks": "rq",
}
"""Mutants, and how the name of a count that fails begins."""


@dataclass(frozen=True)
class Base:
    """The kernel that is not broken, and its counts."""

    made: Subject
    result: Result


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Base]:
    place = tmp_path_factory.mktemp("base")
    with options.opened(None, None) as (cache, tree):
        made = subject(cache, tree, WANTED)
        yield Base(made, measure(cache, made, WANTED, place, place))


@pytest.mark.parametrize("name", CAUGHT)
def test_a_moved_field_is_caught(base: Base, tmp_path: Path, name: str) -> None:
    made = base.made
    _, _, diff = (CONFIGS / "mutants" / f"{name}.diff").read_bytes().partition(b"\n\n")
    commit = apply_diff(made.tree, made.composition.commit, diff, f"mutant {name}\n")
    assert commit
    kernel = build(cache_dir(), made.tree, commit, TARGETS["qemu-x86_64"], made.configuration)
    result = measure(cache_dir(), replace(made, kernel=kernel), WANTED, tmp_path, tmp_path)
    refuse_unlike(base.result, result)
    judged = judge(base.result, result, load_metrics(GATES))
    failed = [each.pair.name for each in judged if each.verdict is Verdict.FAIL]
    assert verdict_of(judged) is Verdict.FAIL, judged
    assert any(each.startswith(CAUGHT[name]) for each in failed), failed
