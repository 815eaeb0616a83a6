# SPDX-License-Identifier: GPL-2.0
"""The sidecars of ktstr, which tests sched_ext schedulers in guests: one JSON file for each test.

They have no version. Their fields are those of SidecarResult in ktstr's source, read at 0.4.9 and at 0.50.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct, convert
from msgspec.structs import asdict

from schedlib.formats.run_file import Absent, Direction, Metric, Reading
from schedlib.formats.strict import MAXIMUM, Moment
from schedlib.gate.imports.foreign import Foreign, ForeignFormat, NoRun, Told
from schedlib.runs.tools.tool import Unreadable, dotted_slug, metric

_REGISTRY: tuple[tuple[str, str, Direction], ...] = (
    ("*_latency_us_whole", "us", "lower"),
    ("*_run_delay_ns_per_sched", "ns", "lower"),
    ("avg_dsq_depth", "tasks", "lower"),
    ("avg_imbalance_ratio", "ratio", "lower"),
    ("iteration_rate", "1/s", "higher"),
    ("schbench_total_loops_per_cpu_sec", "1/s", "higher"),
    ("taobench_fast_ops_per_cpu_sec_whole", "1/s", "higher"),
    ("taobench_serve_*_us_whole", "us", "lower"),
    ("taobench_total_ops_per_cpu_sec_whole", "1/s", "higher"),
    ("worst_*_ratio", "ratio", "lower"),
    ("worst_*_us", "us", "lower"),
    ("worst_gap_ms", "ms", "lower"),
    ("worst_iterations_per_cpu_sec", "1/s", "higher"),
    ("worst_page_locality", "ratio", "higher"),
    ("worst_spread", "%", "lower"),
    ("worst_wake_latency_cv", "ratio", "lower"),
)
"""Metrics of a whole test, with the direction that ktstr's registry gives them (METRICS in its source)."""

_PER_WALL_SECOND: tuple[tuple[str, str, Direction], ...] = (
    ("total_iterations", "iterations", "higher"),
    ("total_migrations", "migrations", "lower"),
    ("worst_iterations_per_worker", "iterations", "higher"),
)
"""Those that had a direction as long as ktstr counted work per second, not per second of CPU time."""

_BETTER: dict[str, Direction] = {"LowerBetter": "lower", "HigherBetter": "higher"}


class _Sampled(Struct, frozen=True):
    """Fields that only old sidecars have, with 0 where nothing was sampled. New ones name what they have."""

    worst_cross_node_migration_ratio: float = 0
    worst_iterations_per_worker: float = 0
    worst_mean_run_delay_us: float = 0
    worst_median_wake_latency_us: float = 0
    worst_p99_wake_latency_us: float = 0
    worst_page_locality: float = 0
    worst_run_delay_us: float = 0
    worst_wake_latency_cv: float = 0
    worst_wake_latency_tail_ratio: float = 0


class _Stats(_Sampled, frozen=True, kw_only=True):
    """All cgroups of a test together."""

    total_iterations: float
    total_migrations: float
    worst_gap_ms: float
    worst_migration_ratio: float
    worst_spread: float
    ext_metrics: dict[str, float] = {}


class _Figure(Struct, frozen=True):
    name: str
    value: float
    polarity: str | dict[str, float]
    unit: str


class _Payload(Struct, frozen=True):
    """A program that the test ran in its guest."""

    metrics: tuple[_Figure, ...]
    exit_code: int


class _Host(Struct, frozen=True):
    """The machine that ran the guest."""

    arch: str = ""
    cpu_model: str = ""
    online_cpus: int = 0
    numa_nodes: int = 0
    kernel_release: str = ""


class _Sidecar(Struct, frozen=True):
    test_name: str
    topology: str
    scheduler: str
    work_type: str
    passed: bool
    skipped: bool
    metrics: tuple[_Payload, ...]
    stats: _Stats
    sysctls: tuple[str, ...]
    kargs: tuple[str, ...]
    timestamp: Moment
    active_flags: tuple[str, ...] = ()
    cpu_budget: int = 0
    expected_failure: bool = False
    host: _Host | None = None
    kernel_commit: str | None = None
    kernel_version: str | None = None
    payload: str | None = None
    project_commit: str | None = None
    throughput_denomination: Literal["wall", "cpu_sec"] = "wall"
    vcpus: int = 0


_SETTINGS = (
    "active_flags",
    "cpu_budget",
    "kargs",
    "payload",
    "scheduler",
    "sysctls",
    "throughput_denomination",
    "vcpus",
    "work_type",
)


def _sidecar(file: Foreign) -> Sequence[Told]:
    found = convert(file.json, _Sidecar)
    if found.skipped:
        raise NoRun("the test was skipped")
    if not found.passed:
        raise Unreadable(f"the test {found.test_name} did not pass, and its figures are no measurement")
    if found.expected_failure:
        raise NoRun("the test was meant to fail")
    metrics, absent = _of_the_test(found)
    if len(found.metrics) == 1 and found.metrics[0].exit_code == 0:
        metrics += _of_the_payload(found.metrics[0])
    elif found.metrics:
        absent.append(
            Absent("payload", "several programs ran, or one failed, and nothing says whose figures are whose")
        )
    # Each test boots a guest of its own, often with several topologies.
    tool = f"{found.test_name}-{found.topology}"
    return (Told(tool, Reading(tuple(metrics), tuple(absent)), found.timestamp, _about(found)),)


def _of_the_test(found: _Sidecar) -> tuple[list[Metric], list[Absent]]:
    registry = _REGISTRY + (_PER_WALL_SECOND if found.throughput_denomination == "wall" else ())
    fields, named = asdict(found.stats), found.stats.ext_metrics
    del fields["ext_metrics"]
    unsampled = [name for name in _Sampled.__struct_fields__ if not fields[name] and name not in named]
    metrics = []
    for name, value in (fields | named).items():
        known = ((unit, direction) for pattern, unit, direction in registry if fnmatchcase(name, pattern))
        unit, direction = next(known, ("unknown", "neither"))
        if name not in unsampled and (value >= 0 or direction != "neither"):
            metrics.append(metric(_name(name), unit, direction, "exact", value))
    return metrics, [Absent(_name(name), "nothing was sampled") for name in unsampled]


def _name(name: str) -> str:
    """A metric's name, without the "worst" of quantiles and means: the gate takes that for a maximum.

    They are those of all cgroups together. Up to 0.10 they were those of the worst cgroup.
    """
    return dotted_slug(re.sub(r"^worst_(?=mean_|median_|p\d)", "", name))


def _of_the_payload(payload: _Payload) -> Iterator[Metric]:
    """The figures for which the test says what is better, but no maximum. A program prints hundreds of others."""
    for each in payload.metrics:
        name, better = f"payload.{dotted_slug(each.name)}", _BETTER.get(str(each.polarity))
        if better and not MAXIMUM.search(name):
            yield metric(name, each.unit or "unknown", better, "exact", each.value)


def _about(found: _Sidecar) -> dict[str, str]:
    host = found.host
    said = {
        "kernel": " ".join(filter(None, (found.kernel_version, found.kernel_commit))),
        "machine": f"{host.arch} {host.cpu_model}, {host.online_cpus} CPUs, {host.numa_nodes} nodes, "
        f"host's kernel {host.kernel_release}"
        if host
        else "",
        "settings": json.dumps({name: getattr(found, name) for name in _SETTINGS}),
        "tool_version": found.project_commit or "",
    }
    return {entry: value for entry, value in said.items() if value}


KTSTR_SIDECAR = ForeignFormat(
    "ktstr sidecar",
    "KTSTR_SIDECAR_DIR=DIR cargo ktstr test --kernel KERNEL",
    (
        (
            "iteration_rate",
            "median_wake_latency_us",
            "p99_wake_latency_us",
            "wakeup_p99_latency_us_whole",
            "*_total_*_per_cpu_sec*",
            "payload.*",
        ),
        ("total_iterations",),
    ),
    lambda file: file.has("test_name", "topology", "scheduler"),
    _sidecar,
)
