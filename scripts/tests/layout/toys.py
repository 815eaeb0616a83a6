# SPDX-License-Identifier: GPL-2.0
"""A toy sched.h that keeps every rule, and layouts made from it: the real tables, compiled in milliseconds."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from dataclasses import replace
from functools import cache as once
from pathlib import Path

import pytest
from msgspec import structs

from conftest import FILES, git, write_files
from schedlib import doctor
from schedlib.contracts.contract_rules import COMPARED, Clause, Rule, Rules, least_members, our_rules
from schedlib.contracts.struct_source import Source, read_source
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.members import Member, Structure, Type
from schedlib.layout.pack_units import Unit, facts, read_unit
from schedlib.layout.rule_judge import Layout

GCC, ARM64, S390X = "gcc", "aarch64-linux-gnu-gcc", "s390x-linux-gnu-gcc"

USUAL = ("CONFIG_SMP", "CONFIG_64BIT", "CONFIG_NUMA_BALANCING", "HAVE_RT_PUSH_IPI")
"""The default configuration of a toy kernel."""

_LINUX = Path(__file__).parent / "toy-linux"


SCHED_H = (_LINUX / "kernel/sched/sched.h").read_text()

_HEADERS = "bits build_bug mmu_context limits types kernel cache cpumask spinlock rcupdate irq".split()  # noqa: SIM905


@once
def workshop() -> Path:
    """A directory with the toy kernel, removed when the tests end."""
    top = Path(tempfile.mkdtemp(prefix="schedline-toys-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    (top / "tests").mkdir()
    (top / "include" / "linux").mkdir(parents=True)
    shutil.copy(_LINUX / "include/toy.h", top / "include")
    for header in _HEADERS:
        (top / "include" / "linux" / f"{header}.h").write_text("#include <toy.h>\n")
    (top / "sched.h").write_text(SCHED_H)
    (top / "cpudeadline.h").touch()
    write_files(top / "tests", {"types.c": types_unit(our_rules())})
    return top


def types_unit(rules: Rules) -> str:
    """A unit in a directory beside sched.h that shows what rules ask of a toy kernel."""
    return f'#include <toy.h>\n#include "../sched.h"\n{facts(rules.types(), rules.conditions())}\n'


def read_types(path: Path, rules: Rules, name: str = "toy") -> Layout:
    """The layout in an object of types_unit()."""
    structures, line, holds = read_unit(path, Unit((), rules.types(), rules.conditions()))
    return Layout(name, line, "", holds, frozenset(), structures)


@once
def toy_source() -> Source:
    """What the toy kernel declares."""
    return read_source({"kernel/sched/sched.h": SCHED_H}.get)


def needs(program: str) -> None:
    """Skip a test if a program is missing; called while a file is loaded, skip all of its tests."""
    if shutil.which(program) is None:
        pytest.skip(f"the program {program} is not installed", allow_module_level=True)


def toy_tree(directory: Path, more: dict[str, str] | None = None) -> Path:
    """A git tree with a toy kernel from which `schedline layout` compiles its unit, and `more` files by their paths.

    Skips a test that cannot compile.
    """
    if doctor.missing(["build", "layout", "objtool"]):
        pytest.skip("what compiling a kernel needs is not installed")
    headers = {f"include/linux/{name}.h": "#include <toy.h>\n" for name in _HEADERS}
    write_files(directory, FILES | headers | {"kernel/sched/cpudeadline.h": ""})
    shutil.copytree(_LINUX, directory, dirs_exist_ok=True)
    write_files(directory, more or {})
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "base")
    return directory


def edit(tree: Path, file: str, old: str, new: str) -> None:
    """Change one place of a file."""
    text = (tree / file).read_text()
    assert text.count(old) == 1
    (tree / file).write_text(text.replace(old, new))


def patch_of(tree: Path, place: Path, file: str, old: str, new: str) -> str:
    """The path of a patch to a git tree, which stays unchanged."""
    text = (tree / file).read_text()
    edit(tree, file, old, new)
    (place / "x.patch").write_text(git(tree, "diff"))
    (tree / file).write_text(text)
    return str(place / "x.patch")


def gcc(source: Path, target: Path, *words: str, compiler: str = GCC) -> subprocess.CompletedProcess[bytes]:
    """Compile a file of the toy kernel. The caller checks whether that worked."""
    needs(compiler)
    include = f"-I{workshop() / 'include'}"
    argv = [compiler, "-std=gnu11", "-nostdinc", include, *words, "-c", "-o", str(target), str(source)]
    return subprocess.run(argv, capture_output=True, check=False)


def defines(*names: str, line: int = 64) -> list[str]:
    """Compiler options for a configuration. `-NAME` removes a default option."""
    taken = {name.removeprefix("-") for name in names if name.startswith("-")}
    wanted = [name for name in (*USUAL, *names) if not name.startswith("-") and name not in taken]
    return [f"-DTOY_LINE={line}", *(f"-D{name}=1" for name in wanted)]


@once
def types_object(*names: str, line: int = 64, compiler: str = GCC) -> Path:
    """types_unit() of the project's rules, compiled against the toy sched.h."""
    target = workshop() / f"{compiler}-{line}-{'-'.join(names)}.o"
    source = workshop() / "tests" / "types.c"
    done = gcc(source, target, "-g", *defines(*names, line=line), compiler=compiler)
    assert done.returncode == 0, done.stderr.decode()
    return target


@once
def toy(*names: str, line: int = 64) -> Layout:
    """The layout of a toy kernel. `names` are configuration options, and the names of its defects."""
    return read_types(types_object(*names, line=line), our_rules(), "+".join(("toy", *names)))


def unaligned(layout: Layout) -> Layout:
    """A layout as BTF shows it: the alignment of types is not recorded."""
    bare = {tag: replace(each, type=structs.replace(each.type, align=None)) for tag, each in layout.structures.items()}
    return replace(layout, structures=bare)


@once
def real_rules() -> Rules:
    """The project's rules."""
    return our_rules()


def structure(tag: str, size: int, *members: tuple[str, int, int], align: int | None = 64) -> Structure:
    """A structure with members (name, offset, size)."""
    return Structure(Type(tag, size, align), tuple(Member(name, "int", at, bytes_) for name, at, bytes_ in members))


def layout(
    *structures: Structure,
    line: int = 64,
    holds: frozenset[str] = frozenset({"64bit"}),
    unknown: frozenset[str] = frozenset(),
) -> Layout:
    """The layout of some structures."""
    return Layout("toy", line, "", holds, unknown, {each.type.name: each for each in structures})


def clause(
    kind: ClauseKind,
    members: str = "",
    arg: int = 0,
    *,
    rule: str = "x.R1",
    tag: str = "rq",
    needs: tuple[str, ...] = (),
    others: str = "",
) -> Clause:
    """A clause. Of a kind that compares, the first member is compared with the rest."""
    names = tuple(members.split())
    if kind in COMPARED and not others:
        return Clause(rule, kind, frozenset(needs), True, arg, tag, names[:1], names[1:])
    least = least_members(kind, arg, names)
    return Clause(rule, kind, frozenset(needs), True, arg, tag, names, tuple(others.split()), least=least)


def rules_of(*clauses: Clause) -> Rules:
    """Rule x.R1 of the change x, with some clauses."""
    return Rules((Rule("x.R1", "x", "it hurts", "here"),), clauses)
