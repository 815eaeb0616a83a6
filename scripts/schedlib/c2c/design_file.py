# SPDX-License-Identifier: GPL-2.0
"""The file of `schedline c2c variants`: the designs to compare, and the guests in which they run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from schedlib.c2c.c2c_options import CPUS, KINDS, QUANTA, WORKLOADS
from schedlib.errors import SchedlineError
from schedlib.formats.data_file import nearest, read_toml, refuse
from schedlib.formats.strict import Positive, Strict, Word
from schedlib.names import cpupri_variants, fragment_names
from schedlib.options import MOST_CPUS
from schedlib.tree import changes

PLACEBO = "placebo"


class Design(Strict, frozen=True):
    """One column: a kernel to build, or the offsets of a layout for the accesses of another column.

    Attributes:
        with_, without: changes to apply and to leave out, as with --with and --without.
        cpupri: a variant of cpupri-split.
        config: fragments of configs/kernel/, or paths.
        patch: a patch or mail, applied last.
        layout: a layout file; no kernel is built.
        of: for a layout, the design whose accesses are played again; the first one by default.
    """

    name: Word
    with_: tuple[str, ...] = msgspec.field(name="with", default=())
    without: tuple[str, ...] = ()
    cpupri: str = ""
    config: tuple[str, ...] = ()
    patch: str = ""
    layout: str = ""
    of: str = ""

    @property
    def is_kernel(self) -> bool:
        """Whether a kernel is built for it."""
        return not self.layout


class DesignFile(Strict, frozen=True):
    """What to compare.

    Attributes:
        cpus: of a guest; ignored with a topology.
        rounds: of each workload, by its name, where its default is not wanted.
        config: fragments for all kernels.
        designs: in the order of the columns; the others are compared with the first.
    """

    designs: Annotated[tuple[Design, ...], Meta(min_length=2)] = msgspec.field(name="variant")
    cpus: Annotated[int, Meta(ge=2, le=MOST_CPUS)] = CPUS
    topology: str = ""
    workloads: Annotated[tuple[Word, ...], Meta(min_length=1)] = ("rt", "partition", "balance")
    objects: Annotated[tuple[Word, ...], Meta(min_length=1)] = ("root_domain",)
    quanta: Annotated[tuple[Positive, ...], Meta(min_length=1)] = QUANTA
    rounds: dict[str, Positive] = msgspec.field(default_factory=dict)
    config: tuple[str, ...] = ()


def read_designs(path: Path) -> DesignFile:
    """Read the file. Paths in it are relative to its directory, and absolute in what is returned.

    Raises:
        SchedlineError: something in it is unknown or contradicts itself.
    """
    found = read_toml(path, DesignFile)
    for key, given, known in (
        ("workloads", found.workloads, list(WORKLOADS)),
        ("rounds", tuple(found.rounds), list(WORKLOADS)),
        ("objects", found.objects, list(KINDS)),
    ):
        for name in given:
            if name not in known:
                refuse(path, (key,), f"has {name!r}", nearest(name, known))
    for key, values in (("workloads", found.workloads), ("objects", found.objects), ("quanta", found.quanta)):
        if len(set(values)) != len(values):
            refuse(path, (key,), "names one twice", "name each once")
    names = [each.name for each in found.designs]
    kernels = [each.name for each in found.designs if each.is_kernel]
    if not found.designs[0].is_kernel:
        refuse(path, ("variant", 0, "layout"), "is in the first variant", "begin with a kernel, for comparison")
    designs = tuple(_checked(path, number, each, names, kernels) for number, each in enumerate(found.designs))
    return msgspec.structs.replace(found, designs=designs, config=_fragments(path, ("config",), found.config))


def _checked(path: Path, number: int, design: Design, names: list[str], kernels: list[str]) -> Design:
    here: tuple[str | int, ...] = ("variant", number)
    if names.count(design.name) > 1 or design.name == PLACEBO:
        refuse(path, (*here, "name"), f"is {design.name!r} again", f"give each another name; {PLACEBO} is added anyway")
    for key in ("with_", "without"):
        changes.known(getattr(design, key), f"{path}: {design.name}")
    if design.cpupri and design.cpupri not in cpupri_variants():
        refuse(path, (*here, "cpupri"), f"is {design.cpupri!r}", nearest(design.cpupri, cpupri_variants()))
    if design.layout and (design.with_ or design.without or design.cpupri or design.config or design.patch):
        refuse(path, (*here, "layout"), "is there beside what builds a kernel", "make two variants of it")
    if design.of and (design.is_kernel or design.of not in kernels):
        refuse(path, (*here, "of"), f"is {design.of!r}", f"with a layout, name one of: {', '.join(kernels)}")
    return msgspec.structs.replace(
        design,
        config=_fragments(path, (*here, "config"), design.config),
        patch=_file(path, design.patch),
        layout=_file(path, design.layout),
        of=design.of or (kernels[0] if design.layout else ""),
    )


def _file(path: Path, name: str) -> str:
    if not name:
        return ""
    file = (path.parent / name).absolute()
    if not file.exists():
        raise SchedlineError(f"{path} names {name}: no such file", f"ls {path.parent}")
    return str(file)


def _fragments(path: Path, place: tuple[str | int, ...], given: tuple[str, ...]) -> tuple[str, ...]:
    for name in given:
        if "/" not in name and name not in fragment_names():
            refuse(path, place, f"has {name!r}", nearest(name, fragment_names()))
    return tuple(_file(path, name) if "/" in name else name for name in given)
