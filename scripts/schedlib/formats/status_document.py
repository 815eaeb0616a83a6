# SPDX-License-Identifier: GPL-2.0
"""`schedline status`: which of the changes a tree or a kernel has."""

from __future__ import annotations

from typing import Literal

from schedlib.formats.document import Document
from schedlib.formats.layout_document import PresenceName
from schedlib.formats.strict import Strict, Word


class StatusChange(Strict, frozen=True):
    """One change. evidence: what was seen."""

    id: Word
    presence: PresenceName
    evidence: tuple[str, ...]


class StatusDocument(Document, frozen=True, kw_only=True):
    """schedline status: which of the changes a tree or a kernel has."""

    schema: Literal["status-1"]
    tool: Word
    kernel: Word
    changes: tuple[StatusChange, ...]
