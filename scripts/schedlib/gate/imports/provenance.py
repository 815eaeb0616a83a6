# SPDX-License-Identifier: GPL-2.0
"""What a comparison may say of runs whose origin is not recorded in full."""

from __future__ import annotations

from dataclasses import replace

from schedlib.formats.run_file import NOT_RECORDED
from schedlib.gate.boots import Side
from schedlib.gate.comparison import Comparison
from schedlib.gate.imports.imported import BY_FILE_TIME
from schedlib.verdict import Verdict, worst


def qualified(found: Comparison, trust: bool = False) -> Comparison:
    """Add what the origin of the runs means for the verdict.

    Without `trust` a metric whose runs do not tell machine, kernel or settings is INCONCLUSIVE.
    """
    sides = [*found.sides, *([found.placebo] if found.placebo else [])]
    lacking = sorted({entry for side in sides for entry in _not_recorded(side)})
    of_one_boot = [side for side in sides if "run" in side.fingerprint.get("unit", ())]
    notes = found.notes
    if of_one_boot:
        counts = ", ".join(f"{side.name} {len(side.boots)}" for side in of_one_boot)
        notes += (
            f"WARNING: these are runs of one boot of each kernel, counted as boots: {counts}. What differs from boot "
            "to boot is not in them, and it can be larger than the change. Boot both kernels several times to see it",
        )
    if not lacking:
        return replace(found, notes=notes)
    names = ", ".join(lacking)
    if trust:
        return replace(found, notes=(*notes, f"trusted: {names} not recorded"))
    reason = f"not recorded: {names}. So nobody can see whether both sides differ in more than the kernel"
    rows = tuple(
        replace(row, verdict=Verdict.INCONCLUSIVE, reason=f"{row.reason}; {reason}" if row.reason else reason)
        if row.verdict in (Verdict.PASS, Verdict.FAIL)
        else row
        for row in found.rows
    )
    verdict = (
        Verdict.ERROR
        if found.verdict is Verdict.ERROR
        else worst([Verdict.INCONCLUSIVE, *(row.verdict for row in rows)])
    )
    notes += (f"{reason}. If you know that they do not, add --trust; the result will say so",)
    return replace(found, rows=rows, notes=notes, verdict=verdict)


def _not_recorded(side: Side) -> list[str]:
    untold = [entry for entry, values in side.fingerprint.items() if NOT_RECORDED in values]
    by_file = [entry for entry, values in side.fingerprint.items() if BY_FILE_TIME in values]
    return [*untold, *([] if "run" in side.fingerprint.get("unit", ()) else by_file)]
