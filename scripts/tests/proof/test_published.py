# SPDX-License-Identifier: GPL-2.0
"""Published figures beside emulated counts: which fields are ranked, by what, and that the page has them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import toy_results
from msgspec import structs

from proof.published import (
    PUBLISHED,
    EmulatedAs,
    EmulatedTop,
    Published,
    PublishedLine,
    PublishedRow,
    agreement_of,
    all_published,
    emulated_top,
    page_row,
    read_published,
    totals_row,
)
from schedlib.c2c.c2c_options import WORKLOADS
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import AccessKind, Counts, TrafficRow
from schedlib.paths import PROJECT
from schedlib.tree.kernel_tree import Tree

EMULATED = EmulatedTop("d", "k", "c", "q", 8, (97, 100), {"a": (1, 2)}, {}, {})
LOADS: tuple[AccessKind, ...] = ("load",)
PAGE = PROJECT / "docs/results/changes.md"


def row(
    path: str, hitm: int, *, clean: int = 0, cold: int = 0, kind: AccessKind = "load", prefix: str = ""
) -> TrafficRow:
    """A row of root_domain: misses on lines that others had modified, had unmodified, or that nobody had."""
    counts = Counts(
        accesses=9, hitm_llc=hitm, clean_llc=clean, cold=cold, essential=hitm + clean + cold, false_shared=0
    )
    return TrafficRow("root_domain", prefix, 0, 0, path, False, 4, kind, "pull_rt_task", counts)


def published(**samples: int) -> Published:
    """An output with one line that has so many samples for each field."""
    whole = sum(samples.values())
    rows = tuple(PublishedRow(f"root_domain.{name}", 0.0, 100 * each / whole) for name, each in samples.items())
    line = PublishedLine("a line", 0, whole, rows)
    how = EmulatedAs("rt", ("root_domain",))
    texts: dict[str, Any] = dict.fromkeys(("name", "title", "source", "machine", "kernel", "ran"), "x")
    return Published(**texts, line=(line,), emulation=how, emulated=EMULATED)


def test_loads_and_atomic_operations_on_modified_lines_are_ranked() -> None:
    rows = (
        row("rto_count", 5, clean=70, cold=9),
        row("rto_count", 4, kind="rmw"),
        row("rto_count", 300, kind="store"),
        row("overloaded", 8, clean=2),
        row("*rto_mask", 900, prefix="*rto_mask"),
    )
    result = toy_results.result(rows, rows)
    base = published(rto_count=9, overloaded=8)
    assert emulated_top(base, result) == {"root_domain.rto_count": (9, 9), "root_domain.overloaded": (8, 8)}
    assert emulated_top(base, result, LOADS) == {"root_domain.rto_count": (5, 5), "root_domain.overloaded": (8, 8)}
    # A CPU that reports lines that others had unmodified, too.
    forwards = structs.replace(base, forwards=True)
    assert emulated_top(forwards, result) == {"root_domain.rto_count": (79, 79), "root_domain.overloaded": (10, 10)}


def test_figures_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    text = (PUBLISHED / "dentry-lockref.toml").read_text()
    for table in ({"fields": {"a": (1,)}}, {"fast": {"a": (1,)}}):
        with pytest.raises(ValueError, match="one count for each quantum"):
            structs.replace(published(a=1), emulated=structs.replace(EMULATED, **table))
    (tmp_path / "both.toml").write_text(re.sub("ranked = .*", "", text))
    with pytest.raises(SchedlineError, match="either lines with numbers or ranked fields"):
        read_published(tmp_path / "both.toml")


def test_published_figures_are_whole() -> None:
    assert len(all_published()) == 5
    for found in all_published():
        assert found.hitm(), found.name
        for line in found.line:
            for side in ("remote", "local"):
                whole = sum(getattr(row, side) for row in line.row)
                # Rows below a threshold are left out by perf or by the mail.
                assert whole <= 100.5 and (whole > 60 or not getattr(line, side)), (found.name, line.about)


def test_each_output_is_of_a_workload_that_there_is() -> None:
    for each in all_published():
        assert each.emulation.workload in WORKLOADS, each.name
        assert not each.emulation.layout or (PUBLISHED / f"{each.emulation.layout}.patch").is_file()
        assert set(each.emulation.gone) <= set(each.hitm())


def test_the_page_has_each_output() -> None:
    page = PAGE.read_text()
    for each in all_published():
        assert page_row(each) in page
        found = agreement_of(each, each.emulated.fields)
        # Each field on which the sides disagree has a reason, or is open by name.
        missing = [name for name in set(found.published) ^ set(found.emulated) if name not in each.differs]
        assert not missing and (found.agrees or each.differs), (each.name, missing)
    assert all(totals_row(all_published(), kind) in page for kind in ("fields", "loads", "fast"))


@pytest.mark.guest
@pytest.mark.long
@pytest.mark.parametrize("patch", sorted(PUBLISHED.glob("*.patch")), ids=lambda path: path.stem)
def test_the_members_of_then_apply(series: Tree, patch: Path) -> None:
    words = ["git", "apply", "--cached", "--check", str(patch)]
    done = subprocess.run(words, cwd=series.src, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
