# SPDX-License-Identifier: GPL-2.0
"""The parts of the pages that `schedline dev docs` makes are up to date, and a mark that it cannot fill is refused."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

from schedlib.dev import made_pages
from schedlib.errors import SchedlineError
from schedlib.paths import PROJECT

FILES = made_pages.made(PROJECT)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PROJECT)) for path in FILES])
def test_a_page_has_what_the_command_makes(path: Path) -> None:
    assert path.read_text() == FILES[path], "run: schedline dev docs"


def test_the_pages_have_each_part() -> None:
    used = {part for part in made_pages.PARTS if any(f"<!-- made: {part}" in text for text in FILES.values())}
    assert used == set(made_pages.PARTS)


def test_a_part_within_a_line_does_not_begin_it() -> None:
    """Markdown would take the rest of the line for HTML."""
    for path, text in FILES.items():
        assert not re.search(r"^ *<!-- made: [^>]+ -->(?!\n)", text, re.M), path


def test_a_part_that_was_typed_is_replaced() -> None:
    page = "There are <!-- made: count packs -->3<!-- end --> packs.\n\n<!-- made: exit-codes -->\nold\n<!-- end -->\n"
    filled = made_pages.filled(page)
    assert "There are <!-- made: count packs -->14<!-- end --> packs." in filled
    assert "<!-- made: exit-codes -->\n| code |" in filled and "old" not in filled
    assert made_pages.filled(filled) == filled


def test_a_mark_that_cannot_be_filled() -> None:
    with pytest.raises(SchedlineError, match="no end"):
        made_pages.filled("<!-- made: packs -->")


def test_a_recorded_structure_is_read_line_by_line() -> None:
    (without, before), (patched, after) = made_pages.recorded_lines("first-line.txt")
    assert "without the patch" in without and "with the patch" in patched
    assert dict(after.items() - before.items()) == {32: (4, "nr_ipis")}


def test_the_page_of_the_split_is_a_mail() -> None:
    """Lines of at most 75 columns, and the bytes of a group that the recorded layouts have."""
    page = (PROJECT / "docs/results/cfs-split.md").read_text()
    assert all(len(line) <= 75 for line in page.splitlines())
    layout = tomllib.loads((PROJECT / "docs/recorded/cfs-split.toml").read_text())["layout"]
    today, split = (-(-max(offset + size for offset, size, *_ in fields) // 64) * 64 for fields in layout.values())
    assert f"from {today} bytes to {split}," in " ".join(page.split())


def test_the_tables_of_the_split(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was not counted is blank, and a row of nothing is left out."""
    (tmp_path / "cfs-split.toml").write_text("""
        split = [
            ["fork", "cfs_rq", 8, 64, 100, 200, 150, 201], ["fork", "cfs_rq", 8, 64, 97, 200, 203, 0],
            ["fork", "sched_entity", 8, 64, 100, 90, 60, 0],
        ]
        order = [["wakeup", "cfs_rq", 8, 256, 100, 100, 135, 0]]
        aligned = []
        layout.today = [[0, 8, "cfs_rq.load", 9, 1], [8, 4, "cfs_rq.sum_shift", 0, 0], [64, 8, "se.vlag", 0, 0]]
    """)
    monkeypatch.setattr(made_pages, "RECORDED", tmp_path)
    assert {name: made_pages.PARTS["cfs-split"](name).splitlines()[1:-1] for name in ("moves", "split", "order")} == {
        "moves": ["cfs_rq,         4 bytes: sum_shift", "sched_entity,   8 bytes: vlag"],
        "split": [
            "workload  structure     today  predicted  counted  97  103",
            "fork      cfs_rq          200         +0      -25  +2",
            "          sched_entity     90                 -33",
        ],
        "order": [
            "workload  structure  predicted  counted  16 CPUs  32  64  256 bytes",
            "wakeup    cfs_rq                                                +35",
        ],
    }


def test_recorded_patches_are_whole() -> None:
    for path in (PROJECT / "docs/recorded").glob("*.patch"):
        subprocess.run(["git", "apply", "--numstat", path], check=True)  # the last line has its end, too


def test_the_recorded_order_keeps_each_member() -> None:
    """Also those of configurations that were not counted, such as CONFIG_SCHED_CORE."""
    patch, moved = (made_pages.RECORDED / "cfs-split.patch").read_text(), defaultdict[str, list[str]](list)
    for sign, declaration in re.findall(r"^([+-])\t([^/*#\n]+;)", patch, re.M):
        moved[sign].append("".join(declaration.replace("____cacheline_aligned", "").split()))
    assert sorted(moved["+"]) == sorted(moved["-"])
