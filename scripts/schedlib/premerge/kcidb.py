# SPDX-License-Identifier: GPL-2.0
"""The page for KernelCI's database: kcidb-io's schema 5.3, one checkout, one build for each part."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime

from schedlib.premerge.parts import Part
from schedlib.premerge.series import PatchSeries
from schedlib.verdict import Verdict

_ORIGIN = "schedline"

_STATUS = {
    Verdict.PASS: "PASS",
    Verdict.FAIL: "FAIL",
    Verdict.ERROR: "ERROR",
    Verdict.INCONCLUSIVE: "DONE",
    None: "SKIP",
}
"""DONE: the test ran, and neither passed nor failed."""


def document(started: datetime, series: PatchSeries, found: Sequence[Part]) -> dict[str, object]:
    """A submission. The series may not be public, so it is identified by the base and a hash of the patches."""
    hashes = "".join(f"{patch.sha256}\n" for patch in series.patches)
    patchset = hashlib.sha256(hashes.encode()).hexdigest()
    name = f"{_ORIGIN}:{series.base}+{patchset[:12]}"
    return {
        "version": {"major": 5, "minor": 3},
        "checkouts": [
            {
                "id": name,
                "origin": _ORIGIN,
                "git_commit_hash": series.base,
                "patchset_hash": patchset,
                "start_time": started.isoformat(),
                "valid": True,
                "comment": "; ".join(patch.subject for patch in series.patches)[:500],
            }
        ],
        "builds": [
            {"id": f"{name}-{part.name}", "origin": _ORIGIN, "checkout_id": name, "config_name": part.name}
            for part in found
        ],
        "tests": [
            {
                "id": f"{name}-{part.name}-{number}",
                "origin": _ORIGIN,
                "build_id": f"{name}-{part.name}",
                "path": ".".join((_ORIGIN, part.name, re.sub(r"[^a-zA-Z0-9_-]", "_", test))),
                "status": _STATUS[verdict],
                "comment": said[:500],
            }
            for part in found
            for number, (test, verdict, said) in enumerate(part.judged)
        ],
    }
