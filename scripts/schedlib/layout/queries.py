# SPDX-License-Identifier: GPL-2.0
"""`schedline layout emit`, `diff`, `explain` and `headroom`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from schedlib import doctor, options
from schedlib.cache import cache_dir, write_atomic, write_json
from schedlib.errors import SchedlineError
from schedlib.formats.results import TOOL
from schedlib.layout import columns, layout_diff, layout_svg
from schedlib.layout.compile import Column, compiled, host_rules, layout_of
from schedlib.layout.emit import emit
from schedlib.layout.groups import drift, groups
from schedlib.layout.headroom import guarded_lines
from schedlib.layout.picture import draw_clause
from schedlib.layout.rule_judge import Layout, describe, judge_rule, presence_of
from schedlib.layout.tables import Rules
from schedlib.layout.vmlinux import layout_of_built
from schedlib.paths import PATCHES
from schedlib.tree.changes import change_table, patch_sets
from schedlib.tree.compose import compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree


def add_parsers(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs below `schedline layout`."""
    parser = _add(
        subparsers,
        "emit",
        "the rules as static assertions, a C file for kernel/sched/tests",
        "schedline layout emit\n  schedline layout emit --kdir ~/linux -o layout_asserts.c",
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="write it here (default: standard output)")
    parser.set_defaults(run=_emit)

    parser = _add(
        subparsers,
        "diff",
        "what differs between two layouts",
        "schedline layout diff 6.12 7.3\n  schedline layout diff 7.3 7.3+rd-lines+cpupri-lines --svg x.svg\n"
        "  schedline layout diff a/vmlinux b/vmlinux\n  schedline layout diff running ~/linux",
    )
    parser.add_argument(
        "before",
        metavar="A",
        help="a series (7.3, or with a change 7.3+rd-lines), a tree, a vmlinux, "
        "an object layout_fields.o, or the word running",
    )
    parser.add_argument("after", metavar="B", help="the same")
    columns.add_column_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw both, before above after")
    parser.set_defaults(run=_diff)

    parser = _add(
        subparsers,
        "explain",
        "what a rule defends, and how it stands now",
        "schedline layout explain rq-order.Q1\n  schedline layout explain rd-lines.R1",
    )
    parser.add_argument("rule", metavar="RULE", help="its id")
    options.add_tree_options(parser)
    options.add_change_options(parser)
    columns.add_column_options(parser)
    parser.set_defaults(run=_explain)

    parser = _add(
        subparsers,
        "headroom",
        "bytes left on each guarded line, and drift that no rule catches",
        "schedline layout headroom --arch x86_64,ppc64le --config numa+proxy",
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    columns.add_column_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.set_defaults(run=_headroom)


def _add(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, examples: str
) -> argparse.ArgumentParser:
    return subparsers.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=f"examples:\n  {examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _emit(arguments: argparse.Namespace) -> int:
    with options.opened_tree(arguments) as (cache, tree):
        composition = compose(tree, with_=arguments.with_, without=arguments.without)
        refuse_conflicts(composition)
        text = emit(host_rules(cache), {row.id for row in composition.states if row.state.is_there})
    if not text:
        raise SchedlineError(
            f"{tree.origin} has none of the changes, so there is nothing to assert",
            f"add one: --with {','.join(change_table())}",
        )
    if arguments.out:
        write_atomic(arguments.out, text)
        print(arguments.out)
    else:
        print(text, end="")
    return 0


def _one_column(arguments: argparse.Namespace) -> Column:
    chosen = columns.columns_for(arguments.arch or (columns.DEFAULT_ARCH,), arguments.config)
    if len(chosen) != 1:
        raise SchedlineError("this compares or explains one architecture and configuration", "name one of each")
    columns.ensure_tools(chosen)
    return chosen[0]


def _operand(text: str, column: Column, rules: Rules) -> Layout:
    """The layout of whatever a word names."""
    doctor.ensure(["layout"])
    path = Path(text)
    if text == "running":
        return layout_of_built(None, rules)
    if path.is_file() and path.suffix == ".o":
        return layout_of(path, text)
    if path.is_file():
        return layout_of_built(path, rules)
    name, *ids = (text,) if path.is_dir() else text.split("+")
    with options.opened(path if path.is_dir() else None, name) as (cache, tree):
        carried = set(change_table()) - set(ids)
        composition = compose(tree, with_=ids, without=() if tree.is_user else carried & _carried(tree))
        refuse_conflicts(composition)
        return layout_of(compiled(cache, tree, composition.commit, column), f"{text}, {column.name}")


def _carried(tree: Tree) -> set[str]:
    """The changes that schedline would apply to a series of its own accord."""
    return {name for patches in patch_sets(tree) for name in patches.default()}


def _diff(arguments: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    rules = host_rules(cache_dir())
    column = _one_column(arguments)
    before, after = (_operand(text, column, rules) for text in (arguments.before, arguments.after))
    difference = layout_diff.compare(rules, before, after)
    for line in layout_diff.text(difference, before, after):
        print(line)
    if arguments.svg:
        write_atomic(arguments.svg, layout_svg.draw([before, after]))
        print(f"picture: {arguments.svg}")
    if arguments.json:
        document = {
            "schema": "layout-diff-1",
            "tool": TOOL,
            "started": started.isoformat(),
            "fingerprint": {"before": before.name, "after": after.name},
            "status": "PASS",
            "metrics": layout_diff.json_metrics(difference),
            "moved": [{"member": name, "before": old, "after": new} for name, old, new in difference.moved],
            "rules": [{"id": rule, "before": one, "after": two} for rule, one, two in difference.rules],
        }
        write_json(arguments.json, document)
    return 0


def _layouts(arguments: argparse.Namespace) -> Iterator[tuple[Tree, str, Layout]]:
    """Tree, composed commit and layout of each column asked for."""
    doctor.ensure(["layout"])
    chosen = columns.columns_for(arguments.arch or (columns.DEFAULT_ARCH,), arguments.config)
    columns.ensure_tools(chosen)
    with options.opened_tree(arguments) as (cache, tree):
        composition = compose(tree, with_=arguments.with_, without=arguments.without)
        refuse_conflicts(composition)
        for column in chosen:
            path = columns.compiled_or_none(cache, tree, composition.commit, column)
            if path:
                yield tree, composition.commit, layout_of(path, column.name)


def _explain(arguments: argparse.Namespace) -> int:
    rules = host_rules(cache_dir())
    rule = rules.rule(arguments.rule)
    change = change_table().get(rule.change)
    print(f"{rule.id}: {rule.reason}")
    print(f"change: {rule.change}, {change.title if change else 'unknown'}")
    author, brought = author_and_claim(rule.change)
    print(f"by: {author}, {rule.source}")
    print(f"to lose: {brought}")
    for _, _, layout in _layouts(arguments):
        presence, missing = presence_of(rules, rule.change, layout)
        print(
            f"\non {layout.name}, lines of {layout.line}: {rule.change} is {presence.value}"
            + (f" (not so: {missing})" if missing else "")
        )
        for result in judge_rule(rules, rule.id, layout).clauses:
            forced = "forced in every configuration" if result.clause.forced else "observed"
            reason = f", {result.reason}" if result.reason else ""
            print(f"  {result.outcome.value}{reason}: {describe(result, layout, rules)} ({forced})")
            if result.fields or not result.clause.members:
                for line in draw_clause(result, layout):
                    print(f"    {line}")
    return 0


def author_and_claim(change: str) -> tuple[str, str]:
    """Who made a change and what the message of its carried patch says that the author saw."""
    for path in sorted(PATCHES.glob(f"*/{change}.patch"), reverse=True):
        text = path.read_text()
        author = re.search(r"^From: (.+)$", text, re.M)
        claim = re.search(r"^The author saw .*?(?=\n\n)", text, re.M | re.S)
        if author and claim:
            return author.group(1), " ".join(claim.group(0).split())
    return "unknown", "not measured"


def _headroom(arguments: argparse.Namespace) -> int:
    rules = host_rules(cache_dir())
    rows: list[dict[str, object]] = []
    told: dict[str, list[str]] = {}
    for tree, commit, layout in _layouts(arguments):
        print(f"{layout.name}, lines of {layout.line}:")
        for row in guarded_lines(rules, layout):
            warning = "  WARNING: one more pointer among them breaks it" if row.is_full else ""
            print(
                f"  struct {row.type} line {row.line}, {', '.join(row.rules)}: {row.left} bytes left behind "
                f"{row.members[-1]}, {row.free} unused on the line{warning}"
            )
            rows.append(
                {
                    "column": layout.name,
                    "type": row.type,
                    "line": row.line,
                    "rules": list(row.rules),
                    "left": row.left,
                    "free": row.free,
                    "full": row.is_full,
                }
            )
        for group in groups():
            for member, line in drift(group, tree.read(group.file, commit) or "", layout):
                text = f"{group.function}() also touches rq->{member}, off the line of its group"
                told.setdefault(text, []).append(f"{layout.name} line {line}")
    for text, names in told.items():
        print(f"drift that no rule catches: {text} ({', '.join(names)})")
    if arguments.json:
        drifted = [{"what": text, "where": names} for text, names in told.items()]
        write_json(arguments.json, {"schema": "layout-headroom-1", "tool": TOOL, "lines": rows, "drift": drifted})
    return 0
