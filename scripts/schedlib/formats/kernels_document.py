# SPDX-License-Identifier: GPL-2.0
"""`schedline kernels`: kernels that were built alike, and where their packages are."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Count, Positive, Strict, Word


class KernelSize(Strict, frozen=True):
    """The size of a structure, in bytes. alignment: null if no attribute asks for one."""

    size: Count
    alignment: Positive | None


class PackagedKernel(Strict, frozen=True):
    """A kernel.

    Attributes:
        role: base, candidate or placebo.
        release: as `uname -r` will print it.
        commit, what: its source.
        files: its packages, in the same directory.
        sizes: sizes of structures, by tag.
    """

    role: Word
    release: Word
    commit: Word
    what: str
    files: tuple[Word, ...]
    sizes: dict[str, KernelSize]


class KernelsDocument(Document, frozen=True, kw_only=True):
    """schedline kernels: kernels that were built alike, and where their packages are.

    Attributes:
        tree: where it came from.
        configuration: the file that it was read from.
        notes: differences other than the change, and warnings.
    """

    schema: Literal["kernels-1"]
    tree: str
    configuration: str
    kernels: tuple[PackagedKernel, ...]
    notes: tuple[str, ...]
