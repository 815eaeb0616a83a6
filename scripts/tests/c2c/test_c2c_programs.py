# SPDX-License-Identifier: GPL-2.0
"""Programs in a guest of their own kernel: the built-in ones, programs and scripts of users, and how they can fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from schedlib.c2c.c2c_job import BuiltKernel, built, measure, source
from schedlib.c2c.c2c_options import PROGRAMS, WORKLOADS, OwnProgram
from schedlib.c2c.plugin_guest import Measurement, parameters_of
from schedlib.cache import cache_dir, scratch
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import TrafficResult
from schedlib.kernel.topology import flat
from schedlib.tree.kernel_tree import Tree

# All of them use one kernel, which no other test needs.
pytestmark = [pytest.mark.guest, pytest.mark.long]

CPUS = 4
PARAMETERS = parameters_of(flat(CPUS), objects=("rq",), rounds=2, config=PROGRAMS)
ASKED = Measurement(PARAMETERS, flat(CPUS), (100,), 120.0)


@pytest.fixture(scope="module")
def made(series: Tree) -> Iterator[BuiltKernel]:
    """The kernel for programs."""
    cache = cache_dir()
    with scratch(cache) as place:
        yield built(cache, source(series, ASKED), place)


def counted(made: BuiltKernel, own: OwnProgram, place: Path) -> TrafficResult:
    """A program of a user, counted once."""
    (place / "scratch").mkdir()
    asked = replace(ASKED, parameters=structs.replace(PARAMETERS, workload=own.name, rounds=1), program=own)
    return measure(cache_dir(), made, asked, place / "scratch", place)


def script(place: Path, text: str, *, marked: bool = False) -> OwnProgram:
    """A script of a user."""
    (place / "my.sh").write_text(text)
    return OwnProgram(place / "my.sh", marked=marked)


@pytest.mark.parametrize("name", [name for name, each in WORKLOADS.items() if each.config == PROGRAMS])
def test_a_built_in_program(made: BuiltKernel, tmp_path: Path, name: str) -> None:
    asked = replace(ASKED, parameters=structs.replace(PARAMETERS, workload=name))
    result = measure(cache_dir(), made, asked, tmp_path, tmp_path)
    # `switch` has two processes a CPU.
    assert result.quanta[0].operations == 2 * CPUS * (2 if name == "switch" else 1)
    assert sum(row.counts.misses for row in result.quanta[0].rows) > 0


def test_a_script_with_files_and_marks(made: BuiltKernel, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "data").write_text("some data\n")
    own = script(tmp_path, 'cat data "$1"\nschedline-count start\ntrue | cat\nschedline-count stop\n', marked=True)
    result = counted(made, replace(own, files=files, arguments=("data",)), tmp_path)
    assert (tmp_path / "quantum-100.log").read_text().count("program: some data") == 2
    assert result.quanta[0].operations == 1
    assert result.parameters.workload == "my.sh data (marked)"
    part = result.quanta[0].watched
    (tmp_path / "whole").mkdir()
    assert counted(made, script(tmp_path, "true | cat\ntrue | cat\n"), tmp_path / "whole").quanta[0].watched > part


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedline-count start\nschedline-count stop\nexit 1", "the program exited with status 1"),
        ("true", "ended without `schedline-count start`"),
        ("schedline-count stop", "a stop marker without a start"),
        ("schedline-count start\nschedline-count start", "a second start marker"),
    ],
)
def test_a_program_that_fails_gives_no_result(made: BuiltKernel, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SchedlineError, match=said):
        counted(made, script(tmp_path, text + "\n", marked=True), tmp_path)
