# SPDX-License-Identifier: GPL-2.0
"""The plugin under a real kernel: counts that are known exactly, runs that repeat exactly, and what goes wrong."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from toy_kernel import use_programs_of_tests
from toy_results import by_place, in_turns, measurement

from schedlib.c2c import plugin_guest, traffic_report
from schedlib.c2c.c2c_job import BuiltKernel, built, observe, plan, source
from schedlib.c2c.c2c_options import ALL, SOURCES, TAGS
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.objects import Watch
from schedlib.c2c.observed import ObservedGuest, Player, keep_trace, played, result_of, traced
from schedlib.c2c.plugin_guest import DEFAULT_TARGET, Measurement
from schedlib.cache import cache_dir, scratch
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import Counts, read_result
from schedlib.kernel.topology import Topology
from schedlib.main import main
from schedlib.suggest.suggest_report import SuggestDocument
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.guest

ROUNDS = 30
LINE = 64


def asked_for(**others: Any) -> Measurement:
    """By default a short measurement of root_domain on two CPUs."""
    return measurement(2, **{"rounds": 5} | others)


PROGRAM = replace(asked_for(rounds=ROUNDS), user_space=True)
"""How a program of these tests is run: its own accesses count."""


@pytest.fixture(scope="module", params=[DEFAULT_TARGET.name, pytest.param("qemu-arm64", marks=pytest.mark.long)])
def made(request: pytest.FixtureRequest, series: Tree) -> Iterator[BuiltKernel]:
    """The kernel that c2c boots."""
    cache = cache_dir()
    with scratch(cache) as place:
        yield built(cache, source(series, asked_for(on=request.param)), place)


def run_program(
    made: BuiltKernel, binary: Path, place: Path, text: str, tape: Path | None = None, asked: Measurement = PROGRAM
) -> ObservedGuest:
    """Run a program under the plugin with a plan; its accesses go to `tape`."""
    on = structs.replace(asked.parameters, on=made.planned.target.name)
    asked = replace(asked, parameters=on)
    (place / "plan").write_text(text)
    archive = plugin_guest.archive_of(made.kernel, {"/init": binary}, place)
    library = plugin_guest.plugin(cache_dir())
    words = plugin_guest.argv(asked, 100, made.kernel.image, archive, library, place / "plan", place / "out", tape)
    return plugin_guest.measured(words, place / "console.log", place / "out", asked)


def watch_at(address: int, size: int, *hops: int) -> Watch:
    return Watch("watched", "watched", "", 0, size, "", per_cpu=False, address=address, hops=hops, optional=False)


def plan_of(made: BuiltKernel, *watches: Watch) -> str:
    """A plan that also checks that the right kernel runs."""
    return plan(kernel_map(made.vmlinux, cache_dir() / "c2c", TAGS), watches)


def compiled(made: BuiltKernel, place: Path, body: str) -> Path:
    """A program for the guest with this body."""
    source, binary = place / "guest.c", place / "guest"
    source.write_text(f'#define _GNU_SOURCE\n#include "guest.h"\nint main(void)\n{{\n\tbegin();\n{body}\n}}\n')
    flags = ["-O2", "-static", "-pthread", f"-I{SOURCES}"]
    subprocess.run([f"{made.planned.target.compiler}gcc", *flags, "-o", str(binary), str(source)], check=True)
    return binary


def symbol(made: BuiltKernel, binary: Path, name: str) -> int:
    """The address of a variable, by its kind and name in the output of nm."""
    argv = [f"{made.planned.target.compiler}nm", str(binary)]
    symbols = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = re.search(rf"^([0-9a-f]+) {name}\b", symbols, re.M)
    assert found
    return int(found.group(1), 16)


def test_a_program_with_known_answers(made: BuiltKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_programs_of_tests(tmp_path, monkeypatch)
    binary = plugin_guest.program(cache_dir(), "known", made.planned.target)
    start = symbol(made, binary, "B watched")
    raw = run_program(made, binary, tmp_path, plan_of(made, watch_at(start, 8 * LINE)))
    n = ROUNDS
    first, second, turns, read, written = in_turns(n)
    assert by_place(raw.records, start) == {
        # Packed counters.
        (0, "store"): first,
        (8, "store"): second,
        # Padded counters.
        (64, "store"): Counts(accesses=n, hits=n - 1, cold=1, essential=1),
        (128, "store"): Counts(accesses=n, hits=n - 1, cold=1, essential=1),
        # Atomic counters have one access each.
        (192, "rmw"): turns,
        # A read-mostly field beside a written one.
        (256, "load"): read,
        (264, "store"): written,
        # One store across two lines.
        (380, "store"): turns,
        (384, "store"): turns,
        # A separate load and store: the load has fetched the line, exclusive the first time and shared afterwards.
        (448, "load"): Counts(accesses=2 * n, hitm_llc=2 * n - 1, cold=1, essential=2 * n),
        (448, "store"): Counts(accesses=2 * n, hits=1, upgrades=2 * n - 1, invalidated=2 * n - 1),
    }


INSTRUCTIONS: dict[str, tuple[str, dict[str, list[tuple[str, int]]]]] = {
    "x86_64": (
        "rax",
        {
            "lock incq (%0)": [("rmw", 8)],
            "incq (%0)": [("load", 8), ("store", 8)],
            "xchg %%rax, (%0)": [("rmw", 8)],
            "lock cmpxchgl %%eax, (%0)": [("rmw", 4)],
            "mov %%rax, (%0)": [("store", 8)],
        },
    ),
    "arm64": (
        "x1 x2 x3 x4 x5",
        {
            "stadd x1, [%0]": [("rmw", 8)],
            "swpb w1, w2, [%0]": [("rmw", 1)],
            "ldapr x1, [%0]": [("load", 8)],
            # The first compare succeeds, the second one fails.
            "mov x1, #0; cas x1, x2, [%0]": [("rmw", 8)],
            "mov x1, #7; cas x1, x2, [%0]": [("rmw", 8)],
            "casp x2, x3, x4, x5, [%0]": [("rmw", 8), ("rmw", 8)],
            "ldxr x1, [%0]; stxr w2, x1, [%0]": [("load", 8), ("store", 8)],
            "ldxr x1, [%0]; clrex; stxr w2, x1, [%0]": [("load", 8)],
            # The stxr stores nothing, because the value has changed. QEMU reports a store; see arch.h.
            "ldxr x1, [%0]; mov x3, #5; str x3, [%0]; stxr w2, x1, [%0]": [("load", 8), ("store", 8), ("store", 8)],
            "ldxp x1, x2, [%0]; stxp w3, x1, x2, [%0]": [("load", 8), ("load", 8), ("store", 8), ("store", 8)],
            "ldr x1, [%0]; str x1, [%0]": [("load", 8), ("store", 8)],
        },
    ),
}


def test_what_is_counted_of_an_instruction(made: BuiltKernel, tmp_path: Path) -> None:
    clobbered, instructions = INSTRUCTIONS[made.planned.target.arch]
    names = ", ".join(f'"{name}"' for name in (*clobbered.split(), "memory"))
    body = f"\tstatic _Alignas({LINE}) char lines[{LINE * len(instructions)}];\n\tMARK_START();\n"
    extension = ".arch armv8.3-a;" if made.planned.target.arch == "arm64" else ""
    for number, text in enumerate(instructions):
        body += f'\t__asm__ volatile("{extension}{text}" :: "r"(lines + {number * LINE}) : {names});\n'
    binary = compiled(made, tmp_path, f"{body}\tMARK_STOP();\n\tend(1);")
    start = symbol(made, binary, "b lines")
    raw = run_program(made, binary, tmp_path, plan_of(made, watch_at(start, LINE * len(instructions))))
    seen: dict[str, list[tuple[str, int]]] = {text: [] for text in instructions}
    for record in raw.records:
        text = list(instructions)[(record.address - start) // LINE]
        seen[text] += [(record.kind, record.size)] * record.counts.accesses
    assert {text: sorted(accesses) for text, accesses in seen.items()} == instructions


def test_equal_runs_are_equal_to_the_byte(made: BuiltKernel, tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        place = tmp_path / name
        place.mkdir()
        result = result_of(observe(cache_dir(), made, asked_for(on=made.planned.target.name), place, place))
        result = structs.replace(result, started=datetime(2000, 1, 1, tzinfo=UTC))
        document.write(place / "c2c.json", result)
        found.append((traffic_report.text(result), (place / "c2c.json").read_bytes()))
        assert read_result(place) == result
    assert found[0] == found[1]
    assert "root_domain.rto_count" in found[0][0]


@pytest.mark.parametrize("line", [64, 128, 256])
def test_a_replay_is_what_the_guest_has_counted(made: BuiltKernel, tmp_path: Path, line: int) -> None:
    """One guest with lines of 64 bytes is enough to know what others with longer lines count."""
    cache = cache_dir()
    kept, plain = tmp_path / "kept", tmp_path / "plain"
    for place in (kept, plain):
        place.mkdir()
    watched: dict[str, Any] = {"on": made.planned.target.name, "objects": ("rq", "root_domain", "nohz")}
    observed = observe(cache, made, asked_for(**watched), kept, kept, taped=True)
    player = Player(plugin_guest.replayer(cache), observed.parameters)
    keep_trace(tmp_path / "one.trace", observed)
    replayed = played(player, traced(tmp_path / "one.trace", kept), line)
    counted = observe(cache, made, asked_for(**watched, line=line), plain, plain, taped=False)
    assert replace(replayed.guests[0], tape=None) == counted.guests[0]
    again = structs.replace(result_of(replayed), started=observed.started)
    assert again == structs.replace(result_of(counted), started=observed.started)
    # The twin: other lines give other counts.
    other = player.counts(replayed.guests[0], 256 if line == 64 else 64)
    assert other.records != counted.guests[0].records


def test_all_memory_has_names(made: BuiltKernel, tmp_path: Path) -> None:
    """Everything that is known otherwise, through pointers, has to be found where the slabs and symbols say."""
    names = ("rq", "root_domain")
    on = made.planned.target.name
    whole, some = (
        observe(cache_dir(), made, asked_for(on=on, objects=objects), tmp_path, tmp_path, taped=taped)
        for objects, taped in (((ALL, *names), True), (names, False))
    )
    result = result_of(whole)
    rows = {row for row in result.quanta[0].rows if row.owner in names}
    assert rows == {row for row in result_of(some).quanta[0].rows if not row.neighbour}
    found = {row.owner for row in result.quanta[0].rows}
    assert "task_struct" in found
    raw = whole.guests[0]
    root = next(each for each in raw.instances if each.key == "root_domain+0")
    page = raw.pages[root.address // 4096 * 4096]
    if page.kind == "slab":
        assert page.cache.startswith("kmalloc-")
        assert (root.address - page.first) % page.size == 0
        assert page.size >= root.size
    else:
        assert (page.kind, root.address % 4096, root.size > 4096) == ("large", 0, True)
    # By far the most misses have a name.
    misses = Counter[str]()
    for row in result.quanta[0].rows:
        misses[row.owner] += row.counts.misses
    assert misses["unnamed"] < 0.1 * misses.total()
    player = Player(plugin_guest.replayer(cache_dir()), whole.parameters)
    again = result_of(played(player, whole, LINE))
    assert again == result


def test_a_kernel_elsewhere_is_refused(made: BuiltKernel, tmp_path: Path) -> None:
    text = plan_of(made).replace("expect ffff", "expect fffe")
    with pytest.raises(SchedlineError, match="not where its vmlinux says"):
        run_program(made, plugin_guest.program(cache_dir(), "rt", made.planned.target), tmp_path, text)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\tMARK_START();\n\tend(1);", r"stop marker .* not reached"),
        ("\tMARK_START();\n\treturn 0;", "panicked: Kernel panic - not syncing: Attempted to kill init"),
        ("\tMARK_START();\n\tfor (;;)\n\t\t;", "the guest hung"),
        ('\tfail("a thing");', "c2c: failed: a thing"),
    ],
)
def test_a_guest_that_fails_has_no_result(made: BuiltKernel, tmp_path: Path, body: str, said: str) -> None:
    asked = replace(PROGRAM, timeout=10.0) if "hung" in said else PROGRAM
    with pytest.raises(SchedlineError, match=said):
        run_program(made, compiled(made, tmp_path, body), tmp_path, plan_of(made), asked=asked)
    assert not (tmp_path / "out").exists()


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


def test_objects_that_come_and_go(made: BuiltKernel, tmp_path: Path) -> None:
    binary = compiled(made, tmp_path, MOVES)
    at = {name: symbol(made, binary, f"[bd] {name}") for name in ("one", "two")}
    pointer = symbol(made, binary, "d pointer")
    # When memory is used again, each byte belongs to the object that was last there.
    for size, offset in ((64, 0), (32, 32)):
        raw = run_program(made, binary, tmp_path, plan_of(made, watch_at(pointer, size, offset)))
        assert [(each.address - offset, each.size, each.epoch) for each in raw.instances] == [
            (at["one"], size, 1),
            (at["two"], size, 2),
            (at["one"], size, 3),
        ]
        got = Counter[tuple[int, int]]()
        for record in raw.records:
            got[record.address, record.epoch] += record.counts.accesses
        # A new epoch each time that the pointer is set to it; epoch 0 for the unwatched bytes of a watched line.
        expected = {(at["one"], 1): 1, (at["two"] + 24, 2): 2, (at["one"] + 40, 3): 1}
        assert got == {
            (address, epoch if (address & 63) >= offset else 0): number for (address, epoch), number in expected.items()
        }
        (tmp_path / "out").unlink()


def test_an_object_that_is_nowhere(made: BuiltKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two CPUs that share no cache have no LLC domain.
    monkeypatch.setattr(plugin_guest, "shape_of", lambda *_: Topology("", 2, 1, 1, 1, 1))
    alone = asked_for(on=made.planned.target.name, objects=("sched_domain_shared",))
    with pytest.raises(SchedlineError, match="no CPU of this guest has a sched_domain_shared"):
        observe(cache_dir(), made, alone, tmp_path, tmp_path)


@pytest.mark.long
def test_an_order_is_suggested_for_the_kernel_of_its_traces(made: BuiltKernel, tmp_path: Path) -> None:
    """What was counted in the guest is what the search begins with; a trace of another source is refused."""
    if made.planned.target is not DEFAULT_TARGET:
        pytest.skip("one architecture is enough")
    cache, place = cache_dir(), tmp_path / "kept"
    place.mkdir()
    observed = observe(cache, made, asked_for(objects=("rq",)), place, place, taped=True)
    keep_trace(tmp_path / "rt.trace", observed)
    words = ["c2c", "suggest", "rq", "--trace", str(tmp_path / "rt.trace"), "--no-measure"]
    assert main([*words, "--out", str(tmp_path / "out"), "--json", str(tmp_path / "rq.json")]) == 0
    found = document.read(tmp_path / "rq.json", SuggestDocument, "")
    assert found.status in ("no gain in a workload that the search did not see", "no gain")
    today = next((row for row in found.costs if row.layout == "today"), None)
    rows = [row.counts for row in result_of(observed).quanta[0].rows if row.owner == "rq" and not row.prefix]
    assert today is None or today.misses == (Counts.sum(rows).misses,)
    assert not (tmp_path / "out/suggested.patch").exists()
    with pytest.raises(SchedlineError, match="the traces are of another source than this tree with these changes"):
        main([*words, "--without", "rd-lines"])
