# SPDX-License-Identifier: GPL-2.0
"""Build kernels that differ only in their commits: same configuration, same toolchain, same function alignment."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from schedlib import doctor
from schedlib.cache import cache_dir, digest_of, lock, read_json, write_atomic, write_json
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Word
from schedlib.git import git, try_git
from schedlib.kernel.build import compiler_version, make
from schedlib.kernel.kconfig import parse_config
from schedlib.layout.compile import arch_table
from schedlib.layout.members import read_members
from schedlib.progress import say, step
from schedlib.runs.kernels_verb import KernelsOptions
from schedlib.tree.changes import State, apply_changes, apply_mail, hunks, patch_sets, present_changes
from schedlib.tree.kernel_tree import Tree, checked_out, open_tree
from schedlib.verdict import Verdict

ALIGNED = "CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B"
"""Without it, a function's offset in its cache line, and so its speed, would depend on the size of earlier ones."""

PACKAGES = {"deb": ("bindeb-pkg", "DPKG_FLAGS=-d"), "tar": ("tar-pkg",)}
"""-d: do not check build dependencies that only some configurations need. If one matters, the build reports it."""

_UNIT = "kernel/sched/build_policy.o"
"""It includes the headers and cpupri.c. Compiled with debug information, it has the sizes."""

OBJECTS = ("root_domain", "rq")
"""Structures whose size, alignment and slab class are reported."""

_MITIGATIONS = re.compile(r"MITIGATION|CFI|FINEIBT|CALL_(?:THUNKS|PADDING|DEPTH)|RETHUNK|RETPOLINE|SLS|PREFIX_SYMBOLS")


class KernelSize(Strict, frozen=True):
    """The size of a structure, in bytes. alignment: null if no attribute asks for one."""

    size: Count
    alignment: Positive | None


class PackagedKernel(Strict, frozen=True):
    """A kernel.

    Attributes:
        role: base, candidate or placebo, which is the end of its name.
        release: as `uname -r` will print it; empty as long as it is not built.
        commit, what: its source.
        files: its packages, in the same directory.
        sizes: sizes of structures, by tag.
    """

    role: Word
    release: str
    commit: Word
    what: str
    files: tuple[Word, ...]
    sizes: dict[str, KernelSize]


class KernelsDocument(Document, frozen=True, kw_only=True):
    """Kernels that were built alike. notes: differences other than the change, and warnings."""

    schema: Literal["kernels-1"]
    tree: str
    configuration: str
    kernels: tuple[PackagedKernel, ...]
    notes: tuple[str, ...]


def _source(role: str, commit: str, what: str) -> PackagedKernel:
    return PackagedKernel(role, "", commit, what, (), {})


def of_revisions(tree: Tree, base: str, head: str) -> list[PackagedKernel]:
    commits = [revision(tree, base, "--base"), revision(tree, head, "--head")]
    if commits[0] == commits[1]:
        raise SchedlineError(f"{base} and {head} are the same commit, {commits[0][:12]}", "name two that differ")
    return [_source("base", commits[0], base), _source("candidate", commits[1], head)]


def revision(tree: Tree, name: str, option: str) -> str:
    origin = Path(tree.origin)
    found = try_git(origin, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if found.returncode:
        raise SchedlineError(f"{option}: {origin} has no revision {name!r}", f"git -C {origin} log --oneline")
    return found.stdout.decode().strip()


def of_changes(tree: Tree, changes: Collection[str], both: Collection[str]) -> list[PackagedKernel]:
    """A tree without and with some changes, applied or, where upstream, reverted. `both`: changes of both kernels."""
    upstream = present_changes(tree) & set(changes)
    sources = []
    for role, wanted, without, word in (
        ("base", set(both) - set(changes), upstream, "without"),
        ("candidate", {*both, *changes} - upstream, set[str](), "with"),
    ):
        commit, states = apply_changes(tree, tree.base, wanted, without)
        for state in states:
            if state.state is State.CONFLICT:
                raise SchedlineError(
                    f"{role}: {state.id} does not apply:{hunks(state.hunk_offsets)}",
                    "schedline status --apply shows which changes this tree can have",
                )
        sources.append(_source(role, commit, f"{tree.origin} {word} {', '.join(sorted(changes))}"))
    return sources


def placebo_of(tree: Tree, change: str) -> Path:
    sets = patch_sets(tree)
    files = {file.stem: file for patches in reversed(sets) for file in patches.directory.glob("placebo/*.patch")}
    if change in files:
        return files[change]
    raise SchedlineError(
        f"there is no placebo for {change} in {', '.join(patches.name for patches in sets)}",
        f"write one and give it: --placebo FILE; there are: {', '.join(sorted(files)) or 'none'}",
    )


def with_placebo(tree: Tree, sources: Sequence[PackagedKernel], mail: Path) -> PackagedKernel:
    """The placebo's commit: on the base, or on the candidate if it only applies there."""
    drift: tuple[str, ...] = ()
    for source in sources:
        commit, drift = apply_mail(tree, source.commit, mail)
        if commit:
            return _source("placebo", commit, f"{source.role} with {mail.name}")
    observed = f"{mail} applies neither to the base nor to the candidate:{hunks(drift)}"
    raise SchedlineError(observed, "rebase it onto one of the two")


def differences(tree: Tree, sources: Sequence[PackagedKernel]) -> list[str]:
    stats = {each.role: git(tree.src, "diff", "--shortstat", sources[0].commit, each.commit) for each in sources[1:]}
    return [f"{role} against base:{stat or ' nothing'}" for role, stat in stats.items()]


def build_kernels(options: KernelsOptions) -> Verdict:
    archs = [arch for arch in arch_table().values() if arch.make != "um"]
    # This machine's own needs no cross compiler.
    native = next((arch.make for arch in archs if not arch.compiler), None)
    if native is None:
        known = ", ".join(arch.name for arch in archs)
        raise SchedlineError(f"kernels cannot be built for {platform.machine()}", f"known are {known}")
    needs = ["build", *options.tree.needs, "layout", "objtool", "kernels"]
    doctor.require([*needs, "kernels-deb"] if options.package == "deb" else needs)
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    if options.base and options.head:
        sources = of_revisions(tree, options.base, options.head)
    else:
        sources = of_changes(tree, options.changes, options.with_)
    if options.placebo:
        mail = options.placebo if isinstance(options.placebo, Path) else placebo_of(tree, options.changes[0])
        sources.append(with_placebo(tree, sources, mail))
    notes = differences(tree, sources)
    text = options.config.read_text(errors="replace")
    with place_of(cache, tree, text, native) as place:
        built, said = _kernels(place, tree, sources, text, native, options.package)
        notes += said
        out, files = options.out, [Path(name) for kernel in built for name in kernel.files]
        out.mkdir(parents=True, exist_ok=True)
        (out / "kernels.json").unlink(missing_ok=True)
        for path in files:
            half = out / f".{path.name}.half"
            shutil.copyfile(path, half)
            half.replace(out / path.name)
    delivered = [replace(each, files=tuple(Path(name).name for name in each.files)) for each in built]
    found = KernelsDocument(
        schema="kernels-1",
        tree=tree.origin,
        configuration=str(options.config),
        kernels=tuple(delivered),
        notes=tuple(notes),
    )
    document.write(options.out / "kernels.json", found)
    say(f"{options.out / 'kernels.json'}")
    for kernel in delivered:
        print(f"{kernel.release}: {kernel.what}")
        for file in kernel.files:
            print(f"    {options.out / file}")
        for name, size in kernel.sizes.items():
            print(f"    struct {name}: {size_text(size)}")
    print("\n".join([*notes, *boot_lines(delivered, options.out)]))
    return Verdict.PASS


def boot_lines(built: Sequence[PackagedKernel], out: Path) -> list[str]:
    files = [out / name for kernel in built for name in kernel.files]
    named = ",".join(f"{kernel.role}={kernel.release}" for kernel in built)
    return [
        "install:",
        *(
            f"    apt-get install {file.absolute()}"
            if file.suffix == ".deb"
            else f"    tar -C / -xf {file}   # then depmod and an initramfs"
            for file in files
        ),
        "have all boots made in an order drawn by lot, each kernel once, with the runs of each boot:",
        f"    schedline gate plan --kernels {named} --runs 5 --out campaign",
    ]


def size_text(found: KernelSize) -> str:
    aligned = f"aligned to {found.alignment}" if found.alignment else "no alignment asked for"
    return f"{found.size} bytes, {aligned}, {slab_class(found.size)}"


def slab_class(size: int) -> str:
    """The cache from which kmalloc() takes an object of this size (mm/slab_common.c, with 4 KB pages)."""
    if size > 8192:
        return f"{1 << ((size - 1) >> 12).bit_length()} pages"
    classes = [8, 16, 32, 64, 96, 128, 192, *(1 << shift for shift in range(8, 14))]
    found = next(each for each in classes if each >= size)
    return f"kmalloc-{found}" if found < 1024 else f"kmalloc-{found >> 10}k"


def parse(text: str) -> dict[str, str]:
    """The values of a .config; options that are not set are n."""
    return parse_config(text) | dict.fromkeys(re.findall(r"^# (CONFIG_\w+) is not set$", text, re.M), "n")


def _configured(tree: Tree, place: Path, arch: str, text: str) -> dict[str, str]:
    """Create a build directory with this .config, completed by the tree's defaults. Returns the resulting values."""
    place.mkdir(parents=True, exist_ok=True)
    write_atomic(place / ".config", text)
    make(tree.src, place, arch, ["olddefconfig"])
    return parse((place / ".config").read_text())


def wanted_text(text: str, *, aligned: bool = True) -> str:
    """The configuration of all kernels. It does not contain their names, so it is identical to the last byte."""
    lines = ["# CONFIG_LOCALVERSION_AUTO is not set", *([f"{ALIGNED}=y"] if aligned else [])]
    return "\n".join([text.rstrip("\n"), *lines]) + "\n"


def changed_mitigations(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The changes that aligned functions make to the kernel's mitigations against speculation."""
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return [f"{name}: {before.get(name, 'n')} -> {after.get(name, 'n')}" for name in names if _MITIGATIONS.search(name)]


def refuse_other_configuration(role: str, base: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the symbols that only one of the two trees has, in words."""
    names = sorted({*base, *other})
    if differ := [name for name in names if name in base and name in other and base[name] != other[name]]:
        listed = ", ".join(f"{name} {base[name]} and {other[name]}" for name in differ[:5])
        next_step = "set these in the configuration, so that both trees have the same values"
        raise SchedlineError(f"base and {role} are not configured alike: {listed}", next_step)
    return [
        f"only in {role if name in other else 'base'}: {name}={other.get(name, base.get(name))}"
        for name in names
        if (name in base) != (name in other) and (base.get(name) or other.get(name)) != "n"
    ]


def refuse_other_sizes(candidate: Mapping[str, KernelSize], placebo: Mapping[str, KernelSize]) -> None:
    for name in candidate:
        if candidate[name] != placebo.get(name):
            raise SchedlineError(
                f"the placebo's struct {name} is no placebo: the candidate has {size_text(candidate[name])}, "
                f"the placebo {size_text(placebo[name]) if name in placebo else 'none'}",
                "adjust the padding for this configuration and give the patch: --placebo FILE",
            )


def _packaged(tree: Tree, kernel: PackagedKernel, place: Path, arch: str, kind: str) -> PackagedKernel:
    """Build and package one kernel, unless that is already done. Its files are paths in the cache."""
    build, record = place / "build", place / "packaged.json"
    config = digest_of((build / ".config").read_text())
    identity = {"commit": kernel.commit, "config": config, "kind": kind, "compiler": compiler_version("")}
    done = read_json(record)
    if not done or not identity.items() <= done.items() or not all(Path(file).is_file() for file in done["files"]):
        record.unlink(missing_ok=True)
        for stale in [*place.glob("*.deb"), *place.glob("*.changes"), *place.glob("*.buildinfo"), *build.glob("*.tar")]:
            stale.unlink()
        with step(f"building and packaging {kernel.role}: {kernel.what}"):
            make(tree.src, build, arch, [f"LOCALVERSION=-schedline-{kernel.role}", *PACKAGES[kind]])
        release = (build / "include/config/kernel.release").read_text().strip()
        made = sorted(place.glob("linux-image-*.deb") if kind == "deb" else build.glob("*.tar"))
        files = [str(file) for file in made if "-dbg" not in file.name]
        if not files:
            raise SchedlineError(f"make {PACKAGES[kind][0]} made no package", f"see {build / 'build.log'}")
        done = identity | {"release": release, "files": files}
        write_json(record, done)
    return replace(kernel, release=done["release"], files=tuple(done["files"]))


@contextmanager
def place_of(cache: Path, tree: Tree, text: str, arch: str) -> Iterator[Path]:
    """The directory of the kernels of a tree with one configuration, locked: nobody else builds or removes them."""
    place = cache / "builds" / f"{tree.name}-kernels-{digest_of(text, arch)}"
    with lock(place.with_name(f"{place.name}.lock")):
        yield place


def _kernels(
    top: Path, tree: Tree, sources: Sequence[PackagedKernel], text: str, arch: str, kind: str
) -> tuple[list[PackagedKernel], list[str]]:
    notes: list[str] = []
    values: dict[str, dict[str, str]] = {}
    sized: dict[str, PackagedKernel] = {}
    for source in sources:
        build = top / source.role / "build"
        with checked_out(tree, source.commit), step(f"configuring {source.role}"):
            if source.role == "base":
                plain = _configured(tree, build, arch, wanted_text(text, aligned=False))
            values[source.role] = _configured(tree, build, arch, wanted_text(text))
            # One object, compiled with debug information before the kernel, which recompiles it later.
            make(tree.src, build, arch, ["KCFLAGS=-g", _UNIT])
            types = {name: each.type for name, each in read_members(build / _UNIT).items() if name in OBJECTS}
            sizes = {name: KernelSize(types[name].size, types[name].align) for name in OBJECTS if name in types}
            sized[source.role] = replace(source, sizes=sizes)
    for role in values:
        notes += refuse_other_configuration(role, values["base"], values[role])
    if values["base"].get(ALIGNED) != "y":
        notes.append(
            f"WARNING: {ALIGNED} could not be set (it needs EXPERT and an architecture that has it): "
            "the change also moves functions, which changes their speed"
        )
    changed = changed_mitigations(plain, values["base"])
    notes += [f"WARNING: aligning functions changes a mitigation: {each}" for each in changed]
    if "placebo" in sized:
        refuse_other_sizes(sized["candidate"].sizes, sized["placebo"].sizes)
    built = []
    for kernel in sized.values():
        with checked_out(tree, kernel.commit):
            built.append(_packaged(tree, kernel, top / kernel.role, arch, kind))
    return built, notes
