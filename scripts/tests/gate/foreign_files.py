# SPDX-License-Identifier: GPL-2.0
"""Directories of files as hackbench and cyclictest write them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

HACKBENCH = """\
Running in process mode with {groups} groups using 40 file descriptors each (== 80 tasks)
Each sender will pass 100 messages of 100 bytes
Time: {seconds:.3f}
"""

CYCLICTEST = json.loads((Path(__file__).parent / "recorded/cyclictest/2.40.json").read_text())


def hackbench(place: Path, values: Sequence[float], groups: int = 2, first: int = 0) -> Path:
    """Files of hackbench, written one after the other; values in milliseconds."""
    place.mkdir(parents=True, exist_ok=True)
    for number, value in enumerate(values, first):
        path = place / f"{number:03}.txt"
        path.write_text(HACKBENCH.format(groups=groups, seconds=value / 1000))
        os.utime(path, (1.7e9 + number, 1.7e9 + number))
    return place


def cyclictest(place: Path, kernel: str, slots: Sequence[int], more: int = 0) -> Path:
    """Files of cyclictest, each from a minute of its own; `more` microseconds are added to each latency."""
    place.mkdir(parents=True, exist_ok=True)
    for number, slot in enumerate(slots):
        found = json.loads(json.dumps(CYCLICTEST))
        found["start_time"] = f"Mon, 23 Nov 2026 14:{slot:02}:00 +0000"
        found["sysinfo"]["release"] = kernel
        for thread in found["thread"].values():
            shift = more + slot % 3
            # No two runs have the same counts.
            counts = {str(int(at) + shift): count for at, count in thread["histogram"].items()}
            common = max(counts, key=lambda at: counts[at])
            thread["histogram"] = counts | {common: counts[common] + slot}
            thread["cycles"] += slot
        (place / f"{number}.json").write_text(json.dumps(found))
    return place
