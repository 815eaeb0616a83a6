# SPDX-License-Identifier: GPL-2.0
"""What a check boots, and the judgement of each guest: its log, and its layout rules against its debug information."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.check.check_results import JudgedBoot, judged_boot
from schedlib.check.check_verb import CheckOptions
from schedlib.console.expected import expected_tests
from schedlib.console.judge import Problem, TestOutcome, TestResult, judge
from schedlib.console.known_races import explained
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.errors import SchedlineError
from schedlib.guest.boot import run_guest
from schedlib.guest.command_line import Programs, command_line, refuse_impossible
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import SANITIZERS, Target
from schedlib.kernel.topology import Topology, load_topology
from schedlib.layout.rule_judge import Layout, RuleOutcome, judge_rule
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import step
from schedlib.tree.changes import change_table
from schedlib.tree.suites import KunitSuite
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class CheckPlan:
    """The guests to boot."""

    target: Target
    classes: tuple[int, ...]
    expected: frozenset[str]
    options: CheckOptions = field(default_factory=CheckOptions)
    topology: Topology | None = None
    left_out: tuple[KunitSuite, ...] = ()
    lost: tuple[tuple[frozenset[str], str], ...] = ()

    def tests(self, cpus: int) -> tuple[str, ...]:
        """The tests that a guest with this number of CPUs has to run."""
        without = [suite.name for suite in self.left_out]
        return expected_tests(cpus, self.options.only, without, selftests=self.options.selftests)

    def programs(self) -> frozenset[str]:
        """The selftests' programs that the guests run."""
        return frozenset(name.split(":")[1] for cpus in self.classes for name in self.tests(cpus))

    def parameters(self) -> tuple[str, ...]:
        """The parameters for the guest kernel."""
        wanted = self.options
        only = (f"kunit.filter_glob={wanted.only}",) if wanted.only and not wanted.selftests else ()
        shape = self.topology.arguments if self.topology else ()
        return (*expect_arguments(self.expected), *only, *shape, *wanted.kernel_args)


def expect_arguments(expected: Collection[str]) -> tuple[str, ...]:
    """The kernel parameters that tell each suite which of the changes that it judges are expected."""
    by_suite: dict[str, list[str]] = {}
    judged = [(name, change_table()[name].suite) for name in sorted(expected)]
    for name, suite in (each for each in judged if each[1]):
        by_suite.setdefault(suite, []).append(name)
    return tuple(f"{suite}_kunit.expect={','.join(names)}" for suite, names in by_suite.items())


def make_plan(
    target: Target, options: CheckOptions, expected: frozenset[str], left_out: tuple[KunitSuite, ...] = ()
) -> CheckPlan:
    """The plan that the options ask for; SchedlineError if the target cannot have the topology or run selftests."""
    if options.selftests and not target.emulator:
        raise SchedlineError(f"--selftests: a guest on {target.name} can only run KUnit", "use --on qemu-arm64")
    topology = load_topology(options.topology) if options.topology else None
    if topology:
        refuse_impossible(target, topology)
    classes = (topology.cpus,) if topology else options.cpus or target.classes
    return CheckPlan(target, classes, expected, options, topology, left_out)


def boot_and_judge(
    plan: CheckPlan, kernel: Kernel, out: Path, accel: str, archive: Path | None = None
) -> tuple[JudgedBoot, ...]:
    """Boot one guest for each CPU class, with `archive` as its initramfs; keep its raw log in `out`, and judge it."""
    boots: list[JudgedBoot] = []
    target, options = plan.target, plan.options
    # -k skips the known defect, unless its fix is expected.
    known = () if "fix-cluster-key" in plan.expected else ("-k",)
    programs = Programs(archive, known) if archive else None
    rules = our_rules().without({each for ids, _ in plan.lost for each in ids})
    layout = None
    with suppress(SchedlineError):  # a kernel may have no debug information
        layout = layout_of_built(kernel.build / "vmlinux", rules)
    for cpus in plan.classes:
        name = f"{target.name}-{plan.topology.name if plan.topology else cpus}"
        expected = plan.tests(cpus)
        argv = command_line(target, kernel.image, cpus, plan.parameters(), accel, plan.topology, programs)
        with step(f"booting {name}"):
            run = run_guest(argv, out / f"{name}.log", options.timeout or target.timeout)
        log, how = run.log.read_bytes(), run.ending
        judgement = judge(log, expected, ending=how, require=options.require, times=run.times, known_races=explained)
        problems = [Problem("not-judged", 0, text, Verdict.ERROR) for _, text in plan.lost]
        problems += not_held(rules, judgement.tests, plan.expected)
        if layout:
            problems += disagreements(rules, layout, judgement.tests, plan.expected)
        if options.sanitize:
            problems += sanitizer_off(options.sanitize, log)
        boots.append(judged_boot(name, run, judgement.with_problems(problems)))
    return tuple(boots)


def sanitizer_off(sanitizer: str, log: bytes) -> tuple[Problem, ...]:
    """A problem if the log does not say that the sanitizer is on: a guest without it finds nothing and passes."""
    said = SANITIZERS[sanitizer][1]
    problem = Problem("sanitizer-off", 0, f"{sanitizer} is not on: the log lacks '{said}'", Verdict.ERROR)
    return () if said.encode() in log else (problem,)


NOT_JUDGED = "not judged: "
"""How the reason of a skip begins where a rule applies to a kernel and could not be judged in it. Any other skip of a
rule says that it does not apply, or that its change is not in the tree."""


def _rules_tested(rules: Rules, tests: Sequence[TestResult]) -> Iterator[tuple[str, TestResult]]:
    """The tests of layout rules, each with the rule's id."""
    known = {rule.id for rule in rules.rules}
    for test in tests:
        suite, rule = test.name.split(":")[0], test.name.split(":")[-1]
        if suite == "sched_layout" and rule in known:
            yield rule, test


def not_held(rules: Rules, tests: Sequence[TestResult], expected: frozenset[str]) -> Iterator[Problem]:
    """One problem for each reason why the kernel could not judge rules of expected changes."""
    found: dict[str, list[str]] = {}
    for rule, test in _rules_tested(rules, tests):
        skipped = test.outcome is TestOutcome.SKIP and test.reason.startswith(NOT_JUDGED)
        if skipped and rules.rule(rule).change in expected:
            found.setdefault(test.reason.removeprefix(NOT_JUDGED), []).append(rule)
    for reason, names in found.items():
        yield Problem("not-held", 0, f"not held here ({reason}): {', '.join(names)}", Verdict.INCONCLUSIVE)


_SAME = {TestOutcome.PASS: RuleOutcome.PASS, TestOutcome.FAIL: RuleOutcome.FAIL, TestOutcome.SKIP: RuleOutcome.NA}


def disagreements(
    rules: Rules, layout: Layout, tests: Sequence[TestResult], expected: frozenset[str]
) -> Iterator[Problem]:
    """A problem for each rule on which the kernel and its debug information differ.

    A failure only in the kernel is no problem if the rule has a clause that debug information cannot judge, because it
    does not record what the clause is about. Nor is a pass, if no clause can be judged from it at all.
    """
    for rule, test in _rules_tested(rules, tests):
        if test.outcome not in _SAME or test.reason.startswith(NOT_JUDGED):
            continue
        result, said = judge_rule(rules, rule, layout, expected), _SAME[test.outcome]
        unseen = any(clause.unrecorded for clause in result.clauses)
        judged = any(clause.outcome is not RuleOutcome.NA for clause in result.clauses)
        excused = unseen and (said is RuleOutcome.FAIL or (said is RuleOutcome.PASS and not judged))
        if said is not result.outcome and not excused:
            text = f"{rule}: the kernel reports {said.value}, its debug information shows {result.outcome.value}"
            yield Problem("layout-disagrees", test.line, text, Verdict.FAIL, test.name)
