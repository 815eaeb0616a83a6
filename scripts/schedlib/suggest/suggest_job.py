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
from schedlib.c2c.c2c_options import LINES, TIMEOUT, WORKLOADS, SuggestOptions
from schedlib.c2c.counting import Subject, Wanted, built, observe, source
from schedlib.c2c.moved_layout import StructureLayout, load_layout
from schedlib.c2c.observed import Observed, traced
from schedlib.c2c.plugin_guest import Setting
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.contracts.packs import all_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.git import git
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import shape_of
from schedlib.layout.members import read_members
from schedlib.layout.rule_judge import Layout, RuleOutcome, from_members, judge_clause, presence_of
from schedlib.layout.struct_job import declaring_file
from schedlib.layout.vmlinux import layout_of_built
from schedlib.names import pack_names
from schedlib.options import ChangeOptions
from schedlib.paths import CONFIGS
from schedlib.progress import say, step
from schedlib.suggest import layout_costs, suggest_report
from schedlib.suggest.layout_costs import Embedded, TracedWorkload, beginnings, embedded, refuse_absent
from schedlib.suggest.member_text import Body, body_of, moved_pieces
from schedlib.suggest.movable import Arrangement, Movable, movable, sharing_together
from schedlib.suggest.search import LineCosts, Objective, Search
from schedlib.suggest.suggest_report import SUGGESTED, TODAY, LayoutCosts, SuggestDocument
from schedlib.tree.compose import with_tests
from schedlib.tree.kernel_tree import Tree, open_tree, put_files, sender
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict


def rules_about(tag: str) -> Rules:
    """The promises about one structure; none if it has no contract."""
    found = all_rules(("sched", *pack_names()))
    clauses = tuple(clause for clause in found.clauses if clause.type == tag)
    named = {clause.rule for clause in clauses}
    return replace(
        found,
        rules=tuple(rule for rule in found.rules if rule.id in named),
        clauses=clauses,
        findings=(),
        members=tuple(row for row in found.members if row[0] == tag),
        files={name: file for name, file in found.files.items() if name == tag},
    )


class Held:
    """The promises that hold in a kernel."""

    def __init__(self, vmlinux: Path, structure: Movable) -> None:
        """Raises SchedlineError: the vmlinux has no debug information."""
        rules, every = rules_about(structure.tag), our_rules()
        self._structure, self._layout = structure, layout_of_built(vmlinux, rules)
        kept = {
            rule.id
            for rule in rules.rules
            if not rule.change or presence_of(every, rule.change, self._layout)[0] is not Presence.ABSENT
        }
        self._rules = replace(
            rules,
            clauses=tuple(
                each
                for each in rules.clauses
                if each.rule in kept and judge_clause(each, self._layout).outcome is RuleOutcome.PASS
            ),
        )

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self._rules.clauses)

    def layout(self, arrangement: Arrangement) -> Layout:
        """The kernel's layout, with the members in another order."""
        tag, old = self._structure.tag, self._layout
        before = old.structures[tag]
        offsets = self._structure.members(arrangement, old.line)
        _, size = self._structure.offsets(arrangement, old.line)
        members = tuple(
            sorted(
                (replace(each, offset=offsets.get(each.name, each.offset)) for each in before.members),
                key=lambda member: member.offset,
            )
        )
        align = self._structure.alignment(arrangement, old.line)
        moved = replace(before, type=replace(before.type, size=size, align=align), members=members)
        return from_members(
            old.name, self._rules, {**old.structures, tag: moved}, old.line, old.holds, old.unknown, old.assumed
        )

    def allow(self, arrangement: Arrangement) -> bool:
        """Whether all of them still hold."""
        layout = self.layout(arrangement)
        return all(judge_clause(each, layout).outcome is not RuleOutcome.FAIL for each in self._rules.clauses)


_TEXT, _DOCUMENT, _PATCH, _CONTRACT = "suggest.txt", "suggest.json", "suggested.patch", "contract.toml"


class FixedMembers(Strict, frozen=True):
    """Members of a structure that have to stay where they are, * for all of them, and what says so."""

    stay: tuple[Word, ...]
    source: Word


class FixedMembersFile(Strict, frozen=True):
    """configs/fixed-members.toml: by structure."""

    structure: dict[str, FixedMembers]


def fixed_members(path: Path = CONFIGS / "fixed-members.toml") -> dict[str, FixedMembers]:
    """The members that have to stay, by structure; SchedlineError if the file is no such table."""
    return read_toml(path, FixedMembersFile).structure


def pinned_of(tag: str) -> tuple[str, ...]:
    """The members of a structure that have to stay; SchedlineError, with the reason, if that is all of them."""
    found = fixed_members().get(tag)
    if found and found.stay == ("*",):
        raise SchedlineError(f"all members of struct {tag} have to stay: {found.source}", "ask for another structure")
    return found.stay if found else ()


def suggest(options: SuggestOptions) -> Verdict:
    """Search, count, and write a patch if there is a gain that survives.

    Raises:
        SchedlineError: a trace does not fit, or the structure's source does not explain its layout.
    """
    started = datetime.now(UTC).replace(microsecond=0)
    cache = cache_dir()
    pinned_of(options.struct)
    doctor.require(["build", "layout", *options.tree.needs])
    out = results_directory(cache, options.out)
    for name in (_TEXT, _DOCUMENT, _PATCH, _CONTRACT):
        (out / name).unlink(missing_ok=True)
    with scratch(cache) as place:
        workloads = _workloads(options, place)
        first = workloads[0].observed
        tree = open_tree(cache, options.tree)
        wanted = _wanted(first, options.changes)
        planned = source(tree, wanted)
        _refuse_other(first, planned.composition.commit, options)
        subject = built(cache, planned, place / "kernel")
        commit, tag = planned.composition.commit, options.struct
        file = options.file or declaring_file(tree, commit, tag)
        body = body_of(tree.read(file, commit) or "", tag, file)
        structure, body, where = _structure(subject, workloads, body, tag)
        held = Held(subject.vmlinux, structure)
        say(f"{held.number} promises about struct {tag} hold today, and have to hold afterwards")
        began = time.monotonic()
        arrangement, search, conflicts = _searched(options, workloads, structure, where, held, place)
        seconds = round(time.monotonic() - began, 1)
        has_moved = arrangement != structure.start
        costs = _counted(options, workloads, structure, where, arrangement, subject, place) if has_moved else []
        pieces = moved_pieces(arrangement.order)
        found = SuggestDocument(
            schema="suggest-1",
            tool=TOOL,
            started=started,
            fingerprint=dict(first.fingerprint),
            struct=tag,
            file=file,
            status=suggest_report.status_of(costs, has_measured=False) if has_moved else "no gain",
            seed=options.seed,
            tried=search.tried,
            seconds=seconds,
            size=structure.offsets(structure.start, structure.line)[1],
            new_size=structure.offsets(arrangement, structure.line)[1],
            moved=suggest_report.moved_members(structure, arrangement, pieces) if has_moved else (),
            costs=tuple(costs),
        )
        if found.status == "gain":
            case = _Case(options, workloads, tree, subject, structure, body, file, place, out)
            found = _proven(case, found, arrangement)
        if found.status == "gain":
            _write_contract(out, found, structure, arrangement, conflicts)
    report = suggest_report.text(found)
    write_atomic(out / _TEXT, report)
    for path in (options.json, out / _DOCUMENT):
        if path:
            document.write(path, found)
    print(report, end="")
    written = [name for name in (_TEXT, _DOCUMENT, _PATCH, _CONTRACT) if (out / name).exists()]
    say(f"results: {out}/{', '.join(written)}")
    return Verdict.PASS


def _workloads(options: SuggestOptions, place: Path) -> list[TracedWorkload]:
    found = []
    for number, path in enumerate((*options.trace, *options.held_out)):
        directory = place / f"trace-{number}"
        directory.mkdir()
        with step(f"reading {path}"):
            found.append(TracedWorkload(traced(path, directory), number >= len(options.trace)))
    first = found[0].observed
    for path, each in zip((*options.trace, *options.held_out)[1:], found[1:], strict=True):
        if each.observed.fingerprint["build_id"] != first.fingerprint["build_id"]:
            raise SchedlineError(f"{path} is a trace of another kernel", "make all traces with the same kernel")
        if each.observed.parameters.line != first.parameters.line:
            raise SchedlineError(f"{path} was made with other lines", "make all traces with the same --line")
    names = [each.name for each in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SchedlineError(f"two traces are of {twice}", "name each workload once; a held-out one is another one")
    return found


def _wanted(observed: Observed, changes: ChangeOptions) -> Wanted:
    """The measurement that a trace comes from."""
    chosen = observed.parameters
    setting = Setting(shape_of(chosen.topology, chosen.cpus), chosen.line, 0, chosen.rounds, TIMEOUT)
    quanta = tuple(guest.quantum for guest in observed.guests)
    return Wanted(chosen.workload, chosen.objects, quanta, setting, chosen.config, changes, TARGETS[chosen.on])


def _refuse_other(observed: Observed, commit: str, options: SuggestOptions) -> None:
    there = observed.fingerprint.get("commit", "")
    if there != commit:
        changes = ", ".join(f"{name} {state}" for name, state in observed.changes.items())
        raise SchedlineError(
            f"the traces are of another source than this tree with these changes ({there[:12]}, not {commit[:12]})",
            f"name the tree and the changes of the traces; they have {changes}",
        )


def _structure(
    subject: Subject, workloads: Sequence[TracedWorkload], body: Body, tag: str
) -> tuple[Movable, Body, Embedded]:
    """What of the structure can move, its body in these pieces, and where it lies in others that were traced.

    Raises:
        SchedlineError: a trace has none of its objects, or its source does not explain its layout.
    """
    if subject.planned.target.arch not in ("x86_64", "arm64"):
        raise SchedlineError("only 64-bit kernels are searched", "make the trace on qemu-x86_64")
    traces = [each.observed for each in workloads]
    found = read_members(subject.vmlinux, [tag])[tag]
    where = embedded(found, traces)
    divided = [where.named(each) for each in traces]
    for each in divided:
        refuse_absent(each, tag)
    if inside := [f"{around}.{path}" for around, rows in where.places.items() for path, _ in rows]:
        say(f"struct {tag} lies in {', '.join(inside)}, too: their lines count with it")
    fields, line = divided[0].known.structures[tag].fields, traces[0].parameters.line
    body = sharing_together(found, body)
    return movable(found, fields, body, line, pinned_of(tag)), body, where


def _searched(
    options: SuggestOptions,
    workloads: list[TracedWorkload],
    structure: Movable,
    where: Embedded,
    held: Held,
    place: Path,
) -> tuple[Arrangement, Search, dict[tuple[int, int], float]]:
    size = structure.offsets(structure.start, structure.line)[1]
    most = options.bytes if options.bytes is not None else -(-size // structure.line) * structure.line
    if most < size:
        raise SchedlineError(f"--bytes {most}: struct {options.struct} has {size} bytes today", "allow at least these")
    objective = Objective(options.weight_of_lines(), options.price, most)
    seen = [where.named(each.observed) for each in workloads if not each.held_out]
    begins = _beginnings(seen, structure)
    program = plugin_guest.line_counter(cache_dir())
    with LineCosts(program, seen, structure, place) as costs:
        search = Search(structure, costs, objective, held.allow, begins)
        with step("searching"):
            found = search.best(options.restarts, options.seed, lambda text: say(f"  {text}"))
        worth = {pair: share for pair, share in search.conflicts().items() if share >= options.price}
        return found, search, worth


def _beginnings(seen: Sequence[Observed], structure: Movable) -> dict[int, int]:
    """Where on a line of each size the search takes the objects to begin: where most of them do."""
    found = {}
    for line in LINES:
        there = sum((beginnings(each, structure.tag, line) for each in seen), Counter[int]())
        ((found[line], most),) = there.most_common(1)
        if len(there) > 1 and line == structure.line:
            say(
                f"the objects of struct {structure.tag} begin at {len(there)} places of a line; the search takes them "
                f"all for those {100 * most / there.total():.0f} % that begin at byte {found[line]}"
            )
    return found


def _counted(
    options: SuggestOptions,
    workloads: list[TracedWorkload],
    structure: Movable,
    where: Embedded,
    found: Arrangement,
    subject: Subject,
    place: Path,
) -> list[LayoutCosts]:
    """The costs of today's layout, the suggestion, pahole's order and those to compare with, in each workload."""
    layouts = {name: _layouts(structure, each) for name, each in ((TODAY, structure.start), (SUGGESTED, found))}
    if packed := layout_costs.by_pahole(subject.vmlinux, structure.tag):
        layouts[layout_costs.PAHOLE] = dict.fromkeys(LINES, packed)
    for path in options.compare:
        there = load_layout(path, workloads[0].observed.known)
        if structure.tag not in there:
            raise SchedlineError(f"--compare {path} has no {structure.tag}", "name a layout or a result that has it")
        layouts[path.name] = dict.fromkeys(LINES, there[structure.tag])
    program, costs = plugin_guest.replayer(cache_dir()), []
    with step("playing the traces with each layout"):
        for number, workload in enumerate(workloads):
            for at, (name, each) in enumerate(layouts.items()):
                directory = place / f"layout-{number}-{at}"
                directory.mkdir()
                costs.append(layout_costs.replayed(program, workload, where, name, each, directory))
    return costs


def _layouts(structure: Movable, arrangement: Arrangement) -> dict[int, StructureLayout]:
    found = {}
    for line in LINES:
        _, size = structure.offsets(arrangement, line)
        found[line] = StructureLayout(structure.fields(arrangement, line), size, structure.alignment(arrangement, line))
    return found


@dataclass(frozen=True)
class _Case:
    """What a search is about.

    Attributes:
        place: a scratch directory.
        out: where results and logs go.
    """

    options: SuggestOptions
    workloads: list[TracedWorkload]
    tree: Tree
    subject: Subject
    structure: Movable
    body: Body
    file: str
    place: Path
    out: Path


def _proven(case: _Case, found: SuggestDocument, arrangement: Arrangement) -> SuggestDocument:
    """The same after a kernel with the patch was built and has run; the patch is written if the gain is still there."""
    text = _edited(case, arrangement)
    composition = case.subject.planned.composition
    if case.options.measure:
        found = _with_costs(found, [*found.costs, *_measured(case, arrangement, text)])
    if found.status == "gain":
        chosen = case.workloads[0].observed.parameters
        said = suggest_report.message(found, f"{chosen.cpus} CPUs, lines of {chosen.line} bytes")
        commit = put_files(case.tree, composition.commit, {case.file: text.encode()}, said, sender(case.tree))
        # From the user of git; without one from nobody in particular.
        mail = ("format-patch", "--stdout", "-1", "--zero-commit", "--no-signature", commit)
        write_atomic(case.out / _PATCH, git(case.tree.src, *mail) + "\n")
    return found


def _edited(case: _Case, arrangement: Arrangement) -> str:
    """The file with the members in this order."""
    units = case.structure.units
    order = [units[number].piece for number in arrangement.order]
    rest = sorted(set(range(len(case.body.pieces))) - set(order))
    changed = arrangement.aligned ^ case.structure.start.aligned
    aligned = {units[number].piece: number in arrangement.aligned for number in changed}
    return case.body.text(with_others(order, rest), aligned)


def _measured(case: _Case, arrangement: Arrangement, text: str) -> Iterator[LayoutCosts]:
    """What a kernel with the suggestion costs, in each workload.

    Raises:
        SchedlineError: it does not build, or the compiler puts a member elsewhere than was computed.
    """
    cache, tag, changes = cache_dir(), case.options.struct, case.options.changes
    composition = case.subject.planned.composition
    commit = put_files(case.tree, composition.commit, {case.file: text.encode()}, "A suggested order of members\n")
    changed = replace(composition, commit=with_tests(case.tree, commit))
    wanted = _wanted(case.workloads[0].observed, changes)
    made = built(cache, source(case.tree, wanted, changed), case.place / "changed")
    offsets = case.structure.members(arrangement, case.structure.line)
    there = read_members(made.vmlinux, [tag])[tag]
    wrong = [each.name for each in there.members if each.size and offsets.get(each.name, each.offset) != each.offset]
    if wrong:
        raise SchedlineError(f"the compiler puts {tag}.{wrong[0]} elsewhere than was computed", "report this structure")
    for number, workload in enumerate(case.workloads):
        if workload.observed.parameters.workload not in WORKLOADS:
            say(f"{workload.name} is no built-in workload: it is not run again")
            continue
        directory = case.place / f"run-{number}"
        directory.mkdir()
        observed = observe(cache, made, _wanted(workload.observed, changes), directory, case.out, taped=False)
        yield layout_costs.measured(workload, observed, embedded(there, [observed]))


def _with_costs(found: SuggestDocument, costs: list[LayoutCosts]) -> SuggestDocument:
    ran = {row.workload for row in costs if row.measured}
    status = suggest_report.status_of(costs, has_measured=all(row.workload in ran for row in costs))
    return structs.replace(found, costs=tuple(costs), status=status)


def with_others(order: list[int], rest: list[int]) -> list[int]:
    """The order of all pieces: those without members in this kernel stay behind what does not move before them."""
    found, moved = list(order), set(moved_pieces(order))
    for number in rest:
        anchor = next((each for each in range(number - 1, -1, -1) if each not in moved), None)
        found.insert(0 if anchor is None else found.index(anchor) + 1, number)
    return found


def _write_contract(
    out: Path,
    found: SuggestDocument,
    structure: Movable,
    arrangement: Arrangement,
    conflicts: dict[tuple[int, int], float],
) -> None:
    why = "members that some CPUs write take the line from those that read the others"
    text = suggest_report.contract(structure, arrangement, conflicts, found.file, why)
    if text:
        write_atomic(out / _CONTRACT, text)
