# SPDX-License-Identifier: GPL-2.0
"""`schedline layout`: the rules on any architecture, on any vmlinux, and on the running kernel, without booting."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.layout import layout_queries_verb
from schedlib.layout.layout_options import (
    HookOptions,
    LayoutOptions,
    PatchOptions,
    StructOptions,
    add_column_options,
    add_pack_options,
    job,
    of_tree,
    packs,
    rules_required,
    struct_tag,
)
from schedlib.names import change_ids, one_of, some_of
from schedlib.options import Verbs, add_verb
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
        Compiles the one unit that holds the offsets with Debian's cross compilers, and judges the rules from the
        object. Or takes the offsets from the debug information of a kernel that somebody else built.""",
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
            "schedline layout --struct sk_buff_head                the lines of any structure",
            "schedline layout explain Q1                           what a rule keeps, and why",
        ],
        operands="[VERB]",
        read=_read,
        job=_layout,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    add_column_options(parser)
    built = parser.add_mutually_exclusive_group()
    built.add_argument(
        "--vmlinux", type=options.existing_path, metavar="FILE", help="a vmlinux with DWARF or BTF, of any machine"
    )
    built.add_argument("--running", action="store_true", help="this machine's kernel, by its BTF")
    parser.add_argument(
        "--expect", type=some_of("change", change_ids), metavar="ID,...", help="changes that have to be there"
    )
    parser.add_argument("--base", metavar="REV", help="expect what this revision of your tree has")
    parser.add_argument(
        "--require", type=rules_required, default=(), metavar="RULE,...", help="these rules must not be n/a everywhere"
    )
    add_pack_options(parser)
    parser.add_argument(
        "--struct", type=struct_tag, metavar="NAME", help="print the lines of this structure; nothing is judged"
    )
    parser.add_argument(
        "--patch",
        type=_patch_text,
        metavar="FILE",
        help="print what a patch or mail (-: standard input) breaks, or takes room from, in checkpatch's form",
    )
    parser.add_argument("--commit", metavar="REV", help="--patch of a commit of your git tree")
    parser.add_argument("--staged", action="store_true", help="--patch of what `git commit` would commit")
    parser.add_argument("--range", dest="between", metavar="A..B", help="--patch of the difference of two revisions")
    parser.add_argument(
        "--install-hook", action="store_true", help="let git commit and b4 run this for your tree (--kdir)"
    )
    parser.add_argument(
        "--format",
        dest="form",
        type=one_of("format", lambda: ("text", "b4", "sarif")),
        metavar="FORMAT",
        help="with --patch: text, b4 or sarif; b4's is for b4.review-perpatch-check-cmd",
    )
    parser.add_argument("--verbose", action="store_true", help="with --patch: say also what was looked at")
    parser.add_argument("--json", type=options.new_path, metavar="FILE", help="write the results here")
    layout_queries_verb.add_parser(parser)


def _patch_text(text: str) -> bytes:
    from schedlib.layout.patch_text import diff_of

    try:
        return diff_of(sys.stdin.buffer.read() if text == "-" else options.existing_path(text).read_bytes())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


_Options = LayoutOptions | PatchOptions | StructOptions | HookOptions


def _read(arguments: argparse.Namespace) -> _Options:
    given = of_tree(arguments)
    named = arguments.kdir, arguments.series, arguments.with_, arguments.without, arguments.arch, arguments.config
    built = arguments.vmlinux is not None or arguments.running
    if built and (any(named) or arguments.base):
        raise SchedlineError(
            "--vmlinux and --running judge a kernel that is built already",
            "drop --kdir, --series, --with, --without, --arch, --config, --base",
        )
    judged = arguments.expect or arguments.base or arguments.require or arguments.json or arguments.pack
    if arguments.struct:
        if judged or arguments.contracts or arguments.patch is not None:
            raise SchedlineError(
                "--struct prints the lines of a structure and judges nothing",
                "drop --expect, --base, --require, --json, --pack, --contracts, --patch",
            )
        return StructOptions(arguments.struct, **given, built=built, vmlinux=arguments.vmlinux)
    if arguments.install_hook:
        return HookOptions(arguments.kdir)
    of_git = [arguments.commit is not None, arguments.staged, arguments.between is not None]
    if sum(of_git) + (arguments.patch is not None) > 1:
        raise SchedlineError("--patch, --commit, --staged and --range name one patch", "choose one of them")
    if any(of_git) and arguments.kdir is None:
        raise SchedlineError("--commit, --staged and --range are of a git tree, and none is named", "add --kdir .")
    chosen, contracts = packs(arguments)
    if not any(of_git) and arguments.patch is None:
        for option, value in (("--verbose", arguments.verbose), ("--format", arguments.form)):
            if value:
                raise SchedlineError(f"{option} belongs to --patch", "drop it")
        return options.options_of(LayoutOptions, arguments, **given, built=built, packs=chosen, contracts=contracts)
    if built or judged:
        raise SchedlineError(
            "--patch compares a tree without and with the patch, and prints what it breaks of all contracts",
            "drop --vmlinux, --running, --expect, --base, --require, --json, --pack",
        )
    patch, form = arguments.patch or b"", arguments.form or "text"
    if patch.strip():
        from schedlib.layout.patch_text import require_diff

        require_diff(patch)
    if arguments.verbose and form != "text":
        raise SchedlineError("--verbose prints text", "drop it, or --format")
    source = (arguments.commit, arguments.between) if any(of_git) else None
    return PatchOptions(patch, **given, verbose=arguments.verbose, form=form, contracts=contracts, source=source)


def _patch(wanted: PatchOptions) -> Verdict:
    """Judge a patch, if it can move a member at all: otherwise nothing has to be loaded for it."""
    from schedlib.layout.patch_text import git_patch, why_untouched

    if wanted.source:
        wanted = replace(wanted, patch=git_patch(wanted.tree.kdir or Path(), *wanted.source))
    if reason := why_untouched(wanted.patch, wanted.contracts):
        empty = not wanted.patch.strip()
        if empty:
            say(f"nothing was looked at: {reason}\n  next: does the command before it print a patch?")
        elif wanted.verbose:
            print(f"nothing to look at: {reason}")
        if wanted.form != "text":
            from schedlib.contracts.contract_rules import our_rules
            from schedlib.layout.patch_check import render

            print(render(our_rules().rules, (), wanted.form))
        return Verdict.INCONCLUSIVE if empty else Verdict.PASS
    from schedlib.layout.patch_job import judge_patch

    try:
        return judge_patch(wanted)
    except SchedlineError as error:
        if wanted.form == "b4":
            from schedlib.layout.patch_check import refused

            print(refused(error))
        raise


_JOBS = {
    LayoutOptions: job("layout_job", "judge_layout"),
    PatchOptions: _patch,
    StructOptions: job("struct_job", "show_struct"),
    HookOptions: job("patch_text", "install_hook"),
}


def _layout(wanted: _Options) -> Verdict:
    return _JOBS[type(wanted)](wanted)
