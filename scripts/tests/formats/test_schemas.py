# SPDX-License-Identifier: GPL-2.0
"""The schemas for outsiders, and the types that they are made from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args, get_origin

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError
from test_run_file import DAMAGED, TEXT

from by_schema import kinds, validator
from one_verb import main_of
from schedlib.dev import dev_verb
from schedlib.dev.schemas import PUBLISHED
from schedlib.formats.c2c_document import Counts
from schedlib.formats.document import Document
from schedlib.formats.strict import Strict
from schedlib.paths import PROJECT

SCRIPTS = PROJECT / "scripts"
main = main_of(dev_verb)


def documents() -> dict[str, type[Document]]:
    """Every kind of document, by the name of its schema in the files."""
    for path in sorted((SCRIPTS / "schedlib").rglob("*.py")):
        if "Document, frozen=True" in path.read_text():
            import_module(".".join(path.relative_to(SCRIPTS).with_suffix("").parts))
    return kinds()


@pytest.mark.parametrize("word", sorted(PUBLISHED))
def test_what_others_read_has_a_schema(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", word]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["$id"].startswith(f"urn:schedline:schema:{word}")
    Draft202012Validator.check_schema(said)


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
    checks = validator("run-1")
    checks.validate(json.loads(TEXT))
    for kind in ("no unit", "direction", "name of a path", "no metrics", "DONE with a reason", "no machine"):
        with pytest.raises(ValidationError):
            checks.validate(json.loads(DAMAGED[kind][0]))
