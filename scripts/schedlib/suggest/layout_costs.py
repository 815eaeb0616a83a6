# SPDX-License-Identifier: GPL-2.0
"""What a layout costs in a workload: its trace is played again with the layout, in all quanta, or a guest has run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.moved_layout import StructureLayout, relaid_as
from schedlib.c2c.observed import Observed
from schedlib.c2c.player import Player, played
from schedlib.formats.c2c_document import Counts
from schedlib.formats.suggest_document import LayoutCosts
from schedlib.layout.members import parse
from schedlib.process import run
from schedlib.suggest.embedded import Embedded

TODAY, SUGGESTED = "today", "suggested"
PAHOLE = "pahole --reorganize"


@dataclass(frozen=True)
class TracedWorkload:
    """A trace, and whether the search may see it."""

    observed: Observed
    held_out: bool

    @property
    def name(self) -> str:
        """For people: what ran, and on how many CPUs."""
        chosen = self.observed.parameters
        return f"{chosen.workload}, {chosen.cpus} CPUs" + (f", {chosen.topology}" if chosen.topology else "")


def on_lines_of(observed: Observed, tag: str) -> list[Counts]:
    """The counts on all lines that a structure has bytes on, for each quantum: also those of what lies beside it.

    Args:
        observed: has the structure as objects of their own, see Embedded.named().
    """
    keys = {watch.key for watch in observed.watches if watch.tag == tag and not watch.prefix}
    line = observed.parameters.line
    found = []
    for guest in observed.guests:
        lines: set[int] = set()
        for each in guest.raw.instances:
            if each.key in keys:
                lines.update(range(each.address // line, (each.address + each.size - 1) // line + 1))
        found.append(Counts.sum(each.counts for each in guest.raw.records if each.address // line in lines))
    return found


def replayed(
    program: Path,
    workload: TracedWorkload,
    where: Embedded,
    name: str,
    layouts: Mapping[int, StructureLayout],
    place: Path,
) -> LayoutCosts:
    """The costs of a layout, by playing a trace.

    Args:
        program: scripts/c2c/replay.c, compiled.
        where: the structure, and where it lies in others.
        layouts: the layout for each size of lines.

    Raises:
        SchedlineError: the layout does not fit to the trace.
    """
    observed, player = workload.observed, Player(program, workload.observed.parameters)
    own = observed.parameters.line

    def counts(guests: Observed, line: int) -> list[Counts]:
        wanted, after = where.moved(guests, layouts[line])
        moved = played(player, relaid_as(guests, wanted, name, name, place), line)
        return on_lines_of(after.named(moved), where.tag)

    longer = {str(line): counts(_only_middle(observed), line)[0].misses for line in LINES if line != own}
    return _costs(name, workload, counts(observed, own), longer, measured=False)


def measured(workload: TracedWorkload, observed: Observed, where: Embedded) -> LayoutCosts:
    """The costs in a kernel that ran.

    Args:
        where: the structure, and where it lies in others in that kernel.
    """
    return _costs(SUGGESTED, workload, on_lines_of(where.named(observed), where.tag), {}, measured=True)


def _only_middle(observed: Observed) -> Observed:
    return replace(observed, guests=(observed.middle,))


def _costs(
    name: str, workload: TracedWorkload, counts: Sequence[Counts], longer: dict[str, int], *, measured: bool
) -> LayoutCosts:
    return LayoutCosts(
        layout=name,
        workload=workload.name,
        held_out=workload.held_out,
        measured=measured,
        misses=tuple(each.misses for each in counts),
        upgrades=tuple(each.upgrades for each in counts),
        false_shared=tuple(each.false_shared for each in counts),
        longer_lines=longer,
    )


def by_pahole(vmlinux: Path, tag: str) -> StructureLayout | None:
    """The order that `pahole --reorganize` proposes, which packs bytes; None if this pahole cannot."""
    if shutil.which("pahole") is None:
        return None
    done = run(["pahole", "--reorganize", "-C", tag, vmlinux])
    structure = parse(done.stdout.decode(errors="replace"), aligned=True).get(tag)
    if done.returncode or structure is None or not structure.members:
        return None
    members = {member.name: member.offset for member in structure.members if member.size}
    return StructureLayout(members, structure.type.size)


def status_of(costs: Sequence[LayoutCosts], *, has_measured: bool) -> str:
    """`gain`, or why there is none.

    No workload may have more misses in any quantum. One that the search has seen, and one that it has not, has fewer in
    each.
    """
    by = {(row.layout, row.workload, row.measured): row for row in costs}
    better = {False: False, True: False}
    for row in costs:
        if row.layout == TODAY:
            kind = "held-out workload" if row.held_out else "workload"
            after = [by[SUGGESTED, row.workload, False].misses]
            if has_measured:
                after.append(by[SUGGESTED, row.workload, True].misses)
            if any(new > old for each in after for old, new in zip(row.misses, each, strict=True)):
                return f"no gain: it costs misses in the {kind} {row.workload}"
            if all(new < old for each in after for old, new in zip(row.misses, each, strict=True)):
                better[row.held_out] = True
    if not better[False]:
        return "no gain"
    return "gain" if better[True] else "no gain in a workload that the search did not see"


def harmed(costs: Sequence[LayoutCosts]) -> list[str]:
    """Where the suggestion costs misses with lines of another size."""
    by = {(row.layout, row.workload, row.measured): row for row in costs}
    return [
        f"lines of {size} bytes, {name}: {before} misses become {after}"
        for (layout, name, ran), row in by.items()
        if layout == SUGGESTED and not ran
        for size, after in row.longer_lines.items()
        if after > (before := by[TODAY, name, False].longer_lines[size])
    ]


def shown_name(name: str) -> str:
    """A workload's name for a commit message: without what is not plain text."""
    return re.sub(r"[^\w ,.+-]", "", name)
