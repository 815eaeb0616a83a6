# SPDX-License-Identifier: GPL-2.0
"""Topologies are data files: each one can be read, and an impossible one is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib import names
from schedlib.errors import SchedlineError
from schedlib.kernel import topology
from schedlib.kernel.topology import load_topology
from schedlib.paths import CONFIGS

NAMES = sorted(path.stem for path in (CONFIGS / "topologies").iterdir())
GOOD = "sockets = 1\nnodes = 2\nclusters = 2\ncores = 4\nthreads = 1\n"


@pytest.mark.parametrize(("name", "cpus"), [("kunpeng920", 64), ("jacobsville", 24), ("smt2", 64), ("smt4", 64)])
def test_machines_have_the_cpus_that_they_are_known_for(name: str, cpus: int) -> None:
    assert load_topology(name).cpus == cpus


@pytest.mark.parametrize("name", NAMES)
def test_every_topology_can_be_read_and_named_beside_a_cpu_count(name: str) -> None:
    assert load_topology(name).cpus > 1
    assert name.isalnum()
    assert not name.isdigit()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("cores = 4\n", ""), "mine.toml:1: the file lacks cores"),
        (GOOD + "dies = 1\n", "mine.toml:6: dies is unknown"),
        (GOOD.replace("4", "0"), "mine.toml:4: cores is '0'"),
        (GOOD.replace("4", "true"), "mine.toml:4: cores is 'True'"),
        (GOOD.replace("4", "64"), "mine.toml:1: the file has 128 CPUs\n  next: write 64 at most"),
        (GOOD.replace("nodes = 2", "nodes = 3"), "mine.toml:2: nodes does not divide the 8 CPUs"),
        (GOOD + "memoryless = 2\n", "mine.toml:6: memoryless leaves none of 2 nodes with memory"),
        ("cores", "Expected"),
    ],
)
def test_file_that_describes_no_machine(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topologies").mkdir()
    (tmp_path / "topologies" / "mine.toml").write_text(text)
    for module in (topology, names):
        monkeypatch.setattr(module, "CONFIGS", tmp_path)
    with pytest.raises(SchedlineError, match=message):
        load_topology("mine")
