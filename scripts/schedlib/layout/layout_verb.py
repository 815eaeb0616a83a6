# SPDX-License-Identifier: GPL-2.0
"""`schedline layout`: the rules on any architecture, on any vmlinux, and on the running kernel, without booting."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlib.errors import SchedlineError
from schedlib.layout.layout_options import (
    ColumnOptions,
    ContractCheckOptions,
    DriftOptions,
    EmitOptions,
    ExplainOptions,
    InitOptions,
    LayoutDiffOptions,
    LayoutOptions,
    RulesOptions,
)
from schedlib.options import ChangeOptions, TreeOptions, Verbs, add_group, add_verb
from schedlib.progress import say
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline layout` and the verbs below it."""
    parser = add_verb(
        verbs,
        "layout",
        "the layout rules on any architecture, any vmlinux, the running kernel; no boot",
        first=[
            "schedline layout --kdir ~/linux                       your tree as it is, for x86_64",
            "schedline layout --kdir . --commit HEAD               what a patch breaks or changes, else silent",
        ],
        text="""
        Compiles one unit that sees the structures, as your tree was built or with Debian's compilers, and judges the
        rules by its debug information. Or takes that of a kernel that somebody else built.""",
        examples=[
            "schedline layout                                      Debian's 7.3 with all changes, for x86_64",
            "schedline layout --arch all                           every architecture in its own configuration",
            "schedline layout --arch x86_64,arm64 --config all     every configuration of these",
            "schedline layout --arch x86_64 --config numa+proxy,uclamp",
            "schedline layout --kdir ~/linux --arch arm64",
            "schedline layout --kdir . --patch my.patch            a diff, a mail, or an mbox with a series; -: stdin",
            "schedline layout --kdir . --install-hook              let git commit and b4 judge each patch",
            "schedline layout --vmlinux ~/build/vmlinux --expect rq-order",
            "schedline layout --running                            the kernel of this machine, root not needed",
            "schedline layout --pack futex --arch all              the contracts of a subsystem; all: every pack",
            "schedline layout --struct sk_buff_head                the lines of any structure; --svg FILE draws them",
            "schedline layout --variables --build ~/build          who is beside nohz and other variables in a vmlinux",
            "schedline layout explain Q1                           what a rule keeps, and why",
        ],
        operands="[VERB]",
        options=LayoutOptions,
        read=_checked,
        job=_layout,
    )
    _add_below(parser)


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


def _add_below(layout: argparse.ArgumentParser) -> None:
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
    below = add_group(
        verbs,
        "contract",
        "make a contract of a structure, or check one",
        first=[
            "schedline layout contract init timer_base --kdir . -o mine",
            "schedline layout contract check mine/timer_base.toml --profile measured",
        ],
        text="""
        A contract says who reads and writes the members of a structure. schedline layout --contracts DIR judges those
        of a directory; docs/contracts.md has the format.""",
    )
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
        job="layout.first_contract.init_contract",
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
        job="layout.first_contract.check_against_profile",
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


def _checked(options: LayoutOptions) -> LayoutOptions:
    """The options, if they do not contradict each other."""
    of_tree = (options.tree, options.changes, options.columns) != (TreeOptions(), ChangeOptions(), ColumnOptions())
    if options.built and (of_tree or options.base or options.build):
        raise SchedlineError(
            "--vmlinux and --running judge a kernel that is built already",
            "drop --kdir, --series, --with, --without, --arch, --config, --base, --build",
        )
    judged = options.expect or options.base or options.require or options.json or options.pack
    if options.struct:
        if judged or options.contracts:
            raise SchedlineError(
                "--struct prints the lines of a structure and judges nothing",
                "drop --expect, --base, --require, --json, --pack, --contracts",
            )
    elif options.variables:
        others = (options.patch, options.of_git, options.contracts, options.columns, options.running)
        if judged or others != (None, False, (), ColumnOptions(), False):
            raise SchedlineError("--variables reads a vmlinux", "give it --vmlinux, --build, --kdir or --series alone")
        return options
    elif options.svg:
        raise SchedlineError("--svg draws the lines of a structure, and none is named", "add --struct NAME")
    if options.install_hook:
        return options
    named = (options.patch, options.commit, options.staged or None, options.between)
    if sum(each is not None for each in named) > 1:
        raise SchedlineError("--patch, --commit, --staged and --range name one patch", "choose one of them")
    if options.of_git and options.tree.kdir is None:
        raise SchedlineError("--commit, --staged and --range are of a git tree, and none is named", "add --kdir .")
    if not options.of_git and options.patch is None:
        build = None if options.struct else options.build
        given = {"--verbose": options.verbose, "--quiet": options.quiet, "--format": options.form, "--build": build}
        for option, value in given.items():
            if value:
                raise SchedlineError(f"{option} belongs to --patch", "drop it")
        return options
    if options.built or judged:
        raise SchedlineError(
            "--patch compares a tree without and with the patch, and prints what it breaks of all contracts",
            "drop --vmlinux, --running, --expect, --base, --require, --json, --pack",
        )
    if options.patch and options.patch.strip():
        from schedlib.layout.patch_text import require_diff

        require_diff(options.patch)
    if options.verbose and (options.form or "text") != "text":
        raise SchedlineError("--verbose prints text", "drop it, or --format")
    return options


def _layout(options: LayoutOptions) -> Verdict:
    patch = options.patch
    if options.of_git and not options.install_hook:
        from schedlib.layout.patch_text import git_patch

        patch = git_patch(options.tree.kdir or Path(), options.commit, options.between)
    if options.struct:
        from schedlib.layout.layout_diff import show_struct

        return show_struct(options, patch)
    if options.variables:
        from schedlib.layout.variables import show_variables

        return show_variables(options)
    if options.install_hook:
        from schedlib.layout.patch_text import install_hook

        return install_hook(options.tree.kdir, options.contracts)
    if patch is not None:
        return _patch(options, patch)
    from schedlib.layout.layout_job import judge_layout

    return judge_layout(options)


def _patch(options: LayoutOptions, patch: bytes) -> Verdict:
    """Judge a patch, if it can move a member at all: otherwise nothing has to be loaded for it."""
    from schedlib.layout.patch_text import why_untouched

    form = options.form or "text"
    if reason := why_untouched(patch, options.contracts):
        empty = not patch.strip()
        if empty:
            why, following = reason, "does the command before it print a patch?"
            if options.staged:
                why, following = "nothing is staged", "git add FILE"
            elif options.of_git:
                why, following = f"{options.commit or options.between} changes nothing", "git log --oneline"
            say(f"nothing was looked at: {why}\n  next: {following}")
        elif options.verbose:
            print(f"nothing to look at: {reason}")
        if form != "text":
            from schedlib.contracts.contract_rules import our_rules
            from schedlib.layout.patch_job import render

            print(render(our_rules().rules, (), form))
        return Verdict.INCONCLUSIVE if empty else Verdict.PASS
    from schedlib.layout.patch_job import judge_patch

    try:
        return judge_patch(options, patch, form)
    except SchedlineError as error:
        if form == "b4":
            from schedlib.layout.patch_job import refused

            print(refused(error))
        raise
