# SPDX-License-Identifier: GPL-2.0
"""incidents -> contracts derived from the layouts before, and counts -> what they say of the bad ones and the fixes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import structs

import schedlib
from schedlib import doctor
from schedlib.c2c import plugin_guest
from schedlib.c2c.observed import traced
from schedlib.cache import cache_dir, scratch, write_atomic
from schedlib.contracts.contract_rules import CONTRACTS, Rules, rules_of
from schedlib.contracts.first_contract import DocumentedAccess, first_contract
from schedlib.contracts.packs import all_rules, pack_rules
from schedlib.dev.dev_options import RetrodictOptions
from schedlib.dev.incident_counts import NOT_PLAYED, CountPrograms, IncidentTrace, counted_or_why
from schedlib.dev.incident_offsets import layouts_of
from schedlib.dev.incident_states import Bench, IncidentState, states_of
from schedlib.dev.incident_traces import IncidentTraces
from schedlib.dev.quiet_changes import quiet_rows
from schedlib.dev.retrodict_page import page
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.incident_file import Incident, IncidentRules, Played, read_incident_rules, read_incidents
from schedlib.formats.retrodict_document import CountedRow, RetrodictDocument, RetrodictRow
from schedlib.layout.columns import ensure_tools, pack_columns
from schedlib.layout.compile import Column, arch_table, compiler_of
from schedlib.layout.members import resolve
from schedlib.layout.patch_check import broken_rules
from schedlib.layout.rule_judge import Layout, RuleOutcome, RuleResult, complained, share_line
from schedlib.names import pack_names
from schedlib.progress import say, step
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict

_NOT_JUDGED = "not judged"

_JUDGES = ("contracts", "dev", "formats", "layout")
"""The folders of schedlib with the code that a row depends on."""


@dataclass(frozen=True)
class _Case:
    """Where incidents are judged, and by what."""

    bench: Bench
    rules: IncidentRules
    files: Mapping[str, str]
    traces: IncidentTraces

    def today(self, incident: Incident) -> Rules:
        """Today's contract of the structure; without rules if there is none."""
        if incident.change:
            return all_rules((CONTRACTS.name,))
        return rules_of(tuple(sorted(CONTRACTS.parent.glob(f"*/{incident.struct}.toml"))))


def retrodict(options: RetrodictOptions) -> Verdict:
    """Judge each incident, and write the page and the document; PASS if none that can be judged is missed.

    Raises:
        SchedlineError: a file of incidents is wrong, or the tree or the machine does not allow it.
    """
    doctor.require(["layout", *options.tree.needs])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    [column] = pack_columns(["x86_64"], [])
    ensure_tools([column])
    stock, rules = compose(tree, without=PatchSet(tree.name).default()), read_incident_rules()
    bench, traces = Bench(cache, tree, stock.commit, column), IncidentTraces(cache, tree, stock, rules.replay)
    case = _Case(bench, rules, pack_rules(pack_names()).files, traces)
    incidents, rows = read_incidents(), []
    if options.only:
        incidents = tuple(each for each in incidents if each.name == options.only)
    for incident in incidents:
        row = _kept_row(case, incident)
        say(f"{'caught' if row.caught else 'missed'}: {row.name}{f': {row.why}' if row.why else ''}")
        rows.append(row)
    played = Counter(each.play.workload for each in incidents if each.play)
    workloads = [name for name, _ in played.most_common()] if options.counts else []
    if options.counts:
        rows = _with_counts(case, incidents, rows, workloads)
    quiet = quiet_rows(cache, column, case.rules.quiet.kernels, read_incidents()) if options.quiet else ()
    compiler = compiler_of(column.arch)
    found = RetrodictDocument(
        schema="retrodict-1",
        tree=tree.origin,
        compiler=compiler,
        rules=case.rules.date,
        incidents=tuple(rows),
        quiet=quiet,
        replay=traces.facts(workloads) if options.counts else None,
    )
    if options.json:
        document.write(options.json, found)
    text = "\n".join(page(found, incidents, datetime.now(UTC).date().isoformat())) + "\n"
    if options.out:
        write_atomic(options.out, text)
    print(text, end="")
    is_caught = all(row.silent and (row.caught or (row.counted and row.counted.caught)) for row in rows if not row.own)
    return Verdict.PASS if is_caught else Verdict.FAIL


def _with_counts(
    case: _Case, incidents: Sequence[Incident], rows: Sequence[RetrodictRow], workloads: Sequence[str]
) -> list[RetrodictRow]:
    """The same rows, with what the counts say; SchedlineError if the traced kernel does not build."""
    found: dict[str, CountedRow] = {}
    for workload in workloads:
        case.traces.take([workload])
        for incident in incidents:
            if incident.play and incident.play.workload == workload:
                row = found[incident.name] = _kept_count(case, incident, incident.play)
                said = "caught" if row.caught else "missed"
                say(f"{said} by counts: {incident.name}{f': {row.why}' if row.why else ''}")
    return [
        structs.replace(row, counted=found.get(incident.name)) for incident, row in zip(incidents, rows, strict=True)
    ]


def _kept_count(case: _Case, incident: Incident, play: Played) -> CountedRow:
    """What counts say of an incident; from the cache, if nothing that it depends on has changed."""
    parts = [incident, case.rules.replay, case.bench.stock, case.traces.path(play.workload).name]
    said = [msgspec.json.encode(part) for part in parts]
    digest = sha256(b"\0".join([*said, _code((*_JUDGES, "c2c", "suggest"))])).hexdigest()[:20]
    place = case.bench.cache / "retrodict" / f"{incident.name}-counts-{digest}.json"
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(place.read_bytes(), type=CountedRow)
    row = counted_or_why(play, lambda: _counted(case, incident, play))
    if not row.why.startswith(NOT_PLAYED):
        write_atomic(place, msgspec.json.encode(row))
    return row


def _counted(case: _Case, incident: Incident, play: Played) -> CountedRow:
    """What the counts say; its seconds are for all of it, but to take the trace."""
    began, cache, traces, workload = time.monotonic(), case.bench.cache, case.traces, play.workload
    if workload in traces.failed:
        raise SchedlineError(f"{workload} was not traced: {traces.failed[workload]}", "see its log")
    configuration = traces.plan.configuration.names
    arch = structs.replace(arch_table()[traces.plan.target.arch], base=configuration)
    layouts = layouts_of(replace(case.bench, column=Column(arch)), incident, incident.file)
    programs = CountPrograms(plugin_guest.replayer(cache), plugin_guest.line_counter(cache), plugin_guest.picker(cache))
    with scratch(cache) as place, step(f"playing {workload} for {incident.name}"):
        trace = IncidentTrace.of(traced(traces.path(workload), place), layouts, programs, case.rules.replay, place)
        row = trace.counted(incident, play)
    search = row.seconds[1]
    return structs.replace(row, seconds=(round(time.monotonic() - began - search, 1), search))


def _kept_row(case: _Case, incident: Incident) -> RetrodictRow:
    """The same as judge_incident(); from the cache, if nothing that it depends on has changed."""
    column = case.bench.column
    parts = [incident, case.rules, case.bench.stock, column.configuration().asked(), compiler_of(column.arch)]
    said = [msgspec.json.encode(part) for part in parts]
    digest = sha256(b"\0".join([*said, _judges()])).hexdigest()[:20]
    place = case.bench.cache / "retrodict" / f"{incident.name}-{digest}.json"
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(place.read_bytes(), type=RetrodictRow)
    row = judge_incident(case, incident)
    if not row.why.startswith(_NOT_JUDGED):
        write_atomic(place, msgspec.json.encode(row))
    return row


@cache
def _judges() -> bytes:
    """All contracts and all code by which rows are judged."""
    contracts = sorted(CONTRACTS.parent.glob("*/*.toml"))
    return b"\0".join([*(path.read_bytes() for path in contracts), _code(_JUDGES)])


@cache
def _code(folders: Sequence[str]) -> bytes:
    """The code of some folders of schedlib."""
    code = (path for folder in folders for path in sorted((Path(schedlib.__file__).parent / folder).glob("*.py")))
    return b"\0".join(path.read_bytes() for path in code)


def judge_incident(case: _Case, incident: Incident) -> RetrodictRow:
    """What the contract that is derived from the layout before says, and what today's contracts say."""
    began = time.monotonic()
    caught, silent, said, why, packs, middle = False, True, list[str](), "", list[str](), began
    try:
        today = case.today(incident)
        file = incident.file or case.files.get(incident.struct, "")
        bad, fix = states_of(case.bench, incident, today, file)
        rules = derived_rules(case, incident, bad if incident.kind == "latent" else fix)
        layouts = bad.layout(rules), fix.layout(rules)
        if incident.kind == "latent":
            shared = open_findings(rules, layouts[0])
            left = {name for names in open_findings(rules, layouts[1]) for name in names}
            said = [" ".join(names) for names in shared]
            right = [name for name in incident.right if any(name in names for names in shared)]
            caught = len(shared) <= case.rules.most_findings and any(name not in left for name in right)
            silent = not _failing(rules, *layouts)
            why = _why_not_open(shared, right, case.rules.most_findings) if not caught else ""
        else:
            broken = _failing(rules, layouts[1], layouts[0])
            said = [f"{each.rule}: {' '.join(complained(each, layouts[0]))}" for each in broken]
            caught = any(_names_right(incident, complained(each, layouts[0])) for each in broken)
            why = "" if caught else "no rule breaks" if not broken else "another member is named"
        middle = time.monotonic()
        after = bad.layout(today)
        broken = _failing(today, fix.layout(today), after)
        packs = [each.rule for each in broken if _names_right(incident, complained(each, after))]
    except SchedlineError as error:
        middle, why = max(middle, began), f"{_NOT_JUDGED}: {error.observed.splitlines()[0]}"
    ended = time.monotonic()
    return RetrodictRow(
        name=incident.name,
        struct=incident.struct,
        kind=incident.kind,
        blind=incident.blind,
        own=bool(incident.change),
        commit=incident.commit,
        right=incident.right,
        after=next((each.what for each in case.rules.after if each.name == incident.name), ""),
        caught=caught,
        silent=silent,
        said=tuple(said),
        packs=tuple(packs),
        why=why,
        seconds=(round(middle - began, 1), round(ended - middle, 1)),
        not_played=incident.not_played,
        counted=None,
    )


def derived_rules(case: _Case, incident: Incident, before: IncidentState) -> Rules:
    """The contract that the layout before gives, by the rule of configs/incidents-rules.toml."""
    known = [DocumentedAccess(each.members, case.rules.class_of(each), each.who) for each in incident.access]
    is_later = any(each.name == incident.name for each in case.rules.after)
    text = first_contract(before.declaration(), known=known, strict=is_later)
    with scratch(case.bench.cache) as place:
        write_atomic(place / f"{incident.struct}.toml", text)
        return pack_rules((), (place,))


def open_findings(rules: Rules, layout: Layout) -> list[tuple[str, ...]]:
    """The members of each open finding that share a line, those with none left out."""
    found = []
    for finding in rules.findings:
        one, other = (
            [(name, field) for name in names if (field := resolve(layout.structures, finding.type, name))]
            for names in (finding.members, finding.others)
        )
        pairs = [(a, b) for a, left in one for b, right in other if share_line(left, right, layout)]
        if pairs:
            found.append(tuple(dict.fromkeys(name for pair in pairs for name in pair)))
    return found


def _failing(rules: Rules, before: Layout, after: Layout) -> list[RuleResult]:
    return [each for each in broken_rules(rules, before, after) if each.outcome is RuleOutcome.FAIL]


def _names_right(incident: Incident, names: Sequence[str]) -> bool:
    return any(name in incident.right or name.split(".")[0] in incident.right for name in names)


def _why_not_open(shared: Sequence[Sequence[str]], right: Sequence[str], most: int) -> str:
    if len(shared) > most:
        return f"{len(shared)} open findings"
    if not right:
        return "no open finding names it" if shared else "no members share a line although their classes do not fit"
    return "the fix has the same finding"
