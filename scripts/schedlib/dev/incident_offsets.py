# SPDX-License-Identifier: GPL-2.0
"""Where an incident's layouts put the members of an object that was traced: each becomes a layout for the trace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.moved_layout import StructureLayout, is_part
from schedlib.c2c.observed import Observed
from schedlib.dev.incident_states import Bench, commits_of, patched, texts_seen
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import MappedStructure
from schedlib.formats.incident_file import Incident
from schedlib.layout.members import Structure
from schedlib.layout.pack_units import structures_of, units_of
from schedlib.layout.struct_job import declaring_file

_MOST_ALIGNED = 64
"""That an object begins at a multiple of more bytes is chance, or nothing that a line notices."""


@dataclass(frozen=True)
class MemberPlace:
    """Where a member lies in an object."""

    offset: int
    size: int


Places = Mapping[str, MemberPlace]
"""By path."""


@dataclass(frozen=True)
class PlacedState:
    """A layout of an incident: the text of its file, and the structures that the compiler makes of it."""

    text: str
    structures: Mapping[str, Structure]

    def places(self, tag: str, inside: str) -> Places:
        """Where the members of an object lie; see places_of()."""
        return places_of(self.structures, tag, inside)

    def size(self, tag: str) -> int:
        """Of the object, in bytes."""
        return self.structures[tag].type.size


@dataclass(frozen=True)
class IncidentLayouts:
    """The layouts of an incident, and that of the traced kernel; all are compiled with this kernel's configuration.

    Attributes:
        tag: the structure of the traced objects.
        inside: the path to the incident's structure in it; empty if it is the same.
        file: what declares the incident's structure.
    """

    tag: str
    inside: str
    file: str
    traced: PlacedState
    bad: PlacedState
    fix: PlacedState

    def refuse_equal(self, observed: Observed) -> None:
        """Check that the two layouts differ in what shares a line.

        Raises:
            SchedlineError: with this configuration they do not, so that nothing can be said of the incident.
        """
        if alignment_of(observed, self.tag) < LINES[0]:
            return  # Where a line begins in the object is not known, so that each move may matter.
        bad, fix = (lines_of(state.places(self.tag, self.inside)) for state in (self.bad, self.fix))
        if bad == fix:
            raise SchedlineError(
                "with the options of the traced kernel, the same members share lines in both layouts",
                "add an option to configs/kernel/c2c-incidents.config",
            )

    def layout(self, observed: Observed, state: PlacedState) -> StructureLayout:
        """One of the two for a trace; see layout_in_trace().

        Raises:
            SchedlineError: it does not fit to the trace.
        """
        known = observed.known.structures.get(self.tag)
        if known is None:
            raise SchedlineError(f"the trace names no {self.tag}", "see configs/slab-types.toml")
        before = self.traced.places(self.tag, self.inside)
        after = state.places(self.tag, self.inside)
        align = max(alignment_of(observed, self.tag), state.structures[self.tag].type.align or 1)
        return layout_in_trace(known, before, after, state.size(self.tag), align)


def layouts_of(bench: Bench, incident: Incident, file: str) -> IncidentLayouts:
    """What the compiler makes of an incident.

    Args:
        bench: its column has the configuration of the traced kernel.
        file: what declares the incident's structure; empty: it is looked for.

    Raises:
        SchedlineError: it does not compile, or is not played.
    """
    if incident.play is None:
        raise SchedlineError(incident.not_played, "name a workload")
    tag, inside = incident.play.object or incident.struct, incident.play.inside
    file = file or declaring_file(bench.tree, bench.stock, incident.struct)
    files = {tag: file if tag == incident.struct else declaring_file(bench.tree, bench.stock, tag)}
    if not incident.change:
        files[incident.struct] = file
    paths = [(tag, f"{inside}.{incident.right[0]}")] if inside else []
    units = units_of(files, paths=paths)
    if len(units) > 1:
        raise SchedlineError(f"{incident.name}: no unit sees {' and '.join(sorted(files))}", "choose another object")
    if incident.change:
        states = [
            PlacedState(
                bench.tree.read(file, commit) or "",
                structures_of(bench.cache, bench.tree, commit, bench.column, units, bench.stock).structures,
            )
            for commit in (bench.stock, *commits_of(bench, incident))
        ]
    else:
        stock = bench.tree.read(file, bench.stock) or ""
        texts = [patched(bench, incident, file, stock, diff) for diff in ("", incident.bad, incident.fix)]
        seen = texts_seen(bench, incident, units[0], stock, texts)
        states = [PlacedState(text, each.structures) for text, each in zip(texts, seen, strict=True)]
    for state in states:
        if tag not in state.structures:
            raise SchedlineError(f"{incident.name}: {bench.column.name} has no struct {tag}", "choose another object")
    return IncidentLayouts(tag, inside, file, *states)


def places_of(structures: Mapping[str, Structure], tag: str, inside: str = "") -> dict[str, MemberPlace]:
    """Where the members of a structure lie.

    Args:
        inside: the path of a member. Those inside of each structure on it stand for themselves; `a[0]` is each element.

    Raises:
        SchedlineError: there is no such member, or its structure is not known.
    """
    structure, (name, _, rest) = structures.get(tag), inside.partition(".")
    if structure is None or (name and structure.member(name.removesuffix("[0]")) is None):
        raise SchedlineError(f"struct {tag} is not known, or has no member {name}", "correct `inside`")
    found: dict[str, MemberPlace] = {}
    for member in structure.members:
        if member.name != name.removesuffix("[0]"):
            found[member.name] = MemberPlace(member.offset, member.size)
            continue
        below = places_of(structures, member.type.partition(" ")[2] or f"{tag}.{member.name}", rest)
        every = range(member.count) if name.endswith("[0]") else (None,)
        for index in every:
            start = member.offset + (index or 0) * (member.size // max(member.count, 1))
            prefix = member.name if index is None else f"{member.name}[{index}]"
            found |= {f"{prefix}.{path}": MemberPlace(start + each.offset, each.size) for path, each in below.items()}
    return {path: place for path, place in found.items() if place.size}


def lines_of(places: Places, line: int = LINES[0]) -> frozenset[frozenset[str]]:
    """The members that share each line, whatever the order of the lines."""
    found: dict[int, set[str]] = {}
    for path, place in places.items():
        for number in range(place.offset // line, (place.offset + place.size - 1) // line + 1):
            found.setdefault(number, set()).add(path)
    return frozenset(map(frozenset, found.values()))


def layout_in_trace(known: MappedStructure, before: Places, after: Places, size: int, align: int) -> StructureLayout:
    """Other places for the members of a traced structure.

    Args:
        known: the structure as it was traced.
        before: the places of its members, from the compiler; they have to be those of the trace.
        after: the new places.
        size: with these, in bytes.
        align: of the objects, in bytes.

    Raises:
        SchedlineError: the compiler's structure is another one, or the layouts do not have the same members.
    """
    added, lost = _names(after, before), _names(before, after)
    if added or lost:
        what = f"it has no {lost[0]}" if lost else f"the accesses of {added[0]} are not in the trace"
        raise SchedlineError(f"it cannot be played: {what}", "say so in the incident: not_played")
    members = {}
    for path, place in before.items():
        there = [field.offset for field in known.fields if is_part(field.path, path)]
        if there:
            first = min(there)
            if not place.offset <= first < place.offset + place.size:
                raise SchedlineError(
                    f"the traced kernel has {path} at offset {first}, the compiler at {place.offset}",
                    "take the trace again",
                )
            members[path] = first + after[path].offset - place.offset
    return StructureLayout(members, -(-size // align) * align, align)


def _names(one: Collection[str], other: Collection[str]) -> Sequence[str]:
    return sorted(set(one) - set(other))


def alignment_of(observed: Observed, tag: str) -> int:
    """What the addresses of all objects of a structure are multiples of, in bytes."""
    keys = {watch.key for watch in observed.watches if watch.tag == tag and not watch.prefix}
    addresses = [each.address for guest in observed.guests for each in guest.raw.instances if each.key in keys]
    both = gcd(_MOST_ALIGNED, *addresses)
    return both & -both
