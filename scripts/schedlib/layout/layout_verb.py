# SPDX-License-Identifier: GPL-2.0
"""`schedline layout`: the rules on any architecture, on any vmlinux, and on the running kernel, without booting."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from schedlib import doctor, options
from schedlib.cache import cache_dir, write_json
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import matrix, queries
from schedlib.layout.columns import DEFAULT_ARCH, add_column_options, columns_for, ensure_tools
from schedlib.layout.compile import Column, compiled, compiler_of, host_rules, layout_of
from schedlib.layout.matrix import JudgedColumn, judge_column
from schedlib.layout.patch_check import findings, require_diff, steps, touches_layout
from schedlib.layout.tables import Rules, read_object
from schedlib.layout.vmlinux import RUNNING_BTF, kernel_of, layout_of_kernel, running_kernel
from schedlib.progress import console
from schedlib.tree.compose import TESTS_DIRECTORY, add_tests, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict

TIGHTEST = "numa+proxy"
"""The configuration that leaves the least room on the first line of struct rq."""

_EXAMPLES = """\
examples:
  schedline layout                                           Debian's 7.3 with all changes, for x86_64
  schedline layout --arch all                                every architecture in its own configuration
  schedline layout --arch x86_64,arm64 --config all          every configuration of these
  schedline layout --arch x86_64 --config numa+proxy,uclamp
  schedline layout --kdir ~/linux --arch arm64               your tree as it is
  schedline layout --vmlinux ~/build/vmlinux --expect rq-order
  schedline layout --running                                 the kernel of this machine, root not needed
  git show | schedline layout --kdir . --patch -             what a patch breaks
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline layout`."""
    parser = subparsers.add_parser(
        "layout",
        help="the layout rules on any architecture, any vmlinux, the running kernel; no boot",
        description="Compiles the one unit that holds the offsets with Debian's cross compilers, and judges the rules\n"
        "from the object; or takes them from the debug information of a kernel that somebody else built.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    what = parser.add_mutually_exclusive_group()
    add_column_options(parser, what)
    what.add_argument("--vmlinux", type=Path, metavar="FILE", help="a kernel with DWARF or BTF")
    what.add_argument("--running", action="store_true", help="this machine's kernel, by its BTF")
    parser.add_argument("--expect", type=options.ids, metavar="ID,...", help="changes that have to be there")
    parser.add_argument("--base", metavar="REV", help="expect what this revision of your tree has")
    parser.add_argument(
        "--require", type=options.ids, default=(), metavar="RULE,...", help="n/a everywhere is an error for these"
    )
    parser.add_argument(
        "--patch",
        type=Path,
        metavar="FILE",
        help="what a patch or mail (-: standard input) breaks, in checkpatch's form; silent when it breaks nothing",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.set_defaults(run=_run)
    more = parser.add_subparsers(metavar="VERB", help="more about layouts; schedline layout VERB --help")
    queries.add_parsers(more)


def _patch(arguments: argparse.Namespace) -> int:
    """--patch: in checkpatch's form, and silent otherwise, as b4 and hooks want it."""
    patch = sys.stdin.buffer.read() if str(arguments.patch) == "-" else read_object(arguments.patch)
    console.quiet = not console.is_terminal
    if patch.strip():
        require_diff(patch)
    if not touches_layout(patch):
        return Verdict.PASS.exit_code
    errors = False
    with options.opened_tree(arguments) as (cache, tree):
        rules = host_rules(cache)
        columns = columns_for(arguments.arch or (DEFAULT_ARCH,), arguments.config or (TIGHTEST,))
        ensure_tools(columns)
        composition = compose(tree, with_=arguments.with_, without=arguments.without)
        refuse_conflicts(composition)
        both = steps(tree, composition.commit if not tree.is_user or arguments.with_ else tree.base, patch)
        commits = [
            commit if tree.read(f"{TESTS_DIRECTORY}/layout_fields.c", commit) else add_tests(tree, commit)
            for commit in (both.before, both.after)
        ]
        for column in columns:
            before, after = (layout_of(compiled(cache, tree, commit, column), column.name) for commit in commits)
            for finding in findings(rules, patch, before, after):
                errors |= finding.error
                print(finding)
    return (Verdict.FAIL if errors else Verdict.PASS).exit_code


def judged_columns(
    cache: Path, tree: Tree, commit: str, columns: Sequence[Column], rules: Rules, expected: frozenset[str]
) -> tuple[JudgedColumn, ...]:
    """Compile what is not in the cache, and hold the rules against each column."""
    judged: list[JudgedColumn] = []
    for column in columns:
        try:
            path = compiled(cache, tree, commit, column)
        except Dropped as dropped:
            judged.append(JudgedColumn(column.name, None, absent=dropped.observed))
            continue
        judged.append(judge_column(rules, column.name, layout_of(path, column.name), expected))
    return tuple(judged)


def show(rules: Rules, columns: Sequence[JudgedColumn], require: Sequence[str]) -> Verdict:
    """Print failures first, then the matrix and its notes; the verdict."""
    for text in matrix.failures(rules, columns):
        print(text)
    for text in (*matrix.table(rules, columns), *matrix.notes(rules, columns)):
        print(text)
    verdict = matrix.verdict_of(columns, require)
    print(f"verdict: {verdict.name}")
    return verdict


def _run(arguments: argparse.Namespace) -> int:
    if arguments.patch:
        return _patch(arguments)
    started = datetime.now(UTC)
    cache = cache_dir()
    doctor.ensure(["layout"])
    rules = host_rules(cache)
    for rule in arguments.require:
        rules.rule(rule)
    if arguments.vmlinux or arguments.running:
        if arguments.config or arguments.kdir or arguments.series or arguments.with_ or arguments.without:
            raise SchedlineError(
                "--vmlinux and --running judge a kernel that is built already", "leave out what describes a tree"
            )
        path = arguments.vmlinux or RUNNING_BTF
        kernel = running_kernel() if arguments.running else kernel_of(path)
        layout = layout_of_kernel(path, kernel, rules)
        columns: tuple[JudgedColumn, ...] = (
            judge_column(rules, kernel.name, layout, frozenset(arguments.expect or ())),
        )
        fingerprint = {"kernel": kernel.name, "machine": kernel.machine}
    else:
        wanted = columns_for(arguments.arch or (DEFAULT_ARCH,), arguments.config)
        ensure_tools(wanted)
        with options.opened_tree(arguments) as (cache, tree):
            composition = compose(
                tree, with_=arguments.with_, without=arguments.without, expect=arguments.expect, base=arguments.base
            )
            refuse_conflicts(composition)
            columns = judged_columns(cache, tree, composition.commit, wanted, rules, composition.expected)
            fingerprint = {
                "tree": tree.origin,
                "commit": composition.commit,
                "machine": platform.machine(),
                **{f"compiler {column.arch.name}": compiler_of(column.arch) for column in wanted},
            }
    verdict = show(rules, columns, arguments.require)
    if arguments.json:
        write_json(arguments.json, matrix.document(started, fingerprint, verdict, columns))
    return verdict.exit_code
