# SPDX-License-Identifier: GPL-2.0
"""Compare a series with its base: judge each part, and write the page as text, JSON, JUnit and KCIDB."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, results_directory, write_atomic, write_json
from schedlib.formats import document
from schedlib.gate.gate_options import GateOptions, gates_path
from schedlib.kernel.targets import choose
from schedlib.layout.columns import columns_for, ensure_tools
from schedlib.layout.patch_text import touches_layout
from schedlib.premerge import parts, premerge_page, record
from schedlib.premerge.parts import Part
from schedlib.premerge.premerge_options import SERIES, PremergeOptions
from schedlib.premerge.series import read_series
from schedlib.progress import say
from schedlib.tree.changes import present_changes
from schedlib.tree.kernel_tree import open_kdir
from schedlib.verdict import Verdict, worst


def premerge(options: PremergeOptions) -> Verdict:
    """Compare a series with its base, write the documents and print the page.

    Raises:
        SchedlineError: the tree, the series, the machine or the runs do not allow it.
    """
    started = datetime.now(UTC)
    cache = cache_dir()
    tree = open_kdir(cache, options.kdir)
    series = read_series(tree, options.base, options.head, options.mbox)
    expected = present_changes(tree, series.base)
    columns = columns_for(options.archs, ())
    # Report missing tools of later parts now, not after an earlier part has run for half an hour.
    if "layout" not in options.skip and touches_layout(series.diff):
        ensure_tools(columns)
    if not {"kunit", "mutants"} <= set(options.skip):
        doctor.require(["build", choose(tree, None)[0].name])
    out = results_directory(cache, options.out)
    say(f"{len(series.patches)} patches on {series.base[:12]}, logs in {out}")
    jobs: dict[str, Callable[[], Part]] = {
        "layout": lambda: parts.layout(cache, tree, series, columns, expected, out),
        "kunit": lambda: parts.kunit(cache, tree, series, expected, out),
        "c2c": lambda: parts.emulated(cache, tree, series, out),
        "mutants": lambda: parts.mutated(cache, tree, series, present_changes(tree, series.head), out),
    }
    found = []
    for name, job in jobs.items():
        start = time.monotonic()
        part = Part(name, None, "left out by --skip") if name in options.skip else job()
        found.append(part)
        if name not in options.skip:
            say(f"{name}: {part.summary} ({time.monotonic() - start:.0f} s)")
    found.append(_runs(options, out))
    verdict = worst([part.verdict for part in found if part.verdict is not None] or [Verdict.INCONCLUSIVE])
    page = premerge_page.text(series, found, verdict)
    write_atomic(out / "premerge.txt", page)
    write_atomic(out / "junit.xml", premerge_page.junit(found))
    write_json(out / "kcidb.json", premerge_page.kcidb(started, series, found))
    content = premerge_page.premerge_document(started, tree.origin, series, found, verdict)
    for file in (out / SERIES, *([options.json] if options.json else [])):
        document.write(file, content)
    print(page, end="")
    return verdict


def _runs(options: PremergeOptions, out: Path) -> Part:
    """The gate's verdict. Its text is part of the page."""
    if not options.runs:
        return Part("runs", None, "no runs of a real machine were given (--runs)")
    # numpy and scipy are installed only if runs are given.
    from schedlib.gate import gate_report
    from schedlib.gate.comparison import compare

    sides = dict(zip(("base", "candidate"), options.runs, strict=True))
    if options.placebo:
        sides["placebo"] = options.placebo
    gates = options.gates or "default"
    kept = record.keep_runs(out, sides, gates_path(gates))
    found = compare(GateOptions(kept["base"], kept["candidate"], gates, placebo=kept.get("placebo")))
    document.write(out / "gate.json", gate_report.document(found))
    verdict, said = found.verdict, gate_report.text(found)
    return Part("runs", verdict, f"gate: {verdict.name}", tuple(said.splitlines()), (("gate", verdict, said),))
