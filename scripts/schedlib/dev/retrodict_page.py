# SPDX-License-Identifier: GPL-2.0
"""docs/results/retrodiction.md: what would have been said of incidents, and what is said of quiet changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlib.dev.retrodict_counts_page import by_contract, count_numbers, count_part, share
from schedlib.formats.incident_file import Incident
from schedlib.formats.retrodict_document import QuietRow, RetrodictDocument, RetrodictRow

_SHOWN = 8
"""Words of a finding that the page shows."""

_ROWS = 4
"""Rows of a piece that the page shows."""


def page(found: RetrodictDocument, incidents: Sequence[Incident], today: str) -> Iterator[str]:
    """docs/results/retrodiction.md."""
    rows = [row for row in found.incidents if not row.own]
    own = [row for row in found.incidents if row.own]
    facts = {each.name: each for each in incidents}
    blind = [row for row in rows if row.blind]
    missed = [row for row in rows if not row.caught]
    later = [row for row in rows if row.after]
    measured = f"Measured {today}. Kernel: {found.tree}, x86_64+packs. Compiler: {found.compiler}. QEMU: none."
    yield "# Would it have been caught?"
    yield ""
    yield "```sh"
    more = f"{' --quiet' if found.quiet else ''}{' --counts' if found.replay else ''}"
    yield f"schedline dev retrodict{more} --out retrodiction.md --json retrodict.json"
    yield "```"
    yield ""
    yield f"Layout incidents of the kernel, from `configs/incidents/`, by rules of {found.rules} that were fixed before"
    yield "the first run: `configs/incidents-rules.toml`. This page is made by the command."
    yield ""
    yield "## The numbers"
    yield ""
    yield measured
    yield "Seconds are wall time. Nothing kept other work off the machine, so they are upper limits."
    yield ""
    yield "| what | number |"
    yield "|---|---|"
    yield from _quiet_number(found.quiet)
    yield f"| caught by the derived contract | {share(sum(by_contract(row) for row in rows), len(rows))} |"
    yield f"| of these, blind incidents | {_of(blind)} |"
    yield f"| the others | {_of([row for row in rows if not row.blind])} |"
    if own:
        yield f"| our own changes, apart | {_of(own)} |"
    yield f"| complaints of a fix | {sum(not row.silent for row in rows)} |"
    yield f"| noticed by today's contracts, blind incidents | {sum(bool(row.packs) for row in blind)} of {len(blind)} |"
    others = [row for row in rows if not row.blind]
    yield f"| noticed by today's contracts, the others | {sum(bool(row.packs) for row in others)} of {len(others)} |"
    times = sorted(row.seconds[0] for row in rows)
    yield f"| seconds for the derived contract, middle and most | {times[len(times) // 2]}, {times[-1]} |"
    if found.replay:
        yield from count_numbers(found.incidents)
    yield ""
    yield "Who accessed a member was written down by somebody who knew the fix, also of blind incidents. So the number"
    yield "says that the check works if the accesses are known, and not that somebody would have known them. A latent"
    yield "layout was never good: caught means that a contract of it has an open finding. Where a complaint names many"
    yield f"members, to name the right one proves little.{_left_out(found)}"
    if found.replay:
        yield ""
        yield "The counts are of all accesses, and know no fix. But somebody who knew it has chosen the workload."
    yield ""
    yield "## Incident by incident"
    yield ""
    yield measured
    yield ""
    heads = ("incident", "structure", "commit", "measured then", "kind", "blind", "caught", "said", "today's contracts")
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in found.incidents:
        said = "; ".join(_short(text) for text in row.said) or "nothing"
        cells = [row.name, f"`{row.struct}`", row.commit or "none", facts[row.name].measured, row.kind]
        cells += [
            "ours" if row.own else "yes" if row.blind else "no",
            "later" if row.after else "yes" if row.caught else "no",
            said,
            ", ".join(row.packs) or "nothing",
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "## Misses"
    yield ""
    yield from (f"- `{row.name}`: {row.why}." for row in missed)
    yield from (f"- `{row.name}`, in the first run: {row.after}." for row in later)
    if not missed and not later:
        yield "None."
    yield ""
    caught = ", ".join(f"`{row.name}`" for row in later if row.caught)
    loud = ", ".join(f"`{row.name}`" for row in rows if not row.silent)
    yield f"The contract complains of the fix, too: {loud or 'none'}."
    yield ""
    yield f"Caught after the fact, when that was mended, and not in the numbers: {caught or 'none'}."

    if found.replay:
        yield ""
        yield from count_part(found.incidents, found.replay, today, found.tree)
    if found.quiet:
        yield ""
        yield from _quiet_part(found.quiet, measured)


def _left_out(found: RetrodictDocument) -> str:
    """What was not asked for."""
    parts = [
        *([] if found.replay else ["no traffic was counted"]),
        *([] if found.quiet else ["no quiet changes were tried"]),
    ]
    return f" {' and '.join(parts).capitalize()}." if parts else ""


def _short(text: str) -> str:
    """The first members of a finding, and how many more it names."""
    words = text.split()
    return f"{' '.join(words[:_SHOWN])} and {len(words) - _SHOWN} more" if len(words) > _SHOWN else text


def _of(rows: Sequence[RetrodictRow]) -> str:
    return f"{sum(map(by_contract, rows))} of {len(rows)}"


@dataclass(frozen=True)
class _Quiet:
    """Quiet changes, counted."""

    rows: Sequence[QuietRow]

    @property
    def counted(self) -> list[QuietRow]:
        """Those for which a rule held before."""
        return [row for row in self.rows if row.judged]

    @property
    def false(self) -> list[QuietRow]:
        """Those with a false alarm."""
        return [row for row in self.counted if any(each.is_ == "false" for each in row.alarms)]

    @property
    def share(self) -> str:
        """The false alarms, with the interval of 95 % of their share."""
        false, number = len(self.false), len(self.counted)
        if not number:
            return "nothing was counted"
        return share(false, number)


def _quiet_number(rows: Sequence[QuietRow]) -> Iterator[str]:
    if rows:
        yield f"| false alarms of today's contracts, of quiet changes | {_Quiet(rows).share} |"


def _quiet_part(rows: Sequence[QuietRow], measured: str) -> Iterator[str]:
    """The quiet changes: how many, and each alarm."""
    quiet = _Quiet(rows)
    counted, false = quiet.counted, quiet.false
    pairs = list(dict.fromkeys((row.older, row.newer) for row in rows))
    newest = pairs[-1][1]
    apart = sum(all(each.holds_later for each in row.alarms if each.is_ == "false") for row in false)
    yield "## Quiet changes"
    yield ""
    yield "Pieces of the differences between Debian's kernels in structures that have a contract. Nobody is known to"
    yield "have complained of them. A piece counts if a rule about its structure held before it. Intervals are of 95 %"
    yield "(Wilson 1927)."
    yield ""
    yield measured.replace(
        "x86_64+packs", f"and those of {', '.join(dict.fromkeys(row.older for row in rows))}, x86_64+packs"
    )
    yield ""
    yield f"| what | {' | '.join(f'{older} to {newer}' for older, newer in pairs)} | all |"
    yield f"|---|{'---|' * len(pairs)}---|"

    def line(what: str, chosen: Sequence[QuietRow]) -> str:
        numbers = [sum((row.older, row.newer) == pair for row in chosen) for pair in pairs]
        return f"| {what} | {' | '.join(map(str, numbers))} | {len(chosen)} |"

    undone = [row for row in counted if row.tried == "undone"]
    yield line("pieces", rows)
    yield line("compile neither way", [row for row in rows if row.tried == "no"])
    yield line("no rule held before", [row for row in rows if row.tried != "no" and not row.judged])
    yield line("counted", counted)
    yield line("of these, undone in the newer kernel", undone)
    yield line("alarms", [row for row in counted if row.alarms])
    yield line("false alarms", false)
    yield line("ask to correct a contract: a member is gone", [row for row in counted if row.asks and not row.alarms])
    yield ""
    yield f"False alarms: {quiet.share}. Of these, {apart} are of a part of a change: with all pieces of the"
    yield "newer kernel the rules hold."
    at_end = sum(row.newer == newest for row in undone)
    yield f"In {newest} all rules hold, so the {at_end} pieces that were undone there could not alarm."
    without = _Quiet([row for row in counted if not (row.tried == "undone" and row.newer == newest)])
    yield f"Without them: {without.share}."
    yield ""
    yield "### Each alarm"
    yield ""
    yield "`Holds later`: the rule holds in the newer kernel, which has all pieces."
    yield ""
    yield "| structure | from, to | piece | rule | complaint names | holds later | is | rule's reason |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in counted:
        for each in row.alarms:
            later = "yes" if each.holds_later else "no"
            names = _short(" ".join(each.names))
            is_ = {"false": "false alarm", "mended": "finding: mended later", "incident": "finding: an incident"}[
                each.is_
            ]
            cells = [
                f"`{row.struct}`",
                f"{row.older}, {row.newer}",
                _piece(row.lines),
                each.rule,
                names,
                later,
                is_,
                each.why,
            ]
            yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _piece(lines: Sequence[str]) -> str:
    """The first rows of a piece."""
    shown = "; ".join(f"`{line}`" for line in lines[:_ROWS])
    return f"{shown} and {len(lines) - _ROWS} more" if len(lines) > _ROWS else shown
