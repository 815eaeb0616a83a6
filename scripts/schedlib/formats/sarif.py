# SPDX-License-Identifier: GPL-2.0
"""SARIF 2.1.0, which GitHub and others show beside the lines of a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from schedlib import TOOL

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True)
class SarifResult:
    """A finding about a line of a file."""

    rule: str
    level: Literal["error", "warning"]
    text: str
    file: str
    line: int


def sarif_text(rules: Mapping[str, str], results: Sequence[SarifResult]) -> str:
    """The document, with one run. `rules`: why each is there, by its id."""
    name, _, version = TOOL.partition(" ")
    ids = list(rules)
    driver = {
        "name": name,
        "version": version,
        "rules": [{"id": rule, "shortDescription": {"text": why}} for rule, why in rules.items()],
    }
    found = [
        {
            "ruleId": each.rule,
            "ruleIndex": ids.index(each.rule),
            "level": each.level,
            "message": {"text": each.text},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": each.file, "uriBaseId": "%SRCROOT%"},
                        "region": {"startLine": max(each.line, 1)},
                    }
                }
            ],
        }
        for each in results
    ]
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": found}]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
