# SPDX-License-Identifier: GPL-2.0
"""The programs that a guest runs between the markers: what each does, and how many rounds it runs."""

from __future__ import annotations

from dataclasses import dataclass

from schedlib.paths import PROJECT

SOURCES = PROJECT / "scripts/c2c"


@dataclass(frozen=True)
class Workload:
    """A program of scripts/c2c/.

    Attributes:
        about: what it does, for the help text.
        rounds: default number of rounds of each thread.
        config: fragments of configs/kernel/ that it needs.
    """

    name: str
    about: str
    rounds: int
    config: tuple[str, ...] = ()


WORKLOADS = {
    each.name: each
    for each in (
        Workload("rt", "RT overload: pushes, pulls and priorities of two SCHED_FIFO threads for each CPU", 200),
        Workload("wakeup", "pairs of fair threads that wake each other", 200),
        Workload("wakeup-idle", "pairs that answer each other through pipes, one for four CPUs, so most are idle", 500),
        Workload("balance", "more fair threads than CPUs, all moved to one CPU again and again", 40),
        Workload("partition", "a cpuset partition comes and goes, and its root_domain with it", 10, ("cpusets",)),
    )
}
