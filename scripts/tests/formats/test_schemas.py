# SPDX-License-Identifier: GPL-2.0
"""The schema files for outsiders agree with the types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError
from test_run_file import DAMAGED, TEXT

from schedlib.dev.schemas import SCHEMAS, described, documents, text
from schedlib.formats.c2c_document import Counts
from schedlib.formats.document import Document
from schedlib.formats.strict import Strict

NAMES = sorted(described())


def test_each_document_has_its_file() -> None:
    assert [path.stem for path in sorted(SCHEMAS.iterdir())] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_made_from_the_type(name: str) -> None:
    written = (SCHEMAS / f"{name}.json").read_text()
    assert written == text(name), "in scripts/: python -m schedlib.dev.schemas"
    Draft202012Validator.check_schema(json.loads(written))


def parts(kind: Any, seen: set[type[Strict]]) -> Iterator[type[Strict]]:
    """The types in a document, nested ones included."""
    if isinstance(kind, type) and issubclass(kind, Strict) and kind not in seen:
        seen.add(kind)
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from parts(field.type, seen)
    for part in get_args(kind) if get_origin(kind) else ():
        yield from parts(part, seen)


@pytest.mark.parametrize("name", sorted(documents()))
def test_what_is_read_has_to_be_there(name: str) -> None:
    """A default would hide that a field is missing in the file, and a repeated key would go unnoticed."""
    for kind in parts(documents()[name], set()):
        config = kind.__struct_config__
        assert config.frozen and config.forbid_unknown_fields
        for field in msgspec.structs.fields(kind) if kind is not Counts else ():
            assert field.default in (msgspec.NODEFAULT, msgspec.UNSET) and field.default_factory is msgspec.NODEFAULT
    assert Counts.__struct_config__.omit_defaults


def test_the_schema_of_runs_refuses_what_it_can_see() -> None:
    validator = Draft202012Validator(json.loads((SCHEMAS / "run-1.json").read_text()))
    validator.validate(json.loads(TEXT))
    for kind in ("no unit", "direction", "name of a path", "no metrics", "DONE with a reason", "no machine", "process"):
        with pytest.raises(ValidationError):
            validator.validate(json.loads(DAMAGED[kind][0]))


def test_only_documents_are_documents() -> None:
    assert all(issubclass(kind, Document) for kind in documents().values())
    assert len(documents()) == len(Document.__subclasses__())
