# SPDX-License-Identifier: GPL-2.0
"""Several designs in one table: the file, what is kept and run again, and what a cell says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from msgspec.structs import replace
from toy_results import result, row

from by_schema import validate
from schedlib.c2c import design_runs, variants_report
from schedlib.c2c.design_file import read_designs
from schedlib.c2c.variants_job import _bytes, _traffic
from schedlib.c2c.variants_page import variants_page
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficResult
from schedlib.formats.variants_document import MeasuredDesign, VariantsDocument
from schedlib.guest.boot import Ending, run_guest
from schedlib.paths import CONFIGS

TWO = '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n'


def file_with(place: Path, text: str) -> Path:
    path = place / "designs.toml"
    path.write_text(text)
    return path


def test_the_carried_file_is_read() -> None:
    found = read_designs(CONFIGS / "variants/cpupri.toml")
    assert len(found.designs) >= 4 and len(found.workloads) >= 3
    assert {each.cpupri for each in found.designs} >= {"arrays", "node", "llc", "llc-bytes", "sbm"}


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("")
    (tmp_path / "moved.toml").write_text("")
    (tmp_path / "my.config").write_text("")
    text = '[[variant]]\nname = "a"\npatch = "x.patch"\nconfig = ["./my.config"]\n'
    text += '[[variant]]\nname = "b"\nlayout = "moved.toml"\n'
    first, second = read_designs(file_with(tmp_path, text)).designs
    assert first.patch == str(tmp_path / "x.patch") and first.config == (str(tmp_path / "my.config"),)
    assert (second.layout, second.of, second.is_kernel) == (str(tmp_path / "moved.toml"), "a", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[variant]]\nname = "a"\n', "variant"),
        (TWO.replace("b", "a"), "is 'a' again"),
        (TWO.replace("b", "placebo"), "is 'placebo' again"),
        (TWO + 'cpupri = "lcc"\n', "did you mean llc"),
        (TWO + 'with = ["rd-linse"]\n', "rd-linse"),
        (TWO + 'config = ["preemptrt"]\n', "preempt-rt"),
        (TWO + 'patch = "none.patch"\n', "no such file"),
        (TWO + 'of = "a"\n', "of is 'a'"),
        (TWO + 'layout = "designs.toml"\nof = "c"\n', "of is 'c'"),
        (TWO + 'layout = "designs.toml"\ncpupri = "llc"\n', "beside what builds a kernel"),
        ('[[variant]]\nname = "a"\nlayout = "designs.toml"\n[[variant]]\nname = "b"\n', "begin with a kernel"),
        ('workloads = ["rt", "rt"]\n' + TWO, "one twice"),
        ('workloads = ["wakup"]\n' + TWO, "did you mean wakeup"),
        ('objects = ["rqs"]\n' + TWO, "did you mean rq"),
        ("cpus = 1\n" + TWO, "cpus"),
        ('colour = "red"\n' + TWO, "colour is unknown"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_right(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SchedlineError) as error:
        read_designs(file_with(tmp_path, text))
    assert message in f"{error.value.observed} {error.value.next_step}"


def of(false: int, count: int = 100) -> TrafficResult:
    """One guest."""
    return result(
        (row("rto_count", 4, 0, count), row("overloaded", 40, false, 500), row("x", -8, 7, 7, neighbour=True))
    )


def design(name: str, guests: Sequence[TrafficResult], kind: str = "kernel") -> MeasuredDesign:
    return MeasuredDesign(
        name=name,
        kind=kind,  # type: ignore[arg-type]
        of="",
        build_id="aa",
        commit="c",
        configuration="x",
        changes={},
        bytes=(_bytes(guests[0], "root_domain"),),
        traffic=(_traffic(guests, "root_domain"),),
    )


def table(*designs: MeasuredDesign) -> VariantsDocument:
    return VariantsDocument(
        schema="c2c-variants-1",
        tool="tests",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        tree="7.3",
        emulator="QEMU 7.2",
        compiler="gcc",
        cpus=8,
        topology="",
        workloads=("rt",),
        quanta=(97, 100, 103),
        lines=(64,),
        designs=designs,
    )


def guests(*false: int) -> list[TrafficResult]:
    return [of(each) for each in false]


def cells(found: VariantsDocument, start: str) -> list[str]:
    line = next(line for line in variants_report.text(found).splitlines() if line.startswith(start))
    return [each for each in line.removeprefix(start).split("  ") if each]


def test_a_difference_is_told_only_beyond_what_the_placebo_does() -> None:
    found = table(
        design("base", guests(400, 410, 420)),
        design("placebo", guests(380, 420, 500), "placebo"),
        design("same", guests(490, 510, 520)),
        design("less", guests(200, 205, 210)),
        design("more", guests(501, 820, 830)),
    )
    shown = [each.strip() for each in cells(found, "false sharing, lines of 64")]
    assert shown == ["410", "420", "510 =", "205 -50 %", "820 +100 %"]


def test_neighbours_are_left_out_and_lines_are_counted() -> None:
    found = _traffic(guests(1, 2, 3), "root_domain")
    assert found.total.misses == (601, 602, 603)
    assert (found.total.other_llc, found.total.other_node) == ((0, 0, 0), (0, 0, 0))
    assert found.lines_touched == (1, 1, 1)
    assert set(found.fields) == {"root_domain.rto_count", "root_domain.overloaded"}


def test_far_misses_are_told_where_there_is_a_topology() -> None:
    near = of(1)
    rows = tuple(
        replace(each, counts=replace(each.counts, hitm_llc=0, hitm_node=5, clean_remote=7))
        for each in near.quanta[0].rows
    )
    far = replace(near, quanta=(replace(near.quanta[0], rows=rows),))
    found = table(design("a", [near]), design("placebo", [near], "placebo"), design("far", [far]))
    assert "from another node" not in variants_report.text(found)
    found = replace(found, topology="llcs")
    assert cells(found, "from another LLC, lines of 64")[2].strip() == "10 new"
    assert cells(found, "from another node, lines of 64")[2].strip() == "14 new"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_ends_the_guests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    nothing: Any = None
    wanted = read_designs(CONFIGS / "variants/rq-readers.toml")
    runs = design_runs.GuestRuns(tmp_path, nothing, wanted, 20)
    guests = [runs.measurement(name, 100) for name in wanted.workloads]
    seen: dict[str, Ending] = {}
    begun = Semaphore(0)

    def guest(*words: Any) -> None:
        name = words[4].workload
        begun.release()
        seen[name] = run_guest(["sleep", "1000"], tmp_path / name, 20).ending

    def interrupted(tasks: Sequence[Future[None]], *words: Any, **named: Any) -> Any:
        if named:
            begun.acquire()
            raise stop
        return wait(tasks, *words)

    monkeypatch.setattr(design_runs, "_run_one", guest)
    monkeypatch.setattr(design_runs, "wait", interrupted)
    with pytest.raises(stop):
        design_runs._run_all(runs, nothing, [], nothing, guests, tmp_path, tmp_path)
    assert seen and set(seen.values()) == {Ending.DIED}
    assert len(seen) <= (os.cpu_count() or 1)


def test_bytes_are_those_of_the_object_and_behind_its_pointers() -> None:
    found = _bytes(of(1), "root_domain")
    assert (found.own, found.behind, found.objects) == (128, 8, 1)
    found_table = table(design("a", guests(1)), design("placebo", guests(1), "placebo"))
    assert [int(each) for each in cells(found_table, "8 of them: one for each CPU, or partition")] == [1088, 1088]


def test_a_field_that_a_design_lacks_has_no_number() -> None:
    other = [result((row("rto_counts", 8, 5, 5),))]
    found = table(design("base", guests(9)), design("placebo", guests(9), "placebo"), design("new", other))
    assert [each.strip() for each in cells(found, "  misses, overloaded")] == ["509", "509", "-"]
    assert [each.strip() for each in cells(found, "  misses, rto_counts")] == ["-", "-", "10"]


def test_the_document_is_valid_and_read_back(tmp_path: Path) -> None:
    found = table(design("a", guests(1, 2, 3)), design("placebo", guests(1, 2, 3), "placebo"))
    path = tmp_path / "variants.json"
    document.write(path, found)
    validate(json.loads(path.read_text()), "c2c-variants-1")
    assert document.read(path, VariantsDocument, "") == found
    content = json.loads(path.read_text())
    content["variants"] = content["variants"][:1]
    with pytest.raises(ValueError, match="variants"):
        document.parse(json.dumps(content).encode(), VariantsDocument)


def test_a_page_has_all_numbers_and_no_markup_of_others() -> None:
    found = table(design("<b>x", guests(400, 410, 420)), design("placebo", guests(9, 9, 9), "placebo"))
    said = variants_page(found)
    assert "&lt;b&gt;x" in said and "<b>x" not in said
    cells_of_page = re.findall(r'<td role="cell"[^>]*><bdi>([^<]*)</bdi>', said)
    wanted = [cell for rows in variants_report.tables(found) for row in rows[1:] for cell in row[1:]]
    assert cells_of_page == wanted and len(wanted) > 10
    assert not re.search(r"<script|src=|http://|https://", said)
