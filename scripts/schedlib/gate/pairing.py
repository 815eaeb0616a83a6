# SPDX-License-Identifier: GPL-2.0
"""Select what may be compared: same machine and settings, boots that alternate, batches fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
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


@dataclass(frozen=True)
class Batches:
    """The first batch, and the confirmation if there is one. Later boots are not judged."""

    first: Batch
    confirm: Batch | None


def refuse_differences(sides: Sequence[Side], compared: frozenset[str]) -> None:
    """Reject fingerprints that differ: within a side in anything, between sides in anything but `compared`.

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
        if plain not in compared and len(set(given)) > 1:
            raise SchedlineError(
                f"{name} differs between {' and '.join(side.name for side in sides)}: {_shown(common)}; "
                "the difference would look like an effect of the kernel",
                f'measure both alike; if you compare this on purpose: compared = [..., "{plain}"] in the gates file',
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


def batches(sides: Sequence[Side], boots: int) -> Batches:
    """The first `boots` of each side are the first batch, the next `boots` the confirmation. Later ones do not count.

    Args:
        sides: base and candidate; and those of a separate confirmation, and then each batch has all its boots.

    Raises:
        SchedlineError: a boot of the confirmation is older than one of the first batch.
    """
    base, candidate = sides[:2]
    if len(sides) > 2:
        first, second = Batch(base.boots, candidate.boots), Batch(sides[2].boots, sides[3].boots)
        starts = [boot.started for boot in (*second.base, *second.candidate)]
        if starts and min(starts) <= max((boot.started for boot in (*first.base, *first.candidate)), default=0.0):
            raise SchedlineError(
                "the confirmation has a boot that is older than one of the first batch: it is not a new batch",
                "boot both kernels again, after the first batch, and give those runs to --confirm",
            )
        return Batches(first, second)
    first = Batch(base.boots[:boots], candidate.boots[:boots])
    second = Batch(base.boots[boots : 2 * boots], candidate.boots[boots : 2 * boots])
    return Batches(first, second if second.smaller >= boots else None)


def order_problem(batch: Batch) -> str:
    """Why a drift of the machine could look like a difference of the kernels; empty if it could not."""
    lead = furthest = 0
    ordered = sorted((boot.started, kind) for kind, side in ((1, batch.base), (-1, batch.candidate)) for boot in side)
    for _, kind in ordered:
        lead += kind
        furthest = max(furthest, abs(lead))
    allowed = _LEAD + abs(len(batch.base) - len(batch.candidate))
    ahead = f"one kernel was booted {furthest} times more than the other at some point"
    return f"{ahead}, so a drift could look like a change" if furthest > allowed else ""
