# SPDX-License-Identifier: GPL-2.0
"""The page and the maps of a result: full names, who reads and writes, nothing from elsewhere, good to look at."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from toy_results import FIELDS, result, row

from browser import Browser
from schedlib.c2c.c2c_page import hot_fields, page, picture, users
from schedlib.formats.c2c_document import Counts, Latencies, MappedField, TrafficResult

SPACE = "{http://www.w3.org/2000/svg}"
LONG = "cpupri.pri_to_cpu[0].a_long_name_of_a_count"
EVIL = "<script>alert(1)</script>&\"'\u202e"


def rich(name: str = LONG) -> TrafficResult:
    """A result with something in every part of the page."""
    fields = (*FIELDS, MappedField(44, 4, name, ""))
    writes = Counts(accesses=500, hits=100, upgrades=400, invalidated=900, hitm_llc=1, essential=1)
    rows = (
        row("rto_count", 4, 0, 1000),
        replace(row("overloaded", 40, 3000, 10), function="enqueue_top_rt_rq"),
        replace(row(name, 44, 20, 1000, kind="rmw"), function="cpupri_set", counts=writes),
        replace(row(name, 44, 700, 10), function=name),
        row("rto_mask", 64, 5, 5),
        row("nohz", -8, 7, 7, neighbour=True),
    )
    toy = result(rows, rows, rows)
    watched = tuple(replace(each, fields=fields if each.fields else ()) for each in toy.watched)
    latencies = Latencies("toy", f"machine {name}", "a page", "a message", llc=10.0, node=20.0, remote=30.0)
    chosen = replace(toy.parameters, workload=f"program {name}", topology="llcs")
    return replace(toy, watched=watched, latencies=latencies, parameters=chosen)


def test_a_map_has_full_names_and_who_reads_and_writes() -> None:
    root = ET.fromstring(picture(rich()))  # noqa: S314 - ours
    told = [each.text or "" for each in root.iter(f"{SPACE}text")]
    assert LONG in "".join(told).replace(" ", "")
    line = next(each for each in told if each.startswith(f"{LONG}: "))
    said = " ".join(told[told.index(line) : told.index(line) + 3])
    assert f"read by {LONG} (710 misses)" in " ".join(said.split())
    assert "written by cpupri_set (500 writes)" in " ".join(said.split())
    titles = [each.text or "" for each in root.iter(f"{SPACE}title")]
    own = next(each for each in titles if each.startswith(LONG)).splitlines()
    assert own[1:] == [f"read by {LONG} (710 misses)", "written by cpupri_set (500 writes)"]


def test_functions_without_a_miss_are_counted_and_not_named() -> None:
    rows = [replace(row("rto_count", 4, 0, number), function=f"f{number}") for number in (0, 3, 0, 5)]
    assert users(rows) == ["read by f5 (5 misses), f3 (3 misses), 1 others"]
    assert users(rows[:1]) == ["read by 1 functions, without misses"]
    many = [replace(row("rto_count", 4, 0, 9), function=f"g{number}") for number in range(6)]
    assert users(many)[0].endswith("g3 (9 misses), 2 others")


def test_a_cold_line_is_drawn_without_its_users() -> None:
    told = [each.text or "" for each in ET.fromstring(picture(rich())).iter(f"{SPACE}text")]  # noqa: S314
    assert "rto_mask" in told
    assert not any(each.startswith("rto_mask: ") for each in told)


def test_the_map_says_what_its_colours_mean() -> None:
    told = " ".join(each.text or "" for each in ET.fromstring(picture(rich())).iter(f"{SPACE}text"))  # noqa: S314
    assert "misses by pure false sharing, quantum 100" in told
    assert "A row is a cache line, a cell a field." in told


def test_a_cold_field_of_a_hot_line_is_not_told() -> None:
    counts = Counts.sum(each.counts for each in rich().quanta[0].rows if each.line == 0)
    rows = [each for each in rich().quanta[0].rows if each.line == 0]
    hot = [said.split(":")[0] for said in hot_fields(rows, counts)]
    assert hot == ["overloaded", "rto_count", LONG]
    few = row("rto_mask", 64, 5, 5)
    assert all("rto_mask" not in said for said in hot_fields([*rows, few], Counts.sum([counts, few.counts])))


def test_the_page_has_everything() -> None:
    text = page(rich())
    for wanted in (LONG, "Hot lines", "Fields", "Functions", "Where misses were answered", "Weighted misses", "a page"):
        assert wanted in text
    assert page(rich()) == text
    bare = page(replace(rich(), latencies=UNSET, parameters=replace(rich().parameters, topology="")))
    assert "Weighted misses" not in bare
    assert "Where misses were answered" not in bare
    assert "No line has a miss" in page(result((row("rto_count", 4, 0, 0),)))


def test_hostile_names_stay_text() -> None:
    text = page(rich(EVIL))
    assert "<script" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script" not in picture(rich(EVIL))
    ET.fromstring(picture(rich(EVIL)))  # noqa: S314 - ours
    assert not re.search(r"(?:src|href)=", text)


@pytest.mark.tools
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (schedline doctor)")
    file = tmp_path / "page.html"
    file.write_text(page(rich(EVIL)))
    with Browser(program, tmp_path / "profile") as browser:
        for width, dark in ((1200, False), (1200, True), (360, False)):
            browser.open(file, width, dark=dark)
            assert browser.ask("document.documentElement.scrollWidth") <= width
            assert browser.ask("document.scripts.length") == 0
            # The policy allows both style sheets: a name in a map has the font that its room was computed with.
            assert browser.ask("getComputedStyle(document.querySelector('svg .n')).fontFamily") == "monospace"
            paper = browser.ask("getComputedStyle(document.body).backgroundColor")
            assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
            told = [each for each in browser.events if each.get("method") in ("Log.entryAdded",)]
            assert told == []
        # No name goes beyond its cell.
        wide = "[...document.querySelectorAll('svg g')].flatMap(cell => [...cell.querySelectorAll('text')].filter("
        wide += "each => each.getBBox().width > cell.querySelector('rect').getBBox().width))"
        assert browser.ask(f"{wide}.map(each => each.textContent)") == []
