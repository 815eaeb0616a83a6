# SPDX-License-Identifier: GPL-2.0
"""Misses weighted by latencies: never without the counts, and never with a latency that nobody published."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from toy_results import result, row

from schedlib.c2c import weighted
from schedlib.c2c.plugin_guest import Setting
from schedlib.c2c.raw import DISTANCES
from schedlib.errors import SchedlineError
from schedlib.formats.c2c_document import Counts, Latencies
from schedlib.kernel.topology import Topology, flat, load_topology
from schedlib.names import latency_names
from schedlib.paths import CONFIGS

SOME = Latencies("toy", "a machine", "a page", "a message", llc=10.0, node=100.0, remote=200.0)
COUNTS = Counts(accesses=100, hitm_llc=30, clean_llc=20, hitm_node=7, clean_remote=3, cold=40, upgrades=9, essential=60)


def test_a_weight_is_the_sum_of_what_others_answered() -> None:
    assert weighted.weight(COUNTS, replace(SOME, llc=10_000.0)) == 50 * 10 + 1
    # Cold misses, upgrades and hits weigh nothing.
    assert weighted.weight(replace(COUNTS, cold=0, upgrades=0, hits=5), SOME) == weighted.weight(COUNTS, SOME) == 2


def test_weights_are_shown_with_the_counts_and_their_source() -> None:
    toy = result(*((row("rto_count", 4, 0, 1000 + each), row("overloaded", 40, 3000, 10)) for each in (0, 10, 40)))
    assert list(weighted.lines(toy)) == []
    said = list(weighted.lines(replace(toy, latencies=SOME)))
    assert "weighted by the latencies of a machine: llc 10 ns, node 100 ns, remote 200 ns" in said
    assert "source: a page; a message" in said
    head = next(number for number, line in enumerate(said) if line.startswith("field"))
    assert said[head].split() == ["field", "weighted,", "us", "misses", "cluster", "llc", "node", "remote"]
    assert said[head + 1].split() == ["root_domain.overloaded", "30", "3010", "0", "3010", "0", "0"]
    assert said[head + 2].split()[:3] == ["root_domain.rto_count", "10", "1010"]


@pytest.mark.parametrize(
    ("shape", "lacking"),
    [(flat(16), ""), (load_topology("llcs"), "remote"), (load_topology("clusters"), "cluster")],
    ids=["flat", "llcs", "clusters"],
)
def test_a_distance_without_a_latency_is_refused(shape: Topology, lacking: str) -> None:
    setting, known = Setting(shape, 64, 0, 1, 1.0), replace(SOME, remote=UNSET)
    if not lacking:
        weighted.refuse_lacking(known, setting)
        return
    with pytest.raises(SchedlineError, match=f"has no latency for '{lacking}'"):
        weighted.refuse_lacking(known, setting)
    weighted.refuse_lacking(replace(SOME, cluster=1.0), setting)


def test_every_file_has_a_source_and_grows_with_the_distance() -> None:
    assert latency_names()
    for name in latency_names():
        found = weighted.load_latencies(CONFIGS / f"latencies/{name}.toml")
        assert found.name == name
        assert found.source and found.machine and found.about
        known = [value for value in map(found.of, DISTANCES) if value is not None]
        assert known == sorted(known)
        assert known[0] > 0


def test_a_file_without_a_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('machine = "m"\nabout = "a"\nllc = 5.0\n')
    with pytest.raises(SchedlineError, match="lacks source"):
        weighted.load_latencies(tmp_path / "mine.toml")
