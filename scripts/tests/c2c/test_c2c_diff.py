# SPDX-License-Identifier: GPL-2.0
"""Two results: their verdict (worse is caught, quanta that disagree are inconclusive), and both maps side by side."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_results import result, row

from by_schema import validate
from golden import Golden
from schedlib import doctor
from schedlib.c2c import show_job
from schedlib.c2c.c2c_options import ALL, KINDS, WORKLOADS, C2cOptions
from schedlib.c2c.c2c_page import both
from schedlib.c2c.traffic_diff import TrafficMetric, judge, load_metrics, refuse_unlike, text
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, TrafficResult, TrafficRow, read_result
from schedlib.main import main
from schedlib.names import fragment_names, shown_names
from schedlib.paths import CONFIGS
from schedlib.tree.changes import change_table
from schedlib.tree.compose import Composition
from schedlib.tree.kernel_tree import Tree, apply_diff
from schedlib.verdict import Verdict

GATES = CONFIGS / "gates/c2c.toml"


def of(*false: int, essential: int = 10000) -> TrafficResult:
    """A result with one guest for each given number of false-sharing misses on `overloaded`."""
    return result(*((row("rto_count", 4, 0, 1000), row("overloaded", 40, each, essential)) for each in false))


@pytest.mark.parametrize(
    ("base", "candidate", "verdict"),
    [
        ((100, 110, 120), (100, 110, 120), Verdict.PASS),
        ((8000, 8100, 8200), (10, 10, 10), Verdict.PASS),
        ((10, 10, 10), (8000, 8100, 8200), Verdict.FAIL),
        ((10, 10, 10), (400, 410, 420), Verdict.PASS),
        ((10, 10, 10), (400, 8000, 8200), Verdict.INCONCLUSIVE),
        ((8000,), (9000,), Verdict.PASS),
        ((8000,), (9400,), Verdict.FAIL),
    ],
)
def test_verdicts(base: tuple[int, ...], candidate: tuple[int, ...], verdict: Verdict) -> None:
    assert judge(of(*base), of(*candidate), load_metrics(GATES)).status is verdict


def on(*rows: TrafficRow) -> TrafficResult:
    return result(rows)


@pytest.mark.parametrize(
    ("base", "candidate", "failed"),
    [
        # True sharing is judged by all misses.
        (of(0), of(0, essential=14000), ["root_domain misses"]),
        # A field that moved is compared with itself.
        (on(row("overloaded", 40, 9000, 0)), on(row("overloaded", 64, 9000, 0)), []),
        # One field is caught where the sum hides it.
        (
            on(row("rto_count", 4, 40000, 0), row("overloaded", 40, 0, 0)),
            on(row("rto_count", 4, 38000, 0), row("overloaded", 40, 3000, 0)),
            ["root_domain.overloaded false_shared"],
        ),
        # Neighbours are not the object's.
        (
            on(row("x", -8, 0, 1, neighbour=True), row("rto_count", 4, 0, 9)),
            on(row("x", -8, 9999, 1, neighbour=True), row("rto_count", 4, 0, 9)),
            [],
        ),
    ],
)
def test_what_is_judged(base: TrafficResult, candidate: TrafficResult, failed: list[str]) -> None:
    found = judge(base, candidate, load_metrics(GATES)).metrics
    assert [f"{each.name} {each.count}" for each in found if each.verdict is not Verdict.PASS] == failed


def test_a_metric_of_nothing_says_nothing() -> None:
    assert judge(of(1), of(1), [TrafficMetric("rq", "misses", 1.0, 0)]).status is Verdict.INCONCLUSIVE
    assert judge(of(1), of(1), [TrafficMetric("root_domain", "misses", 1.0, 0)]).status is Verdict.PASS


def test_unlike_results_are_refused() -> None:
    base = of(1, 2)
    with pytest.raises(SchedlineError, match="cpus is 8 in BASE and 16 in CANDIDATE"):
        refuse_unlike(base, replace(base, parameters=replace(base.parameters, cpus=16)))
    with pytest.raises(SchedlineError, match=r"quanta|operations"):
        refuse_unlike(base, of(1))
    with pytest.raises(SchedlineError, match="plugin is p in BASE and q"):
        refuse_unlike(base, replace(base, fingerprint={**base.fingerprint, "plugin": "q"}))
    refuse_unlike(base, replace(base, fingerprint={**base.fingerprint, "build_id": "bb"}))


def test_the_text(golden: Golden) -> None:
    base, candidate = of(8000, 8100, 8200), of(10, 20, 30)
    found = judge(base, candidate, load_metrics(GATES))
    lines = "\n".join(text(base, replace(candidate, changes={"rd-lines": "left out"}), found)) + "\n"
    golden("diff.txt", lines)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, false in (("base", 10), ("worse", 9000)):
        document.write(tmp_path / name / C2C_FILE, of(false))
        validate(json.loads((tmp_path / name / C2C_FILE).read_text()), "c2c-1")
        assert read_result(tmp_path / name) == of(false)
    base, worse, out = (str(tmp_path / name) for name in ("base", f"worse/{C2C_FILE}", "out.json"))
    words = ["c2c", "diff", base, worse, "--json", out]
    assert main(words) == Verdict.FAIL.exit_code
    assert "FAIL: root_domain.overloaded, false_shared: 10 -> 9000" in capsys.readouterr().out
    validate(json.loads((tmp_path / "out.json").read_text()), "c2c-diff-1")
    assert main(["c2c", "diff", base, base]) == Verdict.PASS.exit_code


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


def shown(
    name: str, results: Iterable[TrafficResult], place: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[C2cOptions, object]]:
    """Run the verb with these results: what it asks for, and of which tree."""
    asked: list[tuple[C2cOptions, object]] = []
    left = iter(results)

    def remembered(cache: Path, tree: object, options: C2cOptions, logs: Path, at: object) -> TrafficResult:
        asked.append((options, at))
        return next(left)

    monkeypatch.setattr(show_job, "remembered", remembered)
    monkeypatch.setattr(show_job, "open_tree", lambda cache, options: None)
    monkeypatch.setattr(show_job, "_undone", lambda tree, name: f"before {name}")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    assert main(["show", name, "--out", str(place)]) == 0
    return asked


def test_a_change_is_counted_without_it_and_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    asked = [each for each, _ in shown("rd-lines", PAIR.values(), tmp_path, monkeypatch)]
    changes = [(each.changes.with_, each.changes.without) for each in asked]
    assert changes == [((), ("cpupri-lines", "rd-lines")), (("rd-lines",), ("cpupri-lines",))]
    assert {each.objects for each in asked} == {("root_domain",)}
    assert [read_result(tmp_path / side) for side in ("without", "with")] == list(PAIR.values())
    page = (tmp_path / "show.html").read_text()
    assert "without rd-lines" in page and "3000 -&gt; 100 (-96.7 %)" in page
    golden("show.txt", (tmp_path / "show.txt").read_text())


def test_an_incident_is_counted_before_its_fix_and_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """All memory is watched, one object is drawn and told, and the documents have the others, too."""
    owner = "futex_hash_bucket"
    waiters, priv = row("waiters", 0, 0, 9, owner=owner), row("priv", 24, 0, 500, owner=owner)
    other = row("overloaded", 40, 0, 900)
    pair = [result((waiters, priv, other)), result((waiters, other))]
    before, after = shown("futex", pair, tmp_path, monkeypatch)
    assert (before[1], after[1], before[0].quanta) == ("before futex", None, (100,)) and before[0] == after[0]
    assert [read_result(tmp_path / side) for side in ("before", "after")] == pair
    golden("show-futex.txt", (tmp_path / "show.txt").read_text())


def test_what_lies_beside_a_variable_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    nohz, beside = row("next_blocked", 32, 0, 29, owner="nohz"), row("flag", 48, 850, 50, owner="nohz", neighbour=True)
    watched = replace(PAIR["without rd-lines"].watched[0], owner="nohz")
    pair = [replace(result(rows), watched=(watched,)) for rows in ((nohz, beside), (nohz,))]
    before, after = shown("sched_clock_irqtime", pair, tmp_path, monkeypatch)
    assert before[0].config == after[0].config == ("c2c-accounting",)
    golden("show-nohz.txt", (tmp_path / "show.txt").read_text())
    assert "flag" in (tmp_path / "show.svg").read_text()


def test_what_can_be_shown_exists(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = show_job.shown_table()
    assert tuple(wanted) == shown_names()
    for name, show in wanted.items():
        assert show.workload in WORKLOADS and set(show.objects) <= {*KINDS, ALL}
        assert set(show.without) <= set(change_table()) and set(show.config) <= set(fragment_names())
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
