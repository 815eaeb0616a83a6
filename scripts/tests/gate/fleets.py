# SPDX-License-Identifier: GPL-2.0
"""Fleets as files and as arrays: machines of several models, booted with two kernels in turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from campaigns import metric, minute_of, run

BOOTS = 10


def write_machine(
    place: Path, model: str, change: float, seed: int, *, boots: int = BOOTS, noise: float = 0.05, **more: Any
) -> None:
    """Write the runs of one machine, whose candidate is worse by a share."""
    lot = np.random.default_rng(seed)
    for side, factor in (("base", 1.0), ("candidate", 1.0 + change)):
        (place / side).mkdir(parents=True)
        for number, value in enumerate(10_000 * factor * np.exp(noise * lot.standard_normal(boots))):
            boot = f"{place.name}-{side}-{number}"
            found = run(side, boot, minute_of(side, number), [metric(float(value))], **more)
            found["fingerprint"]["machine"] = f"x86_64 {model}, CPUs 0-7, 1 LLCs"
            (place / side / f"{number}.json").write_text(json.dumps(found))


def write_fleet(place: Path, models: Mapping[str, tuple[int, float]], *, first: int = 0) -> Path:
    """A fleet: for each model the number of machines, and by which share the candidate is worse."""
    seed = first
    for model, (machines, change) in models.items():
        for number in range(machines):
            seed += 1
            write_machine(place / f"{model.lower()}{number:02}", model, change, seed)
    return place


def names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["name"].removeprefix("x86_64 ").partition(",")[0] for row in rows]
