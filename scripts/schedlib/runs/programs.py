# SPDX-License-Identifier: GPL-2.0
"""The programs of selftests/sched_latency/: compiled into the cache as their Makefile does, or packed into a bundle.

A bundle (`schedline run --pack`) is one archive with all that a machine needs to be measured. There it needs Python
alone.
"""

from __future__ import annotations

import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, contents_of, digest_of, write_json
from schedlib.environment import PYTHON, library_place, pinned
from schedlib.errors import SchedlineError
from schedlib.guest.selftests import compile_program, own_programs
from schedlib.options import BASIC, DEFAULT_SERIES, TreeOptions
from schedlib.paths import BUNDLE, BUNDLED_LIBRARIES, BUNDLED_PROGRAMS, CODE, PROJECT
from schedlib.process import must, run
from schedlib.progress import step
from schedlib.runs.run_verb import PackOptions
from schedlib.tree.kernel_tree import Tree, cached_series, open_tree
from schedlib.tree.selftest_programs import DIRECTORY
from schedlib.verdict import Verdict

_KEPT = 5
"""How many versions of the programs stay in the cache."""

_TOP = "schedline"
"""The directory in a bundle. The command in it has the same name."""

_PARTS = ("scripts/schedline", "configs", "selftests/sched_latency", "COPYING")
"""Parts of this project beside its code, with the sources of the programs."""


def header_tree(cache: Path, wanted: TreeOptions | None = None) -> Tree:
    """A user's tree, or a kernel source in the cache: the programs include its kselftest.h. Nothing is downloaded."""
    if wanted and wanted.kdir:
        return open_tree(cache, wanted)
    name = (wanted and wanted.series) or DEFAULT_SERIES
    if tree := cached_series(cache, name):
        return tree
    raise SchedlineError(
        f"the programs include the kernel's kselftest.h, and {cache} has no kernel source. Nothing is downloaded "
        "to a machine that is measured",
        "schedline run --pack FILE on another machine; the bundle needs nothing but Python here. "
        f"Or schedline fetch --series {name} (about 170 MB; it disturbs running measurements)",
    )


def compiled(cache: Path, names: Collection[str]) -> Path:
    """Compile these programs, and return their directory. A bundle has all of them compiled."""
    if BUNDLE.exists():
        return BUNDLED_PROGRAMS
    doctor.require(["compile"])
    place = cache / "workloads" / digest_of(must(["gcc", "--version"]), *contents_of([DIRECTORY]))
    if lacking := [name for name in sorted(set(names)) if not (place / name).exists()]:
        place.mkdir(parents=True, exist_ok=True)
        tree = header_tree(cache)
        with step(f"compiling {len(lacking)} workloads"), tempfile.TemporaryDirectory(dir=place) as scratch:
            for name in lacking:
                new = Path(scratch, name)
                compile_program(tree, DIRECTORY / f"{name}.c", new)
                new.replace(place / name)
    os.utime(place)
    places = [each for each in (cache / "workloads").iterdir() if each.is_dir()]
    for old in sorted(places, key=lambda each: each.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return place


def pack(wanted: PackOptions) -> Verdict:
    doctor.require(["compile"])
    cache = cache_dir()
    tree = header_tree(cache, wanted.tree)
    pythons = tuple(dict.fromkeys((PYTHON, *wanted.pythons)))
    extras = (*BASIC, "gate") if wanted.looks else BASIC
    with tempfile.TemporaryDirectory(dir=cache, prefix="pack-") as name:
        place = Path(name)
        (place / BUNDLED_PROGRAMS.name).mkdir()
        programs = own_programs().values()
        with step(f"compiling {len(programs)} workloads"):
            for source in programs:
                compile_program(tree, source, place / BUNDLED_PROGRAMS.name / source.stem, "-static")
        for extra in extras:
            for python in pythons:
                _bring_libraries(extra, python, place / library_place(python).relative_to(PROJECT))
        about = {"machine": platform.machine(), "header": tree.origin, "extras": extras, "pythons": pythons}
        write_json(place / BUNDLE.name, about | {"schema": "bundle-1"})
        (place / _TOP).symlink_to("scripts/schedline")
        half = place / "half"
        with step(f"packing {wanted.file}"), tarfile.open(half, "w:gz") as archive:
            for path, named in _members(place):
                archive.add(path, f"{_TOP}/{named}", recursive=False)
        wanted.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(half, wanted.file)
    size = wanted.file.stat().st_size / 1e6
    print(f"{wanted.file}: {size:.1f} MB, for {platform.machine()} with Python {', '.join(pythons)}")
    print(f"there: tar -xf {wanted.file.name} && ./{_TOP}/{_TOP} run --suite gate --out runs/base")
    return Verdict.PASS


def _members(place: Path) -> Iterator[tuple[Path, Path]]:
    """What goes into the archive, and its path there."""
    made = [place / part for part in (BUNDLE.name, _TOP, BUNDLED_PROGRAMS.name, BUNDLED_LIBRARIES.name)]
    for part in (*made, *(PROJECT / part for part in _PARTS)):
        for path in (part, *sorted(part.rglob("*"))):
            yield path, path.relative_to(place if part in made else PROJECT)
    for path in sorted(CODE.rglob("*")):
        if "__pycache__" not in path.parts and not path.is_relative_to(CODE / "data"):
            yield path, Path("scripts/schedlib") / path.relative_to(CODE)


def _bring_libraries(extra: str, python: str, libraries: Path) -> None:
    """Copy the locked libraries; for another version of Python, download the same. pip checks every hash."""
    own = pinned(extra)
    if python == PYTHON:
        found = next((own.parent.parent / "lib").glob("python*/site-packages"))
        left_out = shutil.ignore_patterns("pip*", "setuptools*", "__pycache__", "distutils*", "_distutils*")
        shutil.copytree(found, libraries, ignore=left_out, dirs_exist_ok=True)
        return
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(libraries)]
    words = ["--python-version", python, "--only-binary=:all:", "--no-deps", "--require-hashes"]
    with step(f"downloading the libraries of {extra} for Python {python}"):
        done = run([*pip, *words, "-r", own.parent.parent / "lock.txt"])
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-2:]
        raise SchedlineError(
            f"the libraries of {extra} for Python {python} cannot be had:\n    " + "\n    ".join(said),
            "leave out this version, or check the network",
        )
