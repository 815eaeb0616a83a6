# SPDX-License-Identifier: GPL-2.0
"""How `schedline dev bench --only workloads` evaluates its measurements, and two short real measurements."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from workload_runs import Place

from schedlib.dev import workload_cost
from schedlib.dev.bench import BenchRow, row_text
from schedlib.dev.workload_cost import Round, Timers
from schedlib.errors import SchedlineError
from schedlib.runs.tool_process import why_no_fifo


def timers(p50: float) -> Timers:
    return Timers(1e-6, p50, 2 * p50)


def test_a_quantile_lies_within_its_bucket() -> None:
    histogram = {10: 50, 12: 100, 20: 50}
    assert workload_cost.quantile(histogram, 200, 0.5) == pytest.approx(12.5e-6)
    assert workload_cost.quantile(histogram, 200, 0.25) == pytest.approx(11e-6)
    assert workload_cost.quantile(histogram, 200, 0.8) == pytest.approx(20.2e-6)
    # Samples outside the histogram took longer: the result is then its width, 400 us.
    assert workload_cost.quantile(histogram, 1000, 0.99) == pytest.approx(400e-6)
    assert workload_cost.quantile({}, 1000, 0.5) == pytest.approx(400e-6)


def test_one_disturbed_round_does_not_matter() -> None:
    quiet = Round(timers(10), timers(11), timers(10.5))
    disturbed = Round(timers(10), timers(500), timers(90))
    assert workload_cost.apart([quiet, disturbed, quiet], lambda each: each.p50) == pytest.approx((0.75, 0.5))
    assert workload_cost.apart([disturbed] * 3, lambda each: each.p50) == pytest.approx((450, 80))


@pytest.mark.guest
@pytest.mark.skipif(why_no_fifo() != "" or not shutil.which("cyclictest"), reason="no SCHED_FIFO, or no cyclictest")
def test_both_are_measured_for_real(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_cost, "_ROUNDS", 1)
    monkeypatch.setattr(workload_cost, "_CYCLES", 100)
    (found,) = workload_cost.beside_cyclictest(place.programs)
    for each in (found.before, found.ours, found.after):
        assert 0 < each.p50 <= each.p99
        assert each.cpu_per_sample > 0


@pytest.mark.guest
def test_the_start_of_a_storm_is_measured_for_real(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_cost, "_CHILDREN", 20)
    found = workload_cost.start_of_storm(place.programs)
    assert 0 < found["start.forks_s"] <= found["start.all_ready_s"]


def test_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    for name in ("sleep_storm", "rt_wakeup"):
        (tmp_path / name).write_text("#!/bin/sh\necho no such luck; exit 1\n")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(SchedlineError, match="sleep_storm ended with 1: no such luck"):
        workload_cost.start_of_storm(tmp_path)


def test_a_figure_has_its_unit() -> None:
    assert row_text(BenchRow("memory", 115.42, None, "under 200 kB", "kB")) == "memory: 115.4 kB (goal under 200 kB)"
    assert row_text(BenchRow("start", 1.5, 1.2, "2", "s")) == "start: 1.50 s / 1.20 s = 1.250 (goal 2)"
