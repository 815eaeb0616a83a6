# SPDX-License-Identifier: GPL-2.0
"""The designs that are counted beside each other: their commands, and their table."""

from __future__ import annotations

from pathlib import Path

import pytest
import toy_results

from conftest import read_words
from proof.variants import FILES, command, read_designs, table
from schedlib.c2c import c2c_verb


@pytest.mark.parametrize("path", sorted(FILES.glob("*.toml")), ids=lambda path: path.stem)
def test_each_design_is_a_command_of_c2c(path: Path, tmp_path: Path) -> None:
    designs = read_designs(path)
    for workload in designs.workloads:
        for name in designs.designs:
            words = command(designs, workload, name, tmp_path / name)
            assert read_words(c2c_verb, *words[1:]).workload == workload


def test_the_table_has_medians_of_the_quanta() -> None:
    quanta = [(toy_results.row("rto_count", 0, 0, hitm),) for hitm in (300, 310, 290)]
    said = table("rt", {"as it is": toy_results.result(*quanta)})
    assert said[0].split() == ["rt", "misses", "HITM", "false", "sharing", "upgrades"]
    assert "300 (290..310)" in said[1]
