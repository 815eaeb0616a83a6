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
from test_premerge_emulated import both
from toy_results import measured

from conftest import git
from one_verb import main_of, parsed, said_without_libraries
from schedlib.c2c.samples import MEASURED_FILE
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.premerge import premerge_verb, record
from schedlib.premerge.evidence import BEGIN, END, block_in
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

main = main_of(premerge_verb)

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
    content = {
        "schema": "premerge-1",
        "tool": "t",
        "started": "2026-11-22T07:00:00Z",
        "status": "PASS",
        "tree": "linux",
    }
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


def made(place: Path, capsys: pytest.CaptureFixture[str], code: int) -> str:
    assert main(["premerge", "evidence", str(place)]) == code
    return capsys.readouterr().out


def test_a_good_series(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = made(out, capsys, 0)
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
        ("", "OLD_RD", 1, "layout, the rules of each change on the head (P, F, - n/a): FAIL"),
        ("", "OLD_RD", 1, "broken by the series: rd-lines.R1 (x86_64): "),
        # A member that no rule names is judged as the premerge judged it.
        ("", "RD_STRANGER", 1, "broken by the series: rd-lines.R2 (x86_64): "),
        # A change that the base lacks is not expected.
        ("OLD_RD", "OLD_RD", 0, "-------"),
    ],
)
def test_rules_are_judged_on_base_and_head(
    base: str, head: str, code: int, said: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = tuple(toys.toy(*name.split()) for name in (base, head))
    record.write_layouts(out, {"x86_64": (pair[0], pair[1])}, Verdict.PASS)
    assert said in made(out, capsys, code)


def test_what_only_the_sources_show_makes_it_worse_never_better(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, broken = (toys.toy(), toys.toy()), (toys.toy(), toys.toy("OLD_RD"))
    record.write_layouts(out, {"x86_64": same}, Verdict.INCONCLUSIVE, ["sched.h:3: not compiled"])
    assert "as the sender saw it: sched.h:3: not compiled" in made(out, capsys, 3)
    record.write_layouts(out, {"x86_64": broken}, Verdict.PASS)
    made(out, capsys, 1)


def test_what_fails_since_the_series(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests(out / "head", "panic.log")
    text = made(out, capsys, 1)
    assert "fails since the series: " in text and "panic" in text
    guests(out / "base", "panic.log")
    assert "fails on the base, too: " in made(out, capsys, 3)


def test_what_only_the_sender_saw_makes_it_worse_never_better(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guests(out / "head", "pass.log", seen="FAIL")
    assert "uml-8" in made(out, capsys, 3)
    guests(out / "head", "panic.log", seen="PASS")
    assert made(out, capsys, 1)
    bad = [{"name": "mutants", "verdict": "INCONCLUSIVE", "summary": "2 of 3 killed", "lines": ["survives: x: y"]}]
    guests(out / "head", "pass.log")
    series(out, parts=bad)
    assert "survives: x: y" in made(out, capsys, 3)


def test_runs(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = campaigns.Campaign(out / premerge_verb.RUNS)
    campaign.boots(campaigns.noise(1), campaigns.noise(2))
    (out / premerge_verb.GATES).write_text(campaigns.GATES)
    text = made(out, capsys, 0)
    assert "runs: PASS" in text and "gates file: the sender's own" in text and "10+10" in text
    assert max(map(len, text.splitlines())) <= 72
    for file in out.glob("runs/candidate/*.json"):
        content = json.loads(file.read_text())
        content["metrics"][0]["value"] *= 1.5
        file.write_text(json.dumps(content))
    text = made(out, capsys, 1)
    assert "timer.p99" in text and "runs: FAIL" in text


def test_cache_line_traffic(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not counted" in made(out, capsys, 0)
    both(out, 1000, 1000)
    text = made(out, capsys, 0)
    assert "cache-line traffic, rt on 8 emulated CPUs" in text and "7 files" in text
    both(out, 1000, 9000)
    assert "FAIL: root_domain, false_shared" in made(out, capsys, 1)
    document.write(out / premerge_verb.TRAFFIC / MEASURED_FILE, measured(rto_count=600, overloaded=200))
    text = made(out, capsys, 1)
    assert "measured on a machine" in text and "root_domain.rto_count" in text
    assert max(map(len, text.splitlines())) <= 72


def test_runs_alone(out: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "big"
    campaign = campaigns.Campaign(place / premerge_verb.RUNS)
    campaign.boots(campaigns.noise(1), campaigns.noise(2))
    (place / premerge_verb.GATES).write_text(campaigns.GATES)
    text = made(place, capsys, 0)
    assert "no series: runs alone" in text and "layout: not looked at" in text


def test_a_damaged_series_is_not_taken_for_runs_alone(tmp_path: Path, cache: Path) -> None:
    campaign = campaigns.Campaign(tmp_path / premerge_verb.RUNS)
    campaign.boots(campaigns.noise(1), campaigns.noise(2))
    (tmp_path / premerge_verb.SERIES).write_text("{")
    with pytest.raises(SchedlineError, match="is no premerge-1"):
        main(["premerge", "evidence", str(tmp_path)])


def test_verify(out: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = made(out, capsys, 0)
    file = tmp_path / "said.txt"
    for shape in (text, "hello\n\n" + text + "\nbye\n", "".join(f"> {line}\n" for line in text.splitlines())):
        file.write_text(shape)
        assert main(["premerge", "evidence", "verify", str(file), str(out)]) == 0
        assert "the data show what the text says" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("was", "lie"),
    [("  PASS", "  FAIL"), ("PPPP-PP", "PPPPPPP"), ("verdict: PASS", "verdict: FAIL"), ("b" * 40, "d" * 40)],
)
def test_a_text_that_says_more_than_the_data(
    out: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, was: str, lie: str
) -> None:
    text = made(out, capsys, 0)
    assert was in text
    (tmp_path / "said.txt").write_text(text.replace(was, lie))
    assert main(["premerge", "evidence", "verify", str(tmp_path / "said.txt"), str(out)]) == 1
    assert "the data do not show what the text says" in capsys.readouterr().out


def test_data_that_became_worse(out: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A sender who keeps the good text must also show the data from which it was made."""
    (tmp_path / "said.txt").write_text(made(out, capsys, 0))
    guests(out / "head", "panic.log")
    assert main(["premerge", "evidence", "verify", str(tmp_path / "said.txt"), str(out)]) == 1
    assert "+KUnit, from the consoles: FAIL" in capsys.readouterr().out


def test_a_mail_with_another_patch(out: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, kernel: Path) -> None:
    (kernel / "file.c").write_text("int one;\n")
    git(kernel, "add", "-A")
    git(kernel, "commit", "-qm", "sched: Add a file")
    mail = git(kernel, "format-patch", "--stdout", "-1")
    identity = git(kernel, "show", "--pretty=%H")
    own = tmp_path / "show"
    own.write_text(identity)
    shown = subprocess.run(["git", "patch-id", "--stable"], stdin=own.open(), capture_output=True, check=True).stdout
    patch = {"commit": "c", "subject": "sched: Add a file", "patch_id": shown.decode().split()[0], "sha256": ""}
    series(out, patches=[patch])
    file = tmp_path / "0001.patch"
    file.write_text(mail.replace("\n---\n", f"\n---\n{made(out, capsys, 0)}\n", 1))
    assert main(["premerge", "evidence", "verify", str(file), str(out)]) == 0
    assert "patch itself was not given" not in capsys.readouterr().out
    file.write_text(file.read_text().replace("+int one;", "+int two;"))
    assert main(["premerge", "evidence", "verify", str(file), str(out)]) == 1
    assert "the data are not about its patch" in capsys.readouterr().out


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


@pytest.mark.parametrize("number", [-1, 1.5, "8", True, None])
def test_offsets_that_are_none(out: Path, number: object) -> None:
    content = json.loads((out / premerge_verb.LAYOUTS).read_text())
    content["columns"]["x86_64"][1]["structures"]["rq"]["members"][0]["offset"] = number
    (out / premerge_verb.LAYOUTS).write_text(json.dumps(content))
    with pytest.raises(SchedlineError, match=r"members\[0\]\.offset: Expected int"):
        main(["premerge", "evidence", str(out)])


def test_a_condition_that_is_none(out: Path) -> None:
    content = json.loads((out / premerge_verb.LAYOUTS).read_text())
    content["columns"]["x86_64"][1]["holds"]["NOTHING"] = True
    (out / premerge_verb.LAYOUTS).write_text(json.dumps(content))
    with pytest.raises(SchedlineError, match="holds for x86_64 knows the conditions of other contracts: NOTHING"):
        main(["premerge", "evidence", str(out)])


def test_a_console_that_is_missing(out: Path) -> None:
    (out / "head/uml-8.log").unlink()
    with pytest.raises(SchedlineError, match=r"uml-8\.log, which guests\.json names, cannot be read"):
        main(["premerge", "evidence", str(out)])


def test_nothing_there(out: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SchedlineError, match="neither"):
        main(["premerge", "evidence", str(empty)])
    (empty / "said.txt").write_text(f"{BEGIN}\nhalf")
    with pytest.raises(SchedlineError, match="no complete evidence"):
        main(["premerge", "evidence", "verify", str(empty / "said.txt"), str(out)])


def test_words_are_checked_before_libraries_are_needed(out: Path, tmp_path: Path) -> None:
    file, absent = str(tmp_path / "said.txt"), str(tmp_path / "absent")
    (tmp_path / "said.txt").touch()
    pairs = [
        ([], "required: DIR | verify FILE DIR"),
        ([absent], "absent has neither"),
        ([str(out), str(out)], "one directory makes one text"),
        (["verify", str(out)], "verify takes a file and a directory"),
        (["verify", file, str(out), "-o", absent], "verify takes a file and a directory"),
        (["verify", absent, str(out)], "absent: no such file"),
        (["verify", file, absent], "absent has neither"),
        ([str(out), "-o", str(out)], "is a directory; name a file"),
        (["verify", "-", str(out)], ""),
        ([str(out), "-o", absent], ""),
    ]
    found = said_without_libraries(premerge_verb, [["premerge", "evidence", *words] for words, _ in pairs])
    for (words, expected), said in zip(pairs, found, strict=True):
        assert expected in said if expected else said == "", (words, said)


def test_only_runs_need_the_gates_libraries(out: Path) -> None:
    arguments = parsed(premerge_verb, ["premerge", "evidence", str(out)])
    assert arguments.libraries(arguments.read(arguments)) == ("core",)
    (out / premerge_verb.RUNS).mkdir()
    assert arguments.libraries(arguments.read(arguments)) == ("core", "gate")


def test_block_in() -> None:
    assert block_in("nothing") is None
    assert block_in(f"{END}\n{BEGIN}\n") is None
    assert block_in(f">> {BEGIN} \n>> x\n>> {END}\n") == f"{BEGIN}\nx\n{END}\n"
