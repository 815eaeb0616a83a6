# SPDX-License-Identifier: GPL-2.0
"""The main job: tree -> patched tree -> built kernel -> guests -> one verdict."""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schedlib import doctor, options
from schedlib.cache import cache_dir
from schedlib.check import report, sanitize
from schedlib.check.agreement import disagreements
from schedlib.check.fingerprint import fingerprint
from schedlib.console.judge import Judgement, Problem, judge, load_expected, with_problems
from schedlib.console.races import load_known_races
from schedlib.errors import SchedlineError
from schedlib.formats.results import Boot
from schedlib.guest import selftests
from schedlib.guest.boot import run_guest
from schedlib.guest.kvm import accelerator
from schedlib.kernel.build import Kernel, build
from schedlib.kernel.targets import TARGETS, Programs, Target, choose, command_line, refuse_impossible
from schedlib.kernel.topology import MOST_CPUS, Topology, load_topology
from schedlib.layout.compile import UNIT, host_rules
from schedlib.layout.rule_judge import from_tables
from schedlib.layout.tables import read_fields, read_object
from schedlib.paths import KUNIT, SELFTESTS
from schedlib.progress import say, step
from schedlib.tree.changes import change_table
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.left_out import LeftOut, configuration_of, left_out
from schedlib.verdict import Verdict, worst

_DESCRIPTION = """\
Fetches a kernel (or takes yours), lays the KUnit tests and the changes into a copy, builds it, boots it with several
CPUs, and judges the whole console log against the list of tests that it must contain."""

_EXAMPLES = """\
examples:
  schedline check                                     7.3 with all changes, UML with 8 and 64 CPUs
  schedline check --series 6.12                       6.12 in QEMU (its UML has one CPU)
  schedline check --series 6.1                        Debian 12's own kernel, with the cluster scan carried
  schedline check --kdir ~/linux                      your tree; a change that it lacks is a skip
  schedline check --kdir ~/linux --base v7.3          what v7.3 has must be there
  schedline check --kdir ~/linux --with rd-lines      your tree with a carried change
  schedline check --without rd-lines                  show that the rules fail without it
  schedline check --only sched_layout.rd_lines --cpus 8
  schedline check --on qemu-x86_64 --config numa
  schedline check --cpupri all                        cpupri's masks split by node and LLC, three kernels
  schedline check --sanitize kcsan                    data races; also kasan, lockdep, ubsan
  schedline check --on qemu-arm64                     arm64, built with a cross compiler
  schedline check --on qemu-arm64 --topology kunpeng920
  schedline check --on qemu-arm64 --topology jacobsville --selftests
  git bisect run schedline check --kdir . --expect rq-order --bisect
"""

CPUPRI_VARIANTS = ("node", "llc", "llc-bytes")
"""How cpupri-split can keep its masks, other than in one; each is configs/kernel/cpupri-<name>.config."""

_WORD = re.compile(r"[\w.,=:*?\[\]/-]+")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline check`."""
    parser = subparsers.add_parser(
        "check",
        help="the main job: fetch, patch, build, boot, judge; one verdict",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    parser.add_argument("--on", metavar="TARGET", help=f"{' or '.join(TARGETS)} (default: uml where it has SMP)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=_cpus, metavar="N,...", help="CPUs of the guests (default: 8 and 64)")
    shape.add_argument(
        "--topology", metavar="NAME", help="boot one guest in QEMU with the shape in configs/topologies/NAME.toml"
    )
    parser.add_argument(
        "--config",
        type=options.ids,
        default=(),
        metavar="FRAGMENT,...",
        help="fragments of configs/kernel/, or paths, added in this order",
    )
    parser.add_argument(
        "--cpupri",
        type=variants,
        default=(),
        metavar="NAME,...",
        help=f"build and boot cpupri-split with its masks for each {', '.join(CPUPRI_VARIANTS)}, "
        "or all of them; one verdict",
    )
    parser.add_argument(
        "--sanitize",
        choices=sorted(sanitize.SANITIZERS),
        help=f"build with this, boot {sanitize.TARGET} with 8 CPUs; a report fails, but for the "
        "intended races in configs/known-races.toml",
    )
    parser.add_argument("--expect", type=options.ids, metavar="ID,...", help="changes that have to be there")
    parser.add_argument(
        "--base", metavar="REV", help="expect what this revision of your tree has (default: @{upstream})"
    )
    parser.add_argument(
        "--require",
        type=options.ids,
        default=(),
        metavar="TEST,...",
        help="a skip of these tests or suites is an error",
    )
    parser.add_argument(
        "--selftests",
        action="store_true",
        help="run the programs of selftests/ in the guests, in place of the KUnit suites",
    )
    parser.add_argument("--only", type=_word, metavar="SUITE[.CASE]", help="run these alone (globs allowed)")
    parser.add_argument(
        "--kernel-arg",
        type=_word,
        action="append",
        default=[],
        metavar="ARG",
        help="a parameter for the guest kernel, such as sched_cpupri_kunit.seed=7",
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="end a guest after this time")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results here too (with --cpupri: FILE-NAME for each)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for logs and results")
    parser.add_argument("--bisect", action="store_true", help="exit 125 where nothing can be said (git bisect run)")
    parser.set_defaults(run=_run)


def _cpus(text: str) -> tuple[int, ...]:
    values = tuple(int(word) for word in text.split(","))
    if not values or any(not 1 <= value <= MOST_CPUS for value in values):
        raise argparse.ArgumentTypeError(f"CPU counts are 1 to {MOST_CPUS}")
    return values


def variants(text: str) -> tuple[str, ...]:
    """How cpupri-split keeps its masks."""
    names = CPUPRI_VARIANTS if text == "all" else options.ids(text)
    if not names or not set(names) <= set(CPUPRI_VARIANTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(CPUPRI_VARIANTS)}, or all")
    return names


def _word(text: str) -> str:
    if not _WORD.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} holds characters that a kernel command line cannot carry")
    return text


@dataclass(frozen=True)
class Plan:
    """What is booted: where, with which CPUs, which changes are expected, with which kernel parameters, and which
    suites the kernel lacks."""

    target: Target
    classes: tuple[int, ...]
    expected: frozenset[str]
    arguments: tuple[str, ...]
    only: str | None
    timeout: float
    topology: Topology | None = None
    left_out: tuple[LeftOut, ...] = ()
    selftests: bool = False
    sanitizer: str | None = None

    def tests(self, cpus: int) -> tuple[str, ...]:
        """What a guest with so many CPUs has to run: the KUnit suites, or the selftests in place of them."""
        return expected_tests(cpus, self.only, [suite.name for suite in self.left_out], selftests=self.selftests)

    def parameters(self) -> tuple[str, ...]:
        """For the guest kernel."""
        only = (f"kunit.filter_glob={self.only}",) if self.only else ()
        shape = self.topology.arguments if self.topology else ()
        return (*expect_arguments(self.expected), *only, *shape, *self.arguments)


def expect_arguments(expected: Collection[str]) -> tuple[str, ...]:
    """Tell the kernel which changes have to be there, of those that a suite of it judges."""
    by_suite: dict[str, list[str]] = {}
    for name, change in sorted(change_table().items()):
        if change.suite and name in expected:
            by_suite.setdefault(change.suite, []).append(name)
    return tuple(f"{suite}_kunit.expect={','.join(names)}" for suite, names in by_suite.items())


def make_plan(
    target: Target, arguments: argparse.Namespace, expected: frozenset[str], left_out: tuple[LeftOut, ...] = ()
) -> Plan:
    """The plan that the options ask for.

    Raises:
        SchedlineError: there is no such topology, the emulator cannot have it, or there is no such guest.
    """
    if arguments.selftests and not target.emulator:
        raise SchedlineError(f"--selftests: a guest on {target.name} runs KUnit alone", "use --on qemu-arm64")
    if arguments.selftests and arguments.only:
        raise SchedlineError("--only chooses among the KUnit suites, which --selftests leaves out", "drop one of them")
    topology = load_topology(arguments.topology) if arguments.topology else None
    if topology:
        refuse_impossible(target, topology)
    return Plan(
        target,
        (topology.cpus,) if topology else arguments.cpus or target.classes,
        expected,
        tuple(arguments.kernel_arg),
        arguments.only,
        arguments.timeout or target.timeout,
        topology,
        left_out,
        arguments.selftests,
        arguments.sanitize,
    )


def expected_tests(
    cpus: int, only: str | None, without: Collection[str] = (), *, selftests: bool = False
) -> tuple[str, ...]:
    """The full names of the tests that a guest with so many CPUs has to run; `without` these suites."""
    listed = load_expected((SELFTESTS if selftests else KUNIT) / "tests.txt", cpus)
    names = [name for name in listed if name.split(":")[0] not in without]
    if only is None:
        return tuple(names)
    suite, _, case = only.partition(".")
    kept = tuple(
        name
        for name in names
        if fnmatch.fnmatchcase(name.split(":")[0], suite)
        and (not case or fnmatch.fnmatchcase(name.split(":")[1], case))
    )
    if not kept:
        suites = ", ".join(dict.fromkeys(name.split(":")[0] for name in names))
        raise SchedlineError(f"--only: no test matches {only!r}", f"suites are {suites}; see kunit/tests.txt")
    return kept


def boot_and_judge(
    plan: Plan, kernel: Kernel, out: Path, require: Sequence[str], accel: str, archive: Path | None = None
) -> tuple[Boot, ...]:
    """Boot one guest for each CPU class, keep its raw log in `out`, and judge it.

    Args:
        archive: an initramfs with the selftests, for a plan of these.
    """
    boots: list[Boot] = []
    races = load_known_races()
    # A defect is known until its fix is expected.
    known = () if "fix-cluster-key" in plan.expected else ("-k",)
    programs = Programs(archive, known) if archive else None
    for cpus in plan.classes:
        name = f"{plan.target.name}-{plan.topology.name if plan.topology else cpus}"
        expected = plan.tests(cpus)
        argv = command_line(plan.target, kernel.image, cpus, plan.parameters(), accel, plan.topology, programs)
        with step(f"booting {name}"):
            run = run_guest(argv, out / f"{name}.log", plan.timeout)
        log = run.log.read_bytes()
        judgement = judge(log, expected, ending=run.ending, require=require, times=run.times, known_races=races)
        problems = _disagreements(judgement, kernel, plan.expected)
        if plan.sanitizer:
            problems += sanitize.silent(plan.sanitizer, log)
        judgement = with_problems(judgement, problems)
        boots.append(Boot(name, run.argv, run.ending, run.log, run.seconds, judgement))
    return tuple(boots)


def _disagreements(judgement: Judgement, kernel: Kernel, expected: frozenset[str]) -> tuple[Problem, ...]:
    """A problem for each layout rule on which the booted kernel and its object differ."""
    unit = kernel.build / UNIT
    if not unit.is_file():
        return ()
    layout = from_tables(unit.name, read_fields(read_object(unit), str(unit)), {})
    return tuple(disagreements(host_rules(cache_dir()), layout, judgement.tests, expected))


def results_directory(cache: Path, wanted: Path | None) -> Path:
    """A new directory for one run's logs and results."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    directory = (wanted or cache / "results" / f"{stamp}-{os.getpid()}").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _run(arguments: argparse.Namespace) -> int:
    if not arguments.cpupri:
        return _check(arguments).exit_code
    out = results_directory(cache_dir(), arguments.out)
    verdicts = {name: _check(split(arguments, name, out)) for name in dict.fromkeys(arguments.cpupri)}
    verdict = worst(verdicts.values())
    each = ", ".join(f"{name} {one.name}" for name, one in verdicts.items())
    print(f"verdict of {len(verdicts)} cpupri variants: {verdict.name} ({each})")
    return verdict.exit_code


def split(arguments: argparse.Namespace, name: str, out: Path) -> argparse.Namespace:
    """The options of one variant of cpupri-split: its change, fragment, and files of its own for the results."""
    file = arguments.json
    changed = {
        "with_": (*arguments.with_, "cpupri-split"),
        "config": (*arguments.config, f"cpupri-{name}"),
        "json": file and file.with_stem(f"{file.stem}-{name}"),
        "out": out / name,
    }
    return argparse.Namespace(**{**vars(arguments), **changed})


def _check(arguments: argparse.Namespace) -> Verdict:
    started = datetime.now(UTC)
    with options.opened_tree(arguments) as (cache, tree):
        target, reason = choose(tree, arguments.on or (sanitize.TARGET if arguments.sanitize else None))
        if arguments.sanitize:
            target = sanitize.scaled(target, arguments.sanitize)
        if reason:
            say(f"note: {reason}")
        doctor.ensure([target.name, *([f"{target.name}-selftests"] if arguments.selftests else [])])
        composition = compose(
            tree, with_=arguments.with_, without=arguments.without, expect=arguments.expect, base=arguments.base
        )
        refuse_conflicts(composition)
        plan = make_plan(target, arguments, composition.expected, left_out(tree, composition.expected))
        for cpus in plan.classes:
            plan.tests(cpus)
        say(f"checking {_describe(tree, composition)} on {target.name}")
        needed = [selftests.FRAGMENT] if arguments.selftests else []
        needed += [arguments.sanitize] if arguments.sanitize else []
        configuration = configuration_of([target.name, *needed, *arguments.config], plan.left_out)
        kernel = build(cache, tree, composition.commit, target, configuration)
        out = results_directory(cache, arguments.out)
        archive = selftests.initramfs(kernel, tree, target) if arguments.selftests else None
        accel = accelerator(cache, target, kernel.image)
        boots = boot_and_judge(plan, kernel, out, arguments.require, accel, archive)
        summary = report.Summary(
            started=started,
            tree=tree,
            composition=composition,
            boots=boots,
            out=out,
            fingerprint=fingerprint(kernel, boots, configuration),
            reproduce=_reproduce(arguments, target),
            left_out=plan.left_out,
        )
        report.write(summary, arguments.json)
    return report.show(summary)


def _describe(tree: Tree, composition: Composition) -> str:
    dirty = f" (dirty: {tree.dirty} files)" if tree.dirty else ""
    changes = ", ".join(f"{row.id} {row.state.value}" for row in composition.states)
    return f"{tree.origin}{dirty} [{changes}]"


def _reproduce(arguments: argparse.Namespace, target: Target) -> str:
    """The command of this run up to the choice of one test; empty where none can be chosen."""
    if arguments.selftests:
        return ""
    words = ["scripts/schedline", "check"]
    for name in ("kdir", "series", "base"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name}", str(value)]
    for name, value in (
        ("with", arguments.with_),
        ("without", arguments.without),
        ("config", arguments.config),
        ("expect", arguments.expect or ()),
    ):
        if value:
            words += [f"--{name}", ",".join(value)]
    if arguments.sanitize:
        words += ["--sanitize", arguments.sanitize]
    for value in arguments.kernel_arg:
        words += ["--kernel-arg", value]
    return shlex.join([*words, "--on", target.name])
