# SPDX-License-Identifier: GPL-2.0
"""`schedline layout`: the rules on any architecture, on any vmlinux, and on the running kernel, without booting."""

from __future__ import annotations

from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.layout import layout_queries_verb
from schedlib.layout.layout_options import ColumnOptions, LayoutOptions
from schedlib.options import ChangeOptions, TreeOptions, Verbs, add_verb
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
            "schedline layout --kdir . --commit HEAD               what a patch breaks or takes room from, else silent",
        ],
        text="""
        Compiles one unit that sees the structures with Debian's cross compilers, and judges the rules by its debug
        information. Or takes that of a kernel that somebody else built.""",
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
    layout_queries_verb.add_parser(parser)


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
    if options.struct:
        from schedlib.layout.struct_job import show_struct

        return show_struct(options, _patch_of(options))
    if options.variables:
        from schedlib.layout.variables import show_variables

        return show_variables(options)
    if options.install_hook:
        from schedlib.layout.patch_text import install_hook

        return install_hook(options.tree.kdir)
    if options.of_git or options.patch is not None:
        return _patch(options)
    from schedlib.layout.layout_job import judge_layout

    return judge_layout(options)


def _patch_of(options: LayoutOptions) -> bytes | None:
    """The patch that the options name, which git may have."""
    if not options.of_git:
        return options.patch
    from schedlib.layout.patch_text import git_patch

    return git_patch(options.tree.kdir or Path(), options.commit, options.between)


def _why_empty(options: LayoutOptions, reason: str) -> str:
    if options.staged:
        return "nothing is staged\n  next: git add FILE"
    if options.of_git:
        return f"{options.commit or options.between} changes nothing\n  next: git log --oneline"
    return f"{reason}\n  next: does the command before it print a patch?"


def _patch(options: LayoutOptions) -> Verdict:
    """Judge a patch, if it can move a member at all: otherwise nothing has to be loaded for it."""
    from schedlib.layout.patch_text import why_untouched

    form, patch = options.form or "text", _patch_of(options) or b""
    if reason := why_untouched(patch, options.contracts):
        empty = not patch.strip()
        if empty:
            say(f"nothing was looked at: {_why_empty(options, reason)}")
        elif options.verbose:
            print(f"nothing to look at: {reason}")
        if form != "text":
            from schedlib.contracts.contract_rules import our_rules
            from schedlib.layout.patch_check import render

            print(render(our_rules().rules, (), form))
        return Verdict.INCONCLUSIVE if empty else Verdict.PASS
    from schedlib.layout.patch_job import judge_patch

    try:
        return judge_patch(options, patch, form)
    except SchedlineError as error:
        if form == "b4":
            from schedlib.layout.patch_check import refused

            print(refused(error))
        raise
