# SPDX-License-Identifier: GPL-2.0
"""An incident by counts: the accesses of a workload, played with the bad layout and with the good one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib.c2c.blame import blame
from schedlib.c2c.c2c_options import LINES
from schedlib.c2c.moved_layout import StructureLayout, is_part, relaid_as
from schedlib.c2c.observed import Observed, result_of
from schedlib.c2c.picked import picked
from schedlib.c2c.player import Player, played
from schedlib.c2c.traffic_table import middle
from schedlib.dev.incident_offsets import IncidentLayouts, PlacedState, layout_in_trace
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import BlamedField, TrafficResult
from schedlib.formats.incident_file import Incident, Played, ReplayRules
from schedlib.formats.retrodict_document import CountedRow
from schedlib.suggest.line_costs import LineCosts
from schedlib.suggest.member_text import body_of
from schedlib.suggest.movable import Movable, movable
from schedlib.suggest.search import Objective, Search
from schedlib.suggest.suggest_job import pinned_of
from schedlib.suggest.suggest_options import PRICE

NOT_PLAYED = "not played"


@dataclass(frozen=True)
class CountPrograms:
    """scripts/c2c/replay.c, lines.c and pick.c, compiled."""

    replay: Path
    lines: Path
    pick: Path


@dataclass(frozen=True)
class IncidentTrace:
    """A trace to be played with the layouts of an incident.

    Attributes:
        observed: the objects of the structure alone.
        place: a scratch directory.
    """

    observed: Observed
    layouts: IncidentLayouts
    programs: CountPrograms
    rules: ReplayRules
    place: Path

    @classmethod
    def of(
        cls, observed: Observed, layouts: IncidentLayouts, programs: CountPrograms, rules: ReplayRules, place: Path
    ) -> IncidentTrace:
        """The structure's part of a trace; SchedlineError if it has no such object."""
        return cls(picked(programs.pick, observed, layouts.tag, place), layouts, programs, rules, place)

    @property
    def _owners(self) -> tuple[str, ...]:
        watches, tag = self.observed.watches, self.layouts.tag
        return tuple(sorted({watch.owner for watch in watches if watch.tag == tag and not watch.prefix}))

    def play(self, name: str, layout: StructureLayout) -> Observed:
        """The guests with a layout; SchedlineError if it does not fit to the trace."""
        directory = self.place / name
        directory.mkdir()
        moved = relaid_as(self.observed, {self.layouts.tag: layout}, name, name, directory)
        return played(self._player, moved, LINES[0])

    def misses(self, result: TrafficResult) -> tuple[int, ...]:
        """The misses on the objects of the structure, for each quantum."""
        own = frozenset(self._owners)
        return tuple(
            sum(row.counts.misses for row in quantum.rows if row.owner in own and not row.prefix)
            for quantum in result.quanta
        )

    @property
    def _player(self) -> Player:
        return Player(self.programs.replay, self.observed.parameters)

    def counted(self, incident: Incident, play: Played) -> CountedRow:
        """What the counts say of the incident.

        Raises:
            SchedlineError: a layout does not fit to the trace.
        """
        began = time.monotonic()
        self.layouts.refuse_equal(self.observed)
        layouts = {
            state: self.layouts.layout(self.observed, place)
            for state, place in (("good", self.layouts.fix), ("bad", self.layouts.bad))
        }
        good = self.misses(result_of(self.play("good", layouts["good"])))
        moved = self.play("bad", layouts["bad"])
        result = result_of(moved)
        bad = self.misses(result)
        fields = blame(self._player, moved, result, self.place)
        found = judged(fields, self._owners, incident.right, self.layouts.inside)
        caught = is_caught(good, bad, found, self.rules.first)
        middle_time = time.monotonic()
        suggested, why_none = self._suggested(moved)
        return CountedRow(
            workload=play.workload,
            good=good,
            bad=bad,
            costs_more=costs_more(good, bad),
            better=all(one < other for one, other in zip(good, bad, strict=True)),
            first=found.fields[: self.rules.first],
            rank=found.rank,
            caught=caught,
            after=play.after,
            suggested=suggested,
            why="" if caught else why_missed(good, bad, found, self.rules.first),
            no_suggestion=why_none,
            seconds=(round(middle_time - began, 1), round(time.monotonic() - middle_time, 1)),
        )

    def _suggested(self, moved: Observed) -> tuple[tuple[int, ...], str]:
        """The misses with the order that a search finds from the bad layout; why there is none.

        Args:
            moved: the guests with the bad layout.
        """
        if self.layouts.inside:
            return (), "the structure is inside of another one, which is not searched"
        try:
            layout = self._searched(moved)
            if layout is None:
                return (), "the search finds no better order"
            misses = self.misses(result_of(self.play("suggested", layout)))
        except SchedlineError as error:
            return (), error.observed.splitlines()[0]
        return misses, ""

    def _searched(self, moved: Observed) -> StructureLayout | None:
        """A better order of the members, for the trace; None if there is none."""
        tag, bad = self.layouts.tag, self.layouts.bad
        known = self.observed.known.structures[tag]
        structure = _movable(self.layouts, bad, moved)
        before, places = self.layouts.traced.places(tag, ""), bad.places(tag, "")
        line = structure.line
        size = max(structure.offsets(structure.start, line)[1], self.layouts.fix.size(tag))
        objective = Objective({line: 1.0}, PRICE, -(-size // line) * line)
        there = {path: place.offset for path, place in before.items()}
        with LineCosts(self.programs.lines, [self.observed], structure, self.place, there) as costs:
            search = Search(structure, costs, objective, lambda _: True)
            found = search.best(self.rules.restarts, 1, lambda _: None)
        if found == structure.start:
            return None
        offsets = structure.members(found, line)
        after = {path: replace(place, offset=offsets.get(path, place.offset)) for path, place in places.items()}
        align = max(self.layouts.layout(self.observed, bad).align, structure.alignment(found, line))
        return layout_in_trace(known, before, after, structure.offsets(found, line)[1], align)


def _movable(layouts: IncidentLayouts, state: PlacedState, moved: Observed) -> Movable:
    """What of a structure can be moved.

    Raises:
        SchedlineError: its source does not explain its layout.
    """
    tag = layouts.tag
    fields = moved.known.structures[tag].fields
    body = body_of(state.text, tag, layouts.file)
    return movable(state.structures[tag], fields, body, LINES[0], pinned_of(tag))


def counted_or_why(play: Played, count: Callable[[], CountedRow]) -> CountedRow:
    """The row, or one that says why it could not be played."""
    try:
        return count()
    except SchedlineError as error:
        return CountedRow(
            workload=play.workload,
            good=(),
            bad=(),
            costs_more=False,
            better=False,
            first=(),
            rank=0,
            caught=False,
            after=play.after,
            suggested=(),
            why=f"{NOT_PLAYED}: {error.observed.splitlines()[0]}",
            no_suggestion="",
            seconds=(0.0, 0.0),
        )


def costs_more(good: Sequence[int], bad: Sequence[int]) -> bool:
    """Whether the middle of the bad counts is larger by more than the spread of the quanta in each layout."""
    spread = max(max(good) - min(good), max(bad) - min(bad))
    return middle(bad) - middle(good) > spread


@dataclass(frozen=True)
class BlamedMembers:
    """The fields to blame that save misses.

    Attributes:
        fields: those of the structure's objects.
        rank: of the first right one among these; 0 if there is none.
    """

    fields: tuple[str, ...]
    rank: int


def judged(blamed: Sequence[BlamedField], owners: Sequence[str], right: Sequence[str], inside: str) -> BlamedMembers:
    """Where the right members stand in a list of fields to blame.

    Args:
        owners: the objects of the structure.
        right: members of the incident's structure.
        inside: the path to it.
    """
    worth = [each.field for each in blamed if middle(each.saved) > 0]
    starts = tuple(f"{owner}." for owner in owners)
    # What a pointer leads to is no member: its path begins with a star.
    own = [name for name in worth if name.startswith(starts) and ".*" not in name]
    wanted = [f"{inside}.{member}" if inside else member for member in right]
    # All elements of an array have one name.
    wanted = [path.replace("[0]", "[]") for path in wanted]
    is_right = {name for name in own if any(is_part(name.partition(".")[2], path) for path in wanted)}
    return BlamedMembers(tuple(own), next((number for number, name in enumerate(own, 1) if name in is_right), 0))


def is_caught(good: Sequence[int], bad: Sequence[int], found: BlamedMembers, first: int) -> bool:
    """Whether the rules say that the counts catch an incident."""
    return costs_more(good, bad) and 1 <= found.rank <= first


def why_missed(good: Sequence[int], bad: Sequence[int], found: BlamedMembers, first: int) -> str:
    """Why counts do not catch an incident."""
    if middle(bad) <= middle(good):
        return "the bad layout has no more misses in this workload"
    if not costs_more(good, bad):
        return "what it costs is within the spread of the quanta"
    if not found.fields:
        return "its objects have too few misses to blame a field of them"
    if not found.rank:
        return "another member is named"
    return f"the right member is number {found.rank}" if found.rank > first else ""
