# SPDX-License-Identifier: GPL-2.0
"""`schedline mutants`: a test that cannot fail proves nothing, so each change is broken on purpose."""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from schedlib import doctor, options
from schedlib.c2c import traffic_diff
from schedlib.c2c.remembered import remembered
from schedlib.cache import read_json, write_json
from schedlib.check.check_verb import Plan, boot_and_judge, results_directory
from schedlib.console.judge import Outcome
from schedlib.errors import SchedlineError
from schedlib.formats.results import Boot
from schedlib.guest.kvm import accelerator
from schedlib.kernel.build import build
from schedlib.kernel.targets import TARGETS, choose
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, arch_table, compiled, host_rules, layout_of
from schedlib.layout.rule_judge import Outcome as Broken
from schedlib.layout.rule_judge import judge_rule
from schedlib.options import ids
from schedlib.paths import CONFIGS
from schedlib.process import must
from schedlib.tree.changes import known
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, apply_diff
from schedlib.tree.left_out import configuration_of, left_out
from schedlib.verdict import Verdict

MUTANTS = CONFIGS / "mutants"

EMULATED = "c2c"
"""--on: the cache-line traffic of a mutant is counted, where its Traffic header says what has to rise."""

_QUANTA = (100,)


class Fate(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    KILLED_BY_OTHERS = "killed by others only"
    SURVIVED = "survived"
    DOES_NOT_BUILD = "does not build"
    DOES_NOT_APPLY = "does not apply"
    EQUIVALENT = "equivalent"


GOOD = frozenset({Fate.KILLED, Fate.EQUIVALENT})


@dataclass(frozen=True)
class Mutant:
    """A diff that breaks something on purpose, with its headers.

    Attributes:
        name: <change>/<slug>.
        breaks: one sentence.
        killed_by: rule ids or suite:case names of which one has to fail; empty for a diff without headers.
        series, on, config, with_, without: what it is tried on, when that is not the default. `on` may also be an
            architecture of `schedline layout`: then the mutant is compiled there and not booted.
        traffic: how the names of objects or fields begin of which one has to have more traffic on emulated CPUs.
        diff: the patch itself.
    """

    name: str
    breaks: str
    killed_by: tuple[str, ...]
    series: tuple[str, ...]
    on: str | None
    config: tuple[str, ...]
    with_: tuple[str, ...]
    without: tuple[str, ...]
    traffic: tuple[str, ...]
    diff: bytes


_HEADERS = frozenset({"Breaks", "Killed-by", "Series", "On", "Config", "With", "Without", "Traffic"})


def read_mutant(path: Path, name: str) -> Mutant:
    """Parse one mutant file.

    Raises:
        SchedlineError: an unknown header, or no diff in the file.
    """
    text = path.read_text(errors="surrogateescape")
    start = re.search(r"^(?:diff --git |--- a/)", text, re.M)
    if start is None:
        raise SchedlineError(f"{path} holds no diff", "make it with git diff")
    fields: dict[str, str] = {}
    for line in text[: start.start()].splitlines():
        if match := re.fullmatch(r"([A-Z][\w-]+): *(.*)", line):
            if match.group(1) not in _HEADERS:
                raise SchedlineError(f"{path}: unknown header {match.group(1)!r}", f"use {', '.join(sorted(_HEADERS))}")
            fields[match.group(1)] = match.group(2)
    for key in ("With", "Without"):
        known(ids(fields.get(key, "")), f"{path}: {key}")
    return Mutant(
        name,
        fields.get("Breaks", ""),
        ids(fields.get("Killed-by", "")),
        ids(fields.get("Series", "")),
        fields.get("On"),
        ids(fields.get("Config", "")),
        ids(fields.get("With", "")),
        ids(fields.get("Without", "")),
        ids(fields.get("Traffic", "")),
        text[start.start() :].encode(errors="surrogateescape"),
    )


def read_mutants(directory: Path) -> tuple[Mutant, ...]:
    """Every *.diff and *.patch below a directory, by name.

    Raises:
        SchedlineError: the directory is not there or has none.
    """
    found = sorted(path for pattern in ("*.diff", "*.patch") for path in directory.rglob(pattern))
    if not found:
        raise SchedlineError(f"there are no mutants (*.diff, *.patch) below {directory}", "check the path")
    return tuple(read_mutant(path, str(path.relative_to(directory).with_suffix(""))) for path in found)


def failing(boots: Sequence[Boot]) -> frozenset[str]:
    """The names under which the failures of some guests are known: full, suite:case, and the parameter alone."""
    parts = [(name, name.split(":")) for name in failed_names(boots)]
    return frozenset(known for name, words in parts for known in (name, ":".join(words[:2]), words[-1]))


def failed_names(boots: Sequence[Boot]) -> frozenset[str]:
    """The full names of failed tests, and the kinds of what else went wrong, of some guests."""
    tests = [test for boot in boots for test in boot.judgement.tests]
    problems = frozenset(problem.kind for boot in boots for problem in boot.judgement.problems)
    return problems | {test.name for test in tests if test.outcome in (Outcome.FAIL, Outcome.CRASHED)}


def fate_of(mutant: Mutant, failed: frozenset[str], same_code: bool) -> Fate:
    """Judge a mutant that was built and run."""
    if mutant.killed_by and not failed.isdisjoint(mutant.killed_by):
        return Fate.KILLED
    if failed:
        return Fate.KILLED_BY_OTHERS if mutant.killed_by else Fate.KILLED
    return Fate.EQUIVALENT if same_code else Fate.SURVIVED


def try_mutant(
    cache: Path, tree: Tree, mutant: Mutant, on: str | None, out: Path, expect: frozenset[str] | None = None
) -> tuple[Fate, frozenset[str], float]:
    """Apply, build, boot and judge one mutant; or compile it for an architecture and judge the layout.

    Args:
        expect: the changes that have to be there, beside those that the mutant needs.

    Returns:
        Its fate, what failed, and the seconds that it took. The answer is kept in the cache, under everything that
        it depends on.
    """
    started = time.monotonic()
    expected = None if expect is None else expect | set(mutant.with_)
    composition = compose(tree, with_=mutant.with_, without=mutant.without, expect=expected)
    refuse_conflicts(composition)
    commit = apply_diff(tree, composition.commit, mutant.diff, f"mutant {mutant.name}\n")
    if commit is None:
        return Fate.DOES_NOT_APPLY, frozenset(), 0.0
    if mutant.on in arch_table():
        failed = _broken_rules(cache, tree, commit, mutant, composition.expected)
        return fate_of(mutant, failed, False), failed, time.monotonic() - started
    if on == EMULATED:
        logs = out / mutant.name.replace("/", "-")
        failed = _traffic(cache, tree, (composition, replace(composition, commit=commit)), logs)
        caught = any(name.startswith(mutant.traffic) for name in failed)
        fate = Fate.KILLED if caught else Fate.KILLED_BY_OTHERS if failed else Fate.SURVIVED
        return fate, failed, time.monotonic() - started
    target, _ = choose(tree, on or mutant.on)
    lacking = left_out(tree, composition.expected)
    configuration = configuration_of([target.name, *mutant.config], lacking)
    depends = f"{commit} {configuration.digest()} {target} {mutant} {sorted(composition.expected)}"
    key = hashlib.sha256(depends.encode()).hexdigest()[:20]
    record = cache / "mutants" / f"{key}.json"
    if answer := read_json(record):
        return Fate(answer["fate"]), frozenset(answer["failed"]), answer["seconds"]
    original = cache / "mutants" / f"{composition.commit[:20]}-{configuration.digest()}.json"
    if read_json(original) is None:
        kernel = build(cache, tree, composition.commit, target, configuration)
        write_json(original, {"code": _code(kernel.build)})
    try:
        kernel = build(cache, tree, commit, target, configuration)
    except SchedlineError as error:
        if "does not build" not in error.observed:
            raise
        fate, failed = (Fate.KILLED if "build" in mutant.killed_by else Fate.DOES_NOT_BUILD), frozenset({"build"})
    else:
        folder, accel, failed = (
            out / mutant.name.replace("/", "-"),
            accelerator(cache, target, kernel.image),
            frozenset(),
        )
        for cpus in target.classes:
            plan = Plan(target, (cpus,), composition.expected, (), None, target.timeout, left_out=lacking)
            failed |= failing(boot_and_judge(plan, kernel, folder, (), accel))
            if not failed.isdisjoint(mutant.killed_by):
                break
        same = (read_json(original) or {}).get("code") == _code(kernel.build)
        fate = fate_of(mutant, failed, same)
    seconds = time.monotonic() - started
    write_json(record, {"fate": fate.value, "failed": sorted(failed), "seconds": seconds})
    return fate, failed, seconds


def _broken_rules(cache: Path, tree: Tree, commit: str, mutant: Mutant, expected: frozenset[str]) -> frozenset[str]:
    """What the layout matrix says of a mutant that is not booted."""
    column = Column(arch_table()[str(mutant.on)], "+".join(mutant.config))
    ensure_tools([column])
    rules = host_rules(cache)
    layout = layout_of(compiled(cache, tree, commit, column), column.name)
    results = (judge_rule(rules, rule.id, layout, expected) for rule in rules.rules)
    return frozenset(result.rule for result in results if result.outcome is Broken.FAIL)


def _traffic(cache: Path, tree: Tree, both: Sequence[Composition], logs: Path) -> frozenset[str]:
    """The objects and fields of which the emulated traffic of a mutant is over the budgets."""
    base, candidate = (remembered(cache, tree, _QUANTA, logs, composition) for composition in both)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(CONFIGS / "gates/c2c.toml"))
    return frozenset(each.pair.name for each in judged if each.verdict is Verdict.FAIL)


def _code(build_directory: Path) -> str:
    """Digest of the scheduler's machine code and data, to prove that a mutant changes nothing."""
    digest = hashlib.sha256()
    for unit in sorted((build_directory / "kernel/sched").rglob("*.o")):
        if unit.name != "built-in.a":
            digest.update(must(["objdump", "-s", "-r", "-j", ".text", "-j", ".rodata", "-j", ".data", unit]).encode())
    return digest.hexdigest()


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline mutants`."""
    parser = subparsers.add_parser(
        "mutants",
        help="prove that each test can fail",
        description="Applies each diff of configs/mutants/ to the patched tree, builds, boots, and sees that a test\n"
        "which its Killed-by header names fails. Answers are cached; an interrupted run goes on where it was.",
        epilog="examples:\n  schedline mutants\n  schedline mutants --only 'rd-lines/*'\n"
        "  schedline mutants --from ~/my-diffs        diffs without headers: any failing test kills",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    parser.add_argument(
        "--on",
        metavar="TARGET",
        help=f"{', '.join(TARGETS)}; or c2c: count the traffic of those that have a Traffic header",
    )
    parser.add_argument("--from", dest="from_", type=Path, metavar="DIR", help="diffs of your own instead")
    parser.add_argument("--only", metavar="GLOB", help="those whose <change>/<slug> matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    chosen = [
        mutant
        for mutant in read_mutants(arguments.from_ or MUTANTS)
        if (arguments.only is None or fnmatch.fnmatchcase(mutant.name, arguments.only))
        and (arguments.on != EMULATED or mutant.traffic)
    ]
    if not chosen:
        raise SchedlineError(f"--only: no mutant matches {arguments.only!r}", "ls configs/mutants/*")
    rows: list[dict[str, object]] = []
    with options.opened_tree(arguments) as (cache, tree):
        if arguments.on != EMULATED:
            doctor.ensure([choose(tree, arguments.on)[0].name])
        out = results_directory(cache, None)
        for number, mutant in enumerate(chosen, 1):
            if mutant.series and tree.name not in mutant.series:
                print(f"{number}/{len(chosen)} not for this tree: {mutant.name} (--series {mutant.series[0]})")
                continue
            fate, failed, seconds = try_mutant(cache, tree, mutant, arguments.on, out)
            print(f"{number}/{len(chosen)} {fate.value}: {mutant.name} ({seconds:.0f} s)", flush=True)
            if fate is not Fate.KILLED:
                wanted = f", wanted {', '.join(mutant.killed_by)}" if mutant.killed_by else ""
                said = f"failed: {', '.join(sorted(failed)) or 'nothing'}{wanted}"
                print(f"    {mutant.breaks or 'no Breaks: header'}\n    {said}")
            rows.append(
                {
                    "name": mutant.name,
                    "breaks": mutant.breaks,
                    "fate": fate.value,
                    "failed": sorted(failed),
                    "seconds": round(seconds, 1),
                }
            )
    if arguments.json:
        write_json(arguments.json, {"schema": "mutants-1", "tree": tree.origin, "mutants": rows})
    counts = Counter(str(row["fate"]) for row in rows)
    bad = sum(count for fate, count in counts.items() if Fate(fate) not in GOOD)
    print(f"mutants: {', '.join(f'{count} {fate}' for fate, count in counts.items()) or 'none for this tree'}")
    if not rows:
        return Verdict.INCONCLUSIVE.exit_code
    return (Verdict.FAIL if bad else Verdict.PASS).exit_code
