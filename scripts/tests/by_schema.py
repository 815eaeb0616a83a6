# SPDX-License-Identifier: GPL-2.0
"""Documents checked against the schemas that outsiders use, and against those of our own files."""

from __future__ import annotations

from functools import lru_cache

from jsonschema import Draft202012Validator

from schedlib.dev.schemas import PUBLISHED, schema
from schedlib.formats.document import Document


def kinds(below: type[Document] = Document) -> dict[str, type[Document]]:
    """All kinds of documents, by their names."""
    found: dict[str, type[Document]] = {}
    for each in below.__subclasses__():
        found |= kinds(each) | ({each.kind(): each} if "schema" in each.__struct_fields__ else {})
    return found


@lru_cache
def validator(name: str) -> Draft202012Validator:
    """The validator for the schema of this name. It is cached: building one takes longer than using it."""
    known = kinds()
    return Draft202012Validator(schema(name, known[name] if name in known else PUBLISHED[name]))


def validate(document: object, name: str) -> None:
    """Raise a jsonschema.ValidationError if a document does not match a schema."""
    validator(name).validate(document)
