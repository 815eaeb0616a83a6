# SPDX-License-Identifier: GPL-2.0
"""What b4 expects of a check (b4.review-perpatch-check-cmd, b4.review-series-check-cmd), since 0.15: a JSON array."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.strict import Strict, Word

CheckStatus = Literal["pass", "warn", "fail"]


class CheckRemark(Strict, frozen=True):
    """One line of the details, which b4 shows with its mark."""

    status: CheckStatus
    description: Word


class B4Check(Strict, frozen=True):
    """The result of one tool on a patch or a series. `details`: a JSON array of CheckRemark, or text."""

    tool: Word
    status: CheckStatus
    summary: Word
    details: str = ""


def checks_text(checks: Sequence[B4Check]) -> str:
    """The array. An empty one means that there is nothing to say."""
    return msgspec.json.format(msgspec.json.encode(list(checks)), indent=2).decode()


class _TrackedSeries(msgspec.Struct, frozen=True, rename="kebab"):
    change_id: str
    first_patch_commit: str


class _Tracking(msgspec.Struct, frozen=True):
    series: _TrackedSeries


def tracked_range() -> tuple[str, str]:
    """Base and last patch of the series under review, which b4 names in the file $B4_TRACKING_FILE.

    Raises SchedlineError: b4 gives no such file, or it is none of b4's.
    """
    name = os.environ.get("B4_TRACKING_FILE", "")
    advice = "check the series out for review (b4 review), or give --base"
    if not name:
        raise SchedlineError("--format b4 without --base takes the series from b4, which names none", advice)
    try:
        series = msgspec.json.decode(Path(name).read_bytes(), type=_Tracking).series
    except (OSError, msgspec.DecodeError) as error:
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, cannot be used: {error}", advice) from error
    if not re.fullmatch("[0-9a-f]{7,64}", series.first_patch_commit) or series.change_id.startswith("-"):
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, names no commits", advice)
    # The last commit of a review branch holds b4's own notes.
    return f"{series.first_patch_commit}~1", f"b4/review/{series.change_id}~1"


def with_remarks(tool: str, summary: str, remarks: Sequence[CheckRemark]) -> B4Check:
    """A result that is as bad as the worst of its remarks."""
    order: tuple[CheckStatus, ...] = ("pass", "warn", "fail")
    worst = order[max((order.index(remark.status) for remark in remarks), default=0)]
    return B4Check(tool, worst, summary, msgspec.json.encode(list(remarks)).decode())
