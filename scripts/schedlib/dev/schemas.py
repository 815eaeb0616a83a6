# SPDX-License-Identifier: GPL-2.0
"""Makes the JSON schemas of all documents from their types, for programs that read or write them without schedline.

`python -m schedlib.dev.schemas` in scripts/ writes them to formats/schemas/.
"""

from __future__ import annotations

import json
import pkgutil
import re
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec

from schedlib import formats
from schedlib.cache import write_atomic
from schedlib.formats.contract_file import Contract
from schedlib.formats.document import Document
from schedlib.formats.strict import Strict

SCHEMAS = Path(formats.__file__).parent / "schemas"


def documents() -> dict[str, type[Document]]:
    """Every kind of document, by the name of its schema in the files."""
    for module in pkgutil.iter_modules(formats.__path__):
        import_module(f"{formats.__name__}.{module.name}")
    return {kind.kind(): kind for kind in Document.__subclasses__()}


def described() -> dict[str, type[Strict]]:
    """Everything with a schema file, by the file's name: the documents, and the contracts, which people write."""
    return {**documents(), "contract": Contract}


def schema(name: str, kind: type[Strict]) -> dict[str, Any]:
    """The schema of a document or a data file."""
    more, end = {}, ""
    if issubclass(kind, Document):
        more, end = kind.more_schema, " No text has a control character." if kind.only_lines else ""
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


def text(name: str) -> str:
    """The text of a schema's file."""
    return json.dumps(schema(name, described()[name]), indent=2) + "\n"


if __name__ == "__main__":
    for each in described():
        write_atomic(SCHEMAS / f"{each}.json", text(each))
