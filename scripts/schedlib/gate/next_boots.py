# SPDX-License-Identifier: GPL-2.0
"""What an INCONCLUSIVE metric needs: how many boots of which kernel, or why no number of boots settles it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite, sqrt
from statistics import NormalDist

from schedlib.gate.decision import MISSED
from schedlib.gate.pairing import Batch
from schedlib.gate.rules import Gate, GateRule
from schedlib.gate.statistics import CONFIDENCE


@dataclass(frozen=True)
class Unclear:
    """A metric that neither fails nor passes at a look.

    Attributes:
        look: boots of each kernel.
        worse_by: the estimate; positive is worse, in the unit of the budget.
        half: half of the 95 % interval, in the same unit.
        step: one step of the clock, in the same unit.
        constant: whether all boots of the base have the same value.
        doubtful: whether a change above the budget is in sight.
        far: ids of the candidate's bad boots.
        far_base: how many bad boots the base has.
        unit: of the budget.
    """

    rule: GateRule
    look: int
    worse_by: float
    half: float
    step: float
    constant: bool
    doubtful: bool
    far: Sequence[str]
    far_base: int
    unit: str


def too_few(gate: Gate, batch: Batch) -> str:
    """How many boots the first look lacks."""
    first = gate.looks[0]
    lacking = ((first - len(batch.base), "base"), (first - len(batch.candidate), "candidate"))
    more = " and ".join(f"{number} more of the {name}" for number, name in lacking if number > 0)
    return f"too few boots: boot {more}; the first look is at {first} of each"


def why_unclear(gate: Gate, found: Unclear) -> str:
    """Why the metric is unclear, and what to do."""
    rule, limit = found.rule, f"{found.rule.detect:g}{found.unit}"
    if found.constant:
        return (
            f"all {found.look} boots of the base have the same value, so nothing is known of its noise, and no number "
            'of boots settles it: measure with a finer clock, or compare with method = "equal"'
        )
    ids = ", ".join(found.far[:3]) + (", ..." if len(found.far) > 3 else "")
    same = f"the base has {found.far_base}" if found.far_base else "the base has none"
    if len(found.far) > max(1, found.far_base) and not found.doubtful:
        return (
            f"{len(found.far)} of {found.look} boots of the candidate are bad, beyond the ordinary boots of the base "
            f"by more than {limit}; {same}. No number of boots makes this a PASS: look at the boots {ids}"
        )
    if found.far and not found.doubtful and found.look < gate.looks[-1]:
        return (
            f"bad boots of the candidate, beyond the ordinary boots of the base by more than {limit}: {ids}; {same}. "
            f"Only the last look can say that it is chance: {_to(found.look, gate.looks[-1])}"
        )
    if found.step > (found.worse_by - rule.budget if found.doubtful else rule.detect - found.worse_by):
        return (
            f"one step of the clock is {found.step:.3g}{found.unit}; budget and detect: {rule.budget:g} and {limit}. "
            "No number of boots settles it: measure with a finer clock"
        )
    seen = f"it may be worse by up to {found.worse_by + found.half:.3g}{found.unit}; a PASS excludes {limit}"
    if found.doubtful:
        seen = f"it looks worse by {found.worse_by:.3g}{found.unit}, over the budget of {rule.budget:g}{found.unit}"
    needed = _needed(gate, found)
    later = [look for look in gate.looks if look > found.look]
    if not isfinite(needed):
        return f"{seen}; {_to(found.look, later[0]) if later else _again(gate, 2 * found.look)}"
    if enough := [look for look in later if look >= needed]:
        return f"{seen}; {_to(found.look, enough[0])} probably settles it"
    return f"{seen}; about {needed} boots of each would settle it: {_again(gate, int(needed))}"


def _to(look: int, then: int) -> str:
    return f"boot each kernel {then - look} more times, in the order of the plan"


def _again(gate: Gate, boots: int) -> str:
    return (
        f"the last look of this gate is at {gate.looks[-1]}. Find what disturbs the machine, or start a new campaign "
        f"with looks up to {boots} in the gates file"
    )


def _needed(gate: Gate, found: Unclear) -> float:
    """About how many boots of each kernel would settle it, if the noise and the estimate stay as they are.

    The interval shrinks with the square root of the boots. For a PASS the estimate has to be below `detect`, for a FAIL
    above 0, by the standard errors that the look's part of the error rates wants.
    """
    if not isfinite(found.half) or not found.half:
        return inf
    normal, looks = NormalDist(), len(gate.looks)
    error = found.half / normal.inv_cdf((1 + CONFIDENCE) / 2) * sqrt(found.look)
    if found.worse_by > found.rule.budget:
        level, distance = gate.alpha / looks / max(gate.family, 1), found.worse_by
    else:
        level, distance = MISSED / looks, found.rule.detect - found.worse_by
    if distance <= 0:
        return inf
    return max(found.look + 1, ceil((normal.inv_cdf(1 - level / 2) * error / distance) ** 2))
