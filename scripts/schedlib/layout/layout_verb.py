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
    GitPatch,
    HookOptions,
    LayoutOptions,
    PatchOptions,
    StructOptions,
    add_column_options,
    add_pack_options,
    column_options,
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
    from schedlib.layout.mails import diff_of

    try:
        return diff_of(sys.stdin.buffer.read() if text == "-" else options.existing_path(text).read_bytes())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


_Options = LayoutOptions | PatchOptions | StructOptions | HookOptions


def _read(arguments: argparse.Namespace) -> _Options:
    from schedlib.layout.patch_text import require_diff

    tree, changes = options.tree_options(arguments), options.change_options(arguments)
    of_tree = arguments.kdir, arguments.series, arguments.with_, arguments.without, arguments.arch, arguments.config
    built = arguments.vmlinux is not None or arguments.running
    if built and (any(of_tree) or arguments.base):
        raise SchedlineError(
            "--vmlinux and --running judge a kernel that is built already",
            "drop --kdir, --series, --with, --without, --arch, --config, --base",
        )
    if arguments.struct:
        judged = (
            arguments.expect,
            arguments.base,
            arguments.require,
            arguments.json,
            arguments.pack,
            arguments.contracts,
        )
        if any(judged) or arguments.patch is not None:
            raise SchedlineError(
                "--struct prints the lines of a structure and judges nothing",
                "drop --expect, --base, --require, --json, --pack, --contracts, --patch",
            )
        columns = column_options(arguments)
        return StructOptions(arguments.struct, tree, changes, columns, built=built, vmlinux=arguments.vmlinux)
    if arguments.install_hook:
        return HookOptions(tree.kdir)
    named = [arguments.patch is not None, arguments.commit is not None, arguments.staged, arguments.between is not None]
    if sum(named) > 1:
        raise SchedlineError("--patch, --commit, --staged and --range name one patch", "choose one of them")
    if any(named[1:]) and tree.kdir is None:
        raise SchedlineError("--commit, --staged and --range are of a git tree, and none is named", "add --kdir .")
    if not any(named):
        for option, given in (("--verbose", arguments.verbose), ("--format", arguments.form)):
            if given:
                raise SchedlineError(f"{option} belongs to --patch", "drop it")
        return LayoutOptions(
            tree,
            changes,
            column_options(arguments),
            built,
            arguments.vmlinux,
            arguments.expect,
            arguments.base,
            arguments.require,
            arguments.json,
            *packs(arguments),
        )
    if built or arguments.expect or arguments.base or arguments.require or arguments.json or arguments.pack:
        raise SchedlineError(
            "--patch compares a tree without and with the patch, and prints what it breaks of all contracts",
            "drop --vmlinux, --running, --expect, --base, --require, --json, --pack",
        )
    if arguments.patch and arguments.patch.strip():
        require_diff(arguments.patch)
    if arguments.verbose and (arguments.form or "text") != "text":
        raise SchedlineError("--verbose prints text", "drop it, or --format")
    form = arguments.form or "text"
    columns, (_, contracts) = column_options(arguments), packs(arguments)
    source = GitPatch(arguments.commit, arguments.between) if any(named[1:]) else None
    patch = arguments.patch or b""
    return PatchOptions(patch, tree, changes, columns, arguments.verbose, form, contracts, source)


def _layout(wanted: _Options) -> Verdict:
    if isinstance(wanted, HookOptions):
        from schedlib.layout.git_patch import install_hook

        print(install_hook(wanted.kdir))
        return Verdict.PASS
    if isinstance(wanted, PatchOptions):
        return _patch(wanted)
    if isinstance(wanted, StructOptions):
        from schedlib.layout.struct_job import show_struct

        return show_struct(wanted)
    from schedlib.layout.layout_job import judge_layout

    return judge_layout(wanted)


def _patch(wanted: PatchOptions) -> Verdict:
    from schedlib.layout.git_patch import git_patch
    from schedlib.layout.patch_text import why_untouched

    if wanted.source:
        wanted = replace(wanted, patch=git_patch(wanted.tree.kdir or Path(), wanted.source))
    if reason := why_untouched(wanted.patch, wanted.contracts):
        empty = not wanted.patch.strip()
        if empty:
            say(f"nothing was looked at: {reason}\n  next: does the command before it print a patch?")
        elif wanted.verbose:
            print(f"nothing to look at: {reason}")
        if wanted.form != "text":
            from schedlib.contracts.contract_rules import our_rules
            from schedlib.layout.patch_formats import shown

            print(shown(our_rules().rules, (), wanted.form))
        return Verdict.INCONCLUSIVE if empty else Verdict.PASS
    from schedlib.layout.patch_job import judge_patch

    try:
        return judge_patch(wanted)
    except SchedlineError as error:
        if wanted.form == "b4":
            from schedlib.layout.patch_formats import refused

            print(refused(error))
        raise
