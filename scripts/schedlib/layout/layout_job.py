# SPDX-License-Identifier: GPL-2.0
"""tree or built kernel -> layouts -> the rules -> one verdict: a table, and a document (schema layout-1)."""

from __future__ import annotations

import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir
from schedlib.contracts.contract_rules import Rules, our_rules, pack_rules, refuse_unknown_members, unknown_members
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Moment, Positive, Strict, Word
from schedlib.formats.tables import table as aligned
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.columns import columns_for, composed_tree, ensure_tools, pack_columns
from schedlib.layout.compile import compiler_of
from schedlib.layout.headroom import draw_clause
from schedlib.layout.layout_options import LayoutOptions
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import (
    JudgedColumn,
    Layout,
    PresenceName,
    RuleOutcome,
    RuleResult,
    describe,
    intruders,
    judge_column,
    shared_members,
)
from schedlib.layout.vmlinux import kernel_of, layout_of_built
from schedlib.tree.changes import change_table
from schedlib.tree.compose import lost_by
from schedlib.verdict import Verdict, worst


def judge_layout(options: LayoutOptions) -> Verdict:
    """Check every rule on the layouts that the options name."""
    started = datetime.now(UTC)
    rules = pack_rules(options.pack, options.contracts) if options.of_packs else our_rules()
    if not rules.rules:
        raise SchedlineError(
            "these contracts have no rules, so there is nothing to judge",
            'add a [[rule]] and a promise with its id, such as keep = "on one line": docs/contracts.md has them all',
        )
    lost: list[SchedlineError] = []
    if options.built:
        doctor.require(["layout"])
        kernel = kernel_of(options.vmlinux)
        layout = layout_of_built(options.vmlinux, rules, kernel)
        columns = [judge_column(rules, kernel.name, layout, frozenset(options.expect or ()))]
        fingerprint = {"kernel": kernel.name, "machine": kernel.machine}
    else:
        columns, fingerprint, lost = _of_tree(options, rules)
    shown = pack_table if options.of_packs else table
    parts = (*failures(rules, columns), *shown(rules, columns), *key(rules), *notes(rules, columns))
    print(*parts, *open_findings(rules, columns), sep="\n")
    verdict = worst([verdict_of(columns, options.require), *(Verdict.ERROR for _ in lost)])
    print(*(f"not judged: {each}" for each in lost), f"verdict: {verdict.name}", sep="\n")
    if not lost and (text := advice(verdict, columns, options.require, options.source())):
        print(text)
    if options.json:
        document.write(options.json, layout_document(started, fingerprint, verdict, columns))
    return verdict


def _of_tree(options: LayoutOptions, rules: Rules) -> tuple[list[JudgedColumn], dict[str, str], list[SchedlineError]]:
    wanted = (pack_columns if options.of_packs else columns_for)(options.columns.arch, options.columns.config)
    ensure_tools(wanted, options.tree.needs)
    tree, composition = composed_tree(options.tree, options.changes, expect=options.expect, base=options.base)
    lost: list[SchedlineError] = []
    if not options.of_packs:
        for ids, error in lost_by(tree, composition.commit):
            lost.append(error)
            rules = replace(rules, rules=tuple(rule for rule in rules.rules if rule.id not in ids))
    else:
        read = partial(tree.read, commit=composition.commit)
        refuse_unknown_members(pack_rules((), options.contracts), read)
        for text in left_out(rules, unknown_members(rules, read)):
            print(text)
    columns = []
    for column in wanted:
        try:
            layout = pack_layout(cache_dir(), tree, composition.commit, column, rules)
        except Dropped as dropped:
            columns.append(JudgedColumn(column.name, Layout(column.name), absent=dropped.observed))
        else:
            columns.append(judge_column(rules, column.name, layout, composition.expected))
    fingerprint = {
        "tree": tree.origin,
        "commit": composition.commit,
        "machine": platform.machine(),
        **{f"compiler {column.arch.name}": compiler_of(column.arch) for column in wanted},
    }
    return columns, fingerprint, lost


MOST_NAMES = 8
"""Kernels that a note lists by name; the JSON has all."""


def verdict_of(columns: Sequence[JudgedColumn], require: Sequence[str] = ()) -> Verdict:
    """FAIL when a rule fails anywhere; ERROR when a required one is n/a everywhere; all n/a is INCONCLUSIVE."""
    outcomes = {result.outcome for column in columns for result in column.results.values()}
    if RuleOutcome.FAIL in outcomes:
        return Verdict.FAIL
    if _lacking(columns, require):
        return Verdict.ERROR
    return Verdict.PASS if RuleOutcome.PASS in outcomes else Verdict.INCONCLUSIVE


def _lacking(columns: Sequence[JudgedColumn], require: Sequence[str]) -> list[str]:
    """The required rules that are n/a everywhere."""
    return [rule for rule in require if all(column.outcome(rule) is RuleOutcome.NA for column in columns)]


def table(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """The matrix, one kernel on each line, a rule in each column; notes() lists the kernels that cannot be built."""
    rows = [["", "line", *(rule.id.rpartition(".")[2] for rule in rules.rules)]]
    for column in (each for each in columns if not each.absent):
        outcomes = (_word(column.outcome(rule.id)) for rule in rules.rules)
        rows.append([column.name, str(column.layout.line), *outcomes])
    yield from aligned(rows, "< <")


def pack_table(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """The structures of packs, a line each, with a kernel in each column: how many rules hold, fail, or are n/a."""
    built = [column for column in columns if not column.absent]
    if not built:
        return
    rows = [["", *(f"{column.name} ({column.layout.line})" for column in built)]]
    for tag in rules.types():
        its = {clause.rule for clause in rules.clauses if clause.type == tag}
        counts = (Counter(column.outcome(rule) for rule in its) for column in built)
        order = (RuleOutcome.FAIL, RuleOutcome.PASS, RuleOutcome.NA)
        rows.append([tag, *(", ".join(f"{of[each]} {_word(each)}" for each in order if of[each]) for of in counts)])
    yield from aligned(rows)


def key(rules: Rules) -> Iterator[str]:
    """The legend of the table: a change on each line, with its rules."""
    changes = change_table()
    for name in rules.changes():
        short = (rule.id.rpartition(".")[2] for rule in rules.rules if rule.change == name)
        yield f"{' '.join(short)}: {name}, {changes[name].title}"
    example = "Q1" if rules.changes() else rules.rules[0].id
    yield f"what a rule keeps, and why: schedline layout explain {example}"


def advice(verdict: Verdict, columns: Sequence[JudgedColumn], require: Sequence[str], source: Sequence[str]) -> str:
    """Why a verdict is neither PASS nor FAIL, and what to do next; `source` are options that name what was judged."""
    if verdict is Verdict.ERROR:
        return f"--require: {', '.join(_lacking(columns, require))} is n/a everywhere; the lines above say why"
    if verdict is not Verdict.INCONCLUSIVE:
        return ""
    if all(column.absent for column in columns):
        return "there is no such kernel\n  next: choose another --arch or --config"
    status = shlex.join(["schedline", "status", *source])
    return (
        "no rule was judged: this kernel has none of the changes, or does not tell; the lines above say why\n"
        f"  next: {status} says which changes it has; with --expect ID a missing one is a FAIL"
    )


def _word(outcome: RuleOutcome) -> str:
    return "FAIL" if outcome is RuleOutcome.FAIL else outcome.value


def left_out(rules: Rules, unknown: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[str]:
    """Which members of packs a tree does not have: it is older than the contract, or they were renamed."""
    of_each: dict[str, list[str]] = {}
    for tag, names in unknown:
        of_each.setdefault(tag, []).append("|".join(names))
    for tag, members in of_each.items():
        yield f"left out, {rules.files[tag]} of this tree has no such members: struct {tag}: {' '.join(members)}"


def notes(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """Why something is n/a or assumed."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for column in columns:
        if column.absent:
            yield f"no column {column.name}: {column.absent}"
        if column.layout.assumed:
            yield f"note: {column.name}: {column.layout.assumed}"
        for result in column.results.values():
            if result.outcome is RuleOutcome.NA:
                reasons.setdefault(result.reason, {}).setdefault(result.rule, []).append(column.name)
    everywhere = [column.name for column in columns if not column.absent]
    for reason, per_rule in reasons.items():
        grouped: dict[tuple[str, ...], list[str]] = {}
        for rule, where in per_rule.items():
            grouped.setdefault(tuple(where), []).append(rule)
        for names, its_rules in grouped.items():
            listed = ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} of {len(everywhere)} kernels"
            only = "" if len(everywhere) == len(names) else f" ({listed})"
            yield f"n/a, {reason}: {', '.join(its_rules)}{only}"
    yield from _partly(rules, columns)


def _partly(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """Clauses that could not be judged in rules that pass: such a pass proves less."""
    found: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        passed = (result for result in column.results.values() if result.outcome is RuleOutcome.PASS)
        for rule, clause in ((each.rule, clause) for each in passed for clause in each.clauses if clause.unrecorded):
            found.setdefault((f"{rule}, {describe(clause, column.layout)}", clause.reason), []).append(column.name)
    for (what, reason), names in found.items():
        yield f"not judged, {reason}: {what} ({', '.join(names)})"


def open_findings(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """The exceptions of the contracts that cost something, wherever the members share a line."""
    layouts = [column.layout for column in columns if not column.absent]
    for finding in rules.findings:
        names, ones, others = [], set[str](), set[str]()
        for layout in layouts:
            some = shared_members(layout, finding.type, finding.members, finding.others)
            if some[0]:
                names.append(layout.name)
                ones |= set(some[0])
                others |= set(some[1])
        if names:
            one = " ".join(name for name in finding.members if name in ones)
            other = " ".join(name for name in finding.others if name in others)
            where = f" ({', '.join(names)})" if len(names) < len(layouts) else ""
            yield f"open finding, struct {finding.type}: {one} on a line with {other}: {finding.why}{where}"


def failures(rules: Rules, columns: Sequence[JudgedColumn]) -> Iterator[str]:
    """Each broken clause with reason, source, members and picture; columns with the same text share one entry."""
    told: dict[str, list[str]] = {}
    for column in columns:
        for result in (each for each in column.results.values() if each.outcome is RuleOutcome.FAIL):
            for text in _failure(rules, result, column.layout):
                told.setdefault(text, []).append(column.name)
    for text, names in told.items():
        head, _, rest = text.partition("\n")
        yield f"FAIL {head} ({', '.join(names)})\n{rest}"


def _failure(rules: Rules, result: RuleResult, layout: Layout) -> Iterator[str]:
    rule = rules.rule(result.rule)
    for clause in result.clauses:
        is_broken = clause.outcome is RuleOutcome.FAIL
        # Of a change that is absent although it is expected each clause is told.
        if not is_broken and (clause.outcome is RuleOutcome.NA or not result.reason):
            continue
        found = intruders(clause, layout)
        below = [result.reason] if result.reason else []
        below += [f"there now: {', '.join(found)}"] if found else []
        below += [f"why: {rule.reason}", f"source: {rule.source}, {clause.clause.origin}"]
        state = "is broken" if is_broken else "holds by accident"
        head = f"{rule.id}, {describe(clause, layout)}, {state}"
        yield "\n    ".join([head, *below, *draw_clause(clause, layout)])


# ---- the document ----


class LayoutType(Strict, frozen=True):
    """A structure. align: null if it is not recorded."""

    size: Count
    align: Positive | None


class LayoutRule(Strict, frozen=True):
    """The outcome of a rule."""

    id: Word
    outcome: Literal["pass", "fail", "n/a"]
    reason: str


class LayoutField(Strict, frozen=True):
    """A member.

    Attributes:
        type: tag of the structure.
        member: its path; a[0].b is b in every element of a.
    """

    type: Word
    member: Word
    offset: Count
    size: Count


class LayoutColumn(Strict, frozen=True):
    """One kernel.

    Attributes:
        absent: why this kernel cannot be built; then line is null and the rest empty.
        line: bytes in a cache line.
        assumed: why the line size is assumed; empty when it is known.
        presence: whether the kernel has each change, by its id.
        types: structures, by tag.
    """

    name: Word
    absent: str
    line: Positive | None
    assumed: str
    presence: dict[str, PresenceName]
    types: dict[str, LayoutType]
    rules: tuple[LayoutRule, ...]
    fields: tuple[LayoutField, ...]


class LayoutDocument(Document, frozen=True, kw_only=True):
    """schedline layout: the layout rules on one or more kernels.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        fingerprint: tree and commit, or kernel; machine; compilers.
    """

    schema: Literal["layout-1"]
    tool: Word
    started: Moment
    fingerprint: dict[str, str]
    status: Verdict
    columns: tuple[LayoutColumn, ...]


def layout_document(
    started: datetime, fingerprint: dict[str, str], verdict: Verdict, columns: Sequence[JudgedColumn]
) -> LayoutDocument:
    """The document of what was judged."""
    return LayoutDocument(
        schema="layout-1",
        tool=TOOL,
        started=started,
        fingerprint=fingerprint,
        status=verdict,
        columns=tuple(map(_column, columns)),
    )


def _column(column: JudgedColumn) -> LayoutColumn:
    layout = column.layout
    members = ((tag, member) for tag, structure in layout.structures.items() for member in structure.members)
    return LayoutColumn(
        name=column.name,
        absent=column.absent,
        line=None if column.absent else layout.line,
        assumed=layout.assumed,
        presence={change: found.value for change, found in column.presence.items()},
        types={tag: LayoutType(kind.size, kind.align) for tag, kind in layout.types.items()},
        rules=tuple(LayoutRule(each.rule, each.outcome.value, each.reason) for each in column.results.values()),
        fields=tuple(LayoutField(tag, member.name, member.offset, member.size) for tag, member in members),
    )
