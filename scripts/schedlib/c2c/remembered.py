# SPDX-License-Identifier: GPL-2.0
"""The default measurement of a tree, cached under a digest of everything that it depends on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from schedlib.c2c import plugin_guest
from schedlib.c2c.counting import Wanted, built, default_setting, measure, source
from schedlib.c2c.object_kinds import DEFAULT
from schedlib.cache import scratch
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficResult, read_result
from schedlib.git import git
from schedlib.kernel.build import compiler_version
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree

WORKLOAD = "rt"


def remembered(
    cache: Path, tree: Tree, quanta: tuple[int, ...], logs: Path, composition: Composition | None = None
) -> TrafficResult:
    """Return what `schedline c2c` measures by default, from the cache if possible.

    Args:
        composition: what to measure; None composes it from the tree.
        logs: directory for the console logs; created only if a guest has to boot.

    Raises:
        SchedlineError: see source(), built() and measure().
    """
    wanted = Wanted(WORKLOAD, DEFAULT, quanta, default_setting(WORKLOAD))
    of = source(tree, wanted, composition)
    content = git(tree.src, "rev-parse", f"{of.planned.commit}^{{tree}}")
    programs = [path.name for path in (plugin_guest.plugin(cache), plugin_guest.program(cache, WORKLOAD))]
    compiler = compiler_version(of.planned.target.compiler)
    depends = f"{content} {of.planned.configuration.digest()} {compiler} {of.emulator} {programs} {wanted}"
    kept = cache / "c2c" / f"result-{hashlib.sha256(depends.encode()).hexdigest()[:20]}.json"
    if kept.is_file():
        return read_result(kept)
    logs.mkdir(parents=True, exist_ok=True)
    with scratch(cache) as place:
        result = measure(cache, built(cache, of, place / "kernel"), wanted, place, logs)
    document.write(kept, result)
    return result
