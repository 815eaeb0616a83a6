# SPDX-License-Identifier: GPL-2.0
"""An incident by the counts of a real workload: a kernel is built, and a guest boots for each quantum."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from schedlib.cache import cache_dir
from schedlib.formats.retrodict_document import RetrodictDocument
from schedlib.main import main

pytestmark = [pytest.mark.guest, pytest.mark.long]


def test_an_incident_is_counted(tmp_path: Path) -> None:
    words = ["dev", "retrodict", "--counts", "--only", "dentry-lockref"]
    kept = []
    for name in ("one.json", "two.json"):
        assert main([*words, "--json", str(tmp_path / name)]) in (0, 1)
        traces = (cache_dir() / "retrodict" / "traces").glob("files-*.trace")
        kept.append({path: path.stat().st_mtime_ns for path in traces})
    assert kept[0] and kept[0] == kept[1]
    # The second run has played nothing, and taken no trace.
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    found = msgspec.json.decode((tmp_path / "one.json").read_bytes(), type=RetrodictDocument)
    [row] = found.incidents
    assert row.counted and not row.counted.why.startswith("not played")
    assert len(row.counted.bad) == len(row.counted.good) == 3 and min(row.counted.good) > 0
