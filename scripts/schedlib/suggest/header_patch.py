# SPDX-License-Identifier: GPL-2.0
"""The suggestion as a patch of the file that declares the structure, and as a contract that would defend it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill

from schedlib.c2c.traffic_table import spread
from schedlib.formats.suggest_document import LayoutCosts, Mark, SuggestDocument, SuggestedMove
from schedlib.git import git
from schedlib.suggest.layout_costs import SUGGESTED, TODAY, shown_name
from schedlib.suggest.movable import Arrangement, Movable
from schedlib.tree.kernel_tree import Tree

_WIDTH = 72


def message(found: SuggestDocument, cpus: str) -> str:
    """The text of the commit: what moves, and its layout_costs."""
    moved = ", ".join(row.name for row in found.moved)
    paragraphs = [
        f"{found.struct}: Reorder members by who reads and who writes them",
        fill(
            f"Some members of struct {found.struct} are written by CPUs while others read the members beside them, "
            "so that each takes the line from the other.",
            _WIDTH,
        ),
        fill(f"Move {moved}. The size changes from {found.size} to {found.new_size} bytes.", _WIDTH)
        if found.size != found.new_size
        else fill(f"Move {moved}. The size stays {found.size} bytes.", _WIDTH),
        fill(
            f"Misses on the lines of struct {found.struct}, counted on emulated CPUs ({cpus}) whose caches never run "
            "full. A range is that of several orders in which the CPUs take turns:",
            _WIDTH,
        ),
        table(found.costs),
        fill(
            "These are counts, not times. What they bring on a machine has to be measured there.",
            _WIDTH,
        ),
    ]
    return "\n\n".join(paragraphs) + "\n"


def table(costs: Sequence[LayoutCosts]) -> str:
    """Workloads, today's misses and those of the suggestion."""
    rows = []
    for row in costs:
        if row.layout == TODAY:
            others = [each for each in costs if each.layout == SUGGESTED and each.workload == row.workload]
            best = next((each for each in others if each.measured), others[0])
            name = shown_name(row.workload) + (" (*)" if row.held_out else "")
            rows.append(f"  {name}\n    before {spread(row.misses)}, after {spread(best.misses)}")
    return "\n".join([*rows, "", "  (*) not used in the search for this order"])


def patch(tree: Tree, commit: str) -> str:
    """A commit as a mail for git am, from the user of git; without one from nobody in particular."""
    return git(tree.src, "format-patch", "--stdout", "-1", "--zero-commit", "--no-signature", commit) + "\n"


def moved_members(structure: Movable, found: Arrangement, moved: Sequence[int]) -> tuple[SuggestedMove, ...]:
    """The members that move, or whose attribute changes."""
    before, after = (structure.members(each, structure.line) for each in (structure.start, found))
    rows = []
    for number in sorted({*moved, *(found.aligned ^ structure.start.aligned)}):
        first, *others = structure.units[number].members
        mark: Mark = "yes" if number in found.aligned else "no longer" if number in structure.start.aligned else "no"
        rows.append(SuggestedMove(first, before[first], after[first], mark))
        rows += [SuggestedMove(name, before[name], after[name], "no") for name in others]
    return tuple(rows)


def contract(
    structure: Movable, found: Arrangement, conflicts: Mapping[tuple[int, int], float], file: str, why: str
) -> str:
    """A contract that complains when members share a line again whose sharing cost misses; empty if there are none.

    Args:
        conflicts: the pairs of units whose sharing costs enough to be worth a promise.
    """
    line = structure.line
    after = structure.lines_of_units(found, line)
    apart: dict[int, list[int]] = {}
    for one, other in sorted(conflicts):
        if not after[one] & after[other]:
            apart.setdefault(one, []).append(other)
    rows = list(apart.items())
    if not rows:
        return ""
    tag = structure.tag
    text = [
        "# SPDX-License-Identifier: GPL-2.0",
        f"# struct {tag}: what schedline c2c suggest has separated.",
        "",
        f'struct = "{tag}"',
        f'file = "{file}"',
    ]
    name = f"{tag.replace('_', '-').lower()}.S1"
    text += ["", "[[rule]]", f'id = "{name}"', f'why = "{why}"', 'source = "schedline c2c suggest"']
    for one, others in rows:
        text += ["", "[[promise]]", f'id = "{name}"', 'keep = "apart"']
        text.append(f"of = {_quoted(structure.units[one].members)}")
        text.append(f"others = {_quoted([name for each in others for name in structure.units[each].members])}")
        text.append(f'when = ["64bit", "line == {line}", "locks plain"]')
    return "\n".join([*text, ""])


def _quoted(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
