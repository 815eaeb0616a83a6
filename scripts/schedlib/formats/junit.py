# SPDX-License-Identifier: GPL-2.0
"""The one writer of JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Mark(Enum):
    """How JUnit marks a test that has not passed; the value is the name of the XML element."""

    SKIPPED = "skipped"
    FAILURE = "failure"
    ERROR = "error"


@dataclass(frozen=True)
class JUnitCase:
    """A test. `mark`: None if it passed. `message`: one line. `detail`: the rest of its output."""

    name: str
    mark: Mark | None = None
    message: str = ""
    detail: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class JUnitSuite:
    """A group of tests; its name is also the class name of the tests."""

    name: str
    cases: tuple[JUnitCase, ...]


def junit_document(suites: Sequence[JUnitSuite]) -> bytes:
    """The content of the file."""
    root = ET.Element("testsuites")
    for suite in suites:
        _add(root, suite)
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _add(root: ET.Element, suite: JUnitSuite) -> None:
    marks = [case.mark for case in suite.cases]
    name = _text(suite.name)
    attributes = {
        "name": name,
        "tests": str(len(marks)),
        "failures": str(marks.count(Mark.FAILURE)),
        "errors": str(marks.count(Mark.ERROR)),
        "skipped": str(marks.count(Mark.SKIPPED)),
        "time": f"{sum(case.seconds or 0 for case in suite.cases):.6f}",
    }
    element = ET.SubElement(root, "testsuite", attributes)
    for case in suite.cases:
        row = ET.SubElement(element, "testcase", {"classname": name, "name": _text(case.name)})
        if case.seconds is not None:
            row.set("time", f"{case.seconds:.6f}")
        if case.mark:
            ET.SubElement(row, case.mark.value, {"message": _text(case.message)}).text = _text(case.detail) or None


# Every character that XML 1.0 cannot represent.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    """Replace the characters of a text that XML cannot represent."""
    return _NOT_XML.sub("\ufffd", text)
