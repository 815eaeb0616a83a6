# SPDX-License-Identifier: GPL-2.0
"""What b4 expects of a check (b4.review-perpatch-check-cmd, b4.review-series-check-cmd), since 0.15: a JSON array."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from schedlib.errors import SchedlineError

_ORDER = ("pass", "warn", "fail")

CheckRemark = tuple[Literal["pass", "warn", "fail"], str]
"""One line of the details, which b4 shows with its mark."""


def checks_text(checks: Iterable[tuple[str, str, Sequence[CheckRemark]]]) -> str:
    """The array, from tool, summary and remarks of each result, which is as bad as the worst of its remarks."""
    rows = []
    for tool, summary, remarks in checks:
        status = max((status for status, _ in remarks), key=_ORDER.index, default="pass")
        details = [{"status": status, "description": said} for status, said in remarks]
        shown = json.dumps(details, ensure_ascii=False, separators=(",", ":"))
        rows.append({"tool": tool, "status": status, "summary": summary, "details": shown})
    return json.dumps(rows, indent=2, ensure_ascii=False)


def tracked_range() -> tuple[str, str]:
    """Base and last patch of the series under review, which b4 names in the file $B4_TRACKING_FILE.

    Raises SchedlineError: b4 gives no such file, or it is none of b4's.
    """
    name = os.environ.get("B4_TRACKING_FILE", "")
    advice = "check the series out for review (b4 review), or give --base"
    if not name:
        raise SchedlineError("--format b4 without --base takes the series from b4, which names none", advice)
    try:
        series = json.loads(Path(name).read_bytes())["series"]
        first, change = str(series["first-patch-commit"]), str(series["change-id"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, cannot be used: {error!r}", advice) from error
    if not re.fullmatch("[0-9a-f]{7,64}", first) or change.startswith("-"):
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, names no commits", advice)
    # The last commit of a review branch holds b4's own notes.
    return f"{first}~1", f"b4/review/{change}~1"
