# SPDX-License-Identifier: GPL-2.0
"""Select what may be compared: the same machine and settings, and boots that take turns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schedlib.errors import SchedlineError
from schedlib.gate.boots import Boot, Side

_LEAD = 2
"""How many boots one kernel may be ahead of the other. ABBA and random pairs stay within it."""


@dataclass(frozen=True)
class Batch:
    """Boots of both kernels that were measured in turn."""

    base: tuple[Boot, ...]
    candidate: tuple[Boot, ...]

    @property
    def smaller(self) -> int:
        """The number of boots of the kernel that has fewer."""
        return min(len(self.base), len(self.candidate))

    def first(self, boots: int) -> Batch:
        """The first boots of each kernel."""
        return Batch(self.base[:boots], self.candidate[:boots])

    def order(self) -> str:
        """The kernels in the order of their boots: A is the base, B the candidate."""
        kinds = [(boot.started, "A") for boot in self.base] + [(boot.started, "B") for boot in self.candidate]
        return "".join(kind for _, kind in sorted(kinds))


def refuse_differences(sides: Sequence[Side], may_differ: Collection[str]) -> None:
    """Reject fingerprints that differ: within a side in anything, between sides in anything but `may_differ`.

    Raises:
        SchedlineError: an entry differs, or a boot is on two sides.
    """
    for name in sorted({name for side in sides for name in side.fingerprint}):
        found = [side.fingerprint.get(name, frozenset()) for side in sides]
        for side, values in zip(sides, found, strict=True):
            if len(values) > 1:
                raise SchedlineError(
                    f"{side.name} mixes runs whose {name} differs: {_shown(values)}",
                    "keep the runs of one machine, kernel and setting in a directory",
                )
        plain, _, tool = name.partition(" of ")
        given = [values for values in found if values or not tool]
        common = {each for values in found for each in values}
        if plain not in may_differ and len(set(given)) > 1:
            raise SchedlineError(
                f"{name} differs between {' and '.join(side.name for side in sides)}: {_shown(common)}; "
                "the difference would look like an effect of the kernel",
                f'measure both alike; if you compare this on purpose: may_differ = [..., "{plain}"] in the gates file',
            )
    for place, one in enumerate(sides):
        for other in sides[place + 1 :]:
            if both := sorted({boot.id for boot in one.boots} & {boot.id for boot in other.boots}):
                raise SchedlineError(
                    f"boot {both[0]} is in {one.name} and in {other.name}; a boot belongs to one kernel and one batch",
                    "move its runs to where they belong",
                )


def _shown(values: frozenset[str] | set[str]) -> str:
    return " / ".join(repr(each) for each in sorted(values)[:3])


def order_problem(batch: Batch) -> str:
    """Why a drift of the machine could look like a difference of the kernels; empty if it could not."""
    lead = furthest = 0
    for kind in batch.order():
        lead += 1 if kind == "A" else -1
        furthest = max(furthest, abs(lead))
    allowed = _LEAD + abs(len(batch.base) - len(batch.candidate))
    ahead = f"one kernel was booted {furthest} times more than the other at some point"
    return f"{ahead}, so a drift could look like a change" if furthest > allowed else ""


def order_weakness(batch: Batch) -> str:
    """What an order of boots that repeats itself cannot tell from a change; empty if there is nothing."""
    order = batch.order()
    for period, which in ((2, "second"), (4, "fourth")):
        if len(order) > 2 * period and all(one == other for one, other in zip(order, order[period:], strict=False)):
            return (
                f"the boots go {order[:4]} all the time: what happens at every {which} boot would look like a change. "
                "`schedline gate plan` draws an order by lot"
            )
    return ""
