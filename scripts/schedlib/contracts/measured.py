# SPDX-License-Identifier: GPL-2.0
"""What a profile (a result of schedline c2c) says of a structure: how each member is used, and whether a contract fits.

The rule that decides is measured_class() and FITS. Its thresholds are shares of accesses, the same for every structure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedlib.formats.c2c_document import TrafficResult, TrafficRow
from schedlib.formats.contract_file import AccessClass, Contract, MemberGroup, each_name
from schedlib.verdict import Verdict

LEAST = 1000
"""Accesses. Of fewer nothing is said."""

WRITTEN = 0.05
"""Of the accesses. Members that are written more often are not read-mostly."""

FROM_OTHERS = 0.25
"""Of the reads, or of the writes: so many fetched what another CPU had written. Then other CPUs read, or write, too."""

COLD = 0.01
"""Of the accesses to the whole structure. Members with fewer are cold."""

NAMED = 0.05
"""Of the accesses to a group. A function that makes more of them has to be among its readers or writers."""

FITS: Mapping[AccessClass, tuple[AccessClass, ...]] = {
    AccessClass.COLD: (AccessClass.COLD,),
    AccessClass.READ_MOSTLY: (AccessClass.COLD, AccessClass.READ_MOSTLY),
    AccessClass.OWNER: (AccessClass.COLD, AccessClass.READ_MOSTLY, AccessClass.OWNER),
    AccessClass.PUBLISHED: (AccessClass.COLD, AccessClass.READ_MOSTLY, AccessClass.OWNER, AccessClass.PUBLISHED),
    AccessClass.SHARED: tuple(AccessClass),
    AccessClass.LOCK: tuple(AccessClass),
}
"""What may be measured of each declared class: no more traffic than the contract says. Less is no contradiction."""


@dataclass(frozen=True)
class Use:
    """How often each function read and wrote some members in one guest. An atomic operation counts as a write.

    Those are fetched that missed, and fetched what another CPU had written.
    """

    readers: Counter[str]
    writers: Counter[str]
    fetched_reads: int
    fetched_writes: int

    @property
    def reads(self) -> int:
        return self.readers.total()

    @property
    def writes(self) -> int:
        return self.writers.total()

    @property
    def accesses(self) -> int:
        return self.reads + self.writes


def _use(rows: Iterable[TrafficRow]) -> Use:
    counted: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    fetched = Counter[bool]()
    for row in rows:
        is_write = row.kind != "load"
        counted[is_write][row.function.partition(".")[0]] += row.counts.accesses
        fetched[is_write] += row.counts.essential
    return Use(counted[False], counted[True], fetched[False], fetched[True])


def _plain(path: str) -> str:
    return re.sub(r"\[\d*\]", "", path)


class Profile:
    """The accesses to one structure, by member and guest; `about` says in words what was measured."""

    def __init__(self, result: TrafficResult, struct: str, name: str) -> None:
        self.struct = struct
        what = result.parameters
        # The build id: a vmlinux that was measured can be found again.
        kernel = result.fingerprint["build_id"][:12]
        self.about = f"{name}: {what.workload} on {what.cpus} CPUs, {what.on}, kernel {kernel}"
        self.watches = tuple(sorted({each.owner for each in result.watched}))
        # def_root_domain is a root_domain, too.
        owners = (struct, f"def_{struct}")
        self.is_watched = not set(owners).isdisjoint(self.watches)
        self._rows = [
            [row for row in each.rows if row.owner in owners and not row.prefix and not row.neighbour]
            for each in result.quanta
        ]
        self.wholes = tuple(_use(rows) for rows in self._rows)

    def uses(self, members: Sequence[str]) -> tuple[Use, ...]:
        """How some members were used, in each guest. A member stands for all that is inside of it."""
        wanted = {_plain(name) for name in each_name(tuple(members))}

        def is_of(path: str) -> bool:
            parts = _plain(path).split(".")
            return any(".".join(parts[:end]) in wanted for end in range(1, len(parts) + 1))

        return tuple(_use(row for row in rows if is_of(row.path)) for rows in self._rows)

    def members(self) -> tuple[str, ...]:
        """The direct members that were accessed, in order of their offset."""
        rows = sorted((row.offset, _plain(row.path).split(".")[0]) for rows in self._rows for row in rows)
        return tuple(dict.fromkeys(name for _, name in rows if name != "(hole)"))

    def classes(self, members: Sequence[str]) -> tuple[AccessClass | None, ...]:
        """What was measured of some members, in each guest; None if they were used too little to tell."""
        pairs = zip(self.uses(members), self.wholes, strict=True)
        return tuple(measured_class(use, whole.accesses) for use, whole in pairs)

    def agreed_class(self, members: Sequence[str]) -> AccessClass | None:
        """The same if all guests agree."""
        found = set(self.classes(members))
        return found.pop() if len(found) == 1 else None


def measured_class(use: Use, whole: int) -> AccessClass | None:
    """The class of members that are used so; None if they are used too little. `whole`: all accesses there."""
    if not use.accesses:
        return None
    if whole >= LEAST and use.accesses <= COLD * whole:
        return AccessClass.COLD
    if use.accesses < LEAST:
        return None
    if use.writes <= WRITTEN * use.accesses:
        return AccessClass.READ_MOSTLY
    if use.fetched_writes > FROM_OTHERS * use.writes:
        return AccessClass.SHARED
    return AccessClass.PUBLISHED if use.fetched_reads > FROM_OTHERS * use.reads else AccessClass.OWNER


@dataclass(frozen=True)
class CheckedGroup:
    """A group of a contract, held against its class in each guest, and its use in the one in the middle.

    FAIL if no guest fits, INCONCLUSIVE if some do not, which the text says, or if nothing can be said. The notes name
    functions that never came, and others that did.
    """

    group: MemberGroup
    measured: tuple[AccessClass | None, ...]
    use: Use
    verdict: Verdict
    text: str
    notes: tuple[str, ...]


def check_group(group: MemberGroup, profile: Profile) -> CheckedGroup:
    """Hold a group against a profile."""
    uses, measured = profile.uses(group.members), profile.classes(group.members)
    use = uses[len(uses) // 2]
    wrong = [each is not None and each not in FITS[group.class_] for each in measured]
    verdict = Verdict.FAIL if all(wrong) else Verdict.INCONCLUSIVE if any(wrong) or None in measured else Verdict.PASS
    text = ""
    if any(wrong):
        told = wrong.index(True)
        text = _misfit(group.class_, measured[told], uses[told], profile.wholes[told])
        if not all(wrong):
            text += f", in {sum(wrong)} of {len(wrong)} guests: count again with more --quanta"
    return CheckedGroup(group, measured, use, verdict, text, tuple(_notes(group, uses, use)))


def _misfit(declared: AccessClass, measured: AccessClass | None, use: Use, whole: Use) -> str:
    start = f"declared {declared.value}"
    if declared is AccessClass.COLD:
        share = percent(use.accesses, whole.accesses)
        return f"{start}, and {share} of all accesses to the structure are to it: {_most(use.readers + use.writers)}"
    if declared is AccessClass.READ_MOSTLY:
        share = percent(use.writes, use.accesses)
        return f"{start}, written {_most(use.writers)}: {share} of its {use.accesses:,} accesses"
    if measured is AccessClass.SHARED:
        share = percent(use.fetched_writes, use.writes)
        return f"{start}, and {share} of its {use.writes:,} writes fetched what another CPU wrote: {_most(use.writers)}"
    share = percent(use.fetched_reads, use.reads)
    return f"{start}, and {share} of its {use.reads:,} reads fetched what another CPU wrote: {_most(use.readers)}"


def _most(functions: Counter[str]) -> str:
    """How often, and by whom most: "4,113 times by enqueue_task()"."""
    [(name, count)] = functions.most_common(1)
    total = functions.total()
    return f"{total:,} times{f', {count:,} of them' if count < total else ''} by {name}()"


def percent(part: int, whole: int) -> str:
    """A share in words."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else "0 %"


def _notes(group: MemberGroup, uses: Sequence[Use], use: Use) -> Iterable[str]:
    for what, declared, counted in (("reader", group.readers, use.readers), ("writer", group.writers, use.writers)):
        # An atomic operation reads, too.
        came = {name for use in uses for name in ([*use.readers, *use.writers] if what == "reader" else use.writers)}
        if absent := [name for name in declared if name not in came]:
            yield f"declared {what}s that never came: {', '.join(absent)}"
        many = [(name, count) for name, count in counted.most_common() if count > NAMED * use.accesses >= NAMED * LEAST]
        if more := [f"{name}() {count:,}" for name, count in many if name not in declared]:
            yield f"{what}s that are not declared: {', '.join(more)}"


def ungrouped(contract: Contract, profile: Profile) -> tuple[str, ...]:
    """The members that are not cold and in no group."""
    held = {_plain(name).split(".")[0] for group in contract.group for name in group.names}
    cold = (None, AccessClass.COLD)
    return tuple(name for name in profile.members() if name not in held and profile.agreed_class([name]) not in cold)


def verdict_of(checked: Sequence[CheckedGroup]) -> Verdict:
    """FAIL if a class does not fit. PASS if at least one fits, and the guests agree on all that were used."""
    if any(each.verdict is Verdict.FAIL for each in checked):
        return Verdict.FAIL
    fits = any(each.verdict is Verdict.PASS for each in checked) and not any(each.text for each in checked)
    return Verdict.PASS if fits else Verdict.INCONCLUSIVE
