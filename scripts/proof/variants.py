# SPDX-License-Identifier: GPL-2.0
"""Several designs of one change counted beside each other: docs/results/changes.md.

A file of variants/ names the workloads, and for each design the options of `schedline c2c`. Each is counted by that
command, and what it wrote is read again: nothing is counted twice.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.c2c.traffic_report import middle
from schedlib.cache import cache_dir
from schedlib.formats import tables
from schedlib.formats.c2c_document import TrafficResult, read_result
from schedlib.paths import PROJECT

_COUNTS = ("hitm", "false_shared", "upgrades")
FILES = Path(__file__).with_name("variants")


@dataclass(frozen=True)
class Designs:
    """A file: the options of all guests, the workloads, and each design's own options."""

    options: tuple[str, ...]
    workloads: tuple[str, ...]
    designs: Mapping[str, tuple[str, ...]]


def read_designs(path: Path) -> Designs:
    """Read a file; KeyError if something is missing."""
    found = tomllib.loads(path.read_text())
    designs = {name: tuple(words) for name, words in found["designs"].items()}
    return Designs(tuple(found["options"]), tuple(found["workloads"]), designs)


def command(designs: Designs, workload: str, name: str, out: Path) -> list[str]:
    """What counts one design under one workload."""
    own = designs.designs[name]
    words = [str(PROJECT / "scripts/schedline"), "c2c", "--workload", workload, "--no-blame", "--out", str(out)]
    return [*words, *designs.options, *own]


def figures(result: TrafficResult) -> tuple[str, ...]:
    """Misses, HITM, false sharing and upgrades: the median of the quanta, and the range of the misses."""
    sums = [[each.counts for each in quantum.rows if not each.neighbour] for quantum in result.quanta]
    misses = [sum(each.misses for each in rows) for rows in sums]
    others = [
        middle([sum(getattr(each, name) for each in rows) for rows in sums])
        for name in ("hitm", "false_shared", "upgrades")
    ]
    return (f"{middle(misses)} ({min(misses)}..{max(misses)})", *map(str, others))


def table(workload: str, rows: Mapping[str, TrafficResult]) -> Sequence[str]:
    """The designs under one workload."""
    cells = [
        (workload, "misses", "HITM", "false sharing", "upgrades"),
        *((name, *figures(each)) for name, each in rows.items()),
    ]
    return tables.table(cells, "<  >")


def main() -> None:
    """Count all designs of a file, and print a table for each workload."""
    parser = argparse.ArgumentParser(prog="variants")
    parser.add_argument("name", choices=sorted(path.stem for path in FILES.glob("*.toml")))
    parser.add_argument("--out", type=Path, help="directory for the results (default: in the cache)")
    given = parser.parse_args()
    designs, place = read_designs(FILES / f"{given.name}.toml"), given.out or cache_dir() / "proof" / given.name
    for workload in designs.workloads:
        rows = {}
        for name in designs.designs:
            out = place / workload / name.replace(" ", "-")
            if not (out / "c2c.json").is_file() and subprocess.run(command(designs, workload, name, out)).returncode:
                sys.exit(f"{name} under {workload} was not counted")
            rows[name] = read_result(out)
        print("\n".join([*table(workload, rows), ""]))


if __name__ == "__main__":
    main()
