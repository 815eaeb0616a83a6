# SPDX-License-Identifier: GPL-2.0
"""Questions about the rules: as assertions, in plain words, what one keeps and how much room is left."""

from __future__ import annotations

from collections.abc import Iterator

from schedlib.cache import cache_dir, write_atomic
from schedlib.contracts.contract_rules import CONTRACTS, Rules, our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.emit import emit
from schedlib.layout.headroom import draw_clause, guarded_lines, room_on
from schedlib.layout.layout_options import EmitOptions, ExplainOptions, RulesOptions
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import describe, judge_rule, presence_of
from schedlib.names import pack_names
from schedlib.options import DEFAULT_SERIES
from schedlib.progress import say
from schedlib.tree.changes import change_table
from schedlib.tree.compose import declarations_of, lost_by, refuse_lost_members
from schedlib.tree.kernel_tree import cached_series
from schedlib.verdict import Verdict

_MEANING = {
    AccessClass.READ_MOSTLY: "written seldom, read by all CPUs",
    AccessClass.OWNER: "written often by the CPU that owns the object, hardly read by others",
    AccessClass.PUBLISHED: "written by the owner, read often by others",
    AccessClass.SHARED: "written by many CPUs",
    AccessClass.LOCK: "a contended lock and what its holder writes",
    AccessClass.COLD: "hardly touched while it matters",
}

_ASK = """\
Ask of each new member of these structures:
1. Which CPUs write it, and how often? Which read it, and from where?
2. Which line does it land on, with and without the options of its #ifdef? (schedline layout --kdir . --commit REV)
3. Does it belong to the group that it lies beside? A member that other CPUs write must not join what all CPUs read.
4. Does the structure become longer? By how many lines, for how many objects?
"""


def emit_asserts(options: EmitOptions) -> Verdict:
    """Write the rules of the changes that a tree has as static assertions."""
    tree, composition = composed_tree(options.tree, options.changes)
    refuse_lost_members(tree, composition.commit)
    there = {row.id for row in composition.states if row.state.is_there}
    text = emit(our_rules(), there, declarations_of(tree, composition.commit))
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


def explain_rule(options: ExplainOptions) -> Verdict:
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
    if options.tree.needs and not options.tree.series and not cached_series(cache_dir(), DEFAULT_SERIES):
        print(
            f"\nits lines in a kernel: add --kdir ~/linux, or --series {DEFAULT_SERIES}, which is downloaded (170 MB)"
        )
        return Verdict.PASS
    columns = (columns_for if is_ours else pack_columns)(options.columns.arch, options.columns.config)
    ensure_tools(columns, options.tree.needs)
    tree, composition = composed_tree(options.tree, options.changes)
    if error := next((each for ids, each in lost_by(tree, composition.commit) if rule.id in ids), None):
        raise error
    for column in columns:
        try:
            layout = pack_layout(cache_dir(), tree, composition.commit, column, rules)
        except Dropped as dropped:
            say(f"no column {column.name}: {dropped.observed}")
            continue
        state = ""
        if is_ours:
            presence, missing = presence_of(rules, rule.change, layout)
            state = f": {rule.change} is {presence.value}" + (f" (unmet: {missing})" if missing else "")
        print(f"\n{tree.origin} on {layout.name}, lines of {layout.line}{state}")
        for result in judge_rule(rules, rule.id, layout).clauses:
            reason = f", {result.reason}" if result.reason else ""
            print(f"  {result.outcome.value}{reason}: {describe(result, layout)} ({result.clause.origin})")
            if result.clause.type in layout.types and (result.fields or not result.clause.members):
                print(*(f"    {line}" for line in draw_clause(result, layout)), sep="\n")
        for row in guarded_lines(rules, layout):
            if rule.id in row.rules:
                print(f"  {room_on(row)}")
    return Verdict.PASS


def show_rules(options: RulesOptions) -> Verdict:
    """Print rules_text()."""
    print(rules_text(options.directory))
    return Verdict.PASS


def rules_text(directory: str) -> str:
    """The rules of the structures that a directory or file declares; SchedlineError if none has a contract."""
    rules = pack_rules((CONTRACTS.name, *pack_names()))
    change_of = {rule.id: change_table()[rule.change] for rule in rules.rules if rule.change}
    # What the rules of a change are about is declared where the change is recognised.
    listed = [clause for clause in reversed(rules.clauses) if clause.rule in change_of]
    declared = {clause.type: change_of[clause.rule].file for clause in listed}
    files = {**rules.files, **declared}
    prefix = directory.strip("/")
    tags = sorted(tag for tag, file in files.items() if f"{file}/".startswith(f"{prefix}/"))
    if not tags:
        known = sorted({file.rpartition("/")[0] for file in files.values()})
        raise SchedlineError(f"no structure of {directory} has a contract", f"some of these: {', '.join(known)}")
    parts = [f"# {prefix}: who owns which cache line\n", _ASK]
    parts += ["\n".join(_told(rules, tag, files[tag])) + "\n" for tag in tags]
    return "\n".join(parts)


def _told(rules: Rules, tag: str, file: str) -> Iterator[str]:
    yield f"## struct {tag} ({file})"
    for owner, group in rules.groups:
        if owner == tag:
            functions = (("read by", group.readers), ("written by", group.writers))
            told = "; ".join(f"{what} {', '.join(names)}" for what, names in functions if names)
            yield f"- {', '.join(group.members)}: {_MEANING[group.class_]}{'; ' if told else ''}{told}"
    mine = {clause.rule for clause in rules.clauses if clause.type == tag}
    for rule in rules.rules:
        if rule.id in mine:
            ours = rule.change and change_table()[rule.change].author == "schedline maintainers"
            yield f"- {rule.id}: {rule.reason}" + (f" (only with {rule.change}, which is in no kernel)" if ours else "")
