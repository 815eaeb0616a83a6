# SPDX-License-Identifier: GPL-2.0
"""`schedline show`: what is counted of a change, and both maps side by side."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from toy_results import result, row

from schedlib import doctor
from schedlib.c2c import show_job
from schedlib.c2c.c2c_options import KINDS, WORKLOADS, C2cOptions
from schedlib.c2c.c2c_page import both
from schedlib.formats.c2c_document import TrafficResult, read_result
from schedlib.main import main
from schedlib.names import shown_changes
from schedlib.tree.changes import change_table

SPACE = "{http://www.w3.org/2000/svg}"


def counted(false: int) -> TrafficResult:
    return result((row("overloaded", 40, false, 10), row("rto_count", 0, 0, 500), row("rto_mask", 64, 0, 1)))


PAIR = {"without rd-lines": counted(3000), "with rd-lines": counted(100)}


def test_equal_colours_are_equal_numbers() -> None:
    """Only the field with 3000 misses has the darkest colour: each map alone would give it to its own hottest one."""
    drawn = ET.fromstring(both(PAIR))  # noqa: S314 - ours
    left, right = drawn.findall(f"{SPACE}svg")
    assert float(left.get("width", 0)) == float(right.get("x", 0)) > 0
    shades = []
    for side in (left, right):
        cells = {each.findtext(f"{SPACE}title", "").split(":")[0]: each for each in side.iter(f"{SPACE}g")}
        rect = cells["overloaded"].find(f"{SPACE}rect")
        shades.append(rect.get("fill") if rect is not None else "")
    assert shades[0] == "#cb181d" != shades[1]


def test_a_change_is_counted_without_it_and_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[C2cOptions] = []

    def remembered(cache: Path, tree: object, options: C2cOptions, logs: Path) -> TrafficResult:
        asked.append(options)
        return list(PAIR.values())[len(asked) - 1]

    monkeypatch.setattr(show_job, "remembered", remembered)
    monkeypatch.setattr(show_job, "open_tree", lambda cache, options: None)
    monkeypatch.setattr(doctor, "require", lambda names: None)
    assert main(["show", "rd-lines", "--out", str(tmp_path)]) == 0
    changes = [(each.changes.with_, each.changes.without) for each in asked]
    assert changes == [((), ("cpupri-lines", "rd-lines")), (("rd-lines",), ("cpupri-lines",))]
    assert {each.objects for each in asked} == {("root_domain",)}
    assert [read_result(tmp_path / side) for side in ("without", "with")] == list(PAIR.values())
    page = (tmp_path / "show.html").read_text()
    assert "without rd-lines" in page and "3000 -&gt; 100 (-96.7 %)" in page
    assert (tmp_path / "show.txt").read_text() == Path(__file__).with_name("golden").joinpath("show.txt").read_text()


def test_what_can_be_shown_exists(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {name: change.show for name, change in change_table().items() if change.show}
    assert tuple(wanted) == shown_changes()
    for show in wanted.values():
        assert show.workload in WORKLOADS and set(show.objects) <= set(KINDS)
        assert set(show.without) <= set(change_table())
    with pytest.raises(SystemExit):
        main(["show", "cluster-scan"])
    assert "Known: rq-order, rd-lines, cpupri-lines" in capsys.readouterr().err
