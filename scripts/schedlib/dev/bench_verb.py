# SPDX-License-Identifier: GPL-2.0
"""`schedline dev bench`: how much time the tool costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import Verbs, add_verb, new_path
from schedlib.verdict import Verdict

KINDS = ("start", "check", "wakeup", "cpupri", "layout", "c2c", "workloads", "gate")


@dataclass(frozen=True)
class BenchOptions:
    """Which figures, and where they are written."""

    only: str | None
    json: Path | None


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev bench`."""
    parser = add_verb(
        verbs,
        "bench",
        "build and run times as ratios, measured in one run",
        first=[
            "schedline dev bench --json bench.json   everything; leave the machine alone for twenty minutes",
            "schedline dev bench --only gate         the gate's false alarms and power, on simulated campaigns",
        ],
        text="""
        Builds the test kernel and a stock KUnit kernel from nothing, then times what a user repeats. Nothing is
        asserted, but --only gate FAILs when the gate misses its goals.""",
        examples=["schedline dev bench --only workloads   as root: what rt_wakeup and sleep_storm cost"],
        read=lambda arguments: BenchOptions(arguments.only, arguments.json),
        job=_bench,
        libraries=("requirements-gate.txt", "requirements.txt"),
    )
    parser.add_argument("--only", choices=KINDS, help="only the figures of one kind")
    parser.add_argument("--json", type=new_path, metavar="FILE", help="write the figures here")


def _bench(options: BenchOptions) -> Verdict:
    from schedlib.dev.bench import bench

    return bench(options.only, options.json)
