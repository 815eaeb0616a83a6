# SPDX-License-Identifier: GPL-2.0
"""The report: text as the gate prints it, and a page that is complete, loads nothing and trusts no run file."""

from __future__ import annotations

import re
import shlex
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
from campaigns import Campaign, main
from msgspec.structs import replace
from report_campaigns import EVIL, compared, rich

from one_verb import parsed
from schedlib.formats.gate_document import BootValue, GateKernel
from schedlib.gate import gate_page, gate_verb
from schedlib.gate.gate_page import page

_VOID = {"meta", "img", "br"}
_ADDRESSES = {"href", "src", "xlink:href", "srcset", "action", "data", "poster", "background"}
_NEVER = {"script", "link", "iframe", "object", "embed", "base", "form", "foreignobject", "image"}


class _Page(HTMLParser):
    """A page, parsed as a browser would."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data

    def drawn(self) -> list[str]:
        """What the plots show, as those are told who do not see them."""
        return [each["alt"] for tag, each in self.tags if tag == "img" and each.get("class") == "plot"]


def stands_alone(text: str) -> _Page:
    """Check that a page is whole and refers to nothing outside itself, and return it."""
    found = _Page(text)
    assert found.open == []
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in found.tags:
        assert tag not in _NEVER
        assert "style" not in attributes and not any(name.startswith("on") for name in attributes)
        for name in _ADDRESSES & set(attributes):
            value = attributes[name]
            inside = value.startswith("#") and value[1:] in ids
            assert value.startswith("data:image/svg+xml;base64,") if tag == "img" else inside, (tag, value)
        for name in set(attributes.get("aria-labelledby", "").split()):
            assert name in ids
        assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", " ".join(attributes.values())))
    assert not re.search(r"url\((?!#)|@import", text)
    policy = next(attributes["content"] for _, attributes in found.tags if "http-equiv" in attributes)
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert re.fullmatch(r"[\n\t\x20-\x7e\xa0-\U0010ffff]*", text)
    return found


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return rich(tmp_path)


def test_page_says_everything(campaign: Campaign) -> None:
    found = compared(campaign)
    text = page(replace(found, command="schedline gate 'a b' c"))
    assert text.startswith("<!DOCTYPE html>\n")
    seen = stands_alone(text)
    said = " ".join(seen.text.split())
    assert said.count("FAIL") >= 3 and "became worse: timer.p99 28.9 % worse" in said
    for row in found.metrics:
        assert row.name in said and row.tool in said
        assert row.reason in said
    for part in (
        "no CPU is in a cluster",
        "rt_wakeup far",
        "one node: no memory is far",
        "schedline gate 'a b' c",
        "x86_64 Some CPU",
        "7.3.4-placebo",
        "2026-11-20 12:30:00+00:00",
        "placebo: 7.3.4",
        "the work that pinned RT groups get done",
        "No run failed.",
    ):
        assert part in said
    drawn = seen.drawn()
    assert len(drawn) == 2 * 3
    assert sum("placebo: 10 boots, from" in each and "base: 10 boots, from" in each for each in drawn) == 3
    assert sum("95 % interval of the change +" in each for each in drawn) == 1  # of the FAIL; two others are not shown
    assert sum("95 % interval of the change" in each for each in drawn) == 3
    assert said.count("placebo: not shown") >= 2 and "placebo: nothing" not in said
    assert "1 metrics that are not judged" in said and "timer.p50" in said
    assert not re.search(r"\b(nan|inf)\b", "".join(str(attributes) for _, attributes in seen.tags), re.I)


def test_hostile_runs_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = rich(tmp_path, evil=True)
    out = tmp_path / "it's <b>.html"
    assert main(campaign.words("--placebo", str(tmp_path / "placebo"), "--html", str(out))) == 1
    text = out.read_text()
    seen = stands_alone(text)
    assert seen.text.count("<script>alert(1)</script>\"'>&amp;</style><img src=http://evil.example/x") > 10
    assert "$\\frac{<b>" in seen.text and any("$\\frac{<b>" in each for each in seen.drawn())
    assert not set(capsys.readouterr().out) & set(EVIL[-12:]) & {"\u0085", "\x9b", "\u202e", "\u2066"}


def test_commands_are_for_a_shell(tmp_path: Path) -> None:
    for name in ("a b", "it's", "`p`"):
        (tmp_path / name).mkdir()
    gates = tmp_path / "$x.toml"
    gates.touch()
    words = ["gate", str(tmp_path / "a b"), str(tmp_path / "it's"), "--gates", str(gates)]
    words += ["--placebo", str(tmp_path / "`p`")]
    words += ["--json", str(tmp_path / "&.json"), "--html", str(tmp_path / "-> x")]
    arguments = parsed(gate_verb, words)
    command: str = arguments.read(arguments).command()
    assert shlex.split(command) == ["schedline", *words]


@pytest.mark.parametrize(
    "values",
    [[0.0], [0.0, 0.0], [5.0] * 3, [1e-9, 2e-9], [1e299, 2e299], [1e300, 1.0], [999_999.5, 1e6], [1e-300, 3e-300]],
)
def test_any_values_can_be_drawn(values: list[float]) -> None:
    kernels: tuple[GateKernel, ...] = ("base", "candidate")
    boots = [BootValue(kernel, "x", place, value) for place, value in enumerate(values) for kernel in kernels]
    drawing = gate_page.by_boot("\x00<t>", "$x_", boots)
    assert not re.search(r"\b(nan|inf)\b", svg_of(drawing), re.I)
    assert "$x_" in svg_of(drawing) and drawing.about.startswith("\x00<t>: boot by boot: base: ")


def svg_of(drawing: gate_page.Drawing) -> str:
    return b64decode(drawing.svg).decode()
