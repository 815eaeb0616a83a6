# SPDX-License-Identifier: GPL-2.0
"""Compares the cache-line traffic of a mutant on emulated CPUs with that of the kernel that it breaks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlib.c2c import traffic_diff
from schedlib.c2c.counting import remembered
from schedlib.check.mutants import Fate, Mutant, applied
from schedlib.paths import CONFIGS
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

_QUANTA = (100,)


def try_traffic(cache: Path, tree: Tree, mutant: Mutant, logs: Path) -> tuple[Fate, frozenset[str], float]:
    """Count the traffic without and with a mutant: it has to rise for one of the names in its Traffic header.

    Returns:
        Its fate, the objects and fields whose traffic rose, and the time in seconds.
    """
    started = time.monotonic()
    composition, commit = applied(tree, mutant)
    if commit is None:
        return Fate.DOES_NOT_APPLY, frozenset(), 0.0
    failed = _traffic(cache, tree, (composition, replace(composition, commit=commit)), logs)
    caught = any(name.startswith(mutant.traffic) for name in failed)
    fate = Fate.KILLED if caught else Fate.KILLED_BY_OTHERS if failed else Fate.SURVIVED
    return fate, failed, time.monotonic() - started


def _traffic(cache: Path, tree: Tree, both: Sequence[Composition], logs: Path) -> frozenset[str]:
    """The objects and fields whose emulated traffic exceeds the budgets in a mutant."""
    base, candidate = (remembered(cache, tree, _QUANTA, logs, composition) for composition in both)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    return frozenset(each.name for each in judged if each.verdict is Verdict.FAIL)
