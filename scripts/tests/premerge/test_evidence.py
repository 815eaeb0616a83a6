# SPDX-License-Identifier: GPL-2.0
"""The text for a mail is made from the raw data only, so nothing that the sender writes can improve it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import campaigns
import pytest
import toys
from test_premerge import both
from toy_results import measured

from conftest import git
from one_verb import main_of
from schedlib.c2c.samples import MEASURED_FILE
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.premerge import premerge_verb, record
from schedlib.premerge.evidence import BEGIN, END, block_in
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

main = main_of(premerge_verb)
Capture = pytest.CaptureFixture[str]

LOGS = Path(__file__).parents[1] / "logs"
TESTS = [
    "demo_pass:good",
    "demo_pass:noisy",
    "demo_pass:skipped",
    "demo_pass:slow",
    *(f"demo_pass:param_good:value-{number}" for number in (1, 2, 3)),
]
PATCH = "8c77e8306e022ea8c82482eecae66419e073c197"


def guests(place: Path, log: str, seen: str = "PASS") -> None:
    place.mkdir(exist_ok=True)
    (place / "uml-8.log").write_bytes((LOGS / log).read_bytes())
    row = {"name": "uml-8", "cpus": 8, "ending": "exited", "seen": seen}
    content = {"schema": "guests-1", "target": "uml", "left_out": {}, "expected": [], "guests": [row]}
    (place / premerge_verb.GUESTS).write_text(json.dumps(content))


def series(place: Path, **more: Any) -> None:
    patch = {"commit": "c" * 40, "subject": "sched: Move a field", "patch_id": PATCH, "sha256": ""}
    parts = [{"name": "mutants", "verdict": "PASS", "summary": "3 of 3 killed", "lines": []}]
    content = {"schema": "premerge-1", "tool": "t", "started": "2026-11-22T07:00:00Z", "status": "PASS", "tree": "l"}
    content |= {"base": "b" * 40, "head": "c" * 40, "patches": [patch], "parts": parts} | more
    (place / premerge_verb.SERIES).write_text(json.dumps(content))


@pytest.fixture
def out(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a premerge of a good series."""
    monkeypatch.setattr(record, "expected_tests", lambda *rest: tuple(TESTS))
    place = tmp_path / "out"
    place.mkdir()
    series(place)
    record.write_layouts(place, {"x86_64": (toys.toy(), toys.toy()), "arm": None}, Verdict.PASS)
    guests(place / "base", "pass.log")
    guests(place / "head", "pass.log")
    return place


def told(capsys: Capture, code: int, *words: object) -> str:
    """What `premerge evidence` prints with this exit code."""
    assert main(["premerge", "evidence", *map(str, words)]) == code
    return capsys.readouterr().out


def verified(capsys: Capture, code: int, out: Path, text: str) -> str:
    (out.parent / "said.txt").write_text(text)
    return told(capsys, code, "verify", out.parent / "said.txt", out)


def add_runs(place: Path) -> None:
    campaign = campaigns.Campaign(place / premerge_verb.RUNS)
    campaign.boots(campaigns.noise(1), campaigns.noise(2))
    (place / premerge_verb.GATES).write_text(campaigns.GATES)


def test_a_good_series(out: Path, capsys: Capture) -> None:
    text = told(capsys, 0, out)
    assert text.startswith(BEGIN) and text.endswith(f"verdict: PASS\n{END}\n")
    assert max(map(len, text.splitlines())) <= 72
    for said in (
        f"base-commit: {'b' * 40}",
        f"patch-id: {PATCH}",
        "sched: Move a field",
        "PPPPPPPPPP PPPPPPPPP PPPP-PP      ---",
        "3 of 3 killed",
        "skipped, needs CONFIG_NUMA: 1 of demo_pass",
        "arm      cannot be had",
        "sha256",
    ):
        assert said in text
    assert str(out) not in text


@pytest.mark.parametrize(
    ("base", "head", "code", "said"),
    [
        ("", "OLD_RD", 1, "layout, the rules of each change on the head (P, F, - n/a): FAIL\n"),
        ("", "OLD_RD", 1, "broken by the series: rd-lines.R1 (x86_64): "),
        # A member that no rule names is judged as the premerge judged it.
        ("", "RD_STRANGER", 1, "broken by the series: rd-lines.R2 (x86_64): "),
        # A change that the base lacks is not expected.
        ("OLD_RD", "OLD_RD", 0, "-------"),
    ],
)
def test_rules_are_judged_on_base_and_head(
    base: str, head: str, code: int, said: str, out: Path, capsys: Capture
) -> None:
    pair = tuple(toys.toy(*name.split()) for name in (base, head))
    record.write_layouts(out, {"x86_64": (pair[0], pair[1])}, Verdict.PASS)
    assert said in told(capsys, code, out)


def test_what_only_the_sources_show_makes_it_worse_never_better(out: Path, capsys: Capture) -> None:
    same, broken = (toys.toy(), toys.toy()), (toys.toy(), toys.toy("OLD_RD"))
    record.write_layouts(out, {"x86_64": same}, Verdict.INCONCLUSIVE, ["sched.h:3: not compiled"])
    assert "as the sender saw it: sched.h:3: not compiled" in told(capsys, 3, out)
    record.write_layouts(out, {"x86_64": broken}, Verdict.PASS)
    told(capsys, 1, out)


def test_what_fails_since_the_series(out: Path, capsys: Capture) -> None:
    guests(out / "head", "panic.log")
    text = told(capsys, 1, out)
    assert "fails since the series: " in text and "panic" in text
    guests(out / "base", "panic.log")
    assert "fails on the base, too: " in told(capsys, 3, out)


def test_what_only_the_sender_saw_makes_it_worse_never_better(out: Path, capsys: Capture) -> None:
    guests(out / "head", "pass.log", seen="FAIL")
    assert "uml-8" in told(capsys, 3, out)
    guests(out / "head", "panic.log", seen="PASS")
    assert told(capsys, 1, out)
    bad = [{"name": "mutants", "verdict": "INCONCLUSIVE", "summary": "2 of 3 killed", "lines": ["survives: x: y"]}]
    guests(out / "head", "pass.log")
    series(out, parts=bad)
    assert "survives: x: y" in told(capsys, 3, out)


def test_runs(out: Path, capsys: Capture) -> None:
    add_runs(out)
    text = told(capsys, 0, out)
    assert "runs: PASS" in text and "gates file: the sender's own" in text and "10+10" in text
    assert max(map(len, text.splitlines())) <= 72
    for file in out.glob("runs/candidate/*.json"):
        content = json.loads(file.read_text())
        content["metrics"][0]["value"] *= 1.5
        file.write_text(json.dumps(content))
    text = told(capsys, 1, out)
    assert "timer.p99" in text and "runs: FAIL" in text


def test_cache_line_traffic(out: Path, capsys: Capture) -> None:
    assert "not counted" in told(capsys, 0, out)
    both(out, 1000, 1000)
    text = told(capsys, 0, out)
    assert "cache-line traffic, rt on 8 emulated CPUs" in text and "7 files" in text
    both(out, 1000, 9000)
    assert "FAIL: root_domain, false_shared" in told(capsys, 1, out)
    document.write(out / premerge_verb.TRAFFIC / MEASURED_FILE, measured(rto_count=600, overloaded=200))
    text = told(capsys, 1, out)
    assert "measured on a machine" in text and "root_domain.rto_count" in text
    assert max(map(len, text.splitlines())) <= 72


def test_runs_alone(tmp_path: Path, cache: Path, capsys: Capture) -> None:
    add_runs(tmp_path)
    text = told(capsys, 0, tmp_path)
    assert "no series: runs alone" in text and "layout: not looked at" in text
    (tmp_path / premerge_verb.SERIES).write_text("{")
    with pytest.raises(SchedlineError, match="is no premerge-1"):
        told(capsys, 0, tmp_path)


def test_verify(out: Path, capsys: Capture) -> None:
    text = told(capsys, 0, out)
    for shape in (text, f"hello\n\n{text}\nbye\n", "".join(f"> {line}\n" for line in text.splitlines())):
        assert "the data show what the text says" in verified(capsys, 0, out, shape)


@pytest.mark.parametrize(
    ("was", "lie"),
    [("  PASS", "  FAIL"), ("PPPP-PP", "PPPPPPP"), ("verdict: PASS", "verdict: FAIL"), ("b" * 40, "d" * 40)],
)
def test_a_text_that_says_more_than_the_data(was: str, lie: str, out: Path, capsys: Capture) -> None:
    text = told(capsys, 0, out)
    assert was in text
    assert "the data do not show what the text says" in verified(capsys, 1, out, text.replace(was, lie))


def test_a_mail_with_another_patch(out: Path, capsys: Capture, kernel: Path) -> None:
    (kernel / "file.c").write_text("int one;\n")
    git(kernel, "add", "-A")
    git(kernel, "commit", "-qm", "sched: Add a file")
    mail = git(kernel, "format-patch", "--stdout", "-1")
    argv = ["git", "patch-id", "--stable"]
    shown = subprocess.run(argv, input=git(kernel, "show"), capture_output=True, check=True, text=True).stdout
    series(out, patches=[{"commit": "c", "subject": "sched: Add a file", "patch_id": shown.split()[0], "sha256": ""}])
    mail = mail.replace("\n---\n", f"\n---\n{told(capsys, 0, out)}\n", 1)
    assert "patch itself was not given" not in verified(capsys, 0, out, mail)
    assert "the data are not about its patch" in verified(capsys, 1, out, mail.replace("+int one;", "+int two;"))


@pytest.mark.parametrize("name", [premerge_verb.LAYOUTS, f"head/{premerge_verb.GUESTS}"])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"schema": "other"}',
        '{"schema": "guests-1", "guests": [{}]}',
        '{"schema": "offsets-5", "columns": {"x": [1, 2]}}',
    ],
)
def test_damage(out: Path, name: str, content: str) -> None:
    (out / name).write_text(content)
    with pytest.raises(SchedlineError, match=f"{name} is no (offsets-5|guests-1): "):
        main(["premerge", "evidence", str(out)])


@pytest.mark.parametrize(
    ("place", "key", "value", "said"),
    [
        *(
            (("structures", "rq", "members", 0), "offset", number, r"members\[0\]\.offset: Expected int")
            for number in (-1, 1.5, "8", True, None)
        ),
        (("holds",), "NOTHING", True, "holds for x86_64 knows the conditions of other contracts: NOTHING"),
    ],
)
def test_layouts_that_are_none(out: Path, place: tuple[str | int, ...], key: str, value: object, said: str) -> None:
    content = json.loads((out / premerge_verb.LAYOUTS).read_text())
    found = content["columns"]["x86_64"][1]
    for step in place:
        found = found[step]
    found[key] = value
    (out / premerge_verb.LAYOUTS).write_text(json.dumps(content))
    with pytest.raises(SchedlineError, match=said):
        main(["premerge", "evidence", str(out)])


def test_a_console_that_is_missing(out: Path) -> None:
    (out / "head/uml-8.log").unlink()
    with pytest.raises(SchedlineError, match=r"uml-8\.log, which guests\.json names, cannot be read"):
        main(["premerge", "evidence", str(out)])


def test_half_a_text(out: Path, capsys: Capture) -> None:
    with pytest.raises(SchedlineError, match="no complete evidence"):
        verified(capsys, 2, out, f"{BEGIN}\nhalf")


def test_block_in() -> None:
    assert block_in("nothing") is None
    assert block_in(f"{END}\n{BEGIN}\n") is None
    assert block_in(f">> {BEGIN} \n>> x\n>> {END}\n") == f"{BEGIN}\nx\n{END}\n"
