# SPDX-License-Identifier: GPL-2.0
"""pahole's output is parsed completely, from DWARF and from BTF. Unreadable input is reported with a next step."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.layout import members
from schedlib.layout.members import Member, Structure, Unnamed, parse, read_members, resolve
from schedlib.layout.tables import Type

pytestmark = pytest.mark.tools

PAHOLE = """\
struct rq {
	unsigned int               nr_running;           /*     0     4 */

	/* XXX 4 bytes hole, try to pack */

	struct {
		int                a;                    /*     8     4 */
		union {
			int        b;                    /*    16     4 */
			long int   c;                    /*    16     8 */
		};                                       /*    16     8 */
	};                                               /*     8    16 */
	struct {
		int                hidden;               /*    24     4 */
	} named[2]; /*    24     8 */

	/* --- cacheline 1 boundary (64 bytes) --- */
	struct cpupri              cpupri __attribute__((__aligned__(64))); /*    64   448 */
	void *                     pd;                   /*   512     8 */
	unsigned int               flag:3;               /*   520: 0  4 */
	unsigned int               other:5;              /*   520: 3  4 */
	void                       (*func)(int, struct cpupri *); /*   528     8 */
	void                       (*ops)(void)[3];      /*   536    24 */
	int                        grid[2][3];           /*   560    24 */
	struct empty               none;                 /*   584     0 */
	long unsigned int          mask[2];              /*   592    16 */
	a line that nobody knows
	;                                                /*   608     8 */

	/* size: 640, cachelines: 10, members: 12 */
	/* last cacheline: 24 bytes */
} __attribute__((__aligned__(64)));
"""


def rq(text: str = PAHOLE, *, aligned: bool = True) -> Structure:
    """struct rq in pahole's output."""
    return parse(text, aligned=aligned)["rq"]


def inside(*lines: str) -> Structure:
    """struct rq with these lines in its body."""
    return rq("struct rq {\n" + "".join(f"\t{line}\n" for line in lines) + "};\n")


def test_type() -> None:
    assert (rq().type.size, rq().type.align) == (640, 64)
    assert rq(aligned=False).type.align is None
    assert inside("int a; /* 0 4 */").type.align == 1


def test_members_in_order() -> None:
    assert [member.name for member in rq().members] == [
        "nr_running",
        "a",
        "b",
        "c",
        "named",
        "cpupri",
        "pd",
        "flag",
        "other",
        "func",
        "ops",
        "grid",
        "none",
        "mask",
    ]


@pytest.mark.parametrize(
    "expected",
    [
        Member("nr_running", "unsigned int", 0, 4),
        Member("c", "long int", 16, 8),
        Member("cpupri", "struct cpupri", 64, 448, align=64),
        Member("pd", "void *", 512, 8),
        Member("other", "unsigned int", 520, 4),
        Member("func", "function pointer", 528, 8),
        Member("ops", "function pointer", 536, 24, 3),
        Member("grid", "int", 560, 24, 6),
        Member("none", "struct empty", 584, 0),
        Member("mask", "long unsigned int", 592, 16, 2),
    ],
    ids=lambda member: member.name,
)
def test_member(expected: Member) -> None:
    assert rq().member(expected.name) == expected


def test_members_of_a_named_inner_structure_are_not_direct() -> None:
    named = rq().member("named")
    assert named and (named.offset, named.size, named.count) == (24, 8, 2)
    assert rq().member("hidden") is None


def test_last_byte() -> None:
    assert Member("a", "int", 8, 4).last == 11
    assert Member("a", "struct empty", 8, 0).last == 8


@pytest.mark.parametrize(
    "attribute", ["", " __attribute__((__aligned__(32)))", " __attribute__((__aligned__(32)))" * 2]
)
def test_unnamed_inner_structure_with_an_attribute_is_unnamed(attribute: str) -> None:
    read = inside(
        "struct {", "\tint a; /* 0 4 */", "\tint b; /* 4 4 */", f"}}{attribute}; /* 0 32 */", "int c; /* 32 4 */"
    )
    assert [member.name for member in read.members] == ["a", "b", "c"]
    align = 32 if attribute else 1
    assert (read.type.align, read.unnamed) == (align, (Unnamed(0, 32, align, ("a", "b")),))


def test_named_inner_structure_with_an_attribute() -> None:
    read = inside("struct {", "\tint a; /* 64 4 */", "} in __attribute__((__aligned__(64))); /* 64 4 */")
    assert [(member.name, member.offset, member.align) for member in read.members] == [("in", 64, 64)]
    assert (read.type.align, read.unnamed) == (64, ())


def test_what_is_unnamed_inside_of_something_named_is_not_told() -> None:
    read = inside(
        "struct {", "\tunion {", "\t\tint a; /* 0 4 */", "\t}; /* 0 4 */", "} in; /* 0 4 */", "int b; /* 4 4 */"
    )
    assert ([member.name for member in read.members], read.unnamed) == (["in", "b"], ())


def test_enum_inside_does_not_end_the_structure_around_it() -> None:
    read = inside(
        "struct {",
        "\tint a; /* 0 4 */",
        "\tenum {",
        "\t\tA = 0,",
        "\t} e; /* 4 4 */",
        "}; /* 0 8 */",
        "enum {",
        "\tB = 1,",
        "} f; /* 8 4 */",
        "int c; /* 12 4 */",
    )
    assert [(member.name, member.offset) for member in read.members] == [("a", 0), ("e", 4), ("f", 8), ("c", 12)]


def test_union_inside_of_an_unnamed_structure_is_in_order() -> None:
    text = (
        "struct rq {\n\tstruct {\n\t\tunion {\n\t\t\tstruct {\n\t\t\t\tint first; /* 8 4 */\n"
        "\t\t\t\tint last; /* 12 4 */\n\t\t\t};\n\t\t\tint other; /* 8 4 */\n\t\t};\n\t} named; /* 8 8 */\n};\n"
    )
    inside = parse(text, aligned=True)["rq.named"].members
    assert [(member.name, member.offset) for member in inside] == [("first", 0), ("other", 0), ("last", 4)]


def test_several_structures() -> None:
    found = parse(PAHOLE + PAHOLE.replace("struct rq {", "struct cpupri {") + "rubbish\n", aligned=True)
    assert set(found) == {"rq", "rq.named", "cpupri", "cpupri.named"}
    # A structure inside without a name goes by the path of its member.
    assert found["rq.named"].members == (Member("hidden", "int", 0, 4),)
    assert parse("", aligned=True) == {}
    assert parse(PAHOLE.replace("struct rq", "union rq"), aligned=True) == {}


def test_structure_that_does_not_end_is_left_out() -> None:
    assert parse(PAHOLE[: PAHOLE.rindex("}")], aligned=True) == {}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60), st.sampled_from(PAHOLE.splitlines()), st.sampled_from(["}", "\t} x;", "\tenum {"])
        ),
        max_size=20,
    ),
    st.booleans(),
)
def test_no_text_upsets_the_reader(lines: list[str], aligned: bool) -> None:
    for structure in parse("\n".join(("struct rq {", *lines, "};")), aligned=aligned).values():
        assert structure.type.size >= 0
        assert [member.offset for member in structure.members] == sorted(member.offset for member in structure.members)


def test_endless_number_upsets_nobody() -> None:
    assert inside(f"int a; /* {'9' * 5000} 4 */", "int b; /* 8 4 */").members == (Member("b", "int", 8, 4),)


C_SOURCE = """\
typedef struct { int counter; } atomic_t;
struct cpupri_vec { atomic_t count; unsigned long mask[2] __attribute__((aligned(64))); };
struct cpupri_line { unsigned char byte[64]; } __attribute__((aligned(64)));
struct cpupri_leaf { struct cpupri_line line[3]; int group; };
struct sbm_leaf { unsigned long bits; } __attribute__((aligned(64)));
struct cpupri { struct cpupri_vec pri_to_cpu[3]; int *cpu_to_pri; };
struct root_domain {
	atomic_t refcount;
	struct { int a; union { int b; long c; }; enum { X, Y } state; };
	struct { int hidden; } named[2];
	struct cpupri cpupri;
	unsigned flag:3, other:5;
	void (*ops[3])(void);
	int grid[2][3];
} __attribute__((aligned(128)));
struct rq { unsigned nr_running; struct root_domain *rd; struct { int u; } __attribute__((aligned(32))); };
struct rq rq;
struct root_domain rd;
struct cpupri_leaf leaf;
struct sbm_leaf sparse;
"""


@pytest.fixture(scope="module")
def dwarf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object with DWARF."""
    toys.needs("pahole")
    directory = tmp_path_factory.mktemp("members")
    (directory / "a.c").write_text(C_SOURCE)
    assert toys.gcc(directory / "a.c", directory / "dwarf.o", "-g").returncode == 0
    return directory / "dwarf.o"


@pytest.fixture(scope="module")
def btf(dwarf: Path) -> Path:
    """The same object with BTF only."""
    toys.needs("objcopy")
    both, target = dwarf.with_name("both.o"), dwarf.with_name("btf.o")
    shutil.copy(dwarf, both)
    subprocess.run(["pahole", "-J", str(both)], check=True)
    subprocess.run(["objcopy", "--strip-debug", "--keep-section=.BTF", str(both), str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def raw_btf(btf: Path) -> Path:
    """BTF without ELF, as /sys/kernel/btf/vmlinux has it."""
    target = btf.with_name("raw")
    alone = ["objcopy", "-O", "binary", "--only-section=.BTF", "--set-section-flags", ".BTF=alloc"]
    subprocess.run([*alone, str(btf), str(target)], check=True)
    return target


@pytest.mark.parametrize("kind", ["dwarf", "btf", "raw_btf"])
def test_members_of_a_file(kind: str, request: pytest.FixtureRequest) -> None:
    found = read_members(request.getfixturevalue(kind))
    assert set(found) == {*our_rules().types(), "root_domain.state", "root_domain.named"}
    domain = found["root_domain"]
    names = ["refcount", "a", "b", "c", "state", "named", "cpupri", "flag", "other", "ops", "grid"]
    assert [member.name for member in domain.members] == names
    assert [member.name for member in found["rq"].members] == ["nr_running", "rd", "u"]
    align = 64 if kind == "dwarf" else 1
    assert domain.member("cpupri") == Member("cpupri", "struct cpupri", 64, 3 * 128 + 64, align=align)
    grid = domain.member("grid")
    assert grid and (grid.size, grid.count) == (24, 6)


def test_alignment_is_known_from_dwarf_alone(dwarf: Path, btf: Path, raw_btf: Path) -> None:
    aligned = {tag: structure.type.align for tag, structure in read_members(dwarf).items()}
    lines = {"cpupri_vec": 64, "cpupri_line": 64, "cpupri_leaf": 64, "sbm_leaf": 64, "cpupri": 64}
    unnamed = {"root_domain.state": None, "root_domain.named": None}
    assert aligned == {**lines, "root_domain": 128, "rq": 32, **unnamed}
    for path in (btf, raw_btf):
        assert {structure.type.align for structure in read_members(path).values()} == {None}
    assert {structure.type.size for structure in read_members(btf).values()} == {
        structure.type.size for structure in read_members(dwarf).values()
    }


@pytest.mark.parametrize("compiler", [toys.ARM64, toys.S390X])
def test_members_of_another_architecture(dwarf: Path, compiler: str) -> None:
    toys.needs(compiler)
    target = dwarf.with_name(f"{compiler}.o")
    assert toys.gcc(dwarf.with_name("a.c"), target, "-g", compiler=compiler).returncode == 0
    assert read_members(target)["root_domain"].members == read_members(dwarf)["root_domain"].members


def test_only_what_is_asked_for(dwarf: Path) -> None:
    assert set(read_members(dwarf, ("cpupri",))) == {"cpupri"}
    with pytest.raises(SchedlineError, match="no debug information"):
        read_members(dwarf, ("task_struct",))


def without_debug(path: Path) -> Path:
    """An object without debug information."""
    (path.parent / "plain.c").write_text("int main(void) { return 0; }\n")
    assert toys.gcc(path.parent / "plain.c", path).returncode == 0
    return path


def written(data: bytes) -> Callable[[Path], Path]:
    """A function that writes a file with this content."""

    def make(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return make


def directory(path: Path) -> Path:
    """Make a directory."""
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (written(b"MZ" + bytes(100)), "neither an ELF file nor BTF"),
        (written(b""), "neither an ELF file nor BTF"),
        (written(b"\x7fEL"), "neither an ELF file nor BTF"),
        (written(b"\x7fELF"), "no debug information"),
        (written(b"\x7fELF" + bytes(1000)), "no debug information"),
        (written(b"\x9f\xeb\x01\x00" + bytes(20)), "no debug information"),
        (directory, "directory"),
        (without_debug, "no debug information for struct rq"),
        (lambda path: path, "No such file"),
    ],
    ids=["bzImage", "empty", "short", "head", "zeroes", "bad BTF", "directory", "no debug", "missing"],
)
def test_file_that_cannot_be_read(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    toys.needs("pahole")
    with pytest.raises(SchedlineError, match=message) as caught:
        read_members(make(tmp_path / "vmlinux"))
    assert caught.value.next_step


def test_file_that_may_not_be_read(dwarf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SchedlineError, match=r"(?s)Permission denied.*whether you may read it"):
        read_members(dwarf)


@pytest.mark.parametrize("part", [0.02, 0.1, 0.4, 0.7, 0.95])
def test_truncated_file(dwarf: Path, tmp_path: Path, part: float) -> None:
    whole = dwarf.read_bytes()
    (tmp_path / "vmlinux").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(SchedlineError, match="no debug information") as caught:
        read_members(tmp_path / "vmlinux")
    assert "CONFIG_DEBUG_INFO" in caught.value.next_step


def test_pahole_is_missing(dwarf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(dwarf.parent))
    with pytest.raises(SchedlineError, match=r"(?s)pahole is not installed.*apt-get install"):
        read_members(dwarf)


def test_pahole_dies(dwarf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pahole").write_text("#!/bin/sh\necho lost >&2\nkill -11 $$\n")
    (tmp_path / "pahole").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(SchedlineError, match="died of signal 11: lost"):
        read_members(dwarf)


def test_pahole_does_not_finish(dwarf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pahole").write_text("#!/bin/sh\nexec cat /dev/zero >/dev/null\n")
    (tmp_path / "pahole").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(members, "_TIMEOUT", 0.05)
    with pytest.raises(SchedlineError, match="did not finish"):
        read_members(dwarf)


def test_paths(dwarf: Path) -> None:
    found = read_members(dwarf)
    mask = resolve(found, "root_domain", "cpupri.pri_to_cpu[0].mask")
    assert mask and (mask.offset, mask.size, mask.count, mask.stride) == (64 + 64, 16, 3, 128)
    assert mask.member == "cpupri.pri_to_cpu[0].mask"
    plain = resolve(found, "cpupri", "cpu_to_pri")
    assert plain and (plain.offset, plain.size, plain.count, plain.stride) == (3 * 128, 8, 1, 0)
    whole = resolve(found, "cpupri", "pri_to_cpu")
    assert whole and (whole.size, whole.count, whole.stride) == (3 * 128, 1, 0)


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ("root_domain", "cpupri.pri_to_cpu[0].nothing"),
        ("root_domain", "nothing.pri_to_cpu[0].mask"),
        ("root_domain", "refcount.counter"),
        ("rq", "rd.refcount"),
        ("task_struct", "pid"),
        ("root_domain", "named[0].shown"),
        ("root_domain", ""),
    ],
)
def test_paths_that_lead_nowhere(dwarf: Path, tag: str, path: str) -> None:
    assert resolve(read_members(dwarf), tag, path) is None


@pytest.mark.parametrize(
    "tags",
    [("first", "second"), ("second", "first"), ("none", "second", "first"), ("second", "none", "first", "other")],
)
def test_the_order_of_source_files_loses_no_structure(tags: tuple[str, ...], tmp_path: Path) -> None:
    """pahole goes through them once: asked for `second,first`, it does not find the first."""
    for name in ("first", "second"):
        (tmp_path / f"{name}.c").write_text(f"struct {name} {{ int a; }} {name};\n")
    argv = ["gcc", "-g", "-nostdlib", "-shared", "-fPIC", "-o", "both.so", "first.c", "second.c"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    assert read_members(tmp_path / "both.so", tags).keys() == {"first", "second"}


def test_a_path_through_an_array_of_unnamed_structures(dwarf: Path) -> None:
    found = resolve(read_members(dwarf), "root_domain", "named[0].hidden")
    assert found and (found.offset, found.size, found.count, found.stride) == (32, 4, 2, 4)


def test_array_of_arrays_has_no_words() -> None:
    found = {
        "rq": Structure(Type("rq", 64, 8), (Member("a", "struct one", 8, 48, 3), Member("x", "struct one", 0, 8))),
        "one": Structure(Type("one", 16, 8), (Member("b", "struct two", 4, 8, 2),)),
        "two": Structure(Type("two", 4, 4), (Member("c", "int", 0, 4),)),
    }
    single = resolve(found, "rq", "x.b[0].c")
    assert single and (single.offset, single.count, single.stride) == (4, 2, 4)
    outer = resolve(found, "rq", "a[0].b")
    assert outer and (outer.offset, outer.count, outer.stride) == (12, 3, 16)
    assert resolve(found, "rq", "a[0].b[0].c") is None
