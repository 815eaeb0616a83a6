# SPDX-License-Identifier: GPL-2.0
"""The verbs below `schedline layout`: `emit`, `diff`, `drift`, `explain`, `rules` and `contract`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from schedlib.errors import SchedlineError
from schedlib.layout.layout_options import (
    ContractCheckOptions,
    DriftOptions,
    EmitOptions,
    ExplainOptions,
    InitOptions,
    LayoutDiffOptions,
    RulesOptions,
)
from schedlib.options import add_verb


class _Below(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The verbs below a verb. An option in front of one of them would be lost, so it is rejected."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        given = [name for name, value in vars(namespace).items() if value != parser.get_default(name)]
        if given and values:
            parser.error(f"write the options behind {values[0]}: {parser.prog} {values[0]} --{given[0].strip('_')} ...")
        super().__call__(parser, namespace, values, option_string)


def add_parser(layout: argparse.ArgumentParser) -> None:
    """Add the verbs below `schedline layout`."""
    verbs = layout.add_subparsers(
        action=_Below, prog=layout.prog, metavar="VERB", help="more about layouts; schedline layout VERB --help"
    )
    add_verb(
        verbs,
        "emit",
        "the rules as static assertions, a C file for kernel/sched/tests",
        first=[
            "schedline layout emit                                      for Debian's 7.3",
            "schedline layout emit --kdir ~/linux -o layout_asserts.c   for your tree",
        ],
        text="Writes the rules of the changes that a tree has. What breaks one of them does not build.",
        options=EmitOptions,
        job="layout.queries.emit_asserts",
    )
    add_verb(
        verbs,
        "diff",
        "what differs between two layouts",
        first=[
            "schedline layout diff 6.12 7.3               two kernels of Debian",
            "schedline layout diff a/vmlinux b/vmlinux    two that you built",
        ],
        text="""
        Says which members moved between cache lines, which rules changed, and what that costs in bytes. --arch and
        --config hold for both sides. To compare two configurations, build both and give two vmlinux.""",
        examples=[
            "schedline layout diff 7.3 7.3+rd-lines+cpupri-lines --svg x.svg",
            "schedline layout diff running ~/linux",
        ],
        operands="A B",
        read=_one_column,
        options=LayoutDiffOptions,
        job="layout.layout_diff.diff_layouts",
    )
    add_verb(
        verbs,
        "drift",
        "what became of all contracts from one kernel to the next",
        first=[
            "schedline layout drift 6.12 7.3       two kernels of Debian",
            "schedline layout drift 7.3 ~/linux    your tree against a release",
        ],
        text="""
        Judges the contracts of the scheduler and of all packs on kernels in order of time. Says which rules no longer
        hold, which members moved between lines or came to lines that a contract speaks of, and which lines are full.
        FAIL: a rule that held is broken, or a member of another class joined a line.""",
        examples=[
            "schedline layout drift 6.1 6.12 7.2 7.3 --arch all --json drift.json",
            "schedline layout drift 7.2 7.3 --pack net,fs",
            "schedline layout drift a/vmlinux b/vmlinux",
            "schedline layout drift 7.3 7.3+rd-lines --pack sched",
        ],
        operands="A B [C ...]",
        read=_in_order,
        options=DriftOptions,
        job="layout.drift_job.compare_all",
    )
    add_verb(
        verbs,
        "explain",
        "what a rule keeps, why, and how it stands now",
        first=[
            "schedline layout explain Q1                     on Debian's 7.3",
            "schedline layout explain rd-lines.R1 --kdir .   on your tree",
        ],
        text="Says what the rule keeps, who asked for it and why, and draws its lines and the bytes left on them.",
        operands="RULE",
        options=ExplainOptions,
        job="layout.queries.explain_rule",
    )
    add_verb(
        verbs,
        "rules",
        "who owns which line of a subsystem's structures, as plain rules",
        first=[
            "schedline layout rules --for kernel/sched     to read before a patch",
            "schedline layout rules --for include/linux/mm_types.h",
        ],
        text="""
        Prints the contracts of the structures that a directory or file of the kernel declares: short enough for a
        reviewer, or for a program that reviews. It looks at no tree.""",
        options=RulesOptions,
        job="layout.queries.show_rules",
    )
    contract = verbs.add_parser(
        "contract", help="make a contract of a structure, or check one", description="Contracts of structures."
    )
    below = contract.add_subparsers(prog=contract.prog, metavar="VERB", required=True)
    add_verb(
        below,
        "init",
        "write a first contract of a structure",
        first=[
            "schedline layout contract init net_device                        of Debian's 7.3",
            "schedline layout contract init timer_base --kdir . -o mine",
        ],
        text="""
        Takes the groups between __cacheline_group_begin() and __cacheline_group_end(), ____cacheline_aligned and, with
        --profile, what was measured. Each part names its origin. Groups that share a line although their classes do
        not fit get an exception. What no source speaks of is listed at the end. Judge it with schedline layout
        --contracts DIR.""",
        operands="STRUCT",
        options=InitOptions,
        job="layout.struct_job.init_contract",
    )
    add_verb(
        below,
        "check",
        "hold a contract against what was measured",
        first=[
            "schedline layout contract check rq --profile measured        is it read and written as declared?",
            "schedline layout contract check mine/timer_base.toml --profile measured",
        ],
        text="""
        Compares the class of each group with a result of schedline c2c, and its readers and writers with the
        functions that were seen. FAIL if a group has more traffic than its class allows, INCONCLUSIVE if the profile
        does not watch the structure or its guests do not agree. Functions are told and do not fail: a compiler may
        have inlined one, and a workload does not run all.""",
        operands="STRUCT|FILE --profile FILE",
        options=ContractCheckOptions,
        job="layout.struct_job.check_against_profile",
    )


def _one_column(options: LayoutDiffOptions) -> LayoutDiffOptions:
    columns = options.columns
    if len(columns.arch) > 1 or len(columns.config) > 1 or "all" in columns.config:
        raise SchedlineError("diff compares in one architecture and configuration", "name one of each")
    return options


def _in_order(options: DriftOptions) -> DriftOptions:
    kernels = options.kernels
    if len(kernels) < 2:
        raise SchedlineError(
            f"{kernels[0].text} alone cannot drift: a kernel is compared with the one before it",
            "name two kernels or more, the oldest first: schedline layout drift 6.12 7.3",
        )
    for place, kernel in enumerate(kernels):
        if kernel in kernels[:place]:
            raise SchedlineError(f"{kernel.text} is named twice", "name each kernel once, the oldest first")
    return options
