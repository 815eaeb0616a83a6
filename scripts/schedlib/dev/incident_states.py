# SPDX-License-Identifier: GPL-2.0
"""The structure of an incident as it was with the bad layout, and as it was fixed: its text and its layout."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.cache import scratch, write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.first_contract import Declaration
from schedlib.dev.quiet_pieces import body_of
from schedlib.errors import SchedlineError
from schedlib.formats.incident_file import Incident
from schedlib.layout.compile import Column
from schedlib.layout.pack_units import Seen, Unit, pack_layout, units_of
from schedlib.layout.rule_judge import Layout, from_members
from schedlib.layout.struct_job import declaration_in, declaring_file
from schedlib.layout.unit_variants import Variant, variants_seen
from schedlib.process import run
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree

_SMP = "CONFIG_SMP"
"""What derived contracts ask for; see first_contract()."""


@dataclass(frozen=True)
class Bench:
    """Where incidents are judged: a tree, its commit without carried changes, and a configuration."""

    cache: Path
    tree: Tree
    stock: str
    column: Column


@dataclass(frozen=True)
class IncidentState:
    """A structure: the text of its file, and what was seen of it, or the commit that has it."""

    bench: Bench
    struct: str
    file: str
    text: str
    seen: Seen | None
    commit: str

    def layout(self, rules: Rules) -> Layout:
        """Its layout, for rules about it."""
        bench, seen = self.bench, self.seen
        if seen is None:
            return pack_layout(bench.cache, bench.tree, self.commit, bench.column, rules, bench.stock)
        return from_members(bench.column.name, rules, seen.structures, seen.line, seen.holds, frozenset(), "")

    def declaration(self) -> Declaration:
        """What the tree says of it."""
        bench = self.bench
        layout = self.layout(Rules((), (), files={self.struct: self.file}))
        return declaration_in(self.struct, self.file, self.text, [layout], bench.tree, bench.stock)


def states_of(bench: Bench, incident: Incident, rules: Rules, file: str) -> tuple[IncidentState, IncidentState]:
    """The bad layout and the fix.

    Args:
        rules: today's, about this structure; it may have none.
        file: what declares it; empty: it is looked for.

    Raises:
        SchedlineError: a diff does not apply, or the tree or the machine does not allow it.
    """
    file = file or declaring_file(bench.tree, bench.stock, incident.struct)
    if incident.change:
        bad, fix = commits_of(bench, incident)
        texts = [bench.tree.read(file, commit) or "" for commit in (bad, fix)]
        one, other = (
            IncidentState(bench, incident.struct, file, text, None, commit)
            for text, commit in zip(texts, (bad, fix), strict=True)
        )
        return one, other
    stock = bench.tree.read(file, bench.stock) or ""
    texts = [patched(bench, incident, file, stock, diff) for diff in (incident.bad, incident.fix)]
    seen = _seen(bench, incident, rules, file, stock, texts)
    one, other = (
        IncidentState(bench, incident.struct, file, text, each, "") for text, each in zip(texts, seen, strict=True)
    )
    return one, other


def commits_of(bench: Bench, incident: Incident) -> tuple[str, str]:
    """The commits without and with the change that an incident is about."""
    carried = PatchSet(bench.tree.name).default()
    bad = compose(bench.tree, without=tuple(dict.fromkeys((*carried, incident.change))))
    fix = compose(bench.tree, without=tuple(name for name in carried if name != incident.change))
    return bad.commit, fix.commit


def patched(bench: Bench, incident: Incident, file: str, stock: str, diff: str) -> str:
    """The text of the file with a diff; SchedlineError if that does not apply, or changes more than this structure."""
    if not diff:
        return stock
    with scratch(bench.cache) as place:
        write_atomic(place / file, stock)
        alone = {"GIT_CEILING_DIRECTORIES": str(place.parent)}
        done = run(["git", "apply", "--recount", "-"], cwd=place, env=alone, stdin=diff.encode())
        text = (place / file).read_text(errors="replace")
    if done.returncode:
        raise SchedlineError(f"{incident.name}: a diff does not apply to {bench.tree.origin}", "write it anew")
    if _rest(text, incident.struct) != _rest(stock, incident.struct):
        raise SchedlineError(f"{incident.name}: a diff changes more than struct {incident.struct}", "write it anew")
    return text


def _rest(text: str, struct: str) -> str:
    """A file without the declaration of a structure."""
    return re.sub(rf"^struct {re.escape(struct)} \{{.*?^\}}[^;]*;", "", text, flags=re.M | re.S)


def _seen(bench: Bench, incident: Incident, rules: Rules, file: str, stock: str, texts: Collection[str]) -> list[Seen]:
    """The layouts with some texts of the file."""
    named = [*(name for each in incident.access for name in each.members), *incident.right]
    named += [name for tag, names, _ in rules.members if tag == incident.struct for name in names]
    [unit] = units_of({incident.struct: file}, paths=[(incident.struct, name) for name in named])
    unit = replace(unit, conditions=tuple(sorted({_SMP, *rules.conditions()})))
    return texts_seen(bench, incident, unit, stock, texts)


def texts_seen(bench: Bench, incident: Incident, unit: Unit, stock: str, texts: Collection[str]) -> list[Seen]:
    """What a unit shows if the incident's structure is declared as in some texts of its file.

    Raises:
        SchedlineError: it does not compile, or has no such structure.
    """
    asked = [
        Variant(unit, incident.struct, body.declaration(body.rows) if text != stock else "")
        for text in texts
        if (body := body_of(text, incident.struct))
    ]
    found = variants_seen(bench.cache, bench.tree, bench.stock, bench.column, asked)
    for each in found:
        if each.failed or incident.struct not in each.structures:
            what = each.failed or f"{bench.column.name} has no struct {incident.struct}"
            raise SchedlineError(f"{incident.name}: {what}", "check the diffs")
    if len(found) < len(texts):
        said = f"{unit.files[0]} declares no struct {incident.struct} at the left margin"
        raise SchedlineError(said, "check its name")
    return found
