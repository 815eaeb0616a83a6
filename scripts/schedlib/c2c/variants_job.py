# SPDX-License-Identifier: GPL-2.0
"""Measure several designs, and write the table as text and document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from schedlib import TOOL, doctor
from schedlib.c2c import variants_report
from schedlib.c2c.c2c_options import LINES, C2cVariantsOptions, owner_of
from schedlib.c2c.design_file import PLACEBO, DesignFile, read_designs
from schedlib.c2c.design_runs import GuestRuns, PlannedDesign, counted, read_kept
from schedlib.c2c.traffic_table import field_name, totals
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.formats import document
from schedlib.formats.c2c_document import Counts, TrafficResult, TrafficRow
from schedlib.formats.variants_document import (
    DesignBytes,
    DesignEvents,
    DesignTraffic,
    MeasuredDesign,
    VariantsDocument,
)
from schedlib.guest.command_line import refuse_impossible
from schedlib.kernel.build import KernelPlan
from schedlib.progress import say
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

_TEXT, _DOCUMENT = "variants.txt", "variants.json"


def variants(options: C2cVariantsOptions) -> Verdict:
    """Build, run and count all designs of a file; SchedlineError if one of these fails."""
    started = datetime.now(UTC).replace(microsecond=0)
    cache = cache_dir()
    wanted = read_designs(options.file)
    doctor.require(["build", *options.tree.needs])
    runs = GuestRuns(cache, open_tree(cache, options.tree), wanted, options.timeout)
    refuse_impossible(
        runs.measurement(wanted.workloads[0], wanted.quanta[0]).target,
        runs.measurement(wanted.workloads[0], wanted.quanta[0]).setting.topology,
    )
    out = results_directory(cache, options.out)
    for name in (_TEXT, _DOCUMENT):
        (out / name).unlink(missing_ok=True)
    # All of them are planned before the first is built: a patch that does not apply is told at once.
    groups = _groups(runs, wanted)
    home = groups[0][0].plan.configuration
    results: dict[str, list[TrafficResult]] = {}
    for number, columns in enumerate(groups, 1):
        say(f"kernel {number} of {len(groups)}: {', '.join(column.name for column in columns)}")
        paths = counted(runs, columns, home, out / f"kernel-{number}")
        results |= {name: read_kept(each) for name, each in paths.items()}
    found = _document(wanted, groups, results, started)
    text = variants_report.text(found)
    write_atomic(out / _TEXT, text)
    for path in (options.json, out / _DOCUMENT):
        if path:
            document.write(path, found)
    if options.html:
        # Its libraries are there only if a page is asked for.
        from schedlib.c2c.variants_page import variants_page

        write_atomic(options.html, variants_page(found))
    print(text, end="")
    say(f"results: {out}/{_DOCUMENT}, {_TEXT}")
    return Verdict.PASS


def _groups(runs: GuestRuns, wanted: DesignFile) -> list[list[PlannedDesign]]:
    """The kernels, each with the layouts for its accesses; the placebo behind the first."""
    groups: list[list[PlannedDesign]] = []
    for number, design in enumerate(each for each in wanted.designs if each.is_kernel):
        plan = runs.plan(design)
        layouts = [each for each in wanted.designs if each.of == design.name]
        groups.append(
            [PlannedDesign(design.name, plan), *(PlannedDesign(each.name, plan, Path(each.layout)) for each in layouts)]
        )
        if not number:
            groups.append([PlannedDesign(PLACEBO, runs.placebo(design))])
    return groups


def _document(
    wanted: DesignFile,
    groups: Sequence[Sequence[PlannedDesign]],
    results: dict[str, list[TrafficResult]],
    started: datetime,
) -> VariantsDocument:
    columns = {column.name: column for group in groups for column in group}
    of = {each.name: each.of for each in wanted.designs}
    names = [wanted.designs[0].name, PLACEBO, *(each.name for each in wanted.designs[1:])]
    first = results[names[0]][0]
    return VariantsDocument(
        schema="c2c-variants-1",
        tool=TOOL,
        started=started,
        tree=first.fingerprint["tree"],
        emulator=first.fingerprint["emulator"],
        compiler=first.fingerprint["compiler"],
        cpus=first.parameters.cpus,
        topology=first.parameters.topology,
        workloads=wanted.workloads,
        quanta=wanted.quanta,
        lines=LINES,
        designs=tuple(_design(columns[name].plan, name, of.get(name, ""), results[name], wanted) for name in names),
    )


def _design(
    plan: KernelPlan, name: str, of: str, results: Sequence[TrafficResult], wanted: DesignFile
) -> MeasuredDesign:
    quanta = len(wanted.quanta)
    traffic = []
    for start in range(0, len(results), quanta):
        traffic += [_traffic(results[start : start + quanta], each) for each in wanted.objects]
    return MeasuredDesign(
        name=name,
        kind="placebo" if name == PLACEBO else "layout" if of else "kernel",
        of=of,
        build_id=results[0].fingerprint["build_id"],
        commit=plan.commit,
        configuration="+".join(plan.configuration.names),
        changes={row.id: row.state.value for row in plan.composition.states},
        bytes=tuple(_bytes(results[0], each) for each in wanted.objects),
        traffic=tuple(traffic),
    )


def _traffic(guests: Sequence[TrafficResult], name: str) -> DesignTraffic:
    """One kind of object in one workload, with one size of lines; a guest for each quantum."""
    rows = [[row for row in guest.quanta[0].rows if _is_of(row, name)] for guest in guests]
    fields = [totals(each, field_name) for each in rows]
    names = sorted({field for table in fields for field in table})
    return DesignTraffic(
        workload=guests[0].parameters.workload,
        line=guests[0].line,
        object=name,
        lines_touched=tuple(len({(row.prefix, row.line) for row in each}) for each in rows),
        total=_events([Counts.sum(row.counts for row in each) for each in rows]),
        fields={field: _events([table.get(field, Counts()) for table in fields]) for field in names},
    )


def _is_of(row: TrafficRow, name: str) -> bool:
    return not row.neighbour and row.owner == owner_of(name)


def _events(counts: Iterable[Counts]) -> DesignEvents:
    every = list(counts)

    def column(of: Callable[[Counts], int]) -> tuple[int, ...]:
        return tuple(of(each) for each in every)

    return DesignEvents(
        misses=column(lambda each: each.misses),
        other_llc=column(lambda each: each.fetched("node")),
        other_node=column(lambda each: each.remote),
        false_shared=column(lambda each: each.false_shared),
        hitm=column(lambda each: each.hitm),
        upgrades=column(lambda each: each.upgrades),
        accesses=column(lambda each: each.accesses),
    )


def _bytes(result: TrafficResult, name: str) -> DesignBytes:
    watched = [each for each in result.watched if each.owner == owner_of(name)]
    own = next(each for each in watched if not each.prefix)
    behind = sum(each.size * each.number for each in watched if each.prefix)
    return DesignBytes(object=name, objects=own.number, own=own.size, behind=-(-behind // own.number))
