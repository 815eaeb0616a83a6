# SPDX-License-Identifier: GPL-2.0
"""The tables are read out of an object of any architecture. A damaged object is reported, never trusted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.contracts.c_tables import VERSION
from schedlib.errors import SchedlineError
from schedlib.layout.tables import Compiled, read_fields, read_object

pytestmark = pytest.mark.tools


def fields(*names: str, line: int = 64, compiler: str = toys.GCC) -> Compiled:
    """The tables of a toy kernel."""
    return read_fields(toys.fields_object(*names, line=line, compiler=compiler).read_bytes(), "toy.o")


@pytest.mark.parametrize("compiler", [toys.ARM64, toys.S390X])
def test_tables_of_other_architectures_are_the_same(compiler: str) -> None:
    toys.needs(compiler)
    assert fields(compiler=compiler) == fields()


def test_big_endian_object_is_one() -> None:
    toys.needs(toys.S390X)
    assert toys.fields_object(compiler=toys.S390X).read_bytes()[5] == 2
    assert toys.fields_object().read_bytes()[5] == 1


def holds(read: Compiled) -> set[str]:
    """The conditions that are true."""
    return {condition for condition, value in read.holds.items() if value}


@pytest.mark.parametrize("line", [32, 64, 256])
def test_environment(line: int) -> None:
    read = fields(line=line)
    assert read.line == line
    assert set(read.holds) == set(toys.real_rules().conditions())
    assert read.holds["line == 64"] is (line == 64)
    assert read.holds["line >= 64"] is (line >= 64)
    assert read.holds["line <= 128"] is (line <= 128)
    assert {"CONFIG_SMP", "64bit", "locks plain", "!CONFIG_SCHED_PROXY_EXEC"} <= holds(read)
    assert holds(read).isdisjoint({"!CONFIG_SMP", "locks debugged", "CONFIG_SCHED_PROXY_EXEC"})


def test_environment_of_another_configuration() -> None:
    read = fields("-CONFIG_SMP", "CONFIG_DEBUG_SPINLOCK", "CONFIG_SCHED_PROXY_EXEC")
    assert {"!CONFIG_SMP", "locks debugged", "CONFIG_SCHED_PROXY_EXEC"} <= holds(read)
    assert holds(read).isdisjoint({"CONFIG_SMP", "locks plain", "!CONFIG_SCHED_PROXY_EXEC"})
    assert "root_domain" not in {kind.name for kind in read.types}


def test_types_and_fields() -> None:
    read = fields()
    types = {kind.name: kind for kind in read.types}
    assert (types["cpupri_vec"].size, types["cpupri_vec"].align) == (128, 64)
    assert types["cpupri"].size == 101 * 128 + 64
    by_name = {(field.type, field.member): field for field in read.fields}
    assert by_name["rq", "donor"].offset == by_name["rq", "curr"].offset
    assert (by_name["rq", "idle"].count, by_name["rq", "idle"].stride) == (1, 0)
    assert by_name["rq", "idle"].last == by_name["rq", "idle"].offset + 7


def test_configuration_decides_which_members_are_listed() -> None:
    listed = {(field.type, field.member) for field in fields().fields}
    less = {(field.type, field.member) for field in fields("-HAVE_RT_PUSH_IPI", "-CONFIG_NUMA_BALANCING").fields}
    assert listed - less == {
        *(("root_domain", f"rto_{name}") for name in ("push_work", "lock", "loop", "cpu", "loop_next", "loop_start")),
        *(("rq", name) for name in ("nr_numa_running", "nr_preferred_running", "numa_migrate_on")),
    }


TOY = """\
typedef unsigned int u32;
struct type {{ char name[16]; u32 size, align; }};
struct field {{ char type[16], member[32]; u32 offset, size, count, stride; }};
struct condition {{ char text[12]; u32 holds; }};
struct env {{ u32 version, type_size, nr_types, field_size, nr_fields, condition_size, nr_conditions, line; }};
const struct type sched_layout_types[] = {{ {{ "rq", 128, 64 }}, {{ "cpupri", 4, 4 }} }};
const struct field sched_layout_fields[] = {{ {{ "rq", "idle", 64, 8, 1, 0 }} }};
const struct condition sched_layout_conditions[] = {{ {{ "64bit", 1 }}, {{ "CONFIG_SMP", 0 }} }};
const struct env sched_layout_env = {{
	{version}, {size}, {types}, sizeof(struct field), 1, sizeof(struct condition), 2, {line}
}};
"""


def three_tables(directory: Path, compiler: str = toys.GCC, text: str = TOY, **values: object) -> bytes:
    """An object that has only the three tables."""
    source, target = directory / "three.c", directory / "three.o"
    source.write_text(
        text.format(**{"version": VERSION, "size": "sizeof(struct type)", "types": 2, "line": 64} | values)
    )
    assert toys.gcc(source, target, compiler=compiler).returncode == 0
    return target.read_bytes()


@pytest.mark.parametrize("compiler", [toys.GCC, toys.ARM64, toys.S390X])
def test_three_tables_are_enough(tmp_path: Path, compiler: str) -> None:
    toys.needs(compiler)
    read = read_fields(three_tables(tmp_path, compiler), "three.o")
    assert (read.line, read.holds) == (64, {"64bit": True, "CONFIG_SMP": False})
    assert [(kind.name, kind.size, kind.align) for kind in read.types] == [("rq", 128, 64), ("cpupri", 4, 4)]
    assert [(field.type, field.member, field.offset, field.size) for field in read.fields] == [("rq", "idle", 64, 8)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 1}, "tables of version 1, known is 2"),
        ({"size": "20"}, "sched_layout_types .*another shape"),
        ({"size": "8"}, "impossible sizes"),
        ({"size": "-1"}, "impossible sizes"),
        ({"types": 3}, "sched_layout_types .*another shape"),
        ({"line": 0}, "a line has 0 bytes"),
        ({"line": 48}, "a line has 48 bytes"),
        ({"text": TOY.replace("sched_layout_fields", "other_fields")}, "no table sched_layout_fields"),
        ({"text": TOY.replace("sched_layout_env", "other_env")}, "no table sched_layout_env"),
        ({"text": TOY.replace("line; }", "line, more; }")}, "sched_layout_env .*has 36 bytes"),
        (
            {
                "text": TOY.replace(
                    "const struct type sched_layout_types[]",
                    "extern const int sched_layout_types[2];"
                    "const void *user(void) {{ return sched_layout_types; }} const struct type other[]",
                )
            },
            "sched_layout_types",
        ),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, values: dict[str, object], message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        read_fields(three_tables(tmp_path, **values), "three.o")  # type: ignore[arg-type]


def test_stripped_object_has_no_tables(tmp_path: Path) -> None:
    toys.needs("strip")
    target = tmp_path / "stripped.o"
    subprocess.run(["strip", "-s", "-o", str(target), str(toys.fields_object())], check=True)
    with pytest.raises(SchedlineError, match="no symbol table"):
        read_fields(target.read_bytes(), "stripped.o")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"text\n" * 100, b"\x7fELF\x02\x01\x01" + bytes(57)])
def test_no_object_at_all(data: bytes) -> None:
    with pytest.raises(SchedlineError, match="no object file"):
        read_fields(data, "x.o")


def test_object_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.o").write_bytes(b"a")
    assert read_object(tmp_path / "a.o") == b"a"
    with pytest.raises(SchedlineError, match="No such file"):
        read_object(tmp_path / "b.o")
    with pytest.raises(SchedlineError, match="directory"):
        read_object(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=1 << 20))
def test_truncated_object_is_refused(length: int) -> None:
    data = toys.fields_object().read_bytes()
    with pytest.raises(SchedlineError):
        read_fields(data[: length % len(data)], "toy.o")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    whole = toys.fields_object().read_bytes()
    # The headers are at both ends of the file.
    places = st.one_of(st.integers(0, 63), st.integers(-1600, -1), st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    for place, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6)):
        broken[place] = value
    try:
        read_fields(bytes(broken), "x.o")
    except SchedlineError as error:
        assert error.next_step
