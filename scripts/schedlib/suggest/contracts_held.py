# SPDX-License-Identifier: GPL-2.0
"""Whether the contracts allow another order of members: no promise that holds today may break."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.contracts.packs import all_rules
from schedlib.layout.rule_judge import Layout, RuleOutcome, from_members, judge_clause, presence_of
from schedlib.layout.vmlinux import layout_of_built
from schedlib.names import pack_names
from schedlib.suggest.movable import Arrangement, Movable
from schedlib.tree.source import Presence


def rules_about(tag: str) -> Rules:
    """The promises about one structure; none if it has no contract."""
    found = all_rules(("sched", *pack_names()))
    clauses = tuple(clause for clause in found.clauses if clause.type == tag)
    named = {clause.rule for clause in clauses}
    return replace(
        found,
        rules=tuple(rule for rule in found.rules if rule.id in named),
        clauses=clauses,
        findings=(),
        members=tuple(row for row in found.members if row[0] == tag),
        files={name: file for name, file in found.files.items() if name == tag},
    )


class Held:
    """The promises that hold in a kernel."""

    def __init__(self, vmlinux: Path, structure: Movable) -> None:
        """Raises SchedlineError: the vmlinux has no debug information."""
        rules, every = rules_about(structure.tag), our_rules()
        self._structure, self._layout = structure, layout_of_built(vmlinux, rules)
        kept = {
            rule.id
            for rule in rules.rules
            if not rule.change or presence_of(every, rule.change, self._layout)[0] is not Presence.ABSENT
        }
        self._rules = replace(
            rules,
            clauses=tuple(
                each
                for each in rules.clauses
                if each.rule in kept and judge_clause(each, self._layout).outcome is RuleOutcome.PASS
            ),
        )

    @property
    def number(self) -> int:
        """How many there are."""
        return len(self._rules.clauses)

    def layout(self, arrangement: Arrangement) -> Layout:
        """The kernel's layout, with the members in another order."""
        tag, old = self._structure.tag, self._layout
        before = old.structures[tag]
        offsets = self._structure.members(arrangement, old.line)
        _, size = self._structure.offsets(arrangement, old.line)
        members = tuple(
            sorted(
                (replace(each, offset=offsets.get(each.name, each.offset)) for each in before.members),
                key=lambda member: member.offset,
            )
        )
        align = self._structure.alignment(arrangement, old.line)
        moved = replace(before, type=replace(before.type, size=size, align=align), members=members)
        return from_members(
            old.name, self._rules, {**old.structures, tag: moved}, old.line, old.holds, old.unknown, old.assumed
        )

    def allow(self, arrangement: Arrangement) -> bool:
        """Whether all of them still hold."""
        layout = self.layout(arrangement)
        return all(judge_clause(each, layout).outcome is not RuleOutcome.FAIL for each in self._rules.clauses)
