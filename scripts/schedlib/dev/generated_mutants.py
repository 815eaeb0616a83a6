# SPDX-License-Identifier: GPL-2.0
"""Mutants that operators make of the functions under test: nobody picks them. The score is told for each function."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import structs

from schedlib import doctor
from schedlib.cache import cache_dir, digest_of, read_json, write_atomic, write_json
from schedlib.check.check_boots import expect_arguments
from schedlib.console.judge import Judgement, TestOutcome, judge
from schedlib.dev import c_mutants
from schedlib.dev.c_mutants import COUNTING, CodeChange, Statement, changes, function, functions
from schedlib.dev.dev_verb import MutantsOptions
from schedlib.dev.mutants_page import End, GeneratedMutant, GeneratedMutantsDocument, recorded, score, share
from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_table, read_toml
from schedlib.formats.strict import Strict, Word, check_patterns
from schedlib.formats.tables import table
from schedlib.git import git
from schedlib.guest.boot import Ending, GuestRun, run_guest
from schedlib.guest.command_line import command_line
from schedlib.kernel.build import Kernel, KernelPlan, composed_kernel
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import Topology, load_topology
from schedlib.paths import CONFIGS
from schedlib.progress import say
from schedlib.tree.compose import compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, open_tree, put_files
from schedlib.verdict import Verdict

DATA = CONFIGS / "generated-mutants.toml"
CPUS = 8
_AT_ONCE = 2
_Some = Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]


class MutantTarget(Strict, frozen=True):
    file: Word
    functions: _Some
    change: Word
    first: Word
    on: _Some = ("default",)
    lines: str = ""
    alone: bool = False

    def __post_init__(self) -> None:
        check_patterns(self.lines)


class MutantBuild(Strict, frozen=True):
    fragments: tuple[Word, ...] = ()
    boots: Word = "uml"
    topology: str = ""


class MutantData(Strict, frozen=True):
    """configs/generated-mutants.toml."""

    configuration: dict[str, MutantBuild]
    target: tuple[MutantTarget, ...]
    unreached: tuple[tuple[Word, Word, Word], ...] = ()


class Equivalent(Strict, frozen=True):
    """A mutant that no test can tell from the original, and why."""

    function: Word
    old: Word
    new: Word
    reason: Word


def equivalents(path: Path = CONFIGS / "equivalent-mutants.toml") -> tuple[Equivalent, ...]:
    found: tuple[Equivalent, ...] = read_table(path, "equivalent", tuple[Equivalent, ...], ())
    return found


KILLS = (End.ASSERTION, End.CRASH, End.HANG, End.WARNING)


def ended(each: CodeChange, end: End, on: str = "", failed: tuple[str, ...] = ()) -> GeneratedMutant:
    return GeneratedMutant(each.file, each.function, each.line, each.operator, each.old, each.new, end, on, failed)


@dataclass(frozen=True)
class Built:
    """The kernel of one configuration, in a directory of the cache, and what it did without a mutant.

    `same` and `lacking`: mutants that are the same code there, and those that do not compile. `counters`: the statement
    of each counter. `ran` and `passed`: statements and tests.
    """

    name: str
    plan: KernelPlan
    topology: Topology | None
    kernel: Kernel
    place: Path
    same: frozenset[int]
    lacking: frozenset[int]
    counters: tuple[Statement, ...]
    ran: frozenset[Statement] = frozenset()
    passed: tuple[str, ...] = ()
    seconds: float = 0.0


def statement_of(mutant: CodeChange, counters: Iterable[Statement]) -> Statement | None:
    """The counted statement that a mutant changes: the last one that begins at or above its line."""
    above = [each for each in counters if each[:2] == (mutant.file, mutant.function) and each[2] <= mutant.line]
    return max(above, key=lambda each: each[2], default=None)


def is_reached(mutant: CodeChange, counters: Iterable[Statement], ran: Collection[Statement]) -> bool:
    return (statement := statement_of(mutant, counters)) is None or statement in ran


def numbered(sources: Mapping[str, str], targets: Sequence[MutantTarget]) -> tuple[CodeChange, ...]:
    found = [
        replace(change, file=target.file)
        for target in targets
        for name in target.functions
        for change in changes(function(sources[target.file], name, target.file), target.lines)
    ]
    return tuple(replace(each, number=number) for number, each in enumerate(found, 1))


def chosen(
    mutants: Sequence[CodeChange], names: Collection[str], most: int | None, seed: int
) -> tuple[CodeChange, ...]:
    """The mutants of some functions (of all: no names), or at most that many of each function, drawn with a seed."""
    drawn = random.Random(seed)  # noqa: S311
    found: list[CodeChange] = []
    for name in dict.fromkeys(each.function for each in mutants):
        some = [each for each in mutants if each.function == name and (not names or name in names)]
        if most is not None and most < len(some):
            some = sorted(drawn.sample(some, most), key=lambda each: each.number)
        found += some
    return tuple(found)


def touched(old: Mapping[str, str], new: Mapping[str, str]) -> frozenset[str]:
    found = set()
    for file, text in new.items():
        before = {name: each.head + each.body for name, each in functions(old.get(file, "")).items()}
        found |= {name for name, each in functions(text).items() if before.get(name) != each.head + each.body}
    return frozenset(found)


def end_of(judgement: Judgement, ending: Ending, passed: Collection[str]) -> tuple[End, tuple[str, ...]]:
    """How a mutant ended, by the judgement of its log. `passed`: what the unchanged kernel passes."""
    named: dict[TestOutcome, set[str]] = {outcome: set() for outcome in TestOutcome}
    for test in judgement.tests:
        named[test.outcome].add(test.name)
    if failed := named[TestOutcome.FAIL]:
        return End.ASSERTION, tuple(sorted(failed))
    kinds = {each.kind: each.test or each.text for each in judgement.problems if each.verdict is Verdict.FAIL}
    if ending is Ending.TIMED_OUT:
        return End.HANG, (next(iter(kinds.values()), "boot"),)
    if ending is not Ending.EXITED or "panic" in kinds or named[TestOutcome.CRASHED]:
        return End.CRASH, (kinds.get("panic", "died"),)
    if kinds:
        return End.WARNING, tuple(sorted(kinds))
    return End.SURVIVED, tuple(f"not run: {name}" for name in sorted({*passed} - named[TestOutcome.PASS]))


STOP = re.compile(rb"^(?:\[[^\]\n]*\] )?(?:not ok \d+ \w+\s*\n|[^\n]*Kernel panic - not syncing[^\n]*\n)", re.M)
"""The end of a suite that failed, or of the kernel: the rest of the log says nothing more about a mutant.

A line that is not whole yet would name another suite."""


def _boot(built: Built, number: int, glob: str, timeout: float, log: Path) -> GuestRun:
    words = [*expect_arguments(built.plan.composition.expected), f"{c_mutants.PARAMETER}={number}"]
    words += [f"kunit.filter_glob={glob}"] if glob else []
    cpus = built.topology.cpus if built.topology else CPUS
    argv = command_line(built.plan.target, built.kernel.image, cpus, words, "tcg", built.topology)
    return run_guest(argv, log, timeout, stop=None if number == COUNTING else STOP)


def _build(cache: Path, plan: KernelPlan, name: str, data: MutantData, mutants: Sequence[CodeChange]) -> Built:
    """Build one configuration; the mutants that do not compile are left out, in as many rounds as it takes."""
    wanted = data.configuration[name].topology
    shape = load_topology(wanted) if wanted else None
    targets = [each for each in data.target if name in each.on]
    filters = {(each.file, function): each.lines for each in targets for function in each.functions}
    sources = _sources(plan.tree, plan.commit, {*(file for file, _ in filters), c_mutants.HEADER, c_mutants.CORE})
    mine = [each for each in mutants if (each.file, each.function) in filters]
    everything = (plan.configuration.digest(), mine)
    place = cache / "generated-mutants" / f"{name}-{digest_of(plan.commit, *everything)}"
    record = read_json(place / "kernel.json")
    # Which mutants compile does not depend on the tests.
    refusals = place.with_name(f"{name}-{digest_of(*everything)}.json")
    lacking = set((read_json(refusals) or {}).get("lacking", ()))
    while True:
        files, counters = c_mutants.schema(sources, [each for each in mine if each.number not in lacking], filters)
        if record:
            break
        commit = put_files(plan.tree, plan.commit, files, "mutants\n")
        if refused := c_mutants.compiled(cache, plan, commit):
            lacking |= refused.keys()
            write_json(refusals, {"lacking": sorted(lacking)})
            say(f"{name}: {len(refused)} mutants do not compile, {len(mine) - len(lacking)} left")
            continue
        place.mkdir(parents=True, exist_ok=True)
        record = {"same": sorted(c_mutants.kernel_with(cache, plan, commit, place))}
        write_json(place / "kernel.json", record)
    kernel = Kernel(place / plan.target.image, place, "")
    same = frozenset(record["same"])
    return _count(Built(name, plan, shape, kernel, place, same, frozenset(lacking), counters))


def _sources(tree: Tree, commit: str, files: Collection[str]) -> dict[str, str]:
    return {file: tree.read(file, commit) or "" for file in sorted(files)}


def _count(built: Built) -> Built:
    """Boot a kernel as it is, and keep what it did; SchedlineError if it does not pass."""
    record = built.place / "counts.json"
    if (known := read_json(record)) is None:
        run = _boot(built, COUNTING, "", built.plan.target.timeout * 5, built.place / "counts.log")
        log = run.log.read_bytes()
        judgement = judge(log, ending=run.ending)
        if judgement.verdict is not Verdict.PASS:
            bad = [test.name for test in judgement.tests if test.outcome is TestOutcome.FAIL]
            bad += [problem.text for problem in judgement.problems if problem.verdict is not Verdict.PASS]
            raise SchedlineError(f"the kernel without a mutant does not pass: {'; '.join(bad[:5])}", f"see {run.log}")
        counts = dict(re.findall(r"reached: (\d+) (\d+)\s*$", log.decode(errors="replace"), re.M))
        passed = [test.name for test in judgement.tests if test.outcome is TestOutcome.PASS]
        known = {"counts": counts, "passed": passed, "seconds": run.seconds}
        write_json(record, known)
    counts = known["counts"]
    if len(counts) != len(built.counters):
        raise SchedlineError(f"{len(counts)} of {len(built.counters)} counters were printed", f"see {built.place}")
    ran = frozenset(each for number, each in enumerate(built.counters) if int(counts[str(number)]))
    what = f"{len(ran)} of {len(built.counters)} statements reached, {len(set(known['passed']))} tests passed"
    say(f"{built.name}: {what}, {known['seconds']:.0f} s")
    return replace(built, ran=ran, passed=tuple(known["passed"]), seconds=known["seconds"])


def _judged(built: Built, number: int, glob: str) -> tuple[End, tuple[str, ...]]:
    """Boot a mutant with some suites; a crash or hang once more, because only an assertion says what is wrong."""
    expected = [name for name in built.passed if name.startswith(glob.rstrip("*"))]
    log = built.place / "mutants" / f"{number}.log"
    for _ in range(2):
        run = _boot(built, number, glob, max(30.0, 5 * built.seconds), log)
        end, failed = end_of(judge(run.log.read_bytes(), ending=run.ending), run.ending, expected)
        if end not in (End.CRASH, End.HANG):
            break
    return end, failed


def _try(mutant: CodeChange, kernels: Sequence[Built], target: MutantTarget) -> GeneratedMutant:
    """Boot a mutant: in each configuration first the suites that most likely notice, then all, until it is noticed."""
    lost: tuple[str, ...] = ()
    for built in kernels:
        if not is_reached(mutant, built.counters, built.ran):
            lost += (f"{built.name}: never executed",)
            continue
        record = built.place / "mutants" / f"{mutant.number}.json"
        if known := read_json(record):
            end, failed = End(known["end"]), tuple(known["failed"])
        else:
            end, failed = _judged(built, mutant.number, target.first)
            if end is End.SURVIVED and not target.alone:
                end, failed = _judged(built, mutant.number, "")
            write_json(record, {"end": end.value, "failed": failed})
        if end in KILLS:
            return ended(mutant, end, built.name, failed)
        lost += failed
    return ended(mutant, End.SURVIVED if kernels else End.SAME_CODE, "", lost)


def judged_equivalents(
    tried: Sequence[GeneratedMutant], pool: Sequence[CodeChange], known: Sequence[Equivalent]
) -> tuple[tuple[GeneratedMutant, ...], list[str]]:
    """The mutants with those of the list as equivalent, and what is wrong with the list."""
    listed = {(row.function, row.old, row.new) for row in known}
    there = {(each.function, each.old, each.new) for each in pool}
    wrong = [f"no such mutant any more: {name}: {old} => {new}" for name, old, new in sorted(listed - there)]
    found = []
    for each in tried:
        if each.key in listed and each.end in KILLS:
            wrong.append(f"listed as equivalent, and it dies: {each}")
        is_listed = each.key in listed and each.end is End.SURVIVED
        found.append(structs.replace(each, end=End.EQUIVALENT) if is_listed else each)
    return tuple(found), wrong


def try_generated(options: MutantsOptions) -> Verdict:
    """FAIL if a mutant survives, a statement is never reached, or an equivalent is listed that is none."""
    data, known = read_toml(DATA, MutantData), equivalents()
    doctor.require(["build", *options.tree.needs])
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    composition = compose(tree)
    refuse_conflicts(composition)
    sources = _sources(tree, composition.commit, {target.file for target in data.target})
    pool = numbered(sources, data.target)
    names = frozenset(options.functions)
    if options.since:
        old = {file: git(tree.src, "show", f"{options.since}:{file}") for file in sources}
        names |= touched(old, sources) | {""}
    some = chosen(pool, names, options.sample, options.seed)
    if not some:
        raise SchedlineError("no mutant is chosen", "name functions of configs/generated-mutants.toml")
    wanted = {each.function for each in some}
    needed = {on for target in data.target if wanted & set(target.functions) for on in target.on}
    # All plans first: what one configuration lacks is said before another is built.
    plans = {
        name: composed_kernel(tree, TARGETS[its.boots], composition, its.fragments)
        for name, its in data.configuration.items()
        if name in needed
    }
    built = [_build(cache, plan, name, data, pool) for name, plan in plans.items()]
    ran = frozenset[Statement]().union(*(each.ran for each in built))
    statements = dict.fromkeys(each for kernel in built for each in kernel.counters if each[1] in wanted)
    unreached, excused = not_run([each for each in statements if each not in ran], sources, data)
    without_effect = [each for each in some if statement_of(each, statements) in excused]
    tried = _all_tried([each for each in some if each not in without_effect], built, data)
    tried += tuple(ended(each, End.EQUIVALENT) for each in without_effect)
    tried, wrong = judged_equivalents(tried, pool, known)
    print(*_report(tried, unreached, wrong), sep="\n")
    if options.json:
        run = GeneratedMutantsDocument(
            schema="generated-mutants-1",
            tree=tree.origin,
            sample=options.sample,
            seed=options.seed,
            mutants=tried,
            unreached=unreached,
            wrong=tuple(wrong),
        )
        write_atomic(options.json, recorded(run))
    return Verdict.FAIL if unreached or wrong or any(each.end is End.SURVIVED for each in tried) else Verdict.PASS


def not_run(
    missing: Sequence[Statement], sources: Mapping[str, str], data: MutantData
) -> tuple[tuple[str, ...], frozenset[Statement]]:
    """Of statements that no guest executes: those without a reason in the data, as text, and those with one."""
    texts = {each: sources[each[0]].splitlines()[each[2] - 1].strip() for each in missing}
    reasons = {(name, text) for name, text, _ in data.unreached}
    excused = frozenset(each for each in missing if (each[1], texts[each]) in reasons)
    return tuple(f"{e[0]}:{e[2]} {e[1]}: {texts[e]}" for e in missing if e not in excused), excused


def _all_tried(some: Sequence[CodeChange], built: Sequence[Built], data: MutantData) -> tuple[GeneratedMutant, ...]:
    found: list[GeneratedMutant] = []

    def one(mutant: CodeChange) -> GeneratedMutant | None:
        target = next(each for each in data.target if mutant.function in each.functions)
        builds = [each for each in built if each.name in target.on and mutant.number not in each.lacking]
        if not builds:
            return None
        return _try(mutant, [each for each in builds if mutant.number not in each.same], target)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for number, each in enumerate(pool.map(one, some), 1):
            if each is not None:
                found.append(each)
                if each.end is not End.SAME_CODE:
                    print(f"{number}/{len(some)} {each}", flush=True)
    return tuple(found)


def _report(tried: Sequence[GeneratedMutant], unreached: Sequence[str], wrong: Sequence[str]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("function", "mutants", "assertion", "crash", "survived", "no effect", "score")]
    for name, count, assertions, crashes, survived, none, untried in score(tried, exported=False):
        numbers = map(str, (count, assertions, crashes, survived, none))
        rows.append((name, *numbers, share(count, survived, untried)))
    yield from table(rows, "<32 >7 >10 >6 >9 >10 >6")
    yield from (f"never executed: {each}" for each in unreached)
    yield from wrong
    yield from (f"survived: {each}" for each in tried if each.end is End.SURVIVED)
