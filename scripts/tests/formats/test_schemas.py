# SPDX-License-Identifier: GPL-2.0
"""The schemas for outsiders, and the types that they are made from; what is written can be read, however large."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
import toy_results
from jsonschema import Draft202012Validator, ValidationError
from test_run_file import DAMAGED, TEXT

from by_schema import kinds, validator
from one_verb import main_of
from schedlib.dev import dev_verb
from schedlib.dev.schemas import PUBLISHED
from schedlib.formats import document
from schedlib.formats.c2c_document import C2C_FILE, Counts, TrafficResult, read_result
from schedlib.formats.document import Document
from schedlib.formats.strict import Strict
from schedlib.paths import PROJECT

SCRIPTS = PROJECT / "scripts"
main = main_of(dev_verb)


def documents() -> dict[str, type[Document]]:
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


def test_counts_of_the_whole_kernel_can_be_read(tmp_path: Path) -> None:
    result = toy_results.result(())
    path = tmp_path / C2C_FILE
    document.write(path, result)
    with path.open("ab") as file:
        file.write(b" " * document.LARGEST)
    assert read_result(tmp_path) == result


def test_nothing_is_written_that_could_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = toy_results.result(())
    path = tmp_path / C2C_FILE
    document.write(path, result)
    size = path.stat().st_size
    monkeypatch.setattr(TrafficResult, "largest", size)
    document.write(path, result)
    monkeypatch.setattr(TrafficResult, "largest", size - 1)
    with pytest.raises(document.Refused, match=f"it has {size} bytes, more than {size - 1}"):
        read_result(path)
    path.unlink()
    with pytest.raises(document.Refused, match=f"it would have {size} bytes, more than {size - 1}"):
        document.write(path, result)
    assert not path.exists()
