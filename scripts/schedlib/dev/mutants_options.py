# SPDX-License-Identifier: GPL-2.0
"""What `schedline dev mutants` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions

EMULATED = "c2c"
"""--on: the cache-line traffic of a mutant is counted, where its Traffic header says what has to rise."""


@dataclass(frozen=True)
class MutantsOptions:
    """Which mutants are tried, and where.

    Attributes:
        on: a target, or EMULATED.
        from_: a directory with diffs of the user's own.
        only: a glob for <change>/<slug>.
    """

    tree: TreeOptions
    on: str | None
    from_: Path | None
    only: str | None
    json: Path | None
