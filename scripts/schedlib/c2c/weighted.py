# SPDX-License-Identifier: GPL-2.0
"""Misses weighted by a machine's published latencies, always beside the counts that were weighted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from schedlib.c2c.plugin_guest import Setting
from schedlib.c2c.raw import DISTANCES
from schedlib.c2c.traffic_table import by_quantum, field_name, function_name, grid, in_all, middle, object_name, spread
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, Latencies, TrafficResult
from schedlib.formats.data_file import read_toml

_MOST = 20
TITLES = ("weighted, us", "misses", *DISTANCES)


def load_latencies(path: Path) -> Latencies:
    """Read a file of latencies; SchedlineError if it is invalid."""
    return read_toml(path, Latencies, stem="name")


def refuse_lacking(latencies: Latencies, setting: Setting) -> None:
    """SchedlineError if a machine has no latency for a distance at which a CPU of the guest can be."""
    near = 1
    reach = (setting.per_cluster, setting.per_llc, setting.per_node, setting.topology.cpus)
    for distance, far in zip(DISTANCES, reach, strict=True):
        is_possible, near = far > near, max(near, far)
        if is_possible and latencies.of(distance) is None:
            raise SchedlineError(
                f"--latencies: {latencies.name} ({latencies.machine}) has no latency for {distance!r}, and CPUs of "
                "this guest can be so far from each other",
                "choose another --topology, or another file of configs/latencies/",
            )


def weight(counts: Counts, latencies: Latencies) -> int:
    """Misses that another CPU answered, each times its latency; in microseconds."""
    return round(sum(counts.fetched(each) * (latencies.of(each) or 0.0) for each in DISTANCES) / 1000)


def tables(result: TrafficResult) -> Mapping[str, list[tuple[str, ...]]]:
    """For objects, fields and functions: the rows of a table with TITLES, the heaviest first."""
    if not result.latencies:
        return {}
    keys = {"object": object_name, "field": field_name, "function": function_name}
    return {kind: _rows(by_quantum(result, key), result.latencies) for kind, key in keys.items()}


def _rows(found: Sequence[Mapping[str, Counts]], latencies: Latencies) -> list[tuple[str, ...]]:
    every = in_all(found)
    weights = {name: [weight(counts, latencies) for counts in each] for name, each in every.items()}
    names = sorted((name for name in every if any(weights[name])), key=lambda name: (-middle(weights[name]), name))
    return [
        (
            name,
            spread(weights[name]),
            spread([counts.misses for counts in every[name]]),
            *(spread([counts.fetched(distance) for counts in every[name]]) for distance in DISTANCES),
        )
        for name in names[:_MOST]
    ]


def said(latencies: Latencies) -> tuple[str, ...]:
    """What the weights are, and what they are not."""
    known = ", ".join(f"{each} {latencies.of(each):g} ns" for each in DISTANCES if latencies.of(each) is not None)
    return (
        f"weighted by the latencies of {latencies.machine}: {known}",
        f"source: {latencies.source}; {latencies.about}",
        "a sum of latencies is no time: CPUs wait at the same time, and go on while they wait; cold misses, upgrades "
        "and hits weigh nothing",
    )


def lines(result: TrafficResult) -> Iterator[str]:
    """The part of the report for results with latencies; nothing for others."""
    if result.latencies:
        yield from ("", *said(result.latencies))
    for kind, rows in tables(result).items():
        yield from ("", *grid([(kind, *TITLES), *rows], 1))
