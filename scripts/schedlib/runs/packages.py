# SPDX-License-Identifier: GPL-2.0
"""Commits -> kernels that differ in nothing else: one configuration, one toolchain, functions aligned alike."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import lock, read_json, write_atomic, write_json
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.kernels_document import KernelsDocument, KernelSize, PackagedKernel
from schedlib.kernel.build import compiler_version, make
from schedlib.kernel.kconfig import parse_config
from schedlib.layout.members import read_members
from schedlib.progress import say, step
from schedlib.runs.variants import KernelSource
from schedlib.tree.kernel_tree import Tree, checked_out

ALIGNED = "CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B"
"""Else a function's place on its line, and with it its speed, would change with the size of those before it."""

PACKAGES = {"deb": ("bindeb-pkg", "DPKG_FLAGS=-d"), "tar": ("tar-pkg",)}
"""-d: dpkg asks for what some configurations need; where it matters, the build itself says what is missing."""

_UNIT = "kernel/sched/build_policy.o"
"""Includes the headers and cpupri.c; with debug information it tells the sizes."""

OBJECTS = ("root_domain", "rq")
"""What is allocated, so what has a slab class and a place of its own."""

_MITIGATIONS = re.compile(r"MITIGATION|CFI|FINEIBT|CALL_(?:THUNKS|PADDING|DEPTH)|RETHUNK|RETPOLINE|SLS|PREFIX_SYMBOLS")

_LARGEST_SLAB = 8192


@dataclass(frozen=True)
class Built:
    """A kernel that is packaged.

    Attributes:
        role: base, candidate or placebo.
        release: as `uname -r` will say it.
        commit, what: its source.
        files: packages.
        sizes: of OBJECTS.
    """

    role: str
    release: str
    commit: str
    what: str
    files: tuple[Path, ...]
    sizes: Mapping[str, KernelSize]


def size_text(found: KernelSize) -> str:
    """With the slab class, where it would come from kmalloc()."""
    aligned = f"aligned to {found.alignment}" if found.alignment else "no alignment asked for"
    return f"{found.size} bytes, {aligned}, {slab_class(found.size)}"


def slab_class(size: int) -> str:
    """Where kmalloc() takes an object of so many bytes from (mm/slab_common.c, with 4 KB pages)."""
    if size > _LARGEST_SLAB:
        return f"{1 << ((size - 1) >> 12).bit_length()} pages"
    classes = [8, 16, 32, 64, 96, 128, 192, *(1 << shift for shift in range(8, 14))]
    found = next(each for each in classes if each >= size)
    return f"kmalloc-{found}" if found < 1024 else f"kmalloc-{found >> 10}k"


def parse(text: str) -> dict[str, str]:
    """A .config's values; what is not set is n."""
    return parse_config(text) | dict.fromkeys(re.findall(r"^# (CONFIG_\w+) is not set$", text, re.M), "n")


def configured(tree: Tree, place: Path, arch: str, text: str) -> dict[str, str]:
    """A build directory with this .config, completed by the tree's defaults; what it holds then.

    Raises:
        SchedlineError: Kconfig failed.
    """
    place.mkdir(parents=True, exist_ok=True)
    write_atomic(place / ".config", text)
    make(tree.src, place, arch, ["olddefconfig"])
    return parse((place / ".config").read_text())


def wanted_text(text: str, *, aligned: bool = True) -> str:
    """The user's configuration; the kernels' names are not in it, so that it is the same to the last byte."""
    lines = ["# CONFIG_LOCALVERSION_AUTO is not set", *([f"{ALIGNED}=y"] if aligned else [])]
    return "\n".join([text.rstrip("\n"), *lines]) + "\n"


def changed_mitigations(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What aligned functions change of the kernel's defences against speculation."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [f"{name}: {before.get(name, 'n')} -> {after.get(name, 'n')}" for name in names if _MITIGATIONS.search(name)]


def refuse_other_configuration(role: str, base: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Symbols that only one of the two trees has, in words.

    Raises:
        SchedlineError: a symbol of both differs.
    """
    names = sorted({*base, *other})
    differ = [name for name in names if name in base and name in other and base[name] != other[name]]
    if differ:
        listed = ", ".join(f"{name} {base[name]} and {other[name]}" for name in differ[:5])
        raise SchedlineError(
            f"base and {role} are not configured alike: {listed}",
            "set these in the configuration, so that neither tree chooses for itself",
        )
    return [
        f"only in {role if name in other else 'base'}: {name}={other.get(name, base.get(name))}"
        for name in names
        if (name in base) != (name in other) and (base.get(name) or other.get(name)) != "n"
    ]


def sizes_of(tree: Tree, place: Path, arch: str) -> dict[str, KernelSize]:
    """Sizes in one object, compiled with debug information before the kernel is; the kernel's own is made later.

    Raises:
        SchedlineError: it does not compile.
    """
    make(tree.src, place, arch, ["KCFLAGS=-g", _UNIT])
    structures = read_members(place / _UNIT)
    found = {name: structures[name].type for name in OBJECTS if name in structures}
    return {name: KernelSize(each.size, each.align) for name, each in found.items()}


def refuse_other_sizes(candidate: Mapping[str, KernelSize], placebo: Mapping[str, KernelSize]) -> None:
    """A placebo has what the candidate has.

    Raises:
        SchedlineError: one structure has another size, alignment or slab class.
    """
    for name in candidate:
        if candidate[name] != placebo.get(name):
            raise SchedlineError(
                f"the placebo's struct {name} is no placebo: the candidate has {size_text(candidate[name])}, "
                f"the placebo {size_text(placebo[name]) if name in placebo else 'none'}",
                "adjust the padding for this configuration and give the patch: --placebo FILE",
            )


def packaged(
    tree: Tree, source: KernelSource, place: Path, arch: str, kind: str, sizes: Mapping[str, KernelSize]
) -> Built:
    """Make and package one kernel; nothing where that is done already.

    Raises:
        SchedlineError: it does not build.
    """
    build, record = place / "build", place / "packaged.json"
    config = hashlib.sha256((build / ".config").read_bytes()).hexdigest()
    identity = {"commit": source.commit, "config": config, "kind": kind, "compiler": compiler_version("")}
    done = read_json(record)
    if (
        done is None
        or any(done.get(key) != value for key, value in identity.items())
        or not all(Path(file).is_file() for file in done["files"])
    ):
        record.unlink(missing_ok=True)
        for stale in [*place.glob("*.deb"), *place.glob("*.changes"), *place.glob("*.buildinfo"), *build.glob("*.tar")]:
            stale.unlink()
        with step(f"building and packaging {source.role}: {source.what}"):
            make(tree.src, build, arch, [f"LOCALVERSION=-schedline-{source.role}", *PACKAGES[kind]])
        release = (build / "include/config/kernel.release").read_text().strip()
        files = sorted(place.glob("linux-image-*.deb") if kind == "deb" else build.glob("*.tar"))
        files = [file for file in files if "-dbg" not in file.name]
        if not files:
            raise SchedlineError(f"make {PACKAGES[kind][0]} left no package", f"see {build / 'build.log'}")
        done = identity | {"release": release, "files": [str(file) for file in files]}
        write_json(record, done)
    files = [Path(file) for file in done["files"]]
    return Built(source.role, str(done["release"]), source.commit, source.what, tuple(files), sizes)


@contextmanager
def place_of(cache: Path, tree: Tree, text: str, arch: str) -> Iterator[Path]:
    """Where the kernels of a tree with one configuration are built. It is held until their packages are copied:
    another command would build in it, or remove them."""
    digest = hashlib.sha256(f"{text} {arch}".encode()).hexdigest()[:12]
    place = cache / "builds" / f"{tree.name}-kernels-{digest}"
    with lock(place.with_name(f"{place.name}.lock")):
        yield place


def kernels(
    top: Path, tree: Tree, sources: Sequence[KernelSource], text: str, arch: str, kind: str
) -> tuple[list[Built], list[str]]:
    """Build all sources from one configuration, and what has to be said of them.

    Args:
        top: place_of() these.

    Raises:
        SchedlineError: configurations differ, a placebo that is none, or a kernel that does not build.
    """
    notes: list[str] = []
    values: dict[str, dict[str, str]] = {}
    sizes: dict[str, dict[str, KernelSize]] = {}
    for source in sources:
        build = top / source.role / "build"
        with checked_out(tree, source.commit), step(f"configuring {source.role}"):
            if source.role == "base":
                plain = configured(tree, build, arch, wanted_text(text, aligned=False))
            values[source.role] = configured(tree, build, arch, wanted_text(text))
            sizes[source.role] = sizes_of(tree, build, arch)
    for role in values:
        notes += refuse_other_configuration(role, values["base"], values[role])
    if values["base"].get(ALIGNED) != "y":
        notes.append(
            f"WARNING: {ALIGNED} could not be set (it needs EXPERT and an architecture that has it): "
            "functions move with the change, and with them their speed"
        )
    changed = changed_mitigations(plain, values["base"])
    notes += [f"WARNING: aligned functions change a mitigation: {each}" for each in changed]
    if "placebo" in sizes:
        refuse_other_sizes(sizes["candidate"], sizes["placebo"])
    built = []
    for source in sources:
        with checked_out(tree, source.commit):
            built.append(packaged(tree, source, top / source.role, arch, kind, sizes[source.role]))
    return built, notes


def deliver(built: Sequence[Built], out: Path, tree: Tree, config: str, notes: Collection[str]) -> list[Built]:
    """Copy the packages to `out`, with kernels.json, which is written last."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "kernels.json").unlink(missing_ok=True)
    delivered = []
    for kernel in built:
        files = []
        for file in kernel.files:
            half = out / f".{file.name}.half"
            shutil.copyfile(file, half)
            files.append(half.replace(out / file.name))
        delivered.append(Built(**(vars(kernel) | {"files": tuple(files)})))
    rows = (
        PackagedKernel(
            each.role,
            each.release,
            each.commit,
            each.what,
            tuple(file.name for file in each.files),
            dict(each.sizes),
        )
        for each in delivered
    )
    found = KernelsDocument(
        schema="kernels-1",
        tree=tree.origin,
        configuration=config,
        kernels=tuple(rows),
        notes=tuple(notes),
    )
    document.write(out / "kernels.json", found)
    say(f"{out / 'kernels.json'}")
    return delivered
