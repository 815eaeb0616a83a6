# SPDX-License-Identifier: GPL-2.0
"""How often the gate is wrong on 2,000 simulated campaigns of each kind: docs/results/gate.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from math import sqrt

import numpy as np
import scipy

from proof.gate_noise import MODELS, like_an_order, log_normal
from proof.gate_simulation import GATE, RULES, GateCase, SimulationResult, Spoil, simulate
from schedlib.formats.tables import table
from schedlib.gate.decision import MISSED
from schedlib.gate.rules import EXCESS
from schedlib.gate.statistics import Values, bad_share
from schedlib.progress import step

CAMPAIGNS = 2_000
SEED = 20261122
DETECT = RULES[0].detect / 100
FOUND = (
    ("log-normal 3 %", (0.05, 0.10, 0.25)),
    ("log-normal 5 %", (0.05, 0.10, 0.25)),
    ("log-normal 10 %", (0.10, 0.25)),
    ("p99 of 2000, 5 %", (0.05, 0.10, 0.25)),
    ("boot 3 %, run 1 %", (0.05, 0.10, 0.25)),
)
CAUGHT = {0.10: 95.0, 0.25: 99.9}
"""Goals: the smallest percentage of campaigns that fail, by change, for log-normal noise of 5 %."""


@dataclass(frozen=True)
class ProofLine:
    """The result of one case. part: a key of _TITLES."""

    part: str
    name: str
    change: float
    result: SimulationResult


def _some(share: float, factor: float) -> Spoil:
    """A share of the boots, by lot, is slower by a factor."""
    return lambda lot, values: np.where(lot.random(values.shape) < share, factor * values, values)


def _three_of_ten(lot: np.random.Generator, values: Values) -> Values:
    """Three of each ten boots are ten times slower."""
    slow = np.tile([10.0] * 3 + [1.0] * 7, 1 + values.shape[-1] // 10)[: values.shape[-1]]
    return np.asarray(values * slow)


def _third(lot: np.random.Generator, values: Values) -> Values:
    """The third boot is twelve times slower."""
    return np.asarray(values * np.where(np.arange(values.shape[-1]) == 2, 12.0, 1.0))


def cases() -> Iterator[tuple[str, str, GateCase]]:
    """Part, name and case of each line."""
    quiet, usual = log_normal(0.03), MODELS["log-normal 5 %"]
    for name, model in MODELS.items():
        yield "no change", name, GateCase(model)
    yield "no change", "candidate twice as noisy", GateCase(usual, spread=2)
    yield "no change", "20 us on a 1 us clock", GateCase(quiet, clock=0.05)
    yield "no change", "20 us on it, noise of 5 %", GateCase(usual, clock=0.05)
    yield "no change", "7 us on a 1 us clock", GateCase(quiet, clock=1 / 7.2)
    for name, model in MODELS.items():
        yield "at detect", name, GateCase(model, DETECT)
    yield "at detect", "candidate twice as noisy", GateCase(usual, DETECT, spread=2)
    yield "at detect", "20 us on a 1 us clock", GateCase(quiet, DETECT, clock=0.05)
    yield "at detect", "7 us on a 1 us clock", GateCase(quiet, DETECT, clock=1 / 7.2)
    yield "at detect", "6.05 us on it, 5 runs", GateCase(log_normal(0.005), DETECT, clock=1 / 6.05, runs=5)
    for name, changes in FOUND:
        for change in changes:
            yield "found", name, GateCase(MODELS[name], change)
    for name, spoil in (
        ("20 % of the boots 10 times slower", _some(0.2, 10)),
        ("30 % of the boots 10 times slower", _some(0.3, 10)),
        ("3 of each 10 boots 10 times slower", _three_of_ten),
        ("a third of the boots 50 % slower", _some(1 / 3, 1.5)),
    ):
        yield "bad boots", name, GateCase(quiet, spoil=spoil)
    for told, dirt in (("5 %", _some(0.05, 12)), ("10 %", _some(0.1, 12)), ("the third", _third)):
        where = f"{told} of the base's boots 12 times slower"
        yield "no change", f"{where}, and of the candidate's", GateCase(quiet, spoil=dirt, spoil_base=dirt)
        for share, part in ((0.2, "untold"), (0.3, "bad boots")):
            spoil = _some(share, 10)
            yield part, f"{share:.0%} 10 times slower; {where}", GateCase(quiet, spoil=spoil, spoil_base=dirt)
    for share, factor, own in ((0.5, 12, 0.25), (0.4, 1.5, 0.15)):
        case = GateCase(quiet, spoil=_some(share, factor), spoil_base=_some(own, factor))
        yield "excess", f"{share:.0%} {factor:g} times slower; {own:.0%} of the base's boots are", case
    for shown in ("log-normal 5 %", "every 2nd +10 %", "every 3rd +10 %", "every 4th +10 %", "trend 3 % a boot"):
        for order in ("ABBABAAB", "ABBA", "AB", "blocks"):
            yield "order", f"{shown}, {order}", GateCase(MODELS[shown], order=order)

    for shown in ("log-normal 5 %", "drift 2 %, each", "AR(1) 0.8", "machine steals"):
        for change in (0.0, 0.03, 0.05):
            for order in ("by lot", "pairs"):
                yield "pairs", f"{shown}, {order}", GateCase(MODELS[shown], change, order=order)
    yield "order", "every 3rd +10 %, mirrored", GateCase(MODELS["every 3rd +10 %"], order="mirrored")
    for order in ("ABBABAAB", "mirrored"):
        yield "order", f"slow boots 2, 3, 5, 8 of 8, {order}", GateCase(like_an_order, order=order)
    for shown, model, spread in (
        ("candidate 5 times as noisy", usual, 5),
        ("candidate 20 times as noisy", usual, 20),
        ("slow boots 2, 3, 5, 8 of 8", like_an_order, 1),
    ):
        yield "no promise", shown, GateCase(model, spread=spread)


def _simulated(place: int, campaigns: int) -> SimulationResult:
    return simulate(list(cases())[place][-1], SEED, campaigns)


def measure(campaigns: int = CAMPAIGNS) -> list[ProofLine]:
    """All lines, in two processes; some minutes."""
    lines = []
    wanted = list(cases())
    with ProcessPoolExecutor(2) as pool:
        results = pool.map(_simulated, range(len(wanted)), repeat(campaigns))
        for part, name, case in wanted:
            with step(f"{part}: {name}, +{case.change:.0%}"):
                lines.append(ProofLine(part, name, case.change, next(results)))
    return lines


def interval(percent: float, campaigns: int) -> tuple[float, float]:
    """The 95 % interval of a percentage of campaigns (Wilson 1927)."""
    share, z = percent / 100, 1.96
    middle = (share + z * z / (2 * campaigns)) / (1 + z * z / campaigns)
    half = z * sqrt(share * (1 - share) / campaigns + (z / (2 * campaigns)) ** 2) / (1 + z * z / campaigns)
    return max(0.0, 100 * (middle - half)), min(100.0, 100 * (middle + half))


def met(lines: list[ProofLine]) -> list[str]:
    """The goals that are missed, each in a line."""
    missed = []
    for line in lines:
        said = line.result
        where = f"{line.part}, {line.name}, +{line.change:.0%}"
        if not line.change and line.part in ("no change", "pairs") and said.failed > 100 * GATE.alpha:
            missed.append(f"{where}: FAIL in {said.failed:.2f} %, and the goal is at most {100 * GATE.alpha:g}")
        least = interval(said.passed, said.campaigns)[0] if line.part == "bad boots" else said.passed
        if line.part in ("at detect", "excess", "bad boots") and least > 100 * MISSED:
            missed.append(f"{where}: PASS in {said.passed:.2f} %, and the goal is at most {100 * MISSED:g}")
        goal = CAUGHT.get(line.change)
        if line.part == "found" and line.name == "log-normal 5 %" and goal and said.caught < goal:
            missed.append(f"{where}: FAIL in {said.caught:.2f} %, and the goal is at least {goal:g}")
    return missed


_TITLES = {
    "no change": "No change. FAIL is wrong",
    "at detect": f"The first metric is worse by {DETECT:.0%}, its `detect`. PASS is wrong",
    "found": "The first metric is worse",
    "bad boots": "Some boots of the candidate are bad, in noise of 3 %. PASS is wrong",
    "untold": "20 % of them, and some of the base's: 20 boots cannot tell. PASS is wrong",
    "excess": f"{EXCESS:.0%} more of the candidate's boots are bad than of the base's. PASS is wrong",
    "no promise": "Outside of what is promised: FAIL is wrong, and there are more than 1 % of them",
    "pairs": "By lot in blocks of eight boots, and in pairs",
    "order": "No change, and another order. mirrored: ABBABAAB or BAABABBA by lot. The gate refuses blocks",
}


def text(lines: list[ProofLine]) -> str:
    """The tables, and the conditions of the measurement."""
    campaigns = lines[0].result.campaigns
    out = [
        f"{campaigns} campaigns for each line; gates: {GATE.name}, alpha {GATE.alpha:g}, looks at "
        f"{', '.join(map(str, GATE.looks))} boots of each kernel, drawn by lot.",
        f"{len(RULES)} of its metrics are simulated; seed {SEED}; numpy {np.__version__}, scipy {scipy.__version__}.",
        "Percent of campaigns, with the 95 % interval. boots: mean number for each kernel until the gate ends.",
        f"{GATE.looks[-1]} boots of the candidate without a bad one exclude, at 95 %, that "
        f"{bad_share(GATE.looks[-1]):.0%} of its boots are bad.",
    ]
    for part, title in _TITLES.items():
        chosen = [line for line in lines if line.part == part]
        if not chosen:
            continue
        heads = ("the gate", "FAIL", "PASS", "unclear", "boots")
        out += ["", title, *table([heads, *map(_cells, chosen)], "<36>20>20>9>7")]
    return "\n".join(out)


def _named(line: ProofLine) -> str:
    varies = line.part in ("found", "no promise", "pairs") and line.change
    return line.name + (f", +{line.change:.0%}" if varies else "")


def _cells(line: ProofLine) -> tuple[str, ...]:
    said = line.result
    cells = []
    for share in (said.caught if line.part in ("found", "pairs") else said.failed, said.passed):
        low, high = interval(share, said.campaigns)
        cells.append(f"{share:.2f} ({low:.2f}-{high:.2f})")
    return _named(line), *cells, f"{100 - said.failed - said.passed:.2f}", f"{said.boots:.1f}"


def main() -> int:
    """Print the tables, and the goals that are missed."""
    lines = measure()
    print(text(lines))
    missed = met(lines)
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
