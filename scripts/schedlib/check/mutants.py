# SPDX-License-Identifier: GPL-2.0
"""A test that cannot fail proves nothing, so each change is broken on purpose."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from schedlib.cache import cached, contents_of, scratch
from schedlib.check.check_boots import boot_and_judge, make_plan
from schedlib.check.check_results import JudgedBoot
from schedlib.check.check_verb import CheckOptions
from schedlib.console.judge import TestOutcome
from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import DoesNotBuild, SchedlineError
from schedlib.guest import selftests
from schedlib.guest.command_line import accelerator
from schedlib.kernel.build import Kernel, KernelPlan, built, composed_kernel
from schedlib.kernel.targets import choose
from schedlib.layout.columns import ensure_tools
from schedlib.layout.compile import Column, arch_table
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import RuleOutcome, judge_rule
from schedlib.names import split_list
from schedlib.paths import COLLECTION, CONFIGS, SELFTESTS
from schedlib.process import must
from schedlib.tree.changes import known
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, apply_diff
from schedlib.verdict import Verdict

MUTANTS = CONFIGS / "mutants"
_INITRAMFS = "initramfs.cpio"


class Fate(Enum):
    """The outcome of a mutant."""

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
        killed_by: rule ids or suite:case names, at least one of which has to fail; empty for a diff without headers.
            Of a workload, sched_latency:PROGRAM:TEST: then the guests run that program, and no KUnit test.
        series, on, config, with_, without: what it is tried on, when that is not the default. `on` may also be an
            architecture of `schedline layout`: then the mutant is compiled for it and not booted.
        topology: of the guest that runs a workload; by default it has 2 CPUs.
        traffic: how names of objects or fields begin; at least one of them has to have more traffic on emulated CPUs.
        diff: the patch itself.
    """

    name: str
    breaks: str = ""
    killed_by: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    on: str | None = None
    topology: str | None = None
    config: tuple[str, ...] = ()
    with_: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    traffic: tuple[str, ...] = ()
    diff: bytes = b""

    @property
    def program(self) -> str | None:
        """The workload that has to notice it; None if it is a KUnit test or a rule."""
        found = {name.split(":")[1] for name in self.killed_by if name.startswith(f"{COLLECTION}:")}
        return min(found, default=None)


_HEADERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("Breaks", "On", "Topology"), str),
    **dict.fromkeys(("Killed-by", "Series", "Config", "With", "Without", "Traffic"), split_list),
}
"""How the value of each header is read."""


def read_mutant(path: Path, name: str) -> Mutant:
    """Parse one mutant file; SchedlineError for an unknown header, or no diff in the file."""
    text = path.read_text(errors="surrogateescape")
    start = re.search(r"^(?:diff --git |--- a/)", text, re.M)
    if start is None:
        raise SchedlineError(f"{path} holds no diff", "make it with git diff")
    fields: dict[str, Any] = {}
    for header, value in re.findall(r"^([A-Z][\w-]+): *(.*)$", text[: start.start()], re.M):
        if header not in _HEADERS:
            raise SchedlineError(f"{path}: unknown header {header!r}", f"use {', '.join(sorted(_HEADERS))}")
        if header.startswith("With"):
            known(split_list(value), f"{path}: {header}")
        key = "with_" if header == "With" else header.lower().replace("-", "_")
        fields[key] = _HEADERS[header](value)
    return Mutant(name, diff=text[start.start() :].encode(errors="surrogateescape"), **fields)


def read_mutants(directory: Path) -> tuple[Mutant, ...]:
    """Every *.diff and *.patch below a directory, by name; SchedlineError if there are none."""
    found = sorted(path for pattern in ("*.diff", "*.patch") for path in directory.rglob(pattern))
    if not found:
        raise SchedlineError(f"there are no mutants (*.diff, *.patch) below {directory}", "check the path")
    return tuple(read_mutant(path, str(path.relative_to(directory).with_suffix(""))) for path in found)


def failing(boots: Sequence[JudgedBoot]) -> frozenset[str]:
    """Every name that a header may use for a failure of some guests: full name, suite:case, and the last part alone."""
    parts = [(name, name.split(":")) for name in failed_names(boots)]
    return frozenset(known for name, words in parts for known in (name, ":".join(words[:2]), words[-1]))


def failed_names(boots: Sequence[JudgedBoot]) -> frozenset[str]:
    """The full names of the failed tests of some guests, and the kinds of the problems that fail their logs."""
    tests = [test for boot in boots for test in boot.tests]
    problems = [each for boot in boots for each in boot.problems]
    bad = frozenset(each.kind for each in problems if each.verdict in (Verdict.FAIL, Verdict.ERROR))
    return bad | {test.name for test in tests if test.outcome in (TestOutcome.FAIL, TestOutcome.CRASHED)}


def fate_of(mutant: Mutant, failed: frozenset[str], same_code: bool) -> Fate:
    """Judge a mutant that was built and run."""
    if mutant.killed_by and not failed.isdisjoint(mutant.killed_by):
        return Fate.KILLED
    if failed:
        return Fate.KILLED_BY_OTHERS if mutant.killed_by else Fate.KILLED
    # Of other files the code was not compared.
    elsewhere = re.search(rb"^\+\+\+ b/(?!kernel/sched/)", mutant.diff, re.M)
    return Fate.EQUIVALENT if same_code and not elsewhere else Fate.SURVIVED


def applied(tree: Tree, mutant: Mutant, expect: frozenset[str] | None = None) -> tuple[Composition, str | None]:
    """The tree that a mutant is applied to, and the commit with the mutant; None if its diff does not apply.

    The tree has to have the changes in `expect` and those that the mutant needs; SchedlineError if one does not apply.
    """
    expected = None if expect is None else expect | set(mutant.with_)
    composition = compose(tree, with_=mutant.with_, without=mutant.without, expect=expected)
    refuse_conflicts(composition)
    return composition, apply_diff(tree, composition.commit, mutant.diff, f"mutant {mutant.name}\n")


def try_mutant(
    cache: Path, tree: Tree, mutant: Mutant, on: str | None, out: Path, expect: frozenset[str] | None = None
) -> tuple[Fate, frozenset[str], float]:
    """Apply, build, boot and judge one mutant; or compile it for an architecture and judge the layout; see applied().

    Returns:
        Its fate, what failed, and the seconds that it took. For a mutant that is to be booted, the cache keeps the
        answer, under a hash of everything that it depends on.
    """
    started = time.monotonic()
    composition, commit = applied(tree, mutant, expect)
    if commit is None:
        return Fate.DOES_NOT_APPLY, frozenset(), 0.0
    if mutant.on in arch_table():
        failed = _broken_rules(cache, tree, commit, mutant, composition.expected)
        return fate_of(mutant, failed, False), failed, time.monotonic() - started
    target, _ = choose(tree, on or mutant.on)
    needs = (selftests.FRAGMENT,) if mutant.program else ()
    original = composed_kernel(tree, target, composition, (*needs, *mutant.config))
    mutated = replace(original, commit=commit)
    digest = original.configuration.digest()

    def tried() -> dict[str, Any]:
        with scratch(cache) as place:
            reference = cached(
                cache / "mutants",
                ("code", composition.commit, digest),
                lambda: {"code": _built(cache, original, place / "original", None)[1]},
            )
            try:
                kernel, code = _built(cache, mutated, place / "mutant", mutant.program)
            except DoesNotBuild:
                failed = frozenset({"build"})
                fate = Fate.KILLED if "build" in mutant.killed_by else Fate.DOES_NOT_BUILD
            else:
                failed = _failing_in_guests(cache, mutant, mutated, kernel, out / mutant.name.replace("/", "-"))
                fate = fate_of(mutant, failed, reference["code"] == code)
        return {"fate": fate.value, "failed": sorted(failed), "seconds": time.monotonic() - started}

    depends = f"{commit} {digest} {target} {mutant} {sorted(composition.expected)}"
    programs = contents_of([SELFTESTS]) if mutant.program else ()
    # A workload excuses what a busy machine may have done.
    found = cached(
        cache / "mutants",
        (depends, *programs),
        tried,
        lambda each: not mutant.program or each["fate"] == Fate.KILLED.value,
    )
    return Fate(found["fate"]), frozenset(found["failed"]), found["seconds"]


def _built(cache: Path, plan: KernelPlan, place: Path, program: str | None) -> tuple[Kernel, str]:
    """A kernel, copied to `place` with an initramfs that has a workload, and the digest of its code."""
    with built(cache, plan.tree, plan.commit, plan.target, plan.configuration) as kernel:
        kept = kernel.kept(place)
        if program:
            shutil.copy2(selftests.initramfs(kernel, plan.tree, plan.target, [program]), place / _INITRAMFS)
        # The machine code and data of the scheduler prove that a mutant changes nothing.
        units = sorted((kernel.build / "kernel/sched").rglob("*.o"))
        code = [must(["objdump", "-s", "-r", "-j", ".text", "-j", ".rodata", "-j", ".data", unit]) for unit in units]
        return kept, hashlib.sha256("".join(code).encode()).hexdigest()


def _failing_in_guests(cache: Path, mutant: Mutant, plan: KernelPlan, kernel: Kernel, folder: Path) -> frozenset[str]:
    """What fails in guests with the target's CPU counts, up to the first guest in which a test of `killed_by` fails."""
    accel = accelerator(cache, plan.target, kernel.image)
    failed = frozenset[str]()
    only = f"{COLLECTION}.{mutant.program}" if mutant.program else None
    # With more CPUs than the host has, each has others beside it all the time, and what they may excuse is excused.
    cpus = (2,) if only and not mutant.topology else ()
    options = CheckOptions(selftests=bool(only), only=only, cpus=cpus, topology=mutant.topology)
    archive = kernel.build / _INITRAMFS if only else None
    wanted = make_plan(plan.target, options, plan.composition.expected, plan.left_out)
    for count in wanted.classes:
        failed |= failing(boot_and_judge(replace(wanted, classes=(count,)), kernel, folder, accel, archive))
        if not failed.isdisjoint(mutant.killed_by):
            break
    return failed


def _broken_rules(cache: Path, tree: Tree, commit: str, mutant: Mutant, expected: frozenset[str]) -> frozenset[str]:
    """The layout rules that fail on a mutant that is compiled and not booted."""
    column = Column(arch_table()[str(mutant.on)], "+".join(mutant.config))
    ensure_tools([column])
    rules = our_rules()
    layout = pack_layout(cache, tree, commit, column, rules)
    results = (judge_rule(rules, rule.id, layout, expected) for rule in rules.rules)
    return frozenset(result.rule for result in results if result.outcome is RuleOutcome.FAIL)
