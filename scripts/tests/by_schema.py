# SPDX-License-Identifier: GPL-2.0
"""Documents checked against the schemas that outsiders use, and against those of our own files."""

from __future__ import annotations

from functools import lru_cache

from jsonschema import Draft202012Validator

from schedlib.formats.document import Document
from schedlib.formats.schemas import PUBLISHED, schema


@lru_cache
def validator(name: str) -> Draft202012Validator:
    """The validator for the schema of this name. It is cached: building one takes longer than using it."""
    kinds = {kind.kind(): kind for kind in Document.__subclasses__()}
    return Draft202012Validator(schema(name, kinds[name] if name in kinds else PUBLISHED[name]))


def validate(document: object, name: str) -> None:
    """Check a document against a schema.

    Raises:
        jsonschema.ValidationError: it does not match.
    """
    validator(name).validate(document)
