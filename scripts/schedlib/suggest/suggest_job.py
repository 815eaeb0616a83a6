# SPDX-License-Identifier: GPL-2.0
"""traces -> an order of members -> what it costs in every workload -> a patch, if the gain survives."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from msgspec import structs

from schedlib import TOOL, doctor
from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_job import BuiltKernel, built, observe, source
from schedlib.c2c.c2c_options import LINES, WORKLOADS, SuggestOptions
from schedlib.c2c.moved_layout import up
from schedlib.c2c.observed import Observed, traced
from schedlib.c2c.plugin_guest import Measurement
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.contracts.contract_rules import Rules, our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import Counts
from schedlib.formats.data_file import read_table
from schedlib.formats.strict import Strict, Word
from schedlib.git import git
from schedlib.layout.kernel_text import declaring_file, text_of_commit
from schedlib.layout.members import read_members
from schedlib.layout.rule_judge import RuleOutcome, judge_clause, presence_of
from schedlib.layout.vmlinux import layout_of_built
from schedlib.names import pack_names
from schedlib.paths import CONFIGS
from schedlib.progress import say, step
from schedlib.suggest import layout_costs, suggest_report
from schedlib.suggest.layout_costs import Embedded, embedded, refuse_absent
from schedlib.suggest.member_text import Body, body_of, moved_pieces
from schedlib.suggest.movable import Arrangement, Movable, movable, sharing_together
from schedlib.suggest.search import LineCosts, Search
from schedlib.suggest.suggest_report import SUGGESTED, TODAY, LayoutCosts, SuggestDocument
from schedlib.tree.compose import with_tests
from schedlib.tree.kernel_tree import Tree, open_tree, put_files, sender
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict

_TEXT, _DOCUMENT, _PATCH = "suggest.txt", "suggest.json", "suggested.patch"
RESTARTS = 20
"""How often the search begins again from a changed order."""
_SEED = 1


def rules_about(tag: str) -> Rules:
    """All rules, with clauses about one structure alone; none if it has no contract."""
    found = pack_rules(("sched", *pack_names()))
    return replace(
        found,
        clauses=tuple(clause for clause in found.clauses if clause.type == tag),
        members=tuple(row for row in found.members if row[0] == tag),
        files={name: file for name, file in found.files.items() if name == tag},
    )


class Held:
    """The promises that hold in a kernel."""

    def __init__(self, vmlinux: Path, structure: Movable) -> None:
        rules, every = rules_about(structure.tag), our_rules()
        self._structure, self._layout = structure, layout_of_built(vmlinux, rules)
        changes = {rule.id: rule.change for rule in rules.rules}
        self.clauses = tuple(
            each
            for each in rules.clauses
            if (change := changes.get(each.rule)) is not None
            and (not change or presence_of(every, change, self._layout)[0] is not Presence.ABSENT)
            and judge_clause(each, self._layout).outcome is RuleOutcome.PASS
        )

    def allow(self, arrangement: Arrangement) -> bool:
        """Whether all of them still hold if the members are in this order."""
        old, structure = self._layout, self._structure
        before, offsets = old.structures[structure.tag], structure.members(arrangement, old.line)
        members = (replace(each, offset=offsets.get(each.name, each.offset)) for each in before.members)
        size, align = structure.size(arrangement, old.line), structure.alignment(arrangement, old.line)
        moved = replace(
            before,
            type=structs.replace(before.type, size=size, align=align),
            members=tuple(sorted(members, key=lambda member: member.offset)),
        )
        layout = replace(old, structures={**old.structures, structure.tag: moved})
        return all(judge_clause(each, layout).outcome is not RuleOutcome.FAIL for each in self.clauses)


class FixedMembers(Strict, frozen=True):
    """Members of a structure that have to stay where they are, * for all of them, and what says so."""

    stay: tuple[Word, ...]
    source: Word


def fixed_members(path: Path = CONFIGS / "fixed-members.toml") -> dict[str, FixedMembers]:
    found: dict[str, FixedMembers] = read_table(path, "structure", dict[str, FixedMembers])
    return found


def pinned_of(tag: str) -> tuple[str, ...]:
    """The members of a structure that have to stay; SchedlineError if that is all of them."""
    found = fixed_members().get(tag)
    if found and found.stay == ("*",):
        raise SchedlineError(f"all members of struct {tag} have to stay: {found.source}", "ask for another structure")
    return found.stay if found else ()


@dataclass(frozen=True)
class _Case:
    """`workloads`: the traces by their names; the search sees the first ones."""

    options: SuggestOptions
    workloads: dict[str, Observed]
    tree: Tree
    subject: BuiltKernel
    structure: Movable
    body: Body
    where: Embedded
    file: str
    place: Path
    out: Path

    @property
    def seen(self) -> list[str]:
        return [*self.workloads][: len(self.options.trace)]

    @property
    def first(self) -> Observed:
        return self.workloads[self.seen[0]]

    def costs(
        self, layout: str, name: str, counts: Sequence[Counts], longer: dict[str, int], *, measured: bool = False
    ) -> LayoutCosts:
        return LayoutCosts(
            layout=layout,
            workload=name,
            held_out=name not in self.seen,
            measured=measured,
            misses=tuple(each.misses for each in counts),
            upgrades=tuple(each.upgrades for each in counts),
            false_shared=tuple(each.false_shared for each in counts),
            longer_lines=longer,
        )


def suggest(options: SuggestOptions) -> Verdict:
    started, cache = datetime.now(UTC).replace(microsecond=0), cache_dir()
    pinned_of(options.struct)
    doctor.require(["build", "layout", *options.tree.needs])
    out = results_directory(cache, options.out)
    for name in (_TEXT, _DOCUMENT, _PATCH):
        (out / name).unlink(missing_ok=True)
    with scratch(cache) as place:
        case = _case(options, place, out)
        structure = case.structure
        held = Held(case.subject.vmlinux, structure)
        say(f"{len(held.clauses)} promises about struct {options.struct} hold today, and have to hold afterwards")
        began = time.monotonic()
        arrangement, tried = _searched(case, held)
        seconds = round(time.monotonic() - began, 1)
        costs = _counted(case, arrangement) if arrangement != structure.start else ()
        found = SuggestDocument(
            schema="suggest-1",
            tool=TOOL,
            started=started,
            fingerprint=dict(case.first.fingerprint),
            struct=options.struct,
            file=case.file,
            status=suggest_report.status_of(costs, has_measured=False),
            seed=_SEED,
            tried=tried,
            seconds=seconds,
            size=structure.size(structure.start),
            new_size=structure.size(arrangement),
            moved=suggest_report.moved_members(structure, arrangement),
            costs=costs,
        )
        if found.status == "gain":
            found = _proven(case, found, arrangement)
    report = "\n".join(suggest_report.report_lines(found))
    write_atomic(out / _TEXT, f"{report}\n")
    for path in filter(None, (options.json, out / _DOCUMENT)):
        document.write(path, found)
    print(report)
    written = [name for name in (_TEXT, _DOCUMENT, _PATCH) if (out / name).exists()]
    say(f"results: {out}/{', '.join(written)}")
    return Verdict.PASS


def _case(options: SuggestOptions, place: Path, out: Path) -> _Case:
    workloads, tag = _workloads(options, place), options.struct
    traces = [*workloads.values()]
    first, tree = traces[0], open_tree(cache_dir(), options.tree)
    planned = source(tree, measurement_of(first, options))
    commit, there = planned.composition.commit, first.fingerprint.get("commit", "")
    if there != commit:
        changes = ", ".join(f"{name} {state}" for name, state in first.changes.items())
        raise SchedlineError(
            f"the traces are of another source than this tree with these changes ({there[:12]}, not {commit[:12]})",
            f"name the tree and the changes of the traces; they have {changes}",
        )
    subject = built(cache_dir(), planned, place / "kernel")
    file = options.file or declaring_file(text_of_commit(tree, commit), tag)
    body = body_of(tree.read(file, commit) or "", tag, file)
    known = read_members(subject.vmlinux, [tag])[tag]
    where = embedded(known, traces)
    for each in traces:
        refuse_absent(each, where)
    if inside := [f"{around}.{path}" for around, rows in where.places.items() for path, _ in rows]:
        say(f"struct {tag} lies in {', '.join(inside)}, too: their lines count with it")
    body = sharing_together(known, body)
    structure = movable(known, where.fields(first), body, first.parameters.line, pinned_of(tag))
    return _Case(options, workloads, tree, subject, structure, body, where, file, place, out)


def _workloads(options: SuggestOptions, place: Path) -> dict[str, Observed]:
    found: dict[str, Observed] = {}
    for number, path in enumerate((*options.trace, *options.held_out)):
        with step(f"reading {path}"):
            observed = traced(path, _directory(place / f"trace-{number}"))
        chosen, first = observed.parameters, next(iter(found.values()), observed)
        if observed.fingerprint["build_id"] != first.fingerprint["build_id"]:
            raise SchedlineError(f"{path} is a trace of another kernel", "make all traces with the same kernel")
        if chosen.line != first.parameters.line:
            raise SchedlineError(f"{path} was made with other lines", "make all traces with the same --line")
        name = f"{chosen.workload}, {chosen.cpus} CPUs" + (f", {chosen.topology}" if chosen.topology else "")
        if name in found:
            raise SchedlineError(f"two traces are of {name}", "name each workload once; a held-out one is another one")
        found[name] = observed
    return found


def _directory(path: Path) -> Path:
    path.mkdir()
    return path


def measurement_of(observed: Observed, options: SuggestOptions) -> Measurement:
    quanta = tuple(guest.quantum for guest in observed.guests)
    return Measurement(observed.parameters, quanta, changes=options.changes)


def _searched(case: _Case, held: Held) -> tuple[Arrangement, int]:
    options, structure = case.options, case.structure
    size = structure.size(structure.start)
    most = options.bytes if options.bytes is not None else up(size, structure.line)
    if most < size:
        raise SchedlineError(f"--bytes {most}: struct {options.struct} has {size} bytes today", "allow at least these")
    middles = [(case.workloads[name], case.workloads[name].middle) for name in case.seen]
    seen = [(guest, [at for at, _ in case.where.objects(observed, guest)]) for observed, guest in middles]
    begins = _beginnings([start for _, starts in seen for start in starts], structure)
    with LineCosts(plugin_guest.line_counter(cache_dir()), seen, structure, case.place) as costs:
        search = Search(structure, costs, most, held.allow, begins)
        with step("searching"):
            return search.best(RESTARTS, _SEED, lambda text: say(f"  {text}")), search.tried


def _beginnings(starts: Sequence[int], structure: Movable) -> dict[int, int]:
    """Where on a line of each size the search takes the objects to begin: where most of them do."""
    found = {}
    for line in LINES:
        there = Counter(start % line for start in starts)
        ((found[line], most),) = there.most_common(1)
        if len(there) > 1 and line == structure.line:
            say(
                f"the objects of struct {structure.tag} begin at {len(there)} places of a line; the search takes them "
                f"all for those {100 * most / there.total():.0f} % that begin at byte {found[line]}"
            )
    return found


def _counted(case: _Case, found: Arrangement) -> tuple[LayoutCosts, ...]:
    structure, costs = case.structure, []
    program, sides = plugin_guest.replayer(cache_dir()), ((TODAY, structure.start), (SUGGESTED, found))
    with step("playing the traces with each layout"):
        for number, (name, observed) in enumerate(case.workloads.items()):
            for side, each in sides:
                layouts = {line: structure.layout(each, line) for line in LINES}
                place = _directory(case.place / f"layout-{number}-{side}")
                counts = layout_costs.replayed(program, observed, case.where, layouts, place)
                costs.append(case.costs(side, name, *counts))
    return tuple(costs)


def _proven(case: _Case, found: SuggestDocument, arrangement: Arrangement) -> SuggestDocument:
    """The same after a kernel with the patch was built and has run; the patch is written if the gain is still there."""
    units = case.structure.units
    order = [units[number].piece for number in arrangement.order]
    rest = sorted(set(range(len(case.body.pieces))) - set(order))
    changed = arrangement.aligned ^ case.structure.start.aligned
    aligned = {units[number].piece: number in arrangement.aligned for number in changed}
    text = case.body.text(with_others(order, rest), aligned)
    if case.options.measure:
        costs = (*found.costs, *_measured(case, arrangement, text))
        ran = {row.workload for row in costs if row.measured}
        status = suggest_report.status_of(costs, has_measured=all(row.workload in ran for row in costs))
        found = structs.replace(found, costs=costs, status=status)
    if found.status == "gain":
        chosen = case.first.parameters
        said = suggest_report.message(found, f"{chosen.cpus} CPUs, lines of {chosen.line} bytes")
        base = case.subject.planned.composition.commit
        commit = put_files(case.tree, base, {case.file: text.encode()}, said, sender(case.tree))
        # From the user of git; without one from nobody in particular.
        mail = ("format-patch", "--stdout", "-1", "--zero-commit", "--no-signature", commit)
        write_atomic(case.out / _PATCH, git(case.tree.src, *mail) + "\n")
    return found


def _measured(case: _Case, arrangement: Arrangement, text: str) -> Iterator[LayoutCosts]:
    cache, tag, composition = cache_dir(), case.options.struct, case.subject.planned.composition
    commit = put_files(case.tree, composition.commit, {case.file: text.encode()}, "A suggested order of members\n")
    changed = replace(composition, commit=with_tests(case.tree, commit))
    asked = measurement_of(case.first, case.options)
    made = built(cache, source(case.tree, asked, changed), case.place / "changed")
    offsets = case.structure.members(arrangement, case.structure.line)
    there = read_members(made.vmlinux, [tag])[tag]
    wrong = [each.name for each in there.members if each.size and offsets.get(each.name, each.offset) != each.offset]
    if wrong:
        raise SchedlineError(f"the compiler puts {tag}.{wrong[0]} elsewhere than was computed", "report this structure")
    for number, (name, trace) in enumerate(case.workloads.items()):
        if trace.parameters.workload not in WORKLOADS:
            say(f"{name} is no built-in workload: it is not run again")
            continue
        place = _directory(case.place / f"run-{number}")
        observed = observe(cache, made, measurement_of(trace, case.options), place, case.out, taped=False)
        counts = layout_costs.on_lines_of(observed, embedded(there, [observed]))
        yield case.costs(SUGGESTED, name, counts, {}, measured=True)


def with_others(order: list[int], rest: list[int]) -> list[int]:
    """The order of all pieces: those without members in this kernel stay behind what does not move before them."""
    found, moved = list(order), set(moved_pieces(order))
    for number in rest:
        anchor = next((each for each in range(number - 1, -1, -1) if each not in moved), None)
        found.insert(0 if anchor is None else found.index(anchor) + 1, number)
    return found
