# SPDX-License-Identifier: GPL-2.0
"""`schedline layout emit`, `diff`, `explain`, `headroom` and `contract`; `drift` is in a module of its own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.layout import drift_verb
from schedlib.layout.layout_options import (
    ContractCheckOptions,
    LayoutDiffOptions,
    QueryOptions,
    RulesOptions,
    StructOptions,
    add_column_options,
    column_options,
    contract_file,
    layout_operand,
    rule_id,
    struct_tag,
)
from schedlib.options import add_verb, new_path
from schedlib.verdict import Verdict


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
    emit = add_verb(
        verbs,
        "emit",
        "the rules as static assertions, a C file for kernel/sched/tests",
        first=[
            "schedline layout emit                                      for Debian's 7.3",
            "schedline layout emit --kdir ~/linux -o layout_asserts.c   for your tree",
        ],
        text="Writes the rules of the changes that a tree has. What breaks one of them does not build.",
        read=_read,
        job=_emit,
    )
    emit.add_argument("-o", "--out", type=new_path, metavar="FILE", help="write it here (default: standard output)")
    options.add_tree_options(emit)
    options.add_change_options(emit)

    diff = add_verb(
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
        read=_read_diff,
        job=_diff,
    )
    what = "a series (7.3, or with a change 7.3+rd-lines), a tree, a vmlinux, an object layout_fields.o, or running"
    diff.add_argument("before", type=layout_operand, metavar="A", help=what)
    diff.add_argument("after", type=layout_operand, metavar="B", help="the same")
    add_column_options(diff)
    diff.add_argument("--json", type=new_path, metavar="FILE", help="write the figures here")
    diff.add_argument("--svg", type=new_path, metavar="FILE", help="draw both, before above after")

    drift_verb.add_parser(verbs)
    explain = add_verb(
        verbs,
        "explain",
        "what a rule keeps, why, and how it stands now",
        first=[
            "schedline layout explain Q1                     on Debian's 7.3",
            "schedline layout explain rd-lines.R1 --kdir .   on your tree",
        ],
        text="Says what the rule keeps, who asked for it and why, and draws the cache lines that it speaks of.",
        operands="RULE",
        read=_read,
        job=_explain,
    )
    explain.add_argument("rule", type=rule_id, metavar="RULE", help="its id, or what stands behind the dot: Q1")
    rules = add_verb(
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
        read=lambda arguments: RulesOptions(arguments.directory),
        job=_rules,
    )
    rules.add_argument(
        "--for", dest="directory", metavar="PATH", required=True, help="a directory or file of the kernel"
    )
    headroom = add_verb(
        verbs,
        "headroom",
        "bytes left on each guarded line, and drift that no rule catches",
        first=[
            "schedline layout headroom                                Debian's 7.3, for x86_64",
            "schedline layout headroom --kdir . --config numa+proxy   your tree, in the tightest configuration",
        ],
        text="Says how much may still be added to each line that a rule guards before the rule breaks.",
        examples=["schedline layout headroom --arch x86_64,ppc64le --config numa+proxy"],
        read=_read,
        job=_headroom,
    )
    headroom.add_argument("--json", type=new_path, metavar="FILE", help="write the figures here")
    contract = verbs.add_parser(
        "contract", help="make a contract of a structure, or check one", description="Contracts of structures."
    )
    below = contract.add_subparsers(prog=contract.prog, metavar="VERB", required=True)
    init = add_verb(
        below,
        "init",
        "write a first contract of a structure",
        first=[
            "schedline layout contract init net_device                        of Debian's 7.3",
            "schedline layout contract init timer_base --kdir . -o mine/timer_base.toml",
        ],
        text="""
        Takes the groups between __cacheline_group_begin() and __cacheline_group_end(), the kernel's own assertions,
        ____cacheline_aligned, the tables of Documentation/networking/net_cachelines and, with --profile, what was
        measured. Each part names its origin. Groups that share a line although their classes do not fit get an
        exception. What no source speaks of is listed at the end. Judge it with schedline layout --contracts DIR.""",
        operands="STRUCT",
        read=_read_init,
        job=_init,
    )
    init.add_argument("struct", type=struct_tag, metavar="STRUCT", help="its tag")
    init.add_argument(
        "--file", default="", metavar="FILE", help="what declares it, if several files do: fs/eventpoll.c"
    )
    init.add_argument("-o", "--out", type=new_path, metavar="FILE", help="write it here (default: standard output)")
    about = "a result of schedline c2c, or its directory: take classes from it, too"
    init.add_argument("--profile", type=options.existing_path, metavar="FILE", help=about)
    check = add_verb(
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
        read=lambda arguments: options.options_of(ContractCheckOptions, arguments),
        job=_check,
    )
    check.add_argument("contract", type=contract_file, metavar="STRUCT|FILE", help="a tag, or the contract's file")
    about = "a result of schedline c2c, or its directory"
    check.add_argument("--profile", type=options.existing_path, metavar="FILE", required=True, help=about)
    for parser in (explain, headroom, init):
        options.add_tree_options(parser)
        options.add_change_options(parser)
        add_column_options(parser)


def _read(arguments: argparse.Namespace) -> QueryOptions:
    return QueryOptions(
        options.tree_options(arguments),
        options.change_options(arguments),
        column_options(arguments),
        getattr(arguments, "rule", ""),
        getattr(arguments, "out", None),
        arguments.json,
    )


def _read_init(arguments: argparse.Namespace) -> StructOptions:
    columns = column_options(arguments)
    tree, changes = options.tree_options(arguments), options.change_options(arguments)
    more = {"out": arguments.out, "profile": arguments.profile}
    return StructOptions(arguments.struct, tree, changes, columns, arguments.file, **more)


def _read_diff(arguments: argparse.Namespace) -> LayoutDiffOptions:
    columns = column_options(arguments)
    if len(columns.arch) > 1 or len(columns.config) > 1 or "all" in columns.config:
        raise SchedlineError("diff compares in one architecture and configuration", "name one of each")
    return LayoutDiffOptions(arguments.before, arguments.after, columns, arguments.json, arguments.svg)


def _init(wanted: StructOptions) -> Verdict:
    from schedlib.layout.struct_job import init_contract

    return init_contract(wanted)


def _check(wanted: ContractCheckOptions) -> Verdict:
    from schedlib.layout.contract_job import check_against_profile

    return check_against_profile(wanted)


def _emit(wanted: QueryOptions) -> Verdict:
    from schedlib.layout.queries import emit_asserts

    return emit_asserts(wanted)


def _diff(wanted: LayoutDiffOptions) -> Verdict:
    from schedlib.layout.queries import diff_layouts

    return diff_layouts(wanted)


def _explain(wanted: QueryOptions) -> Verdict:
    from schedlib.layout.queries import explain_rule

    return explain_rule(wanted)


def _rules(wanted: RulesOptions) -> Verdict:
    from schedlib.layout.rules_text import rules_text

    print(rules_text(wanted.directory))
    return Verdict.PASS


def _headroom(wanted: QueryOptions) -> Verdict:
    from schedlib.layout.queries import show_headroom

    return show_headroom(wanted)
