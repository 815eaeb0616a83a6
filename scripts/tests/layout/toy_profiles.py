# SPDX-License-Identifier: GPL-2.0
"""Profiles of struct root_domain that tests put together by hand."""

from __future__ import annotations

from toy_results import result

from schedlib.contracts.measured import Profile
from schedlib.formats.c2c_document import AccessKind, Counts, TrafficRow

Rows = tuple[TrafficRow, ...]


def row(path: str, accesses: int, kind: AccessKind = "load", function: str = "f", essential: int = 0) -> TrafficRow:
    """The accesses of one function to one field; `essential` of them fetched what another CPU had written."""
    counts = Counts(accesses=accesses, hits=accesses - essential, hitm_llc=essential, essential=essential)
    return TrafficRow("root_domain", "", 0, len(path), path, False, 4, kind, function, counts)


def profile(*quanta: Rows) -> Profile:
    """A profile of one guest for each tuple of rows."""
    return Profile(result(*quanta), "root_domain", "c2c.json")
