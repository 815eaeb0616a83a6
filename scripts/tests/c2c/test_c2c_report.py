# SPDX-License-Identifier: GPL-2.0
"""A result as text, as a picture of its lines and as a page; what the plugin writes; options that are refused."""

from __future__ import annotations

import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from toy_results import FIELDS, result, row

from browser import Browser
from golden import Golden
from schedlib.c2c.c2c_options import WORKLOADS, Workload
from schedlib.c2c.c2c_page import page, picture, users
from schedlib.c2c.traffic_report import function_pairs, sections, text
from schedlib.formats.c2c_document import BlamedField, Counts, MappedField, TrafficResult, TrafficRow
from schedlib.paths import PROJECT

LONG = "cpupri.pri_to_cpu[0].a_long_name_of_a_count"
EVIL = "<script>alert(1)</script>&\"'\u202e"


def blamed(field: str, saved: int, alone: int) -> BlamedField:
    numbers: dict[str, Any] = {
        "saved": (saved, saved + 10, saved + 40),
        "saved_upgrades": (-5,) * 3,
        "inside": (0,) * 3,
    }
    numbers |= {"alone": (alone,) * 3, "elsewhere": {"128": saved + 1, "pairs": saved + 2}, "bytes": 64, "objects": 1}
    return BlamedField(field=f"root_domain.{field}", **numbers, readers=("pick_task_fair",), writers=())


def rich_rows(name: str = "cpupri.count") -> list[tuple[TrafficRow, ...]]:
    writes = Counts(accesses=500, hits=100, upgrades=400, invalidated=900, hitm_llc=1, essential=1)
    return [
        (
            row("rto_count", 4, 0, 1000 + more),
            row("overloaded", 40, 3000, 10, function="enqueue_top_rt_rq"),
            row(name, 44, 20, 1000, kind="rmw", function="cpupri_set", counts=writes),
            row(name, 44, 700, 10, function=name),
            row("rto_mask", 64, 5, 5),
            row("nohz", -8, 7, 7, neighbour=True),
        )
        for more in (0, 10, 40)
    ]


def rich(name: str = "cpupri.count") -> TrafficResult:
    """A result with something in every section."""
    fields = (*FIELDS[:2], MappedField(44, 4, name, ""), *FIELDS[2:])
    toy = result(*rich_rows(name))
    watched = tuple(replace(each, fields=fields if each.fields else ()) for each in toy.watched)
    chosen = replace(toy.parameters, workload=f"program {name}", topology="llcs")
    blame = (blamed("overloaded", 2500, 7), blamed("rto_mask", 10, 0), blamed("rto_count", -3, 900))
    return replace(toy, watched=watched, parameters=chosen, blame=blame)


def test_the_text(golden: Golden) -> None:
    """Neighbours have rows of their own, and the object's total excludes them."""
    quiet = result((row("rto_count", 4, 0, 0),))
    golden("report.txt", text(rich()))
    nothing = text(replace(result(*rich_rows()), blame=(blamed("rto_mask", 10, 0),)))
    golden("nothing.txt", f"{nothing}\n{text(quiet)}")
    ET.fromstring(picture(quiet))  # noqa: S314 - ours


def test_misses_on_a_line_are_shared_out_to_those_who_write_there() -> None:
    def access(function: str, offset: int, **counts: int) -> TrafficRow:
        return row("x", offset, 0, 0, function=function, counts=Counts(**counts))

    rows = (
        access("reader", 0, accesses=90, hitm_llc=80, cold=10, essential=90),
        access("writer", 8, accesses=60, hits=60, invalidated=60),
        access("other", 16, accesses=20, hits=20, invalidated=20),
        access("elsewhere", 64, accesses=50, hitm_llc=50, essential=50),
    )
    line = ("root_domain", "", 0)
    assert function_pairs(result(rows)) == {("reader", "writer"): {line: 60.0}, ("reader", "other"): {line: 20.0}}


def test_a_map_has_full_names_and_who_reads_and_writes_its_hot_fields(golden: Golden) -> None:
    golden("lines.svg", picture(rich(LONG)))


def test_functions_without_a_miss_are_counted_and_not_named() -> None:
    rows = [row("rto_count", 4, 0, number, function=f"f{number}") for number in (0, 3, 0, 5)]
    assert users(rows) == ["read by f5 (5 misses), f3 (3 misses), 1 other"]
    assert users(rows[:1]) == ["read by 1 function, without misses"]
    many = [row("rto_count", 4, 0, 9, function=f"g{number}") for number in range(6)]
    assert users(many)[0].endswith("g3 (9 misses), 2 others")


def test_the_page_has_the_sections_of_the_text_and_hostile_names_stay_text() -> None:
    plain, hostile = page(rich()), page(rich(EVIL))
    for section in sections(rich()):
        assert f"<bdi>{section.name}</bdi></h2>" in plain
    assert page(rich()) == plain
    assert "<script" not in hostile and "\u202e" not in hostile
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile
    ET.fromstring(picture(rich(EVIL)))  # noqa: S314 - ours
    assert not re.search(r"(?:src|href)=", hostile)


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
            assert [each for each in browser.events if each.get("method") in ("Log.entryAdded",)] == []
        # No name goes beyond its cell.
        wide = "[...document.querySelectorAll('svg g')].flatMap(cell => [...cell.querySelectorAll('text')].filter("
        wide += "each => each.getBBox().width > cell.querySelector('rect').getBBox().width))"
        assert browser.ask(f"{wide}.map(each => each.textContent)") == []


def test_a_program_says_what_it_does_and_the_docs_have_it() -> None:
    assert WORKLOADS["map"] == Workload(
        "map", "threads of one process map and unmap memory that nobody touches", 100, "guest_map.c", ("c2c-programs",)
    )
    # A variant has another name than its file, and the compiler is told which.
    assert [(each.source, each.flags) for each in (WORKLOADS["wakeup"], WORKLOADS["rt-wakeup"])] == [
        ("guest_wakeup.c", ()),
        ("guest_wakeup.c", ("-DRT_WAKEUP",)),
    ]
    text = (PROJECT / "docs/c2c.md").read_text()
    assert [name for name in WORKLOADS if f"`{name}`" not in text] == []
