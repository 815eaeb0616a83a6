# SPDX-License-Identifier: GPL-2.0
"""Measure a kernel, or play a trace again, and write the result as text, picture and document; or compare two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import UNSET, structs

from schedlib import TOOL, doctor
from schedlib.c2c import c2c_page, plugin_guest, traffic_diff, traffic_report, weighted
from schedlib.c2c.blame import blame
from schedlib.c2c.c2c_options import (
    CLOCKS,
    PROGRAMS,
    WORKLOADS,
    C2cDiffOptions,
    C2cOptions,
    C2cReplayOptions,
)
from schedlib.c2c.counting import Wanted, built, observe, source
from schedlib.c2c.moved_layout import relaid
from schedlib.c2c.observed import Observed, Player, keep_trace, pcs_of, played, result_of, traced
from schedlib.c2c.plugin_guest import Setting
from schedlib.c2c.traffic_diff import TrafficDiffDocument
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, TrafficResult, read_result
from schedlib.guest.command_line import refuse_impossible
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import shape_of
from schedlib.progress import printable, say, step, tell
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

_TEXT, _PICTURE = "c2c.txt", "c2c.svg"


def wanted_of(options: C2cOptions) -> Wanted:
    """The measurement that the options ask for; SchedlineError if the emulator cannot give a guest the topology."""
    target = TARGETS[options.on]
    topology = shape_of(options.topology, options.cpus)
    if options.topology:
        refuse_impossible(target, topology)
    workload, own = WORKLOADS[options.workload or "rt"], options.own_program()
    rounds = 1 if own else options.rounds or workload.rounds
    setting = Setting(topology, options.line, 0, rounds, options.timeout, shift=CLOCKS.index(options.clock))
    config, changes = (*options.config, *(PROGRAMS if own else workload.config)), options.changes
    if options.cpupri:
        config = (*config, f"cpupri-{options.cpupri}")
        changes = replace(changes, with_=(*changes.with_, "cpupri-split"))
    name = printable(own.name) if own else workload.name
    return Wanted(name, options.objects, options.quanta, setting, config, changes, target, own)


def count(options: C2cOptions) -> Verdict:
    """Build, boot a guest for each quantum, and report the counts; SchedlineError if one of these fails."""
    cache = cache_dir()
    wanted = wanted_of(options)
    latencies = weighted.load_latencies(options.results.latencies) if options.results.latencies else None
    if latencies:
        weighted.refuse_lacking(latencies, wanted.setting)
    if wanted.program:
        plugin_guest.check(wanted.program, wanted.target.arch)
    shell = ["in-guest"] if wanted.program and wanted.program.is_script else []
    # pahole makes the types that the kernel shows to BPF programs.
    types = ["layout"] if "c2c-sched-ext" in wanted.config else []
    doctor.require(["build", *options.tree.needs, *shell, *types])
    planned = source(open_tree(cache, options.tree), wanted)
    out = _results(cache, options.results.out)
    with scratch(cache) as place:
        is_taped = options.results.blame or options.trace is not None
        observed = observe(cache, built(cache, planned, place / "kernel"), wanted, place, out, taped=is_taped)
        if options.trace:
            with step(f"writing {options.trace}"):
                player = Player(plugin_guest.replayer(cache), observed.parameters)
                keep_trace(options.trace, observed, pcs_of(player, observed))
        result = _result(cache, observed, place, blames=options.results.blame)
    _show(result, out, options)
    return Verdict.PASS


def replay(options: C2cReplayOptions) -> Verdict:
    """Count the accesses of a trace again; SchedlineError if it is not whole, or the layout does not fit to it."""
    cache = cache_dir()
    with scratch(cache) as place:
        with step(f"reading {options.trace}"):
            observed = traced(options.trace, place)
        if options.layout:
            observed = relaid(observed, options.layout, place)
        out = _results(cache, options.results.out)
        player = Player(plugin_guest.replayer(cache), observed.parameters)
        with step("counting"):
            observed = played(player, observed, options.line or observed.parameters.line)
        result = _result(cache, observed, place, blames=options.results.blame)
    _show(result, out, options)
    return Verdict.PASS


def _results(cache: Path, wanted: Path | None) -> Path:
    """The directory for the results. If this run fails, files of an earlier run must not be taken for its results."""
    out = results_directory(cache, wanted)
    for name in (C2C_FILE, _TEXT, _PICTURE):
        (out / name).unlink(missing_ok=True)
    return out


def _result(cache: Path, observed: Observed, place: Path, *, blames: bool) -> TrafficResult:
    """The result of guests, with the list of fields to blame if their accesses were kept for that."""
    result = result_of(observed)
    if not blames:
        return result
    player = Player(plugin_guest.replayer(cache), observed.parameters)
    with step("counting again with fields on lines of their own"):
        return structs.replace(result, blame=blame(player, observed, result, place))


def _show(result: TrafficResult, out: Path, options: C2cOptions | C2cReplayOptions) -> None:
    latencies = weighted.load_latencies(options.results.latencies) if options.results.latencies else UNSET
    result = structs.replace(result, latencies=latencies)
    text = traffic_report.text(result)
    write_atomic(out / _TEXT, text)
    write_atomic(out / _PICTURE, c2c_page.picture(result))
    for path in (options.results.json, out / C2C_FILE):
        if path:
            document.write(path, result)
    if options.results.html:
        write_atomic(options.results.html, c2c_page.page(result))
    print(text, end="")
    say(f"results: {out}/{C2C_FILE}, {_TEXT}, {_PICTURE}")


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
