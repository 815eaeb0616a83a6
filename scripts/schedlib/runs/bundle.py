# SPDX-License-Identifier: GPL-2.0
"""`schedline run --pack`: all that a machine needs to be measured, in one archive. There it needs Python alone."""

from __future__ import annotations

import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.environment import library_place, lock_file, pinned
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Word
from schedlib.guest.selftests import compile_program, own_programs
from schedlib.options import BASIC
from schedlib.paths import BUNDLE, BUNDLED_LIBRARIES, BUNDLED_PROGRAMS, CODE, PROJECT
from schedlib.process import run
from schedlib.progress import step
from schedlib.runs.programs import header_tree
from schedlib.runs.run_verb import PackOptions
from schedlib.verdict import Verdict

TOP = "schedline"
"""The directory in the archive. The command in it has the same name."""

GATE = "gate"

_PARTS = ("scripts/schedline", "configs", "selftests/sched_latency", "COPYING")
"""Parts of this project beside its code, with the sources of the programs."""


class BundleDocument(Document, frozen=True, kw_only=True):
    """What a bundle has, for a machine that is to be measured.

    Attributes:
        machine: the architecture of its programs and libraries, as `uname -m` prints it.
        header: the kernel tree whose kselftest.h the programs were compiled with.
        extras: the extras of pyproject.toml whose libraries it has.
        pythons: the versions of Python that they are for.
    """

    schema: Literal["bundle-1"]
    machine: Word
    header: Word
    extras: tuple[Word, ...]
    pythons: tuple[Word, ...]


def pack(wanted: PackOptions) -> Verdict:
    """Compile the programs, and write the archive."""
    doctor.require(["compile"])
    cache = cache_dir()
    tree = header_tree(cache, wanted.tree)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    pythons = tuple(dict.fromkeys((here, *wanted.pythons)))
    extras = (*BASIC, GATE) if wanted.looks else BASIC
    with tempfile.TemporaryDirectory(dir=cache, prefix="pack-") as name:
        place = Path(name)
        (place / BUNDLED_PROGRAMS.name).mkdir()
        programs = own_programs().values()
        with step(f"compiling {len(programs)} workloads"):
            for source in programs:
                compile_program(tree, source, place / BUNDLED_PROGRAMS.name / source.stem, "-static")
        for each in extras:
            for python in pythons:
                libraries = place / library_place(python).relative_to(PROJECT)
                _copy(each, libraries) if python == here else _download(each, python, libraries)
        about = BundleDocument(
            schema="bundle-1", machine=platform.machine(), header=tree.origin, extras=extras, pythons=pythons
        )
        document.write(place / BUNDLE.name, about)
        (place / TOP).symlink_to("scripts/schedline")
        half = place / "half"
        with step(f"packing {wanted.file}"), tarfile.open(half, "w:gz") as archive:
            for path, named in _members(place):
                archive.add(path, f"{TOP}/{named}", recursive=False)
        wanted.file.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(half, wanted.file)
    size = wanted.file.stat().st_size / 1e6
    print(f"{wanted.file}: {size:.1f} MB, for {about.machine} with Python {', '.join(pythons)}")
    print(f"there: tar -xf {wanted.file.name} && ./{TOP}/{TOP} run --suite gate --out runs/base")
    return Verdict.PASS


def _members(place: Path) -> Iterator[tuple[Path, Path]]:
    """What goes into the archive, and its path there."""
    for part in (BUNDLE.name, TOP, BUNDLED_PROGRAMS.name, BUNDLED_LIBRARIES.name):
        for path in (place / part, *sorted((place / part).rglob("*"))):
            yield path, path.relative_to(place)
    for part in _PARTS:
        for path in (PROJECT / part, *sorted((PROJECT / part).rglob("*"))):
            yield path, path.relative_to(PROJECT)
    for path in sorted(CODE.rglob("*")):
        if "__pycache__" not in path.parts and not path.is_relative_to(CODE / "data"):
            yield path, Path("scripts/schedlib") / path.relative_to(CODE)


def _copy(extra: str, libraries: Path) -> None:
    """Copy the locked libraries."""
    python = pinned(extra)
    found = next((python.parent.parent / "lib").glob("python*/site-packages"))
    left_out = shutil.ignore_patterns("pip*", "setuptools*", "__pycache__", "distutils*", "_distutils*")
    shutil.copytree(found, libraries, ignore=left_out, dirs_exist_ok=True)


def _download(extra: str, python: str, libraries: Path) -> None:
    """Download the same libraries for another version of Python. pip checks every hash."""
    pip = [str(pinned(extra)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--target", str(libraries)]
    words = ["--python-version", python, "--only-binary=:all:", "--no-deps", "--require-hashes"]
    with step(f"downloading the libraries of {extra} for Python {python}"):
        done = run([*pip, *words, "-r", lock_file(extra)])
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-2:]
        raise SchedlineError(
            f"the libraries of {extra} for Python {python} cannot be had:\n    " + "\n    ".join(said),
            "leave out this version, or check the network",
        )
