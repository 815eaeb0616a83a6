# SPDX-License-Identifier: GPL-2.0
"""The page of `schedline layout drift` as people see it: in headless Chromium, light and dark, wide and narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from test_report_browser import CONTRASTS

from browser import Browser
from schedlib.formats.layout_drift_document import (
    DriftCell,
    DriftFinding,
    DriftKernel,
    DriftKind,
    DriftMove,
    LayoutDriftDocument,
)
from schedlib.layout.drift_page import page
from schedlib.layout.drift_report import rows, text
from schedlib.verdict import Verdict

HUNK = (
    "--- include/net/sock.h\n+++ include/net/sock.h\n@@ -400,2 +400,3 @@\n \tint old;\n-\tint gone;\n+\tint <b>new</b>;"
)


def finding(kind: DriftKind, *columns: str, contract: str = "sock", hunk: str = HUNK) -> DriftFinding:
    members = ("sk_backlog", "sk_<i>drops", "sk_rcvbuf", "sk_filter")
    words = "all lie entirely on one line; not so sk_backlog (line 5). Why: each packet takes them"
    return DriftFinding(
        kind, contract, "6.12", "7.3", columns, (f"{contract}.G1",), members, ("tcp_recvmsg",), words, hunk
    )


def cell(contract: str, column: str, kernel: str, passed: int, failed: int = 0) -> DriftCell:
    ids = [f"{contract}.G{number}" for number in range(1, 9)]
    return DriftCell(contract, column, kernel, 64, 760, tuple(ids[failed : failed + passed]), tuple(ids[:failed]), ())


def drifted() -> LayoutDriftDocument:
    """Something of every kind."""
    columns = ("x86_64", "arm64")
    broken = finding(DriftKind.BROKEN, "x86_64")
    others = [finding(kind, *columns) for kind in DriftKind if not kind.is_red]
    cells = [
        cell(name, column, kernel, 3) for name in ("quiet", "file") for column in columns for kernel in ("6.12", "7.3")
    ]
    cells += [cell("sock", "x86_64", "6.12", 3), cell("sock", "x86_64", "7.3", 2, 1)]
    cells += [cell("sock", "arm64", "6.12", 3), cell("sock", "arm64", "7.3", 3)]
    return LayoutDriftDocument(
        schema="layout-drift-1",
        tool="schedline",
        started=datetime(2026, 11, 24, tzinfo=UTC),
        command="schedline layout drift 6.12 7.3 --arch x86_64,arm64 --html " + "x" * 90 + ".html",
        fingerprint={"machine": "x86_64", "compiler x86_64": "gcc 12"},
        status=Verdict.FAIL,
        kernels=(
            DriftKernel("6.12", "linux-source-6.12", "0" * 40, ()),
            DriftKernel("7.3", "tree", "1" * 40, ("note",)),
        ),
        cells=tuple(cells),
        findings=(broken, *others),
        moves=(DriftMove("sock", "6.12", "7.3", columns, "sk_backlog", 3, 5, True),),
    )


def test_rows() -> None:
    """Columns that show the same share a row."""
    table = {(row.contract, row.where): row for row in rows(drifted())}
    assert set(table) == {("quiet", "all"), ("file", "all"), ("sock", "x86_64"), ("sock", "arm64")}
    assert [state.text for state in table["sock", "x86_64"].states] == ["3 pass", "FAIL G1, 2 pass"]
    assert [state.name for state in table["sock", "x86_64"].states] == ["", "FAIL"]
    assert table["sock", "arm64"].states[1].name == "INCONCLUSIVE"
    assert table["file", "all"].is_quiet and not table["sock", "arm64"].is_quiet


def test_text_has_100_columns() -> None:
    lines = list(text(drifted()))
    assert max(map(len, lines)) <= 100 and lines[-1] == "verdict: FAIL"
    assert "nothing to look at in 2 contracts: quiet, file" in lines


def test_what_sources_say_is_escaped() -> None:
    html = page(drifted())
    assert "<b>new" not in html and "&lt;b&gt;new" in html and "sk_<i>drops" not in html
    assert "<script" not in html and html.count("default-src 'none'") == 1


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (schedline doctor)")
    place = tmp_path_factory.mktemp("drift")
    (place / "drift.html").write_text(page(drifted()))
    with Browser(program, place / "profile") as browser:
        yield browser, place / "drift.html"


@pytest.mark.tools
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1200, 400])
def test_page_is_good_to_look_at(shown: tuple[Browser, Path], width: int, dark: bool) -> None:
    browser, file = shown
    browser.open(file, width, dark=dark)
    assert browser.ask("document.documentElement.scrollWidth") <= width
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    low = [row for row in browser.ask(CONTRASTS) if row[2] < 4.5]
    assert low == []
    links = browser.ask("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert links and all(browser.ask(f"document.querySelector({each!r}) !== null") for each in links)
    told = [event for event in browser.events if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
    assert told == []
