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


def test_what_groups_leave_alone_is_as_recorded() -> None:
    """docs/results/cfs-split.md says how many bytes; `h_load` ends in a hole, and `next` was read with 16 CPUs."""
    fields = tomllib.loads((PROJECT / "docs/recorded/cfs-split.toml").read_text())["layout"]["today"]
    unused = {name: size for _, size, name, accesses, _ in fields if not accesses}
    assert sum(size for name, size in unused.items() if name.startswith("cfs_rq.") and name != "cfs_rq.next") == 52
    assert sum(size for name, size in unused.items() if name.startswith("se.")) == 126
    own_lines = "cfs_rq.avg", "cfs_rq.removed", "se.avg"  # by the alignment of their types
    used = {name: size for _, size, name, *_ in fields if name not in (*unused, *own_lines) or name == "cfs_rq.next"}
    lines = [-(-sum(size for name, size in used.items() if name.startswith(each)) // 64) for each in ("cfs_rq.", "se.")]
    assert 64 * (sum(lines) + len(own_lines)) == 640
    page = (PROJECT / "docs/results/cfs-split.md").read_text()
    assert "left 52 bytes of `cfs_rq` and 126 of" in page and "predicted: 640" in page


def test_recorded_patches_are_whole() -> None:
    for path in (PROJECT / "docs/recorded").glob("*.patch"):
        subprocess.run(["git", "apply", "--numstat", path], check=True)  # the last line has its end, too


def test_the_recorded_order_keeps_each_member() -> None:
    """Also those of configurations that were not counted, such as CONFIG_SCHED_CORE."""
    patch, moved = (made_pages.RECORDED / "cfs-split.patch").read_text(), defaultdict[str, list[str]](list)
    for sign, declaration in re.findall(r"^([+-])\t([^/*#\n]+;)", patch, re.M):
        moved[sign].append("".join(declaration.replace("____cacheline_aligned", "").split()))
    assert sorted(moved["+"]) == sorted(moved["-"])
