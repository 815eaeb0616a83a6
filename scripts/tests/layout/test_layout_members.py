# SPDX-License-Identifier: GPL-2.0
"""Members are read completely, from DWARF and from BTF. Unreadable input is reported with a next step."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import toys

from schedlib.contracts.contract_rules import our_rules
from schedlib.errors import SchedlineError
from schedlib.layout.members import Member, Structure, Type, read_members, resolve

pytestmark = pytest.mark.tools

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
    directory = tmp_path_factory.mktemp("members")
    (directory / "a.c").write_text(C_SOURCE)
    assert toys.gcc(directory / "a.c", directory / "dwarf.o", "-g").returncode == 0
    return directory / "dwarf.o"


@pytest.fixture(scope="module")
def btf(dwarf: Path) -> Path:
    """The same object with BTF only."""
    toys.needs("pahole")
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
    assert set(found) == {*our_rules().types(), "root_domain.named"}
    domain = found["root_domain"]
    names = ["refcount", "a", "b", "c", "state", "named", "cpupri", "flag", "other", "ops", "grid"]
    assert [member.name for member in domain.members] == names
    assert [member.name for member in found["rq"].members] == ["nr_running", "rd", "u"]
    align = 64 if kind == "dwarf" else 1
    assert domain.member("cpupri") == Member("cpupri", "struct cpupri", 64, 3 * 128 + 64, align=align)
    grid = domain.member("grid")
    assert grid and (grid.size, grid.count) == (24, 6)


ODD = """\
struct tagged { long one; struct { int deep; } in; };
union both { int number; long wide; };
typedef struct { char byte[3]; } three_t;
struct opaque;
struct odd {
	const struct { int a; volatile int b; };
	struct tagged;
	union { int c; struct { char d[4]; char e; } f; } __attribute__((aligned(32)));
	struct { union { int g; long h; }; struct { int i; } in[2]; } named __attribute__((aligned(64)));
	union { int j; } u[3];
	const char *const text;
	const char name[4];
	struct opaque *list;
	three_t threes[2][2];
	void (*call)(int);
	int (*calls[3])(void);
	int (*const fixed)(void);
	int (*rows)[4];
	enum { A, B } state;
	unsigned low:3, high:30, :0, last:1;
	unsigned long long far:40, near:20;
	_Bool flag:1;
	struct { } none;
	long open[];
};
struct odd odd;
"""

TOLD = {
    "a": ("int", 0, 4, 1, 1),
    "b": ("volatile int", 4, 4, 1, 1),
    "one": ("long int", 8, 8, 1, 1),
    "in": ("struct", 16, 4, 1, 1),
    "c": ("int", 32, 4, 1, 1),
    "f": ("struct", 32, 5, 1, 1),
    "named": ("struct", 64, 16, 1, 64),
    "u": ("union", 80, 12, 3, 1),
    "text": ("const char * const", 96, 8, 1, 1),
    "name": ("const char", 104, 4, 4, 1),
    "list": ("struct opaque *", 112, 8, 1, 1),
    "threes": ("three_t", 120, 12, 4, 1),
    "call": ("function pointer", 136, 8, 1, 1),
    "calls": ("function pointer", 144, 24, 3, 1),
    "fixed": ("function pointer", 168, 8, 1, 1),
    "rows": ("int *", 176, 8, 1, 1),
    "state": ("enum", 184, 4, 1, 1),
    "low": ("unsigned int", 188, 4, 1, 1),
    "high": ("unsigned int", 192, 4, 1, 1),
    "last": ("unsigned int", 196, 4, 1, 1),
    "far": ("long long unsigned int", 200, 8, 1, 1),
    "near": ("long long unsigned int", 200, 8, 1, 1),
    "flag": ("_Bool", 207, 1, 1, 1),
    "none": ("struct", 208, 0, 1, 1),
    "open": ("long int", 208, 0, 1, 1),
}


@pytest.mark.parametrize("form", ["dwarf-4", "dwarf-5", "dwarf-3", "btf", "clang"])
def test_odd_declarations(form: str, tmp_path: Path) -> None:
    """What gcc and clang say of sizes and offsets, and of an unnamed member with a tag, as -fms-extensions has it."""
    compiler = "clang" if form == "clang" else "gcc"
    toys.needs(compiler)
    asserts = "".join(
        f'_Static_assert(__builtin_offsetof(struct odd, {name}) == {row[1]}, "{name}");\n'
        for name, row in TOLD.items()
        if name not in ("low", "high", "last", "far", "near", "flag")
    )
    (tmp_path / "a.c").write_text(ODD + asserts)
    debug = f"-g{form}" if form.startswith("dwarf") else "-g"
    argv = [compiler, "-c", "-fms-extensions", debug, "-o", "a.o", "a.c"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    if form == "btf":
        toys.needs("pahole")
        subprocess.run(["pahole", "-J", "--btf_encode_detached=btf", "a.o"], cwd=tmp_path, check=True)
    found = read_members(tmp_path / ("btf" if form == "btf" else "a.o"), ["odd"])
    clang = {"unsigned long long": "long long unsigned int", "long": "long int"}
    told = {
        each.name: (clang.get(each.type, each.type), each.offset, each.size, each.count, each.align)
        for each in found["odd"].members
    }
    aligned = form != "btf"
    wanted = TOLD if aligned else {name: (*row[:4], 1) for name, row in TOLD.items()}
    assert {name: wanted[name] for name in told} == told
    assert told.keys() == wanted.keys()
    unnamed = [(each.offset, each.size, each.names) for each in found["odd"].unnamed]
    assert unnamed == [(0, 8, ("a", "b")), (8, 16, ("one", "in")), (32, 32, ("c", "f"))]
    inner = {tag: [(each.name, each.offset) for each in its.members] for tag, its in found.items() if tag != "odd"}
    assert inner["odd.named"] == [("g", 0), ("h", 0), ("in", 8)]
    assert inner["odd.named.in"] == [("i", 0)]
    assert resolve(found, "odd", "named.in[0].i") is not None


def linked(place: Path, sources: dict[str, str], *words: str) -> Path:
    """A library of some sources."""
    for name, text in sources.items():
        (place / f"{name}.c").write_text(text)
    argv = ["gcc", "-g", "-nostdlib", "-shared", "-fPIC", *words, "-o", "all.so", *(f"{name}.c" for name in sources)]
    subprocess.run(argv, cwd=place, check=True)
    return place / "all.so"


def test_a_name_that_the_linker_shares_is_found(tmp_path: Path) -> None:
    """The end of a longer name serves as a shorter one, and a number elsewhere may look like it."""
    names = [f"{'x' * size}_sock" for size in range(5)]
    texts = {name: f"struct _sock;\nstruct {name} {{ int a; long b; }} v{name};\n" for name in names}
    found = read_members(linked(tmp_path, texts, "-Wl,-O2"), names)
    assert {tag: its.type.size for tag, its in found.items()} == dict.fromkeys(names, 16)


@pytest.mark.parametrize("tags", ["first second", "second first", "none second first", "second none first other"])
def test_the_order_of_source_files_loses_no_structure(tags: str, tmp_path: Path) -> None:
    texts = {name: f"struct {name} {{ int a; }} {name};\n" for name in ("first", "second")}
    assert read_members(linked(tmp_path, texts), tags.split()).keys() == {"first", "second"}


def test_alignment_is_known_from_dwarf_alone(dwarf: Path, btf: Path, raw_btf: Path) -> None:
    aligned = {tag: structure.type.align for tag, structure in read_members(dwarf).items()}
    lines = {"cpupri_vec": 64, "cpupri_line": 64, "cpupri_leaf": 64, "sbm_leaf": 64, "cpupri": 64}
    unnamed = {"root_domain.named": None}
    assert aligned == {**lines, "root_domain": 128, "rq": 32, **unnamed}
    for path in (btf, raw_btf):
        assert {structure.type.align for structure in read_members(path).values()} == {None}
    assert {structure.type.size for structure in read_members(btf).values()} == {
        structure.type.size for structure in read_members(dwarf).values()
    }


@pytest.mark.parametrize("compiler", [toys.ARM64, toys.S390X, "riscv64-linux-gnu-gcc", "powerpc64le-linux-gnu-gcc"])
def test_members_of_another_architecture(dwarf: Path, compiler: str) -> None:
    toys.needs(compiler)
    target = dwarf.with_name(f"{compiler}.o")
    assert toys.gcc(dwarf.with_name("a.c"), target, "-g", compiler=compiler).returncode == 0
    assert read_members(target)["root_domain"].members == read_members(dwarf)["root_domain"].members


def test_only_what_is_asked_for(dwarf: Path) -> None:
    assert set(read_members(dwarf, ("cpupri",))) == {"cpupri"}
    with pytest.raises(SchedlineError, match="no debug information"):
        read_members(dwarf, ("task_struct",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"MZ" + bytes(100), "neither an ELF file nor BTF"),
        (b"", "neither an ELF file nor BTF"),
        (b"\x7fEL", "neither an ELF file nor BTF"),
        (b"\x7fELF", "no debug information"),
        (b"\x7fELF" + bytes(1000), "no debug information"),
        (b"\x9f\xeb\x01\x00" + bytes(20), "no debug information"),
        (Path.mkdir, "directory"),
        (lambda path: toys.gcc(path.with_name("plain.c"), path), "no debug information for struct rq"),
        (lambda path: None, "No such file"),
    ],
    ids=["bzImage", "empty", "short", "head", "zeroes", "bad BTF", "directory", "no debug", "missing"],
)
def test_file_that_cannot_be_read(tmp_path: Path, content: bytes | Callable[[Path], object], message: str) -> None:
    path = tmp_path / "vmlinux"
    (tmp_path / "plain.c").write_text("int main(void) { return 0; }\n")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        content(path)
    with pytest.raises(SchedlineError, match=message) as caught:
        read_members(path)
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("tag", "path", "told"),
    [
        ("root_domain", "cpupri.pri_to_cpu[0].mask", (64 + 64, 16, 3, 128)),
        ("cpupri", "cpu_to_pri", (3 * 128, 8, 1, 0)),
        ("cpupri", "pri_to_cpu", (0, 3 * 128, 1, 0)),
        ("root_domain", "named[0].hidden", (32, 4, 2, 4)),
        ("root_domain", "cpupri.pri_to_cpu[0].nothing", None),
        ("root_domain", "nothing.pri_to_cpu[0].mask", None),
        ("root_domain", "refcount.counter", None),
        ("rq", "rd.refcount", None),
        ("task_struct", "pid", None),
        ("root_domain", "named[0].shown", None),
        ("root_domain", "", None),
    ],
)
def test_paths(dwarf: Path, tag: str, path: str, told: tuple[int, ...] | None) -> None:
    found = resolve(read_members(dwarf), tag, path)
    assert (found and (found.offset, found.size, found.count, found.stride)) == told
    assert found is None or (found.type, found.member) == (tag, path)


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
