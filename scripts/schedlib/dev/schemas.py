# SPDX-License-Identifier: GPL-2.0
"""The JSON schemas of the documents that others read or write without schedline, made from the types."""

from __future__ import annotations

import json
import re
from inspect import cleandoc
from typing import Any

import msgspec

from schedlib.check.report import CheckDocument
from schedlib.dev.dev_verb import SchemasOptions
from schedlib.formats.contract_file import Contract
from schedlib.formats.document import Document
from schedlib.formats.gate_document import GateDocument
from schedlib.formats.run_file import Run
from schedlib.formats.strict import Strict
from schedlib.layout.layout_job import LayoutDocument
from schedlib.premerge.series import PremergeDocument
from schedlib.verdict import Verdict

PUBLISHED: dict[str, type[Strict]] = {
    "check": CheckDocument,
    "contract": Contract,
    "gate": GateDocument,
    "layout": LayoutDocument,
    "premerge": PremergeDocument,
    "run": Run,
}
"""By the word of `schedline dev schemas`. `schedline judge` writes the document of check."""


def schema(name: str, kind: type[Strict]) -> dict[str, Any]:
    """The schema of a document or a data file."""
    more, end = {}, ""
    if issubclass(kind, Document):
        more, end = kind.more_schema, " No text has a control character." if kind.no_control_chars else ""
    parts: dict[str, dict[str, Any]] = msgspec.json.schema(kind)["$defs"]
    for part in parts.values():
        part.pop("title")
        _describe(part)
    whole = parts.pop(kind.__name__)
    return {
        "$comment": "SPDX-License-Identifier: GPL-2.0",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:schedline:schema:{name}",
        "title": whole.pop("description") + end,
        **whole,
        **more,
        "$defs": parts,
    }


def _describe(part: dict[str, Any]) -> None:
    """Move the docstring's text into the descriptions of the type and of each of its fields."""
    about, _, fields = cleandoc(part.get("description", "")).partition("\n\nAttributes:\n")
    if about:
        part["description"] = " ".join(about.split())
    for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", fields, re.M):
        for field in names.split(", "):
            if field in part["properties"]:
                part["properties"][field]["description"] = " ".join(text.split())


def show(wanted: SchemasOptions) -> Verdict:
    """`schedline dev schemas`: print a published schema."""
    kind = PUBLISHED[wanted.name]
    print(json.dumps(schema(kind.kind() if issubclass(kind, Document) else wanted.name, kind), indent=2))
    return Verdict.PASS
