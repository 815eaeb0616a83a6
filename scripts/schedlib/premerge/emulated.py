# SPDX-License-Identifier: GPL-2.0
"""The cache-line traffic of base and head on emulated CPUs, by field."""

from __future__ import annotations

from pathlib import Path

from schedlib import doctor
from schedlib.c2c import traffic_diff
from schedlib.c2c.c2c_options import QUANTA
from schedlib.c2c.counting import remembered
from schedlib.c2c.plugin_guest import refuse_other_qemu
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import read_result
from schedlib.paths import CONFIGS
from schedlib.premerge.parts import Part
from schedlib.premerge.premerge_files import TRAFFIC
from schedlib.premerge.series import PatchSeries
from schedlib.tree.kernel_tree import Tree, at
from schedlib.verdict import Verdict


def emulated(cache: Path, tree: Tree, series: PatchSeries, out: Path) -> Part:
    """Measure both, or take cached results, and judge the head by configs/gates/c2c.toml."""
    if not any(file.startswith(("kernel/sched/", "include/")) for file in series.files):
        return Part("c2c", Verdict.PASS, "neither the scheduler nor a header is touched")
    try:
        doctor.require(["build", "qemu-x86_64"])
        refuse_other_qemu()
    except SchedlineError as error:
        return Part("c2c", None, " ".join(error.observed.split()))
    for side, commit in (("base", series.base), ("head", series.head)):
        counted = remembered(cache, at(tree, commit), QUANTA, out / TRAFFIC / side)
        document.write(out / TRAFFIC / f"{side}.json", counted)
    return compared(out)


def compared(out: Path) -> Part:
    """Compare the two results in the directory of a premerge."""
    base, head = (read_result(out / TRAFFIC / f"{side}.json") for side in ("base", "head"))
    traffic_diff.refuse_unlike(base, head)
    judged = traffic_diff.judge(base, head, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    verdict = traffic_diff.verdict_of(judged)
    bad = [each for each in judged if each.verdict is not Verdict.PASS]
    said = tuple(f"{each.verdict.name}: {traffic_diff.sentence(each)}" for each in bad)
    cpus, workload = base.parameters.cpus, base.parameters.workload
    summary = f"{workload} on {cpus} emulated CPUs: {len(judged)} counts, {len(bad)} over the budget"
    tests: list[tuple[str, Verdict | None, str]] = [
        (f"{each.name} {each.count}", each.verdict, traffic_diff.sentence(each)) for each in judged
    ]
    return Part("c2c", verdict, summary, said, tuple(tests))
