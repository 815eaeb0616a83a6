# SPDX-License-Identifier: GPL-2.0
"""Documents checked against the schema files that outsiders use."""

from __future__ import annotations

import json
from functools import lru_cache

from jsonschema import Draft202012Validator

from schedlib.dev.schemas import SCHEMAS


@lru_cache
def validator(schema: str) -> Draft202012Validator:
    """The validator for the schema of this name. It is cached: building one takes longer than using it."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text()))


def validate(document: object, schema: str) -> None:
    """Check a document against a schema.

    Raises:
        jsonschema.ValidationError: it does not match.
    """
    validator(schema).validate(document)
