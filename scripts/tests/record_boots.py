# SPDX-License-Identifier: GPL-2.0
"""Record boots of one kernel for the gate's proof: `python scripts/tests/record_boots.py DIRECTORY 'CONDITIONS'`.

DIRECTORY has a directory of runs for each boot. Written is scripts/schedlib/gate/recorded.json: a value for each metric
and boot, in the order in which they were booted.
"""

from __future__ import annotations

import sys
from pathlib import Path

from schedlib.cache import write_json
from schedlib.gate.recorded import RECORDED
from schedlib.gate.runs import read_side

METRICS = (("rt_wakeup", "timer.p50"), ("rt_wakeup", "timer.p99"), ("rt_push_pull", "groups.frames_per_s"),
           ("sleep_storm", "sleeps_per_s"), ("sleep_storm", "oversleep.p50"))  # fmt: skip


def main(directory: Path, conditions: str) -> None:
    """Read the boots that have every metric, and write the file."""
    side = read_side(directory, "recorded")
    boots = [boot for boot in side.boots if all(key in boot.figures for key in METRICS)]
    rows = [
        {"tool": key[0], "name": key[1], "unit": side.about[key].unit, "direction": side.about[key].direction,
         "values": [round(boot.figures[key].mean, 6) for boot in boots]}
        for key in METRICS
    ]  # fmt: skip
    write_json(RECORDED, {"schema": "recorded-1", "kernel": side.kernel, "conditions": conditions, "metrics": rows})
    print(f"{len(boots)} of {len(side.boots)} boots")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
