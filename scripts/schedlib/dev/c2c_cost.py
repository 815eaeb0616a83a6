# SPDX-License-Identifier: GPL-2.0
"""The cost of the plugin: the same guest with and without it. CPU seconds are used, so other work does not matter."""

from __future__ import annotations

import resource
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import DEFAULT, TAGS, WORKLOADS
from schedlib.c2c.counting import Subject, Wanted, plan
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.objects import watches
from schedlib.c2c.plugin_guest import Setting
from schedlib.kernel.topology import flat
from schedlib.progress import step

_QUANTUM = 100
_TIMEOUT = 900.0


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a guest, from its start to its end."""

    cpus: int
    plugin: float
    without: float


def wanted(cpus: int) -> Wanted:
    """The default measurement with this number of CPUs and one quantum."""
    setting = Setting(flat(cpus), 64, _QUANTUM, WORKLOADS["rt"].rounds, _TIMEOUT)
    return Wanted("rt", DEFAULT, (_QUANTUM,), setting)


def cost(cache: Path, made: Subject, cpus: int) -> Cost:
    """Boot the guest with and without the plugin.

    Raises:
        SchedlineError: a guest did not finish.
    """
    asked = wanted(cpus)
    known = kernel_map(made.vmlinux, cache / "c2c", TAGS)
    with tempfile.TemporaryDirectory(prefix="schedline-") as name:
        place = Path(name)
        (place / "plan").write_text(plan(known, watches(known, asked.objects, cpus)))
        archive = plugin_guest.archive_of(made.kernel, plugin_guest.program(cache, asked.workload), place)
        library = plugin_guest.plugin(cache)
        taken = []
        for plugin, setting in ((library, asked.setting), (None, replace(asked.setting, quantum=0))):
            words = plugin_guest.argv(
                made.planned.target, made.kernel.image, archive, setting, plugin, place / "plan", place / "out"
            )
            before = _children()
            with step(f"{cpus} CPUs {'with' if plugin else 'without'} the plugin"):
                plugin_guest.boot(words, place / "console.log", _TIMEOUT)
            taken.append(_children() - before)
    return Cost(cpus, *taken)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
