# SPDX-License-Identifier: GPL-2.0
"""Two results and their verdict: worse is caught, equal and better pass, quanta that disagree are inconclusive."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_results import result, row

from by_schema import validate
from schedlib.c2c.traffic_diff import TrafficMetric, judge, load_metrics, refuse_unlike, text
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, TrafficResult, TrafficRow, read_result
from schedlib.main import main
from schedlib.paths import CONFIGS
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


def test_the_text() -> None:
    base, candidate = of(8000, 8100, 8200), of(10, 20, 30)
    found = judge(base, candidate, load_metrics(GATES))
    lines = "\n".join(text(base, replace(candidate, changes={"rd-lines": "left out"}), found)) + "\n"
    assert lines == Path(__file__).with_name("golden").joinpath("diff.txt").read_text()


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
