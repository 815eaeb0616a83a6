# SPDX-License-Identifier: GPL-2.0
"""--expect-improvement: which of the mails' claims do the runs show?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlib.errors import SchedlineError
from schedlib.formats.gate_document import AnswerState
from schedlib.gate.boots import Key, Side
from schedlib.gate.judging import boots_of, refuse_many_boots
from schedlib.gate.pairing import Batch, order_problem
from schedlib.gate.rules import Claim, Gate, Level
from schedlib.gate.statistics import Values, holm, rank_p, shift, shift_interval
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class Answer:
    """One claim.

    Attributes:
        change, low, high: percent of the base, signed as measured, with the 95 % interval.
        p: Holm's p over the claims, for any improvement.
        state: shown; smaller (an improvement, and the interval excludes the claimed one); not shown; worse;
            reported (never judged); absent (no runs).
    """

    claim: Claim
    state: AnswerState
    reason: str
    change: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    boots: tuple[int, int] = (0, 0)


def answers(gate: Gate, base: Side, candidate: Side) -> list[Answer]:
    """Answer each claim, in the order of the file. All boots of a side are one batch."""
    found: dict[str, Answer] = {}
    samples: dict[str, tuple[Claim, Values, Values]] = {}
    for claim in gate.claims:
        if any(claim.key not in side.about for side in (base, candidate)):
            reason = base.why_absent(claim.key) or candidate.why_absent(claim.key) or f"no run of {claim.tool} has it"
            found[claim.id] = Answer(claim, "absent", reason)
            continue
        sides = [boots_of(side, claim.tool) for side in (base, candidate)]
        values = [_values(side, claim.key, claim.direction) for side in sides]
        batch = Batch(sides[0].boots, sides[1].boots)
        counts = len(batch.base), len(batch.candidate)
        problem = order_problem(batch) if gate.interleaved else ""
        if batch.smaller < gate.looks[0]:
            problem = f"{batch.smaller} boots of one kernel; boot both at least {gate.looks[0]} times, in turn"
        if claim.judged and problem:
            found[claim.id] = Answer(claim, "not shown", problem, boots=counts)
        elif batch.smaller:
            samples[claim.id] = claim, values[0], values[1]
        else:
            found[claim.id] = Answer(claim, "absent", f"one kernel has no boot with {claim.tool}")
    found |= {answer.claim.id: answer for answer in _tested(gate, samples)}
    return [found[claim.id] for claim in gate.claims]


def _values(side: Side, key: Key, direction: str) -> Values:
    """A value for each boot; larger is worse."""
    if lacking := [boot.id for boot in side.boots if key not in boot.figures]:
        raise SchedlineError(
            f"{side.name}: boot {lacking[0]} lacks {' '.join(key)}, which others have",
            "do its runs again, or remove that boot",
        )
    refuse_many_boots(side)
    about = side.about[key]
    if about.direction not in (direction, "neither"):
        raise SchedlineError(
            f"{' '.join(key)}: the runs say {about.direction} is better, the gates file {direction}",
            "correct the gates file",
        )
    return (-1.0 if direction == "higher" else 1.0) * np.array([boot.figures[key].mean for boot in side.boots])


def _tested(gate: Gate, samples: dict[str, tuple[Claim, Values, Values]]) -> list[Answer]:
    judged = [name for name, (claim, _, _) in samples.items() if claim.judged]

    def adjusted(sign: float) -> dict[str, float]:
        p = [rank_p(sign * samples[name][1], sign * samples[name][2]) for name in judged]
        return dict(zip(judged, holm(np.array(p)), strict=True))

    better, worse = adjusted(-1.0), adjusted(1.0)
    out = []
    state: AnswerState
    for name, (claim, base, candidate) in samples.items():
        sign = -1.0 if claim.direction == "higher" else 1.0
        centre = abs(float(np.median(base)))
        counts = base.size, candidate.size
        if centre == 0:
            out.append(Answer(claim, "not shown", "it is 0 in the base, so a percentage has no meaning", boots=counts))
            continue
        change = 100 * sign * float(shift(base, candidate)) / centre
        low, high = sorted(100 * sign * float(end) / centre for end in shift_interval(base, candidate))
        reached = low <= claim.change if claim.change < 0 else high >= claim.change
        if not claim.judged:
            state, reason = "reported", ""
        elif worse[name] <= gate.alpha:
            state, reason = "worse", "the candidate is worse than the base"
        elif better[name] > gate.alpha:
            state, reason = "not shown", "no improvement above the noise"
        else:
            state, reason = ("shown", "") if reached else ("smaller", "better, but by less than claimed")
        p = float(better[name]) if claim.judged else None
        out.append(Answer(claim, state, reason, change, low, high, p, counts))
    return out


def level_answers(gate: Gate, candidate: Side) -> list[tuple[Level, float]]:
    """The mails' figures that the runs have, each with the median over the candidate's boots."""
    found = []
    for level in gate.levels:
        if means := [boot.figures[level.key].mean for boot in candidate.boots if level.key in boot.figures]:
            found.append((level, float(np.median(means))))
    return found


def verdict(found: Sequence[Answer]) -> Verdict:
    """FAIL if something is worse, PASS if there are claims to judge and all are shown, else INCONCLUSIVE."""
    judged = [answer for answer in found if answer.state not in ("absent", "reported")]
    if any(answer.state == "worse" for answer in judged):
        return Verdict.FAIL
    return Verdict.PASS if judged and all(answer.state == "shown" for answer in judged) else Verdict.INCONCLUSIVE
