# SPDX-License-Identifier: GPL-2.0
"""Boots that gave no values: attempts of a plan that were lost, and boots without runs of a tool.

They are not missing at random: what crashes or hangs leaves no file. So a candidate that lost more boots than the base
never passes, whatever its other boots say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path

from schedlib.gate.boot_order import PLAN_FILE
from schedlib.gate.boot_service import BootAttempt, read_plan, read_progress, runs_of
from schedlib.gate.boots import Side
from schedlib.verdict import Verdict

ALPHA = 0.01
"""How often losses of two kernels that are alike may fail."""


@dataclass(frozen=True)
class Losses:
    """What the losses of both kernels say, and whether that is more than a remark."""

    text: str
    verdict: Verdict


def losses(base: Path, candidate: Path) -> Losses | None:
    """The attempts of a plan that gave no runs; None for directories without a plan.

    Raises:
        SchedlineError: the plan or its progress cannot be read.
    """
    plan = next((each.parent.parent for each in (base, candidate) if (each.parent.parent / PLAN_FILE).is_file()), None)
    if plan is None:
        return None
    attempts = read_progress(plan).attempts
    label = {runs_of(plan, each.label).resolve(): each.label for each in read_plan(plan).kernels}
    both = [[one for one in attempts if one.kernel == label.get(path.resolve())] for path in (base, candidate)]
    ended = [[one for one in side if one.failed or one.state == "done"] for side in both]
    lost = [sum(one.failed for one in side) for side in ended]
    if not any(lost):
        return Losses("", Verdict.PASS)
    told = "; ".join(_told(name, side) for name, side in zip(("base", "candidate"), ended, strict=True))
    chance = more_by_chance(len(ended[0]), lost[0], len(ended[1]), lost[1])
    if chance <= ALPHA:
        return Losses(f"{told}. Kernels that are alike differ so much in {chance:.2g} of campaigns", Verdict.FAIL)
    if lost[1] * len(ended[0]) > lost[0] * len(ended[1]):
        why = f"that may be chance ({chance:.2g}), or a kernel that crashes: more boots decide"
        return Losses(f"{told}; {why}", Verdict.INCONCLUSIVE)
    return Losses(told, Verdict.PASS)


def _told(name: str, attempts: Sequence[BootAttempt]) -> str:
    lost = [one for one in attempts if one.failed]
    why = f" (the first: {lost[0].state}, {lost[0].why})" if lost else ""
    return f"{name} lost {len(lost)} of {len(attempts)} attempts{why}"


def more_by_chance(base: int, base_lost: int, candidate: int, candidate_lost: int) -> float:
    """Fisher's exact test: how often that many of all losses or more are the candidate's if both kernels are alike.

    Args:
        base, candidate: attempts.
        base_lost, candidate_lost: those that were lost.
    """
    lost = base_lost + candidate_lost
    ways = sum(comb(candidate, k) * comb(base, lost - k) for k in range(candidate_lost, min(lost, candidate) + 1))
    return ways / comb(base + candidate, lost)


def fewer_boots(base: Side, candidate: Side) -> str:
    """That the candidate has fewer boots than the base, which nothing explains; empty if it has not."""
    if len(candidate.boots) >= len(base.boots):
        return ""
    return (
        f"the candidate has {len(candidate.boots)} boots and the base {len(base.boots)}. A boot that crashed leaves no "
        "run; if there is another reason, say it: --incomplete REASON"
    )


def without_runs(side: Side, tool: str) -> str:
    """The boots of a side that have no run of a tool which others have; empty if there are none."""
    lacking = [boot.id for boot in side.boots if tool not in boot.runs]
    if not lacking or len(lacking) == len(side.boots):
        return ""
    shown = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
    return (
        f"{side.name}: no run of {tool} in {len(lacking)} of {len(side.boots)} boots ({shown}). What crashes or hangs "
        "leaves none; if there is another reason, say it: --incomplete REASON"
    )
