# SPDX-License-Identifier: GPL-2.0
"""The plugin under a real kernel: counts that are known to the access, equal runs, and what goes wrong."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from schedlib import options
from schedlib.c2c import report, run
from schedlib.c2c.document import document, read_result
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.measure import Subject, Wanted, measure, plan, subject
from schedlib.c2c.objects import TAGS, Watch
from schedlib.c2c.raw import Counts, Raw
from schedlib.c2c.run import Setting
from schedlib.c2c.workload import SOURCES
from schedlib.cache import cache_dir, write_json
from schedlib.errors import SchedlineError
from schedlib.topology import Topology, flat

pytestmark = pytest.mark.guest

ROUNDS = 30
LINE = 64
SETTING = Setting(flat(2), LINE, 100, ROUNDS, 120.0)
WANTED = Wanted("rt", ("root_domain",), (100,), replace(SETTING, rounds=5))


@pytest.fixture(scope="module")
def made() -> Iterator[Subject]:
    """The kernel that c2c boots, nobody else's meanwhile."""
    with options.opened(None, None) as (cache, tree):
        yield subject(cache, tree, WANTED)


def run_program(made: Subject, binary: Path, place: Path, setting: Setting, text: str) -> Raw:
    """A program under the plugin, with a plan."""
    (place / "plan").write_text(text)
    archive = run.archive_of(made.kernel, binary, place)
    library = run.plugin(cache_dir())
    words = run.argv(made.kernel.image, archive, setting, library, place / "plan", place / "out")
    return run.measured(words, place / "console.log", place / "out", setting.timeout)[1]


def plan_of(made: Subject, *watches: Watch) -> str:
    """With what shows that the kernel is the right one."""
    return plan(kernel_map(made.vmlinux, cache_dir() / "c2c", TAGS), watches)


def compiled(place: Path, body: str) -> Path:
    """A guest's program that does what a test wants."""
    source, binary = place / "guest.c", place / "guest"
    source.write_text(f'#define _GNU_SOURCE\n#include "guest.h"\nint main(void)\n{{\n\tbegin();\n{body}\n}}\n')
    argv = ["gcc", "-O2", "-static", "-pthread", f"-I{SOURCES}", "-o", str(binary), str(source)]
    subprocess.run(argv, check=True)
    return binary


def test_a_program_with_known_answers(made: Subject, tmp_path: Path) -> None:
    binary = run.program(cache_dir(), "known")
    symbols = subprocess.run(["nm", binary], check=True, capture_output=True, text=True).stdout
    found = re.search(r"^([0-9a-f]+) B watched$", symbols, re.M)
    assert found
    start = int(found.group(1), 16)
    watch = Watch("watched", "watched", "", 0, 7 * LINE, "", per_cpu=False, address=start, hops=())
    raw = run_program(made, binary, tmp_path, replace(SETTING, programs=True), plan_of(made, watch))
    got: dict[tuple[int, str], Counts] = {}
    for record in raw.records:
        key = (record.address - start, record.kind)
        got[key] = Counts.sum([got.get(key, Counts()), record.counts])
    n = ROUNDS
    turns = Counts(accesses=2 * n, hitm_llc=2 * n - 1, cold=1, invalidated=2 * n - 1, essential=2 * n)
    assert got == {
        # Packed counters: all but the first miss of each are false sharing.
        (0, "store"): Counts(accesses=n, hitm_llc=n - 1, cold=1, invalidated=n - 1, essential=1, false_shared=n - 1),
        (8, "store"): Counts(accesses=n, hitm_llc=n, invalidated=n, essential=1, false_shared=n - 1),
        # Padded ones.
        (64, "store"): Counts(accesses=n, hits=n - 1, cold=1, essential=1),
        (128, "store"): Counts(accesses=n, hits=n - 1, cold=1, essential=1),
        # Atomic ones are true sharing, and one access each.
        (192, "rmw"): turns,
        # Read-mostly beside written.
        (256, "load"): Counts(accesses=n, hitm_llc=n - 1, cold=1, essential=1, false_shared=n - 1),
        (264, "store"): Counts(accesses=n, clean_llc=1, upgrades=n - 1, invalidated=n, essential=1),
        # One store across two lines.
        (380, "store"): turns,
        (384, "store"): turns,
    }


def test_equal_runs_are_equal_to_the_byte(made: Subject, tmp_path: Path) -> None:
    texts, files = [], []
    for name in ("one", "two"):
        place = tmp_path / name
        place.mkdir()
        result = measure(cache_dir(), made, WANTED, place, place)
        texts.append(report.text(result))
        write_json(place / "c2c.json", document(replace(result, started="2000-01-01T00:00:00Z")))
        files.append((place / "c2c.json").read_bytes())
        assert read_result(place) == replace(result, started="2000-01-01T00:00:00Z")
    assert texts[0] == texts[1]
    assert files[0] == files[1]
    assert "root_domain.rto_count" in texts[0]


def test_a_kernel_elsewhere_is_refused(made: Subject, tmp_path: Path) -> None:
    text = plan_of(made).replace("expect ffffffff", "expect fffffffe")
    with pytest.raises(SchedlineError, match="not where its vmlinux says"):
        run_program(made, run.program(cache_dir(), "rt"), tmp_path, SETTING, text)
    assert not (tmp_path / "out").exists()


def test_a_stop_that_is_never_reached(made: Subject, tmp_path: Path) -> None:
    binary = compiled(tmp_path, "\tMARK_START();\n\tend(1);")
    with pytest.raises(SchedlineError, match=r"stop marker .* not reached"):
        run_program(made, binary, tmp_path, SETTING, plan_of(made))


def test_a_panic(made: Subject, tmp_path: Path) -> None:
    binary = compiled(tmp_path, "\tMARK_START();\n\treturn 0;")
    with pytest.raises(SchedlineError, match="panicked: Kernel panic - not syncing: Attempted to kill init"):
        run_program(made, binary, tmp_path, SETTING, plan_of(made))
    assert not (tmp_path / "out").exists()


def test_a_hang(made: Subject, tmp_path: Path) -> None:
    binary = compiled(tmp_path, "\tMARK_START();\n\tfor (;;)\n\t\t;")
    with pytest.raises(SchedlineError, match="the guest hung"):
        run_program(made, binary, tmp_path, replace(SETTING, timeout=30.0), plan_of(made))
    assert not (tmp_path / "out").exists()


def test_a_program_that_fails(made: Subject, tmp_path: Path) -> None:
    binary = compiled(tmp_path, '\tfail("a thing");')
    with pytest.raises(SchedlineError, match="c2c: failed: a thing"):
        run_program(made, binary, tmp_path, SETTING, plan_of(made))


MOVES = """
	static _Alignas(64) volatile char one[64], two[64];
	static volatile char *volatile pointer = one;

	MARK_START();
	one[0] = 1;
	two[8] = 1;
	pointer = two;
	one[16] = 1;
	two[24] = 1;
	two[24] = 2;
	pointer = NULL;
	two[32] = 1;
	pointer = one;
	one[40] = 1;
	MARK_STOP();
	end(1);
"""


def test_objects_that_come_and_go(made: Subject, tmp_path: Path) -> None:
    binary = compiled(tmp_path, MOVES)
    symbols = subprocess.run(["nm", binary], check=True, capture_output=True, text=True).stdout
    at = {name: int(start, 16) for start, name in re.findall(r"^([0-9a-f]+) [bd] (one|two|pointer)\b", symbols, re.M)}
    pointer = at["pointer"]
    objects = [
        Watch("moved", "moved", "", 0, 64, "", per_cpu=False, address=pointer, hops=(0,)),
        # Of what is used again each byte belongs to the one that was there last.
        Watch("half", "half", "", 0, 32, "", per_cpu=False, address=pointer, hops=(32,)),
    ]
    for watch in objects:
        raw = run_program(made, binary, tmp_path, replace(SETTING, programs=True), plan_of(made, watch))
        offset, size = watch.hops[0], watch.size
        assert [(each.address - offset, each.size, each.epoch) for each in raw.instances] == [
            (at["one"], size, 1), (at["two"], size, 2), (at["one"], size, 3),
        ]  # fmt: skip
        got = Counter[tuple[int, int]]()
        for record in raw.records:
            got[record.address, record.epoch] += record.counts.accesses
        # One epoch for each time that it was pointed to; 0 beside what is watched, on its line.
        expected = {(at["one"], 1): 1, (at["two"] + 24, 2): 2, (at["one"] + 40, 3): 1}
        assert got == {
            (address, epoch if (address & 63) >= offset else 0): number
            for (address, epoch), number in expected.items()
        }  # fmt: skip
        (tmp_path / "out").unlink()


def test_an_object_that_is_nowhere(made: Subject, tmp_path: Path) -> None:
    # Two CPUs without a cache in common have no domain of an LLC.
    alone = replace(WANTED, objects=("sched_domain_shared",), setting=replace(
        WANTED.setting, topology=Topology("", 2, 1, 1, 1, 1)))  # fmt: skip
    with pytest.raises(SchedlineError, match="no CPU of this guest has a sched_domain_shared"):
        measure(cache_dir(), made, alone, tmp_path, tmp_path)
