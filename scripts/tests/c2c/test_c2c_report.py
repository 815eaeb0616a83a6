# SPDX-License-Identifier: GPL-2.0
"""How a result is shown, and what is rejected before a measurement."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_results import result, row

from schedlib.c2c import c2c_options, traffic_report
from schedlib.c2c.c2c_page import picture as drawn
from schedlib.c2c.plugin_guest import Setting, mode, refuse_other_qemu
from schedlib.c2c.raw import read_raw
from schedlib.c2c.traffic_table import spread
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import BlamedField, Counts
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import load_topology
from schedlib.main import main

QUANTA = tuple(
    (row("rto_count", 4, 0, 1000 + each), row("overloaded", 40, 3000 + each, 10), row("rto_mask", 64, 5, 5))
    for each in (0, 10, 40)
)

RAW = """\
c2c-raw 2
machine 2 64 1 64 64 100
object root_domain+0 0 1000 64 1
absent sched_domain+0 1
record 1000 1 4 load ffffffff81000000 3 2 0 0 0 0 0 0 0 0 1 0 0 1 0
seen 10 3
end 1
"""


def test_hot_lines_and_fields() -> None:
    lines = traffic_report.text(result(*QUANTA)).splitlines()
    line = next(text for text in lines if text.startswith("root_domain line 0"))
    assert "(+0x0): 99.8% of the misses, 3010 of 4030 false sharing, HITM 4030" in line
    first = lines[lines.index(line) + 2].split()
    assert first == ["74.9%", "3010", "3020", "3020", "6040", "load", "0x28", "pull_rt_task", "root_domain.overloaded"]
    field = next(text for text in lines if text.startswith("root_domain.overloaded"))
    assert field.split()[1:5] == ["3010", "(3000..3040)", "3020", "(3010..3050)"]


def blamed(field: str, saved: int, alone: int) -> BlamedField:
    return BlamedField(
        field=f"root_domain.{field}",
        saved=(saved, saved + 10, saved + 40),
        saved_upgrades=(-5, -5, -5),
        alone=(alone, alone, alone),
        inside=(0, 0, 0),
        elsewhere={"128": saved + 1, "pairs": saved + 2},
        bytes=64,
        objects=1,
        readers=("pick_task_fair",),
        writers=(),
    )


def test_blame_comes_first() -> None:
    fields = (blamed("overloaded", 2500, 7), blamed("rto_mask", 10, 0), blamed("rto_count", -3, 900))
    lines = traffic_report.text(replace(result(*QUANTA), blame=fields)).splitlines()
    assert lines[3:12] == [
        "",
        "blame: the same accesses, counted again with one field on a line of its own",
        " 1. move root_domain.overloaded off its line: 2510 fewer misses of 4040 (3 quanta: 2500 to 2540); "
        "64 bytes more for each of 1 objects",
        "    fewer misses with lines of 128 bytes: 2501, pairs of lines: 2502",
        "    5 more upgrades",
        "    readers: pick_task_fair; writers: none",
        "    true sharing, no layout helps: root_domain.rto_count alone has 900 misses on bytes that "
        "another CPU wrote; writers: none",
        "",
        next(line for line in lines if line.startswith("object ")),
    ]


def test_nothing_to_blame() -> None:
    said = traffic_report.text(replace(result(*QUANTA), blame=(blamed("rto_mask", 10, 0),)))
    assert "no field would save 0.5% of the 4040 misses" in said
    assert "true sharing" not in said
    assert "blame" not in traffic_report.text(result(*QUANTA))


def test_neighbours_are_named_apart() -> None:
    said = traffic_report.text(result((row("rto_count", 4, 0, 5), row("nohz", -8, 7, 7, neighbour=True))))
    assert "root_domain (neighbours)" in said
    # The object's own total excludes its neighbours.
    assert next(line for line in said.splitlines() if line.startswith("root_domain ")).split()[1:3] == ["0", "5"]


def test_who_answers_is_told_where_cpus_are_not_alike() -> None:
    flat = result(*QUANTA)
    near = tuple(replace(row, counts=replace(row.counts, hitm_cluster=7, clean_node=2)) for row in QUANTA[0])
    shaped = replace(result(near), parameters=replace(flat.parameters, topology="clusters"))
    said = traffic_report.text(shaped).splitlines()
    at = next(number for number, line in enumerate(said) if line.startswith("where misses were answered"))
    assert said[at + 1].split() == ["object", "or", "function", "cluster", "llc", "node", "remote", "cold"]
    assert said[at + 2].split() == ["root_domain", "21", "4020", "6", "0", "0"]
    assert said[at + 3].split() == ["pull_rt_task", "21", "4020", "6", "0", "0"]
    assert "where misses were answered" not in traffic_report.text(flat)


@pytest.mark.parametrize(
    ("topology", "shared"),
    [("clusters", (4, 16, 16)), ("kunpeng920", (4, 64, 32)), ("llcs", (1, 2, 8)), ("smt2", (1, 64, 64))],
)
def test_how_many_cpus_share_what(topology: str, shared: tuple[int, int, int]) -> None:
    setting = Setting(load_topology(topology), 64, 100, 1, 1.0)
    assert (setting.per_cluster, setting.per_llc, setting.per_node) == shared


def test_a_guest_has_its_own_architectures_words() -> None:
    x86, arm64 = (mode(TARGETS[name]) for name in ("qemu-x86_64", "qemu-arm64"))
    for word in ("-no-hpet", "tsc=reliable", "console=ttyS0"):
        assert (word in x86, word in arm64) == (True, False)
    for word in ("thread=single", "sleep=off", "clock=vm", "-seed 1", "nokaslr", "mitigations=off"):
        assert word in x86
        assert word in arm64
    assert "console=ttyAMA0" in arm64


def test_the_spread_of_one_number_is_a_number() -> None:
    assert (spread([5]), spread([3, 1, 2]), spread([4, 4, 4])) == ("5", "2 (1..3)", "4")


def test_the_picture_is_xml_and_its_hottest_cell_is_the_hottest_field() -> None:
    picture = ET.fromstring(drawn(result(*QUANTA)))  # noqa: S314 - ours
    space = "{http://www.w3.org/2000/svg}"
    cells = {
        (group.findtext(f"{space}title") or "").split(":")[0]: group.find(f"{space}rect")
        for group in picture.iter(f"{space}g")
    }
    assert set(cells) == {"rto_count", "overloaded", "rto_mask"}
    colours = {name: cell.get("fill") for name, cell in cells.items() if cell is not None}
    assert (colours["overloaded"], colours["rto_count"]) == ("#cb181d", "#fafafa")


def test_a_picture_of_nothing_shared() -> None:
    ET.fromstring(drawn(result((row("rto_count", 4, 0, 1),))))  # noqa: S314 - ours


def test_the_plugins_output_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text(RAW)
    raw = read_raw(tmp_path / "raw")
    assert (raw.watched, raw.absent) == (3, {"sched_domain+0": 1})
    assert raw.records[0].counts == Counts(accesses=3, hits=2, cold=1, essential=1)


@pytest.mark.parametrize("kept", range(7))
def test_half_of_an_output_is_refused(tmp_path: Path, kept: int) -> None:
    (tmp_path / "raw").write_text("".join(RAW.splitlines(keepends=True)[:kept]))
    with pytest.raises(SchedlineError, match="is incomplete"):
        read_raw(tmp_path / "raw")


def test_a_lost_record_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text(RAW.replace("end 1", "end 2"))
    with pytest.raises(SchedlineError, match="1 records of 2"):
        read_raw(tmp_path / "raw")


@pytest.mark.parametrize("on", c2c_options.TRACED)
@pytest.mark.parametrize(
    ("version", "help_", "said"),
    [
        ("QEMU emulator version 9.2.4", "-plugin", "c2c needs QEMU 7.2 or 10.0"),
        ("QEMU emulator version 10.1.0", "-plugin", "c2c needs QEMU 7.2 or 10.0"),
        ("QEMU emulator version 7.2.22", "-smp", "built without plugins"),
        ("", "", "c2c needs QEMU 7.2 or 10.0"),
    ],
)
def test_other_emulators_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str, version: str, help_: str, said: str
) -> None:
    program = tmp_path / TARGETS[on].emulator[0]
    program.write_text(f'#!/bin/sh\ncase $1 in --version) echo "{version}";; *) echo "{help_}";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(SchedlineError, match=said):
        refuse_other_qemu(TARGETS[on])


@pytest.mark.parametrize(
    "words",
    [
        ["--cpus", "1"],
        ["--cpus", "65"],
        ["--quanta", "0"],
        ["--quanta", "97,97"],
        ["--line", "32"],
        ["--rounds", "-1"],
        ["--workload", "none"],
        ["--on", "uml"],
        ["--cpus", "8", "--topology", "smt2"],
    ],
)
def test_bad_options_are_errors(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["c2c", *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
