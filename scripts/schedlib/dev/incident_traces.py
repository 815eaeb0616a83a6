# SPDX-License-Identifier: GPL-2.0
"""Traces of built-in workloads on a kernel without carried changes: each is taken once, and kept in the cache."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import ALL, LINES, TIMEOUT
from schedlib.c2c.counting import Subject, Wanted, built, observe, source
from schedlib.c2c.observed import keep_trace
from schedlib.c2c.player import Player, pcs_of
from schedlib.c2c.plugin_guest import Setting
from schedlib.cache import read_json, scratch, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.incident_file import ReplayRules
from schedlib.formats.retrodict_document import ReplayFacts, TraceRow
from schedlib.git import git
from schedlib.kernel.build import KernelPlan, compiler_version
from schedlib.kernel.topology import flat
from schedlib.paths import CONFIGS
from schedlib.progress import say, step
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree


@dataclass(frozen=True)
class IncidentTraces:
    """The traces for one tree.

    Attributes:
        composition: the tree without carried changes.
        failed: the workloads whose guests did not end well, and why.
    """

    cache: Path
    tree: Tree
    composition: Composition
    rules: ReplayRules
    failed: dict[str, str] = field(default_factory=dict)

    def wanted(self, workload: str) -> Wanted:
        """The measurement of a workload."""
        rules = self.rules
        setting = Setting(flat(rules.cpus), LINES[0], 0, rules.rounds_of(workload), TIMEOUT)
        return Wanted(workload, (ALL,), rules.quanta, setting, rules.config)

    @cached_property
    def plan(self) -> KernelPlan:
        """The kernel of all guests."""
        return source(self.tree, self.wanted(self.rules.trace[0].workload), self.composition)

    def path(self, workload: str) -> Path:
        """The file for a trace, by everything that it depends on."""
        plan = self.plan
        depends = (
            git(self.tree.src, "rev-parse", f"{plan.commit}^{{tree}}"),
            plan.configuration.digest(),
            compiler_version(plan.target.compiler),
            plugin_guest.refuse_other_qemu(plan.target),
            plugin_guest.mode(plan.target),
            plugin_guest.plugin(self.cache).name,
            plugin_guest.program(self.cache, workload, plan.target).name,
            (CONFIGS / "slab-types.toml").read_text(),
            self.wanted(workload),
        )
        digest = hashlib.sha256(repr(depends).encode()).hexdigest()[:20]
        return self.cache / "retrodict" / "traces" / f"{workload}-{digest}.trace"

    def take(self, workloads: Iterable[str]) -> None:
        """Take the traces that are missing, one guest at a time. That a workload fails is noted, and no error.

        Raises:
            SchedlineError: the kernel does not build.
        """
        missing = [name for name in workloads if not self.path(name).is_file()]
        if not missing:
            return
        with scratch(self.cache) as place:
            made = built(self.cache, self.plan, place / "kernel")
            for name in missing:
                (place / name).mkdir()
                try:
                    self._take(made, name, place / name)
                except SchedlineError as error:
                    self.failed[name] = error.observed.splitlines()[0]
                    say(f"{name}: {error.observed}")

    def _take(self, made: Subject, workload: str, place: Path) -> None:
        began = time.monotonic()
        path = self.path(workload)
        path.parent.mkdir(parents=True, exist_ok=True)
        logs = path.parent / "logs" / workload
        logs.mkdir(parents=True, exist_ok=True)
        observed = observe(self.cache, made, self.wanted(workload), place, logs, taped=True)
        with step(f"writing {path.name}"):
            player = Player(plugin_guest.replayer(self.cache), observed.parameters)
            keep_trace(path, observed, pcs_of(player, observed))
        for guest in observed.guests:
            if guest.tape:
                guest.tape.unlink()
        seconds, load = round(time.monotonic() - began, 1), round(os.getloadavg()[0], 1)
        write_json(path.with_suffix(".json"), {"seconds": seconds, "load": load})

    def facts(self, workloads: Iterable[str]) -> ReplayFacts:
        """What the page says of the traces."""
        rules, plan = self.rules, self.plan
        traces = []
        for name in workloads:
            path = self.path(name)
            if path.is_file():
                kept = read_json(path.with_suffix(".json")) or {}
                seconds, load = (float(kept.get(key, 0.0)) for key in ("seconds", "load"))
                traces.append(TraceRow(name, rules.rounds_of(name), path.stat().st_size, seconds, load))
        return ReplayFacts(
            rules=rules.date,
            cpus=rules.cpus,
            quanta=rules.quanta,
            configuration="+".join(plan.configuration.names),
            compiler=compiler_version(plan.target.compiler),
            emulator=plugin_guest.refuse_other_qemu(plan.target),
            traces=tuple(traces),
        )
