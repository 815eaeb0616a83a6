# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline dev mutants`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions

EMULATED = "c2c"
"""For --on: count the cache-line traffic of mutants whose Traffic header says what has to rise."""


@dataclass(frozen=True)
class MutantsOptions:
    """Which mutants are tried, and where.

    Attributes:
        on: a target, or EMULATED.
        from_: a directory with the user's own diffs.
        only: a glob for <change>/<slug>.
    """

    tree: TreeOptions
    on: str | None
    from_: Path | None
    only: str | None
    json: Path | None
