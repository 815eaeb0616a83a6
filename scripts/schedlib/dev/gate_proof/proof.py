# SPDX-License-Identifier: GPL-2.0
"""The published proof: false alarms and power of the gate on simulated campaigns, compared with other tools' rules."""

from __future__ import annotations

import numpy as np
import scipy

from schedlib.dev.gate_proof import simulation
from schedlib.dev.gate_proof.noise_models import MODELS
from schedlib.dev.gate_proof.simulation import RIVALS, simulate
from schedlib.formats.bench_gate_document import ProofLine
from schedlib.gate.statistics import CONFIRM
from schedlib.progress import step

CAMPAIGNS = 10_000
SEED = 20261122
POWER_MODELS = ("log-normal 5 %", "p99 of 2000, 5 %", "boot 3 %, run 1 %")
CHANGES = (0.05, 0.10, 0.25)

FALSE_ALARMS = 1.0
"""Goal: the largest percentage of whole gates."""

CAUGHT = {0.10: 92.0, 0.25: 99.9}
"""Goals: the smallest percentage of campaigns, by change, for log-normal noise."""


def measure(campaigns: int = CAMPAIGNS) -> list[ProofLine]:
    """All lines; a few minutes on one CPU for 10,000 campaigns."""
    lines = []
    for model in MODELS:
        with step(f"no change, {model}"):
            lines.append(ProofLine(model, 0.0, "ABBA", simulate(MODELS[model], SEED, campaigns)))
    for model in ("drift 2 %, each", "log-normal 5 %"):
        with step(f"no change, {model}, boots in blocks"):
            lines.append(ProofLine(model, 0.0, "blocks", simulate(MODELS[model], SEED, campaigns, order="blocks")))
    for model in POWER_MODELS:
        for change in CHANGES:
            with step(f"+{change:.0%}, {model}"):
                lines.append(ProofLine(model, change, "ABBA", simulate(MODELS[model], SEED + 1, campaigns, change)))
    return lines


def met(lines: list[ProofLine]) -> bool:
    """Whether the goals are met."""
    quiet = [line.result.failed <= FALSE_ALARMS for line in lines if not line.change and line.order == "ABBA"]
    loud = [line for line in lines if line.change in CAUGHT and line.model == "log-normal 5 %"]
    return all(quiet) and all(line.result.caught >= CAUGHT[line.change] for line in loud)


def text(lines: list[ProofLine]) -> str:
    """The tables, and the conditions of the measurement."""
    few, many, others = simulation.BOOTS, 2 * simulation.BOOTS, "".join(f"{each:>18}" for each in RIVALS)
    out = [
        f"{lines[0].result.campaigns} campaigns for each line, {simulation.METRICS} gating metrics, alpha "
        f"{simulation.ALPHA:g}, budget {simulation.BUDGET:.0%}, {few} boots of each kernel and {few} to confirm;",
        f"first batch trips at p <= {simulation.ALPHA / CONFIRM:g}, confirmation at p <= {CONFIRM:g}; seed {SEED}; "
        f"numpy {np.__version__}, scipy {scipy.__version__}.",
        f"Percent of campaigns. The others' columns: judged from {few} boots of each kernel / from all {many}.",
        "",
        "No change: any of the metrics is called worse",
        f"{'noise':36}{'FAIL':>9}{'confirm?':>9}{'unclear':>9}{others}",
    ]
    for line in lines:
        if not line.change:
            name, result = line.model + (", in blocks*" if line.order == "blocks" else ""), line.result
            out.append(_line(name, result.failed, result.asked, result.unclear, result.rivals))
    out.append("* one kernel's boots after the other's: INCONCLUSIVE; this is what the tests would have said")
    out += [
        "",
        "One metric becomes worse: it is called worse",
        f"{'noise':36}{'caught':>9}{'confirm?':>9}{'unclear':>9}{others}",
    ]
    for line in lines:
        if line.change:
            name, result = f"{line.model}, +{line.change:.0%}", line.result
            out.append(_line(name, result.caught, result.asked, result.unclear, result.rivals_caught))
    return "\n".join(out)


def _line(name: str, first: float, asked: float, unclear: float, rivals: dict[str, tuple[float, float]]) -> str:
    others = "".join(f"{f'{few:.2f} / {many:.2f}':>18}" for few, many in rivals.values())
    return f"{name:36}{first:>9.2f}{asked:>9.2f}{unclear:>9.2f}{others}"
