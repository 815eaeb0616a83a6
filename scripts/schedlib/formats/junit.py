# SPDX-License-Identifier: GPL-2.0
"""The one writer of JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Mark = Literal["skipped", "failure", "error"]
"""How JUnit marks a test that has not passed: the name of the XML element."""


@dataclass(frozen=True)
class JUnitCase:
    """A test. `mark`: None if it passed. `message`: one line. `detail`: the rest of its output."""

    name: str
    mark: Mark | None = None
    message: str = ""
    detail: str = ""
    seconds: float | None = None


JUnitSuite = tuple[str, Sequence[JUnitCase]]
"""A group of tests, with its name, which is also the class name of the tests."""


def junit_document(suites: Sequence[JUnitSuite]) -> bytes:
    root = ET.Element("testsuites")
    for suite, cases in suites:
        name, marks = _text(suite), [case.mark for case in cases]
        counts = {"tests": len(marks), "failures": marks.count("failure"), "errors": marks.count("error")}
        counts["skipped"] = marks.count("skipped")
        words = {word: str(count) for word, count in counts.items()}
        element = ET.SubElement(root, "testsuite", {"name": name} | words)
        element.set("time", f"{sum(case.seconds or 0 for case in cases):.6f}")
        for case in cases:
            row = ET.SubElement(element, "testcase", {"classname": name, "name": _text(case.name)})
            if case.seconds is not None:
                row.set("time", f"{case.seconds:.6f}")
            if case.mark:
                ET.SubElement(row, case.mark, {"message": _text(case.message)}).text = _text(case.detail) or None
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


# Every character that XML 1.0 cannot represent.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
