# SPDX-License-Identifier: GPL-2.0
"""A plan and a built kernel -> guests, booted one after the other and judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schedlib.check import sanitize
from schedlib.check.agreement import disagreements
from schedlib.check.check_plan import CheckPlan
from schedlib.check.check_results import JudgedBoot
from schedlib.console.judge import Judgement, Problem, judge, with_problems
from schedlib.console.known_races import explained
from schedlib.contracts.contract_rules import our_rules
from schedlib.guest.boot import run_guest
from schedlib.guest.command_line import Programs, command_line
from schedlib.kernel.build import Kernel
from schedlib.layout.compile import UNIT
from schedlib.layout.rule_judge import from_tables
from schedlib.layout.tables import read_fields, read_object
from schedlib.progress import step


def boot_and_judge(
    plan: CheckPlan, kernel: Kernel, out: Path, require: Sequence[str], accel: str, archive: Path | None = None
) -> tuple[JudgedBoot, ...]:
    """Boot one guest for each CPU class, keep its raw log in `out`, and judge it.

    Args:
        archive: an initramfs with the selftests, if the plan runs them.
    """
    boots: list[JudgedBoot] = []
    # -k skips the known defect, unless its fix is expected.
    known = () if "fix-cluster-key" in plan.expected else ("-k",)
    programs = Programs(archive, known) if archive else None
    for cpus in plan.classes:
        name = f"{plan.target.name}-{plan.topology.name if plan.topology else cpus}"
        expected = plan.tests(cpus)
        argv = command_line(plan.target, kernel.image, cpus, plan.parameters(), accel, plan.topology, programs)
        with step(f"booting {name}"):
            run = run_guest(argv, out / f"{name}.log", plan.timeout)
        log = run.log.read_bytes()
        judgement = judge(log, expected, ending=run.ending, require=require, times=run.times, known_races=explained)
        problems = _disagreements(judgement, kernel, plan.expected)
        if plan.sanitizer:
            problems += sanitize.silent(plan.sanitizer, log)
        judgement = with_problems(judgement, problems)
        boots.append(JudgedBoot(name, run.argv, run.ending, run.log, run.seconds, judgement))
    return tuple(boots)


def _disagreements(judgement: Judgement, kernel: Kernel, expected: frozenset[str]) -> tuple[Problem, ...]:
    """A problem for each layout rule on which the booted kernel and its object differ."""
    unit = kernel.build / UNIT
    if not unit.is_file():
        return ()
    layout = from_tables(unit.name, read_fields(read_object(unit), str(unit)), {})
    return tuple(disagreements(our_rules(), layout, judgement.tests, expected))
