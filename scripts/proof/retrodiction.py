# SPDX-License-Identifier: GPL-2.0
"""What a contract would have said of known layout incidents: docs/results/catches.md.

An incident is a layout of a structure of Linux 7.3: `bad`, and `fix`; a diff that is not there is 7.3 as it is.
`latent` is bad from its first day, `regression` was `fix` before. A contract is derived from the layout before, the
same way for all: what `layout contract init` makes, and a group for each [[access]], with the class of CLASSES.
[[counted]] is what `layout contract init --profile` says of the whole structure, but for its cold members, which share
a line with any: those accesses are from c2c, which knows no fix. Both are judged, and [[counted]] alone if the other is
not there.

Caught: a latent incident if one of at most MOST_FINDINGS open findings is about a member of `right`, and is no more
true of the fix; a regression if a rule breaks whose complaint names a member of `right`. Silent: of the fix no rule
breaks that held before. The rules were fixed on 2026-11-25, before the first run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, scratch, write_atomic, write_json
from schedlib.contracts.contract_rules import CONTRACTS, Rules, pack_rules, rules_of
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import AccessClass
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word
from schedlib.formats.tables import markdown
from schedlib.layout.columns import ensure_tools, pack_columns
from schedlib.layout.compile import Column
from schedlib.layout.first_contract import Declaration, DraftGroup, first_contract, marked_groups
from schedlib.layout.kernel_text import declaring_file, text_of_commit
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.patch_findings import broken_rules
from schedlib.layout.rule_judge import Layout, RuleOutcome, RuleResult, concerned, intruders, share_line
from schedlib.options import TreeOptions
from schedlib.process import run
from schedlib.progress import say
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import Tree, open_tree, put_files

INCIDENTS = Path(__file__).with_name("incidents")
RECORDED = Path(__file__).with_name("retrodiction.json")
"""What the script said when the page was written."""

MOST_FINDINGS = 3
CLASSES = {
    ("many", "rare"): AccessClass.READ_MOSTLY,
    ("many", "owner"): AccessClass.PUBLISHED,
    ("many", "many"): AccessClass.SHARED,
    ("owner", "owner"): AccessClass.OWNER,
    ("owner", "many"): AccessClass.SHARED,
    ("rare", "many"): AccessClass.SHARED,
    ("rare", "owner"): AccessClass.OWNER,
    ("rare", "rare"): AccessClass.COLD,
}
"""By who reads and who writes: all CPUs, the one that owns the object, or hardly anybody."""


class IncidentAccess(Strict, frozen=True):
    """Who read and wrote some members before the fix."""

    members: tuple[Word, ...]
    reads: Word
    writes: Word
    who: Word


class Incident(Strict, frozen=True):
    """A layout that cost something. `blind`: written before the contracts were read. `right`: one has to be named.

    `config`: a fragment of configs/kernel/ that the members need beside packs.
    """

    name: Word
    title: Word
    struct: Word
    kind: Word
    blind: bool
    commit: str
    date: Word
    measured: Word
    machine: Word
    read: Word
    right: tuple[Word, ...]
    access: tuple[IncidentAccess, ...] = ()
    counted: tuple[IncidentAccess, ...] = ()
    config: str = ""
    file: str = ""
    thread: str = ""
    bad: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Judged:
    """What is said of an incident. packs: the rules of today's contracts that name one of the right members.

    counted: whether it is caught with the accesses that c2c counted; None if it counted none.
    """

    name: str
    struct: str
    kind: str
    blind: bool
    measured: str
    caught: bool
    counted: bool | None
    silent: bool
    said: tuple[str, ...]
    packs: tuple[str, ...]


@dataclass(frozen=True)
class Bench:
    cache: Path
    tree: Tree
    stock: str
    column: Column

    def layout(self, commit: str, rules: Rules) -> Layout:
        return pack_layout(self.cache, self.tree, commit, self.column, rules, self.stock)

    def patched(self, name: str, diff: str) -> str:
        """The commit with a diff; SchedlineError if that does not apply."""
        if not diff:
            return self.stock
        file = diff.partition("+++ b/")[2].split()[0]
        with scratch(self.cache) as place:
            write_atomic(place / file, self.tree.read(file, self.stock) or "")
            alone = {"GIT_CEILING_DIRECTORIES": str(place.parent)}
            done = run(["git", "apply", "--recount", "-"], cwd=place, env=alone, stdin=diff.encode())
            if done.returncode:
                raise SchedlineError(f"{name}: a diff does not apply to {self.tree.origin}", "write it anew")
            return put_files(self.tree, self.stock, {file: (place / file).read_bytes()}, f"{name}\n")


def read_incidents(directory: Path = INCIDENTS) -> tuple[Incident, ...]:
    found = (read_toml(path, Incident, stem="name") for path in directory.glob("*.toml"))
    return tuple(sorted(found, key=lambda each: (each.date, each.name)))


def judge(bench: Bench, incident: Incident) -> Judged:
    """What the contract that is derived from the layout before says, and what today's contract says."""
    bad, fix = (bench.patched(incident.name, diff) for diff in (incident.bad, incident.fix))
    file = incident.file or declaring_file(text_of_commit(bench.tree, bench.stock), incident.struct)
    accesses = [each for each in (incident.access, incident.counted) if each]
    derived = [judge_derived(bench, incident, file, bad, fix, each) for each in accesses]
    caught, silent, said = derived[0]
    counted = derived[-1][0] if incident.counted else None
    today = rules_of(tuple(sorted(CONTRACTS.parent.glob(f"*/{incident.struct}.toml"))))
    after = bench.layout(bad, today)
    broken = _failing(today, bench.layout(fix, today), after)
    packs = tuple(each.rule for each in broken if _names_right(incident, complained(each, after)))
    about = (incident.name, incident.struct, incident.kind, incident.blind, incident.measured)
    return Judged(*about, caught, counted, silent, said, packs)


def judge_derived(
    bench: Bench, incident: Incident, file: str, bad: str, fix: str, access: Sequence[IncidentAccess]
) -> tuple[bool, bool, tuple[str, ...]]:
    """Whether the contract derived from some accesses catches it, is silent of the fix, and what it says."""
    rules = derived_rules(bench, incident.struct, file, bad if incident.kind == "latent" else fix, access)
    layouts = bench.layout(bad, rules), bench.layout(fix, rules)
    if incident.kind == "latent":
        shared, left = (open_findings(rules, each) for each in layouts)
        still = {name for names in left for name in names}
        said = [" ".join(names) for names in shared]
        named = {name for names in shared for name in names}
        caught = len(shared) <= MOST_FINDINGS and any(name in named - still for name in incident.right)
        silent = not _failing(rules, *layouts)
    else:
        broken = _failing(rules, layouts[1], layouts[0])
        said = [f"{each.rule}: {' '.join(complained(each, layouts[0]))}" for each in broken]
        caught = any(_names_right(incident, complained(each, layouts[0])) for each in broken)
        silent = True
    return caught, silent, tuple(said)


def complained(result: RuleResult, layout: Layout) -> tuple[str, ...]:
    """The members that the complaint about a broken rule names."""
    wrong = [each for each in result.clauses if each.outcome is RuleOutcome.FAIL]
    names = [field.member for each in wrong for field in concerned(each, layout)]
    return tuple(dict.fromkeys([*names, *(name for each in wrong for name in intruders(each, layout))]))


def derived_rules(bench: Bench, struct: str, file: str, before: str, access: Sequence[IncidentAccess]) -> Rules:
    layout = bench.layout(before, Rules((), (), files={struct: file}))
    declared = Declaration(struct, file, bench.tree.read(file, before) or "", [layout])
    with scratch(bench.cache) as place:
        contract = first_contract(declared, known=list(known_groups(access, declared)))
        write_atomic(place / f"{struct}.toml", contract)
        return pack_rules((), (place,))


def known_groups(access: Sequence[IncidentAccess], declared: Declaration) -> Iterator[DraftGroup]:
    """What is said of members that no marker of the kernel has. Those on one line have to stay on one."""
    [layout] = declared.layouts
    held = {name for members in marked_groups(declared.names).values() for name in members}
    for number, each in enumerate(access, 1):
        fields = layout.fields(declared.struct, [name for name in each.members if name.split(".")[0] not in held])
        lines = {at for its in fields for at in layout.lines_of(its)}
        keep = "on one line" if len(fields) > 1 and len(lines) == 1 else ""
        if names := tuple(field.member for field in fields):
            class_ = CLASSES[each.reads, each.writes]
            yield DraftGroup(f"access-{number}", class_, names, each.who, keep=keep, why="these are used together")


def open_findings(rules: Rules, layout: Layout) -> list[tuple[str, ...]]:
    """The members of each open finding that share a line, those with none left out."""
    found = []
    for finding in rules.findings:
        one, other = (
            [(name, field) for name in names if (field := layout.field(finding.type, name))]
            for names in (finding.members, finding.others)
        )
        pairs = [(a, b) for a, left in one for b, right in other if share_line(left, right, layout)]
        if pairs:
            found.append(tuple(dict.fromkeys(name for pair in pairs for name in pair)))
    return found


def _failing(rules: Rules, before: Layout, after: Layout) -> list[RuleResult]:
    return [each for each in broken_rules(rules, before, after) if each.outcome is RuleOutcome.FAIL]


def _names_right(incident: Incident, names: Sequence[str]) -> bool:
    return any(name in incident.right or name.split(".")[0] in incident.right for name in names)


def table(rows: Sequence[Judged]) -> list[str]:
    heads = ("incident", "measured then", "caught", "counted", "today's contract")
    cells = []
    for row in rows:
        told = ("yes" if row.caught else "no") + (", blind" if row.blind else "")
        counted = "" if row.counted is None else "yes" if row.counted else "no"
        today = ", ".join(row.packs) or "nothing"
        cells.append([row.name, row.measured, told, counted, today])
    out = markdown(heads, cells)
    caught, packs = sum(row.caught for row in rows), sum(bool(row.packs) for row in rows)
    loud = sum(not row.silent for row in rows)
    counts = [row.counted for row in rows if row.counted is not None]
    out += ["", f"Caught by the derived contract: {caught} of {len(rows)}; with what c2c counted {sum(counts)} of"]
    out[-1] += f" {len(counts)}. Noticed by today's contracts: {packs} of {len(rows)}. Fixes that a contract complains"
    out[-1] += f" of: {loud}."
    return out


def recorded(path: Path = RECORDED) -> tuple[Judged, ...]:
    rows = json.loads(path.read_text())["incidents"]
    return tuple(Judged(**{**row, "said": tuple(row["said"]), "packs": tuple(row["packs"])}) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="retrodiction")
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name}, too")
    given = parser.parse_args()
    chosen = TreeOptions()
    doctor.require(["layout", *chosen.needs])
    tree = open_tree(cache_dir(), chosen)
    stock = compose(tree, without=PatchSet(tree.name).default()).commit
    rows = []
    for incident in read_incidents():
        [column] = pack_columns(["x86_64"], [incident.config] if incident.config else [])
        ensure_tools([column])
        rows.append(judge(Bench(cache_dir(), tree, stock, column), incident))
        say(f"{'caught' if rows[-1].caught else 'missed'}: {incident.name}")
    print("\n".join(table(rows)))
    if given.record:
        write_json(RECORDED, {"tree": tree.origin, "incidents": [asdict(row) for row in rows]})


if __name__ == "__main__":
    main()
