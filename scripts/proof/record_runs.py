# SPDX-License-Identifier: GPL-2.0
"""Record real runs for the gate's proof: `python3 scripts/proof record_runs DIRECTORY 'CONDITIONS'`.

DIRECTORY is the output of `schedline run`: one kernel, one machine, and the same number of runs for each row. The
script writes recorded.json: for each metric, one value per round, in the order of the
measurement.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from proof.gate_noise import RECORDED
from schedlib.cache import write_json

METRICS = (
    ("rt_wakeup", "timer.p50"),
    ("rt_wakeup", "timer.p99"),
    ("rt_push_pull", "groups.frames_per_s"),
    ("sleep_storm", "sleeps_per_s"),
    ("sleep_storm", "oversleep.p50"),
)


def main(directory: Path, conditions: str) -> None:
    """Read the rounds, and write the file."""
    rounds: dict[tuple[str, str], dict[int, float]] = {key: {} for key in METRICS}
    about: dict[tuple[str, str], tuple[str, str]] = {}
    for path in sorted(directory.glob("*.json")):
        run = json.loads(path.read_text())
        for metric in run.get("metrics", []):
            key = run["tool"], metric["name"]
            if key in rounds and run["status"] == "DONE":
                rounds[key][run["plan"]["run"]] = metric["value"]
                about[key] = metric["unit"], metric["direction"]
    whole = sorted(set.intersection(*(set(values) for values in rounds.values())))
    rows = [
        {
            "tool": key[0],
            "name": key[1],
            "unit": about[key][0],
            "direction": about[key][1],
            "values": [round(rounds[key][number], 6) for number in whole],
        }
        for key in METRICS
    ]
    write_json(RECORDED, {"schema": "recorded-1", "conditions": conditions, "metrics": rows})
    print(f"{len(whole)} rounds")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
