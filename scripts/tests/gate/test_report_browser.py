# SPDX-License-Identifier: GPL-2.0
"""The report as people see it: in headless Chromium, light, dark and printed, on a wide screen and on a telephone."""

from __future__ import annotations

import re
import shutil
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from report_campaigns import compared, rich

from browser import Browser
from schedlib.gate.gate_page import page
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

LOOKS = [(width, dark) for width in (1200, 1125, 400, 360) for dark in (False, True)]

# For each text the contrast with its background, by WCAG 2.2.
CONTRASTS = """
(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => { const [r, g, b] = numbers(colour).slice(0, 3).map(each => {
    const part = each / 255; return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const behind = element => { for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor; const parts = numbers(colour);
    if (parts.length < 4 || parts[3] === 1) return colour } return "rgb(255, 255, 255)" };
  const ratio = (one, other) => { const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) };
  const out = [];
  document.querySelectorAll("details").forEach(each => each.open = true);
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const says = [...element.childNodes].some(each => each.nodeType === 3 && each.data.trim());
    if (says) out.push([element.textContent.trim().slice(0, 40), ratio(style.color, behind(element))]);
  }
  return out;
})()
"""

# Elements that extend beyond the page, except those that scroll in their own box.
OVERFLOW = """
[...document.body.querySelectorAll("*")].filter(each => !each.closest(".scroll, pre, thead")
  && each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(each => each.tagName + " " + each.textContent.slice(0, 40))
"""

OVERLAPS = """
(boxes => boxes.flatMap(([one, a], place) => boxes.slice(place + 1).filter(([, b]) => a.left < b.right - 1
    && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2).map(([other]) => one + " / " + other))
)([...document.querySelectorAll("text")].map(each => [each.textContent, each.getBoundingClientRect()]))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    """A browser, and a report that has content in every part."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed (schedline doctor)")
    place = tmp_path_factory.mktemp("report")
    file = place / "report.html"
    file.write_text(page(replace(compared(rich(place)), command="schedline gate base candidate " + "--x" * 60)))
    with Browser(program, place / "profile") as browser:
        yield browser, file


def pixels(browser: Browser) -> Any:
    """The whole page, as rows of red, green and blue."""
    return np.asarray(Image.open(BytesIO(browser.picture())).convert("RGB"), dtype=float)


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_page_is_good_to_look_at(shown: tuple[Browser, Path], width: int, dark: bool) -> None:
    browser, file = shown
    browser.open(file, width, dark=dark)
    seen = pixels(browser)
    assert seen.shape[1] == width and seen.shape[0] > 2000
    corner = seen[2, 2].mean()
    assert corner < 60 if dark else corner > 230
    assert (np.abs(seen - seen[2, 2]).max(axis=2) > 40).mean() > 0.02  # it is not empty
    for part in np.array_split(seen, 8):
        assert part.std() > 5
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(OVERFLOW) == []
    told = [event for event in browser.events if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")]
    assert told == []  # the page does nothing that its policy forbids
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert {address.partition(":")[0] for address in asked} <= {"file", "data"}


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("dark", [False, True])
def test_contrast(shown: tuple[Browser, Path], media: str, dark: bool) -> None:
    browser, file = shown
    browser.open(file, 1200, dark=dark, media=media)
    found = [
        each
        for verdict in Verdict
        for each in browser.ask(f"document.querySelector('.verdict').className = 'verdict {verdict.name}'; {CONTRASTS}")
    ]
    assert found and [each for each in found if each[1] < 4.5] == []


def test_texts_of_plots_do_not_overlap(shown: tuple[Browser, Path], tmp_path: Path) -> None:
    browser, file = shown
    plots = re.findall(r'class="plot" alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)"', file.read_text())
    assert len(plots) == 3
    for plot in plots:
        (tmp_path / "plot.svg").write_bytes(b64decode(plot))
        browser.open(tmp_path / "plot.svg", 400)
        assert browser.ask("document.querySelectorAll('text').length") > 5
        assert browser.ask(OVERLAPS) == []


def test_print_is_on_white(shown: tuple[Browser, Path]) -> None:
    browser, file = shown
    browser.open(file, 700, dark=True, media="print")
    assert np.median(pixels(browser)) == 255
    assert browser.ask("document.documentElement.scrollWidth") <= 700


def test_hostile_runs_do_nothing(shown: tuple[Browser, Path], tmp_path: Path) -> None:
    browser, _ = shown
    file = tmp_path / "evil.html"
    file.write_text(page(compared(rich(tmp_path, evil=True))))
    for width in (1200, 360):
        browser.open(file, width)
        assert browser.ask("[document.scripts, document.styleSheets].map(each => each.length)") == [0, 1]
        assert browser.ask("[...document.images].every(each => each.className === 'plot')")
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(OVERFLOW) == []
        assert [each for each in browser.events if each.get("method") == "Log.entryAdded"] == []


def test_text_of_plots_can_be_read_on_a_telephone(shown: tuple[Browser, Path]) -> None:
    browser, file = shown
    browser.open(file, 360)
    scale = browser.ask("(plot => plot.clientWidth / plot.naturalWidth)(document.querySelector('img.plot'))")
    # The file says its width in points, and its text has 12 of them.
    assert 12 * 96 / 72 * scale >= 10


def test_names_are_told_to_those_who_do_not_see(shown: tuple[Browser, Path]) -> None:
    browser, file = shown
    browser.open(file, 400)
    nodes = browser.tell("Accessibility.getFullAXTree")["nodes"]
    roles = [node.get("role", []).get("value") for node in nodes]
    named = [node.get("name", []).get("value", "") for node in nodes if node.get("role", []).get("value") == "image"]
    assert roles.count("table") >= 3 and roles.count("row") > 8  # also where rows are shown as cards
    assert sum("boot by boot" in name for name in named) == 3
