# SPDX-License-Identifier: GPL-2.0
"""The types of everything that is read from a file: immutable, and without unknown fields."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec

Word = Annotated[str, msgspec.Meta(min_length=1)]
"""A text that is not empty."""

Kind = Annotated[str, msgspec.Meta(pattern="^[a-z-]+$")]
Checksum = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]

METRIC = r"^[a-z0-9_]+(\.[a-z0-9_]+)*$(?!\n)"
MetricName = Annotated[str, msgspec.Meta(pattern=METRIC)]

MAXIMUM = re.compile(r"(^|[._])(max|maximum|worst|peak)([._]|$)")
"""In the name of a metric that is a maximum."""

Moment = Annotated[datetime, msgspec.Meta(tz=True, extra_json_schema={"pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]"})]

Number = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e15)]
"""A number that is not negative; neither NaN nor infinite."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a data file, or an object of a document."""


class Wrong(ValueError):
    """A value that has the right type but is not valid: why, and what to write instead."""

    def __init__(self, observed: str, next_step: str) -> None:
        super().__init__(observed)
        self.next_step = next_step


def repeated(names: Iterable[str]) -> str | None:
    """The first name that was there before; None if all are different."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def check_patterns(*patterns: str) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise Wrong(f"has {pattern!r}, which is no regular expression: {error}", "see Python's re") from error
