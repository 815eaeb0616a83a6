# SPDX-License-Identifier: GPL-2.0
"""bundle.json, which marks an unpacked bundle: see `schedline run --pack`."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.strict import Word


class BundleDocument(Document, frozen=True, kw_only=True):
    """What a bundle has, for a machine that is to be measured.

    Attributes:
        machine: the architecture of its programs and libraries, as `uname -m` prints it.
        header: the kernel tree whose kselftest.h the programs were compiled with.
        requirements: the requirements files whose libraries it has.
        pythons: the versions of Python that they are for.
    """

    schema: Literal["bundle-1"]
    machine: Word
    header: Word
    requirements: tuple[Word, ...]
    pythons: tuple[Word, ...]
