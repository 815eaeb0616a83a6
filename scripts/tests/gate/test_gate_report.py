# SPDX-License-Identifier: GPL-2.0
"""What a report says, as text and page: all from one document, and nothing from a run file as markup."""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64decode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from campaigns import GATES, TO_20, Campaign, main, metric, noise, rewrite, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_campaigns import EVIL, compared, rich

from golden import Golden
from one_verb import parsed
from schedlib.formats import document
from schedlib.formats.document import Refused
from schedlib.formats.gate_document import BootValue, GateDocument, GateKernel, GateMetric
from schedlib.gate import gate_page, gate_verb
from schedlib.gate.comparison import looks_of
from schedlib.gate.gate_page import page
from schedlib.gate.gate_report import banner, text, words_of
from schedlib.gate.rules import load_gate
from schedlib.verdict import Verdict

pytestmark = pytest.mark.slow

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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> GateDocument:
    """A document that has content in every part."""
    return compared(rich(tmp_path_factory.mktemp("rich")))


@pytest.fixture
def one(told: GateDocument) -> GateMetric:
    """A metric of which less is better: +20 %, from +15 to +25, with a budget of 5 and detect at 20."""
    row = replace(told.metrics[0], direction="lower", change=20.0, low=15.0, high=25.0, of_medians=20.0)
    return replace(row, budget=5.0, detect=20.0)


# ---- one document ----


def test_every_report_is_drawn_from_the_document(told: GateDocument, tmp_path: Path) -> None:
    """Nothing is in a report that the file of --json lacks."""
    document.write(tmp_path / "x.json", told)
    again = document.read(tmp_path / "x.json", GateDocument, "")
    for draw in (text, page):
        assert draw(again) == draw(told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(schema="gate-1"), "another version of schedline reads it"),
        (lambda content: content["sides"].reverse(), "not base, candidate and placebo"),
        (lambda content: content["metrics"][0].update(detect=0), "detect of timer.p99 is 0"),
        (lambda content: content["metrics"][0].pop("values"), "values"),
        (lambda content: content["metrics"][0]["values"][0].update(kernel="other"), "kernel"),
    ],
)
def test_a_document_that_says_too_little_is_refused(
    told: GateDocument, tmp_path: Path, change: Callable[[Any], None], said: str
) -> None:
    content = msgspec.to_builtins(told)
    document.write_plain(tmp_path / "x.json", GateDocument, content)
    content = json.loads((tmp_path / "x.json").read_text())
    change(content)
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(Refused, match=said):
        document.read(tmp_path / "x.json", GateDocument, "")


def test_the_document_has_the_judged_boots(told: GateDocument) -> None:
    first = told.metrics[0]
    counts = {kernel: sum(value.kernel == kernel for value in first.values) for kernel in ("base", "candidate")}
    assert counts == {"base": 10, "candidate": 10} and first.boots == (10, 10)
    assert [value.started for value in first.values] == sorted(value.started for value in first.values)
    assert {value.boot for value in first.values if value.kernel == "base"} == set(told.base.boots[:10])
    assert told.look == 10 and told.gates.looks == (10,) and told.bad_boots is None


def test_a_value_that_becomes_0_has_changed_by_all_of_it(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.unit = "retries"
    campaign.boots(noise(1), [0.0] * 10)
    (row,) = compared(campaign, placebo=False).metrics
    assert row.change == row.low == -100 and row.verdict is Verdict.PASS
    assert words_of(row) == "100.0 % better"


# ---- words and signs ----


@pytest.mark.parametrize(
    ("direction", "change", "low", "high", "words"),
    [
        ("lower", 12.5, 3.0, 20.0, "12.5 % worse"),
        ("higher", 12.5, 3.0, 20.0, "12.5 % better"),
        ("lower", -3.1, -5.0, -1.0, "3.1 % better"),
        ("higher", -3.1, -5.0, -1.0, "3.1 % worse"),
        ("lower", 12.5, -0.1, 20.0, "no change shown (+12.5 %)"),
        ("lower", 12.5, 0.0, 20.0, "no change shown (+12.5 %)"),
        ("lower", 12.5, None, 20.0, "no change shown (+12.5 %)"),
        ("lower", -12.5, None, -1.0, "12.5 % better"),
        ("lower", 12.5, 1.0, None, "12.5 % worse"),
        ("higher", 12.5, 1.0, None, "12.5 % better"),
        ("lower", 0.004, 0.001, 0.007, "0.004 % worse"),
    ],
)
def test_better_and_worse(
    one: GateMetric, direction: Any, change: float, low: float | None, high: float | None, words: str
) -> None:
    assert words_of(replace(one, direction=direction, change=change, low=low, high=high)) == words


def test_the_text_is_this_one(told: GateDocument, golden: Golden) -> None:
    golden("report.txt", text(replace(told, command="schedline gate base candidate")) + "\n")


def test_metrics_of_one_name_are_told_apart(told: GateDocument, one: GateMetric) -> None:
    """As schbench's with several numbers of threads."""
    other = replace(one, tool=f"{one.tool}-16")
    document = replace(told, metrics=(one, other), shares=())
    for said in (text(document), banner(document)):
        assert all(f"{row.tool} {row.name}"[:26] in said.replace("\n    ", " ") for row in (one, other))
    assert f"{one.tool} {one.name}" not in text(replace(document, metrics=(one,)))


def test_two_estimates_that_differ_are_explained(told: GateDocument, one: GateMetric) -> None:
    def said(**more: float | None) -> str:
        document = replace(told, metrics=(replace(one, **more),), shares=())
        found = " ".join(text(document).split())
        assert ("two estimates differ" in found) == ("two estimates differ" in page(document))
        return found

    differs = said(of_medians=25.1)
    assert "+20.0 % is the middle of all changes" in differs and "+25.1 % compares the two middle boots" in differs
    assert "two estimates differ" in said(of_medians=14.9)
    # Within half of the interval, or without one.
    for more in ({}, {"of_medians": 24.9}, {"of_medians": 25.1, "high": None}):
        assert "two estimates" not in said(**more)


# ---- what the verdict says ----


def with_bad_boots(place: Path, base: int, candidate: int) -> GateDocument:
    """Twenty boots of each kernel, of which so many are ten times slower: every second one, from the first on."""
    campaign = Campaign(place, TO_20)
    for start in (0, 10):
        values = [
            [10 * value if at % 2 == 0 and at < 2 * bad - start else value for at, value in enumerate(noise(seed))]
            for seed, bad in ((1 + start, base), (2 + start, candidate))
        ]
        campaign.boots(*values, first=1000 * start)
    return compared(campaign, placebo=False)


@pytest.mark.parametrize(
    ("base", "candidate", "verdict", "said"),
    [
        (
            0,
            0,
            Verdict.PASS,
            "timer.p99 is not 25 % worse; up to 14 % of the candidate's boots may be far slower (95 %)",
        ),
        # With one bad boot of 20 it is not true that 14 % are excluded.
        (
            1,
            1,
            Verdict.PASS,
            "up to 22 % of the candidate's boots may be far slower (95 %); not 25 % more of them than of the base's",
        ),
        (0, 1, Verdict.INCONCLUSIVE, "bad boots: 1 of 20 of the candidate (candidate-0-0), 0 of the base"),
        (
            0,
            1,
            Verdict.INCONCLUSIVE,
            "% more of the candidate's boots may be bad; a PASS excludes 25 %. About 24 boots",
        ),
        (1, 2, Verdict.INCONCLUSIVE, "boots of each would settle it"),
        (2, 3, Verdict.INCONCLUSIVE, "A PASS has at most 10 % of bad boots: look at these boots"),
        (2, 6, Verdict.INCONCLUSIVE, "bad boots: 6 of 20 of the candidate (candidate-0-0, candidate-0-2, "),
        # 132731 boots were said to settle it, and nothing of bad ones.
        (0, 9, Verdict.INCONCLUSIVE, "over the budget of 3 %; bad boots: 9 of 20 of the candidate (candidate-0-0, "),
        (10, 10, Verdict.INCONCLUSIVE, "the base's boots fall into two groups: 10 of 20 are worse by at least 810 %"),
    ],
)
def test_what_bad_boots_exclude(base: int, candidate: int, verdict: Verdict, said: str, tmp_path: Path) -> None:
    """A base of which half the boots are bad hides nothing, and a few boots do not exclude more bad ones."""
    found = with_bad_boots(tmp_path, base, candidate)
    assert found.status is verdict
    assert said in banner(found) and said in stands_alone(page(found)).text
    for status in (Verdict.FAIL, Verdict.ERROR, Verdict.INCONCLUSIVE):
        assert "is not" not in banner(replace(found, status=status))


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ((8, 20), "looks at 8, 20 boots of each kernel; a PASS takes 20, an estimate below detect, and at most 2 bad"),
        ((8,), "looks at 8 boots of each kernel; a PASS takes 8, an estimate below detect, and no bad boot"),
        ((60,), "and at most 6 bad boots, if the base has as many"),
    ],
)
def test_what_the_last_look_accepts_is_told(looks: tuple[int, ...], said: str) -> None:
    assert said in looks_of(replace(load_gate("default"), looks=looks), None)


def test_the_banner_names_what_each_open_metric_needs(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, TO_20)
    campaign.boots(noise(19), noise(20, factor=1.07))
    found = compared(campaign, placebo=False)
    assert found.status is Verdict.INCONCLUSIVE
    assert banner(found).startswith("timer.p99: ") and "boot each kernel 10 more times" in banner(found)
    other = replace(found.metrics[0], name="other", verdict=Verdict.PASS)
    assert "other" not in banner(replace(found, metrics=(*found.metrics, other)))
    assert banner(replace(found, metrics=(other,))) == "the notes say why"


def test_the_banner_of_an_error_names_the_side(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.boots(noise(1), noise(2))
    campaign.save(campaign.candidate, run("candidate", "y", 900, [], status="ERROR", reason="killed by signal 11"))
    found = compared(campaign, placebo=False)
    assert banner(found).startswith("1 run of candidate gave no result; the first: ")
    assert found.candidate.failed == 1 and "killed by signal 11" in found.candidate.failures[0]


# ---- what is not judged ----


def test_metrics_that_are_not_judged_are_shown(tmp_path: Path) -> None:
    """The candidate's are larger by 1 %, 2 %, ...; one is renamed there, and is shown on both sides."""
    campaign = Campaign(tmp_path, GATES)
    campaign.boots(noise(1), noise(2))
    for side in (campaign.base, campaign.candidate):
        late = side == campaign.candidate
        more = [metric(100.0 + late * at, name=f"other.m{at}", unit="us", direction="higher") for at in range(1, 21)]
        more.append(metric(100 + late, name="other.new" if late else "other.old", unit="us"))
        rewrite(side, lambda run, more=more: run["metrics"].extend(more))  # type: ignore[misc]
    found = compared(campaign, placebo=False)
    shown = {each.name: each for each in found.shown}
    assert list(shown) == sorted(["other.new", "other.old", *(f"other.m{at}" for at in range(1, 21))])
    assert shown["other.m7"].change == pytest.approx(7.0)
    assert (shown["other.old"].base, shown["other.old"].candidate, shown["other.old"].change) == (100, None, None)
    assert (shown["other.new"].base, shown["other.new"].candidate, shown["other.old"].boots) == (None, 101, (10, 0))
    said = text(found)
    assert "not judged; the 12 of 22 that changed most" in said
    assert re.search(r"rt_wakeup other\.m20, us +100 +120 +\+20\.0", said) and "other.m8 " not in said
    whole = stands_alone(page(found)).text
    assert "22 metrics that are not judged" in whole and "other.m8" in whole
    assert "not judged" not in text(replace(found, shown=()))


# ---- nothing of a run file is markup ----


def everywhere(found: GateDocument, evil: str) -> GateDocument:
    """The document with a text in the place of each of its texts."""

    def changed(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            free = name in ("fingerprint", "skipped")
            return {evil if free else key: changed(each, "" if free else key) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [changed(each, name) for each in value]
        fixed = ("schema", "started", "status", "direction", "method", "verdict", "kernel of a boot", "state")
        side = value in ("base", "candidate", "placebo") and name in ("name", "kernel")
        return evil if isinstance(value, str) and name not in fixed and not side else value

    return msgspec.convert(changed(msgspec.to_builtins(found)), GateDocument)


@pytest.mark.parametrize("evil", [EVIL, "\n\n# x\nverdict: PASS\x1b[31m", f"{'x' * 72} {'y' * 72} <b>"])
def test_hostile_texts_are_text_everywhere(told: GateDocument, evil: str) -> None:
    found = everywhere(told, evil)
    stands_alone(page(found))
    said = text(found)
    assert all(line.isprintable() for line in said.split("\n")) and "verdict: PASS" not in said.splitlines()
    assert [line for line in said.splitlines() if len(line) > 72 and " " in line.strip()] == []


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1))
def test_any_text_is_text(told: GateDocument, evil: str) -> None:
    assert all(line.isprintable() for line in text(everywhere(told, evil)).split("\n"))


# ---- over the budget ----


def test_only_the_last_look_passes_what_looks_slower(tmp_path: Path) -> None:
    """An early PASS hid what all boots show, and the page did not say that the candidate looks slower."""
    campaign = Campaign(tmp_path, TO_20)
    campaign.boots(noise(1), noise(2, factor=1.04))
    found = compared(campaign, placebo=False)
    assert found.status is Verdict.INCONCLUSIVE and "it looks worse by" in banner(found)
    campaign.boots(noise(3), noise(4, factor=1.05), first=10_000)
    found = compared(campaign, placebo=False)
    assert (found.status, found.look, found.metrics[0].over_budget) == (Verdict.PASS, 20, True)
    assert text(found).startswith("PASS: slower within what is not excluded: timer.p99")
    assert "slower within what is not excluded: timer.p99" in stands_alone(page(found)).text


# ---- the page ----


def test_page_says_everything(told: GateDocument) -> None:
    found = page(replace(told, command="schedline gate 'a b' c"))
    assert found.startswith("<!DOCTYPE html>\n")
    seen = stands_alone(found)
    said = " ".join(seen.text.split())
    assert said.count("FAIL") >= 3 and "timer.p99 28.9 % worse (25.0 to 33.6), budget 3 %" in said
    for row in told.metrics:
        assert row.name in said and row.tool in said and row.reason in said
    parts = ["no CPU is in a cluster", "rt_wakeup far", "one node: no memory is far", "schedline gate 'a b' c"]
    parts += ["x86_64 Some CPU", "7.3.4-placebo", "2026-11-20 12:30:00+00:00", "placebo: 7.3.4", "No run failed."]
    assert [part for part in (*parts, "the work that pinned RT groups get done") if part not in said] == []
    drawn = seen.drawn()
    assert len(drawn) == 3
    assert sum("placebo: 10 boots, from" in each and "base: 10 boots, from" in each for each in drawn) == 3
    assert said.count("placebo: not shown") >= 2 and "placebo: nothing" not in said
    assert "1 metrics that are not judged" in said and "timer.p50" in said
    assert not re.search(r"\b(nan|inf)\b", "".join(str(attributes) for _, attributes in seen.tags), re.I)


def test_hostile_runs_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = rich(tmp_path, evil=True)
    out = tmp_path / "it's <b>.html"
    assert main(campaign.words("--placebo", str(tmp_path / "placebo"), "--html", str(out))) == 1
    seen = stands_alone(out.read_text())
    assert seen.text.count("<script>alert(1)</script>\"'>&amp;</style><img src=http://evil.example/x") > 10
    assert "$\\frac{<b>" in seen.text and any("$\\frac{<b>" in each for each in seen.drawn())
    assert not set(capsys.readouterr().out) & set(EVIL[-12:]) & {"\u0085", "\x9b", "\u202e", "\u2066"}


def test_commands_are_for_a_shell(tmp_path: Path) -> None:
    for name in ("a b", "it's", "`p`"):
        (tmp_path / name).mkdir()
    gates = tmp_path / "$x.toml"
    gates.touch()
    paths = [tmp_path / "`p`", tmp_path / "&.json", tmp_path / "-> x"]
    words = ["gate", str(tmp_path / "a b"), str(tmp_path / "it's"), "--gates", str(gates)]
    words += [word for pair in zip(("--placebo", "--json", "--html"), map(str, paths), strict=True) for word in pair]
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
    drawn, about = gate_page.by_boot("\x00<t>", "$x_", boots)
    svg = b64decode(drawn).decode()
    assert not re.search(r"\b(nan|inf)\b", svg, re.I)
    assert "$x_" in svg and about.startswith("\x00<t>: boot by boot: base: ")
