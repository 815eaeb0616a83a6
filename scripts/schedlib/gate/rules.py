# SPDX-License-Identifier: GPL-2.0
"""Gates files, configs/gates/*.toml: what is compared, fixed before anything is measured."""

from __future__ import annotations

from math import comb
from typing import Annotated, Literal

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import nearest, read_toml, refuse
from schedlib.formats.gate_document import GatesUsed, Method
from schedlib.formats.run_file import Direction
from schedlib.formats.strict import MAXIMUM, Amount, Strict, Word, Wrong
from schedlib.gate.gate_options import GATES, MOST_BOOTS, gates_path

LEAST_BOOTS = 5
"""The smallest look: with fewer boots, none of our tests can fail."""

BLOCK = 4
"""Boots of each kernel in a block."""

LOOKS = (8, 12, 16, 20)
"""At each of them the gate can FAIL, and at the last one it can PASS."""

EXCESS = 0.25
"""With a bad boot of either kernel, a PASS has to exclude that so many more of the candidate's boots are bad."""

MOST_BAD = 0.1
"""No PASS if a larger share of the candidate's boots is bad."""

_UNSAID = -1.0


class GateRule(Strict, frozen=True):
    """One gating metric.

    Attributes:
        direction: what is better: lower or higher; `neither` only with Method.EQUAL.
        budget: how much worse it may become, in percent of the base's median, or in its unit if `absolute`.
        detect: a PASS has to exclude a change for the worse of this size; in the same unit as the budget.
        absolute: budget and detect are in the metric's unit; in exceedances per million samples for Method.RATE.
        because: why it is a gating metric.
    """

    tool: Word
    name: Word
    direction: Direction
    method: Method
    budget: Amount = _UNSAID
    detect: Amount = _UNSAID
    absolute: bool | None = None
    because: str = ""

    def __post_init__(self) -> None:
        where, equal, rate = f"{self.tool} {self.name}", self.method is Method.EQUAL, self.method is Method.RATE
        if MAXIMUM.search(self.name):
            raise Wrong(
                f"{where} is a maximum, which differs by half between runs of one kernel: a gate on it is a coin toss",
                'gate on a quantile, or on samples over a bound with method = "rate"',
            )
        if self.direction == "neither" and not equal:
            why = f"{where}: with direction neither nothing can become worse"
            raise Wrong(why, 'write direction = "lower" or "higher"')
        if self.budget == _UNSAID and not equal:
            raise Wrong(
                f"{where} has no budget, so nothing says how much worse it may become",
                "add budget = 3 (percent), or absolute = true and a budget in the metric's unit",
            )
        if rate and self.absolute is False:
            raise Wrong(f"{where}: a value that is often 0 cannot have a budget in percent", "drop absolute = false")
        budget = 0.0 if equal else self.budget
        detect = 3 * budget if equal or self.detect == _UNSAID else self.detect
        if self.direction == "higher" and not self.absolute and detect >= 100:
            raise Wrong(f"{where}: more is better, and detect = {detect:g} % is all of it", "write detect below 100")
        if detect < budget or (not equal and detect == 0):
            raise Wrong(
                f"{where}: detect = {detect:g} has to be above 0 and no less than the budget",
                "write the change that a PASS has to exclude",
            )
        for name, value in (("budget", budget), ("detect", detect), ("absolute", rate or bool(self.absolute))):
            msgspec.structs.force_setattr(self, name, value)

    @property
    def key(self) -> tuple[str, str]:
        return self.tool, self.name

    @property
    def sign(self) -> float:
        """Of values times this, larger is worse."""
        return -1.0 if self.direction == "higher" else 1.0


Boots = Annotated[int, msgspec.Meta(ge=LEAST_BOOTS, le=MOST_BOOTS)]


class GateHead(Strict, frozen=True):
    """Settings for the whole file.

    Attributes:
        alpha: largest probability that kernels which do not differ fail the gate.
        looks: the numbers of boots of each kernel at which the gate can FAIL. At the last one it can PASS.
        may_differ: entries of the fingerprint that need not be the same on both sides.
        order: interleaved: boots of both kernels have to alternate.
    """

    alpha: Annotated[float, msgspec.Meta(ge=1e-6, le=0.05)] = 0.01
    looks: Annotated[tuple[Boots, ...], msgspec.Meta(min_length=1)] = LOOKS
    may_differ: frozenset[Word] = frozenset({"kernel", "build_id"})
    order: Literal["interleaved", "any"] = "interleaved"

    def __post_init__(self) -> None:
        if list(self.looks) != sorted(set(self.looks)):
            raise Wrong(f"looks = {list(self.looks)} do not ascend", f"write looks = {sorted(set(self.looks))}")


class _GatesFile(Strict, frozen=True):
    gate: GateHead = GateHead()
    metric: tuple[GateRule, ...] = ()


class Gate(GatesUsed, frozen=True):
    """A gates file: its settings, and what is judged.

    Attributes:
        pairs: the boots are pairs of a plan, and are judged within each pair.
    """

    rules: tuple[GateRule, ...]
    pairs: bool = False

    @property
    def family(self) -> int:
        """How many metrics are tested: all but those that have to be equal."""
        return sum(rule.method is not Method.EQUAL for rule in self.rules)


def least_p(boots: int, family: int) -> float:
    """The smallest p, by Holm, that a metric can have: all boots of the candidate are worse than all of the base.

    Twice the exact p of Mann and Whitney, see statistics.worse_p(). boots: of each kernel.
    """
    return family * 2 / comb(2 * boots, boots)


def load_gate(named: str) -> Gate:
    path = gates_path(named)
    if not path.exists():
        known = (each.stem for each in GATES.glob("*.toml"))
        raise SchedlineError(f"there is no gates file {path}", nearest(named, known))
    found = read_toml(path, _GatesFile)
    if not found.metric:
        refuse(path, (), "has no [[metric]]: it would pass everything", "add a [[metric]]")
    keys = [rule.key for rule in found.metric]
    for number, key in enumerate(keys):
        if key in keys[:number]:
            refuse(path, ("metric", number), f"has {' '.join(key)} twice", "keep one")
    gate = gate_of(path.stem, found.gate, found.metric)
    least, allowed = least_p(gate.looks[-1], gate.family), gate.alpha / len(gate.looks)
    if least > allowed:
        fit = (boots for boots in range(LEAST_BOOTS, MOST_BOOTS) if least_p(boots, gate.family) <= allowed)
        why = f"let nothing FAIL: p is {least:.2g} at least after {gate.looks[-1]} boots with {gate.family} metrics"
        next_step = f"let the last look be {next(fit, MOST_BOOTS)} or more"
        refuse(path, ("gate", "looks"), f"{why}, and {allowed:.2g} is needed", next_step)
    return gate


def gate_of(name: str, head: GateHead, rules: tuple[GateRule, ...]) -> Gate:
    return Gate(name, head.alpha, head.looks, tuple(sorted(head.may_differ)), head.order == "interleaved", rules)
