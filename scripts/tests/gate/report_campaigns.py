# SPDX-License-Identifier: GPL-2.0
"""A campaign with content for every part of a report, and one with malicious run files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from campaigns import GATES, Campaign, metric, run
from msgspec.structs import replace

from schedlib.formats.gate_document import GateDocument
from schedlib.gate.comparison import compare
from schedlib.gate.gate_options import GateOptions

STARTED = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)

REPORT_GATES = (
    GATES
    + """
[[metric]]
tool = "rt_wakeup"
name = "timer.missed"
direction = "lower"
method = "rate"
budget = 100
detect = 1000

[[metric]]
tool = "rt_push_pull"
name = "groups.frames_per_s"
direction = "higher"
method = "rank"
budget = 3
because = "the work that pinned RT groups get done"

[[metric]]
tool = "rt_wakeup"
name = "mask.bits"
direction = "neither"
method = "equal"

[[metric]]
tool = "cluster_wakeup"
name = "pairs_per_s"
direction = "higher"
method = "rank"
budget = 3
"""
)

EVIL = (
    "<script>alert(1)</script>\"'>&amp;</style><img src=http://evil.example/x onerror=alert(1)>"
    "\u202egnp\u2066\u0085\x9b31m"
)
"""Markup, quotes, characters that change the direction of text, and C1 control characters."""


def rich(place: Path, *, placebo: bool = True, evil: bool = False) -> Campaign:
    """Two batches, a regression in the 99th percentile, a skip, an absent metric and a placebo."""
    campaign = Campaign(place, REPORT_GATES)
    lot = np.random.default_rng(7)
    unit = "ns $\\frac{<b>" if evil else "ns"

    def boot(side: str, name: str, minute: int, factor: float) -> None:
        def about(value: float, spread: float = 0.04) -> float:
            return float(value * np.exp(spread * lot.standard_normal()))

        def save(minute: float, metrics: list[Mapping[str, Any]], **more: Any) -> None:
            content = run(side, name, minute, metrics, **more)
            if evil:
                content["fingerprint"] |= {"kernel": f"{side} {EVIL}", EVIL: EVIL}
            campaign.save(place / side, content)

        missed = metric(int(lot.poisson(4)), name="timer.missed", unit="samples", kind="exceedance", n=100_000)
        shown = metric(700.0, name="timer.p50", unit=unit)
        bits = metric(4, name="mask.bits", unit="bits", direction="neither", kind="exact")
        frames = metric(about(913), name="groups.frames_per_s", unit="1/s", direction="higher", kind="rate")
        reason = EVIL if evil else "one node: no memory is far"
        save(
            minute,
            [metric(about(18_500) * factor, unit=unit), missed, bits, shown],
            absent=[{"name": "far", "reason": reason}],
        )
        save(minute + 1, [frames], tool="rt_push_pull")
        save(minute + 2, [], tool="cluster_wakeup", status="SKIP", reason=EVIL if evil else "no CPU is in a cluster")
        if evil:
            save(minute + 3, [], tool=EVIL, status="SKIP", reason=EVIL)

    for number in range(20):
        later = 60 * number + (5000 if number >= 10 else 0)
        order = (("base", 1.0), ("candidate", 1.3))
        for place_in_time, (side, factor) in enumerate(order if number % 2 else order[::-1]):
            boot(side, f"{side}-{number}", later + 30 * place_in_time, factor)
        if placebo and number < 10:
            boot("placebo", f"placebo-{number}", later + 15, 1.08)
    if evil:
        broken = run("base", "base-0", 9000, [], status="ERROR", reason=EVIL)
        broken["fingerprint"] |= {"kernel": f"base {EVIL}", EVIL: EVIL}
        campaign.save(campaign.base, broken)
    return campaign


def compared(campaign: Campaign, *, placebo: bool = True) -> GateDocument:
    """The gate's document, with a fixed time."""
    campaign.words()
    gates, third = str(campaign.place / "gates.toml"), campaign.place / "placebo" if placebo else None
    options = GateOptions(campaign.base, campaign.candidate, gates, placebo=third)
    return replace(compare(options), started=STARTED)
