# SPDX-License-Identifier: GPL-2.0
"""Documents held against the schema files that outsiders use."""

from __future__ import annotations

import json
from functools import lru_cache

from jsonschema import Draft202012Validator

from schedlib.dev.schemas import SCHEMAS


@lru_cache
def validator(schema: str) -> Draft202012Validator:
    """Of the schema of this name, made once: that takes longer than all that is done with it."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{schema}.json").read_text()))


def validate(document: object, schema: str) -> None:
    """Hold a document against a schema.

    Raises:
        jsonschema.ValidationError: it does not match.
    """
    validator(schema).validate(document)
