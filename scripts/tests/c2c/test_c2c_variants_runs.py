# SPDX-License-Identifier: GPL-2.0
"""The guests of several designs: each runs once, an error loses nothing that was counted, and layouts are replayed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import toy_trace
from msgspec import structs

from schedlib.c2c import design_runs, plugin_guest
from schedlib.c2c.counting import Wanted
from schedlib.c2c.design_file import Design, DesignFile
from schedlib.c2c.design_runs import GuestRuns, PlannedDesign, counted, read_kept
from schedlib.c2c.observed import Observed
from schedlib.errors import SchedlineError

pytestmark = pytest.mark.tools

FILE = DesignFile(
    designs=(Design("base"), Design("moved", layout="x", of="base")), workloads=("rt", "balance"), quanta=(97, 100)
)


class Kept:
    """Files by readable names."""

    def __init__(self, runs: GuestRuns, plan: object) -> None:
        self._place = runs.cache / "kept"

    def path(self, guest: Wanted, line: int, layout: Path | None) -> Path:
        moved = "-moved" if layout else ""
        return self._place / f"{guest.workload}-{guest.quanta[0]}-{line}{moved}.json"


class Machine:
    """Runs guests: each has the accesses of the toy trace."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ran: list[tuple[str, int]] = []
        self.fails: tuple[str, int] | None = None

    def observe(self, cache: Path, subject: Any, wanted: Wanted, place: Path, logs: Path, *, taped: bool) -> Observed:
        name = wanted.workload, wanted.quanta[0]
        if name == self.fails:
            raise SchedlineError("the guest hung", "see its log")
        self.ran.append(name)
        whole = toy_trace.observed(place)
        guests = tuple(each for each in whole.guests if each.quantum == wanted.quanta[0])
        parameters = structs.replace(whole.parameters, workload=wanted.workload)
        return replace(whole, guests=guests, parameters=parameters)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    plugin_guest.replayer(tmp_path)
    planned = SimpleNamespace(configuration=SimpleNamespace(names=("target",)))
    monkeypatch.setattr(design_runs, "KeptCounts", Kept)
    monkeypatch.setattr(design_runs, "observe", found.observe)
    monkeypatch.setattr(design_runs, "_built", lambda *_: SimpleNamespace(planned=planned))
    return found


def count(place: Path) -> dict[str, list[Path]]:
    layout = place / "moved.toml"
    layout.write_text("[structure.root_domain]\nmembers = { left = 64 }\nalign = 64\n")
    runs = GuestRuns(place, SimpleNamespace(), FILE, 1.0)  # type: ignore[arg-type]
    plan: Any = SimpleNamespace()
    columns = [PlannedDesign("base", plan), PlannedDesign("moved", plan, layout)]
    return dict(counted(runs, columns, plan, place / "logs"))


ALL = [("balance", 97), ("balance", 100), ("rt", 97), ("rt", 100)]


def test_what_was_counted_is_not_run_again(machine: Machine, tmp_path: Path) -> None:
    first = count(tmp_path)
    assert sorted(machine.ran) == ALL
    assert [len(paths) for paths in first.values()] == [12, 12]
    assert count(tmp_path) == first
    assert sorted(machine.ran) == ALL
    (tmp_path / "kept/rt-100-256-moved.json").unlink()
    assert count(tmp_path) == first
    assert machine.ran[4:] == [("rt", 100)]


def test_a_guest_that_fails_loses_no_other(machine: Machine, tmp_path: Path) -> None:
    machine.fails = "balance", 100
    with pytest.raises(SchedlineError, match="the guest hung"):
        count(tmp_path)
    before = list(machine.ran)
    machine.fails = None
    count(tmp_path)
    assert sorted(machine.ran) == ALL
    assert ("balance", 100) not in before


def test_results_come_by_workload_line_and_quantum(machine: Machine, tmp_path: Path) -> None:
    results = read_kept(count(tmp_path)["base"])
    order = [(each.parameters.workload, each.line, each.quanta[0].quantum) for each in results]
    assert order == [
        (name, line, quantum) for name in ("rt", "balance") for line in (64, 128, 256) for quantum in (97, 100)
    ]


def test_a_layout_is_counted_with_the_accesses_of_its_kernel(machine: Machine, tmp_path: Path) -> None:
    paths = count(tmp_path)
    base, moved = (read_kept(paths[name])[0].quanta[0].rows for name in ("base", "moved"))
    assert sum(row.counts.false_shared for row in base) > 40
    assert sum(row.counts.false_shared for row in moved) == 0
    assert sum(row.counts.accesses for row in base) == sum(row.counts.accesses for row in moved)
