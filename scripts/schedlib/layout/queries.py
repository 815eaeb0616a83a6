# SPDX-License-Identifier: GPL-2.0
"""Questions about layouts: the rules as assertions, what differs, what a rule keeps, how much room is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.contracts.packs import pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.layout_diff_document import LayoutDiffDocument
from schedlib.formats.layout_headroom_document import LayoutHeadroomDocument
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import layout_diff, layout_svg
from schedlib.layout.columns import (
    columns_for,
    compiled_or_none,
    composed_operand,
    composed_tree,
    ensure_tools,
    pack_columns,
)
from schedlib.layout.compile import Column, compiled, layout_of
from schedlib.layout.emit import emit
from schedlib.layout.groups import drift, groups
from schedlib.layout.headroom import guarded_lines
from schedlib.layout.layout_options import LayoutDiffOptions, LayoutOperand, QueryOptions
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.picture import draw_clause
from schedlib.layout.rule_judge import Layout, describe, judge_rule, presence_of
from schedlib.layout.vmlinux import layout_of_built
from schedlib.names import pack_names
from schedlib.progress import say
from schedlib.tree.changes import change_table
from schedlib.tree.compose import declarations_of
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


def emit_asserts(options: QueryOptions) -> Verdict:
    """Write the rules of the changes that a tree has as static assertions."""
    tree, composition = composed_tree(options.tree, options.changes)
    text = emit(
        our_rules(),
        {row.id for row in composition.states if row.state.is_there},
        declarations_of(tree, composition.commit),
    )
    if not text:
        raise SchedlineError(
            f"{tree.origin} has none of the changes, so there is nothing to assert",
            f"add one: --with {','.join(change_table())}",
        )
    if options.out:
        write_atomic(options.out, text)
        print(options.out)
    else:
        print(text, end="")
    return Verdict.PASS


def _operand(operand: LayoutOperand, column: Column, rules: Rules) -> Layout:
    """The layout of one side of `layout diff`."""
    path = operand.path
    if path is None and operand.series is None:
        return layout_of_built(None, rules)
    if path and path.suffix == ".o" and path.is_file():
        return layout_of(path, operand.text)
    if path and not path.is_dir():
        return layout_of_built(path, rules)
    tree, composition = composed_operand(operand)
    ensure_tools([column])
    return layout_of(compiled(cache_dir(), tree, composition.commit, column), f"{operand.text}, {column.name}")


def diff_layouts(options: LayoutDiffOptions) -> Verdict:
    """Print what differs between two layouts."""
    started = datetime.now(UTC)
    doctor.require(["layout"])
    rules = our_rules()
    (column,) = columns_for(options.columns.arch, options.columns.config)
    before, after = (_operand(operand, column, rules) for operand in (options.before, options.after))
    difference = layout_diff.compare(rules, before, after)
    for line in layout_diff.text(difference, before, after):
        print(line)
    if options.svg:
        write_atomic(options.svg, layout_svg.draw([before, after]))
        print(f"picture: {options.svg}")
    if options.json:
        found = {
            "schema": "layout-diff-1",
            "tool": TOOL,
            "started": started.isoformat(),
            "fingerprint": {"before": before.name, "after": after.name},
            "status": "PASS",
            "metrics": layout_diff.json_metrics(difference),
            "moved": [{"member": name, "before": old, "after": new} for name, old, new in difference.moved],
            "rules": [{"id": rule, "before": one, "after": two} for rule, one, two in difference.rules],
        }
        document.write_plain(options.json, LayoutDiffDocument, found)
    return Verdict.PASS


def _layouts(options: QueryOptions) -> Iterator[tuple[Tree, str, Layout]]:
    """Tree, composed commit and layout of each column asked for."""
    wanted = columns_for(options.columns.arch, options.columns.config)
    ensure_tools(wanted)
    tree, composition = composed_tree(options.tree, options.changes)
    for column in wanted:
        path = compiled_or_none(cache_dir(), tree, composition.commit, column)
        if path:
            yield tree, composition.commit, layout_of(path, column.name)


def _layouts_of_rules(options: QueryOptions, rules: Rules) -> Iterator[Layout]:
    """The layout of each column asked for, with the structures that the rules are about."""
    if not rules.files:
        yield from (layout for _, _, layout in _layouts(options))
        return
    columns = pack_columns(options.columns.arch, options.columns.config)
    ensure_tools(columns)
    tree, composition = composed_tree(options.tree, options.changes)
    for column in columns:
        try:
            yield pack_layout(cache_dir(), tree, composition.commit, column, rules)
        except Dropped as dropped:
            say(f"no column {column.name}: {dropped.observed}")


def explain_rule(options: QueryOptions) -> Verdict:
    """Print what a rule keeps and why, and draw the members that it is about."""
    is_ours = options.rule in {rule.id for rule in our_rules().rules}
    rules = our_rules() if is_ours else pack_rules(pack_names())
    rule = rules.rule(options.rule)
    print(f"{rule.id}: {rule.reason}")
    if is_ours:
        change = change_table()[rule.change]
        print(f"change: {rule.change}, {change.title}\nby: {change.author}, {rule.source}")
        print(f"gain, as the mail says: {change.gain}")
    else:
        print(f"source: {rule.source}")
    for layout in _layouts_of_rules(options, rules):
        state = ""
        if is_ours:
            presence, missing = presence_of(rules, rule.change, layout)
            state = f": {rule.change} is {presence.value}" + (f" (unmet: {missing})" if missing else "")
        print(f"\non {layout.name}, lines of {layout.line}{state}")
        for result in judge_rule(rules, rule.id, layout).clauses:
            forced = "forced in every configuration" if result.clause.forced else "observed"
            reason = f", {result.reason}" if result.reason else ""
            print(f"  {result.outcome.value}{reason}: {describe(result, layout)} ({forced})")
            if result.clause.type in layout.types and (result.fields or not result.clause.members):
                for line in draw_clause(result, layout):
                    print(f"    {line}")
    return Verdict.PASS


def show_headroom(options: QueryOptions) -> Verdict:
    """Print how much can be added to each guarded line."""
    rules = our_rules()
    rows: list[dict[str, object]] = []
    told: dict[str, list[str]] = {}
    for tree, commit, layout in _layouts(options):
        print(f"{layout.name}, lines of {layout.line}:")
        for row in guarded_lines(rules, layout):
            warning = ". WARNING: the next pointer put before that member breaks the rule" if row.is_full else ""
            print(
                f"  struct {row.type} line {row.line}, {', '.join(row.rules)}: {row.free} bytes unused; "
                f"its last member {row.members[-1]} ends {row.left} bytes before the line does{warning}"
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
    if options.json:
        drifted = [{"what": text, "where": names} for text, names in told.items()]
        found = {"schema": "layout-headroom-1", "tool": TOOL, "lines": rows, "drift": drifted}
        document.write_plain(options.json, LayoutHeadroomDocument, found)
    return Verdict.PASS
