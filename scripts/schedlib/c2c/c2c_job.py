# SPDX-License-Identifier: GPL-2.0
"""Measure a kernel and write the result as text, picture and document; or compare two results."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from schedlib import TOOL, doctor
from schedlib.c2c import guest_files, heat_map, traffic_diff, traffic_report, weighted
from schedlib.c2c.c2c_options import PROGRAMS, WORKLOADS, C2cDiffOptions, C2cOptions
from schedlib.c2c.counting import Wanted, built, measure, source
from schedlib.c2c.plugin_guest import Setting
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.formats import document
from schedlib.formats.c2c_diff_document import TrafficDiffDocument
from schedlib.formats.c2c_document import C2C_FILE, read_result
from schedlib.guest.command_line import refuse_impossible
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import flat, load_topology
from schedlib.progress import printable, say, tell
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

_TEXT, _PICTURE = "c2c.txt", "c2c.svg"


def wanted_of(options: C2cOptions) -> Wanted:
    """The measurement that the options ask for; SchedlineError if the emulator cannot give a guest the topology."""
    target = TARGETS[options.on]
    topology = load_topology(options.topology) if options.topology else flat(options.cpus)
    if options.topology:
        refuse_impossible(target, topology)
    workload, own = WORKLOADS[options.workload], options.program
    rounds = 1 if own else options.rounds or workload.rounds
    setting = Setting(topology, options.line, 0, rounds, options.timeout)
    config, changes = (*options.config, *(PROGRAMS if own else workload.config)), options.changes
    if options.cpupri:
        config = (*config, f"cpupri-{options.cpupri}")
        changes = replace(changes, with_=(*changes.with_, "cpupri-split"))
    name = printable(own.name) if own else options.workload
    return Wanted(name, options.objects, options.quanta, setting, config, changes, target, own)


def count(options: C2cOptions) -> Verdict:
    """Build, boot a guest for each quantum, and report the counts; SchedlineError if one of these fails."""
    cache = cache_dir()
    wanted = wanted_of(options)
    latencies = weighted.load_latencies(options.latencies) if options.latencies else None
    if latencies:
        weighted.refuse_lacking(latencies, wanted.setting)
    if wanted.program:
        guest_files.check(wanted.program, wanted.target.arch)
    shell = ["in-guest"] if wanted.program and wanted.program.is_script else []
    doctor.require(["build", *options.tree.needs, *shell])
    planned = source(open_tree(cache, options.tree), wanted)
    out = results_directory(cache, options.out)
    # If this run fails, files of an earlier run must not be taken for its results.
    for name in (C2C_FILE, _TEXT, _PICTURE):
        (out / name).unlink(missing_ok=True)
    with scratch(cache) as place:
        result = measure(cache, built(cache, planned, place / "kernel"), wanted, place, out)
    result = msgspec.structs.replace(result, latencies=latencies or msgspec.UNSET)
    text, picture = traffic_report.text(result) + weighted.text(result), heat_map.draw(result)
    write_atomic(out / _TEXT, text)
    write_atomic(out / _PICTURE, picture)
    for path in (options.json, out / C2C_FILE):
        if path:
            document.write(path, result)
    if options.svg:
        write_atomic(options.svg, picture)
    if options.html:
        # Its libraries are there only if a page is asked for.
        from schedlib.c2c.c2c_page import page

        write_atomic(options.html, page(result))
    print(text, end="")
    say(f"results: {out}/{C2C_FILE}, {_TEXT}, {_PICTURE}")
    return Verdict.PASS


def diff(options: C2cDiffOptions) -> Verdict:
    """Compare two results; SchedlineError if a file is not a result, or their settings differ."""
    base, candidate = read_result(options.base), read_result(options.candidate)
    traffic_diff.refuse_unlike(base, candidate)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(options.gates))
    verdict = traffic_diff.verdict_of(judged)
    if options.json:
        found = TrafficDiffDocument(schema="c2c-diff-1", tool=TOOL, status=verdict, metrics=judged)
        document.write(options.json, found)
    for line in traffic_diff.text(base, candidate, judged).splitlines():
        tell(line)
    return verdict
