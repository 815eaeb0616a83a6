# SPDX-License-Identifier: GPL-2.0
"""`schedline show`: what is counted of a change, and both maps side by side."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec import structs
from toy_results import result, row

from schedlib import doctor
from schedlib.c2c import show_job
from schedlib.c2c.c2c_options import ALL, KINDS, WORKLOADS, C2cOptions
from schedlib.c2c.c2c_page import both
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import TrafficResult, read_result
from schedlib.main import main
from schedlib.names import shown_names
from schedlib.paths import CONFIGS
from schedlib.tree.changes import change_table
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree, apply_diff

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

    def remembered(cache: Path, tree: object, options: C2cOptions, logs: Path, at: None) -> TrafficResult:
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


def test_an_incident_is_counted_before_its_fix_and_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All memory is watched, one object is drawn and told, and the documents have the others, too."""
    other = row("overloaded", 40, 0, 900)
    waiters, priv = (
        structs.replace(row(*each), owner="futex_hash_bucket") for each in (("waiters", 0, 0, 9), ("priv", 24, 0, 500))
    )
    pair = [result((waiters, priv, other)), result((waiters, other))]
    asked: list[tuple[C2cOptions, str]] = []

    def remembered(cache: Path, tree: object, options: C2cOptions, logs: Path, at: str) -> TrafficResult:
        asked.append((options, at))
        return pair[len(asked) - 1]

    monkeypatch.setattr(show_job, "remembered", remembered)
    monkeypatch.setattr(show_job, "open_tree", lambda cache, options: None)
    monkeypatch.setattr(show_job, "_undone", lambda tree, name: f"before {name}")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    assert main(["show", "futex", "--out", str(tmp_path)]) == 0
    assert [at for _, at in asked] == ["before futex", None] and asked[0][0] == asked[1][0]
    assert asked[0][0].quanta == (100,)
    assert [read_result(tmp_path / side) for side in ("before", "after")] == pair
    said = (tmp_path / "show.txt").read_text().splitlines()
    assert said[0].startswith("futex: the pointer to the hash")
    before, after = (re.split(r"   +", line.strip()) for line in said[5:7])
    assert before == ["before the fix", "after the fix"]
    assert after == [
        "futex_hash_bucket line 0: 509 misses, 509 HITM",
        "futex_hash_bucket line 0: 9 misses, 9 HITM",
    ]
    assert "  priv: 500 misses, 500 HITM" in said[7]
    assert not any("overloaded" in line for line in said)


def test_what_can_be_shown_exists(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = show_job.shown_table()
    assert tuple(wanted) == shown_names()
    for name, show in wanted.items():
        assert show.workload in WORKLOADS and set(show.objects) <= {*KINDS, ALL}
        assert set(show.without) <= set(change_table())
        assert bool(show.only) == (ALL in show.objects)
        assert bool(show.fix) == (CONFIGS / f"shown/{name}.diff").is_file() == (name not in change_table())
    with pytest.raises(SystemExit):
        main(["show", "cluster-scan"])
    assert "Known: rd-lines, cpupri-lines, rq-order, futex" in capsys.readouterr().err


def test_a_tree_without_the_fix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show_job, "compose", lambda tree: Composition("c", "t", (), frozenset()))
    monkeypatch.setattr(show_job, "apply_diff", lambda *words: None)
    with pytest.raises(SchedlineError, match="this tree lacks the fix of futex"):
        show_job._undone(None, "futex")  # type: ignore[arg-type]


@pytest.mark.guest
@pytest.mark.parametrize("name", [name for name, each in show_job.shown_table().items() if each.fix])
def test_the_fix_of_an_incident_can_be_undone(name: str, series: Tree) -> None:
    diff = (CONFIGS / f"shown/{name}.diff").read_bytes()
    assert apply_diff(series, series.base, diff, "Undo\n")
