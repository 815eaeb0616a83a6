# SPDX-License-Identifier: GPL-2.0
"""The text for a mail is made from the raw data only, so nothing that the sender writes can improve it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import campaigns
import pytest
import toys
from test_premerge import both
from toy_results import measured

from conftest import git
from golden import Golden
from one_verb import main_of
from schedlib.c2c.samples import MEASURED_FILE
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.premerge import premerge_verb, record
from schedlib.premerge.evidence import BEGIN, END
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

main = main_of(premerge_verb)
Capture = pytest.CaptureFixture[str]

SAMPLES = f"{premerge_verb.TRAFFIC}/{MEASURED_FILE}"
LOGS = Path(__file__).parents[1] / "logs"
TESTS = [
    "demo_pass:good",
    "demo_pass:noisy",
    "demo_pass:skipped",
    "demo_pass:slow",
    *(f"demo_pass:param_good:value-{number}" for number in (1, 2, 3)),
]
PATCH = "8c77e8306e022ea8c82482eecae66419e073c197"


def guests(place: Path, log: str, seen: str = "PASS", **left_out: str) -> None:
    place.mkdir(exist_ok=True)
    (place / "uml-8.log").write_bytes((LOGS / log).read_bytes())
    row = {"name": "uml-8", "cpus": 8, "ending": "exited", "seen": seen}
    content = {"schema": "guests-1", "target": "uml", "left_out": left_out, "expected": [], "guests": [row]}
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
    layouts(place, "", "")
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


def layouts(place: Path, base: str, head: str, seen: Verdict = Verdict.PASS, *said: str) -> None:
    record.write_layouts(place, {"x86_64": (toys.toy(*base.split()), toys.toy(*head.split())), "arm": None}, seen, said)


def worse_runs(place: Path) -> None:
    add_runs(place)
    for file in place.glob("runs/candidate/*.json"):
        content = json.loads(file.read_text())
        content["metrics"][0]["value"] *= 1.5
        file.write_text(json.dumps(content))


def panics(place: Path) -> None:
    for side in ("base", "head"):
        guests(place / side, "panic.log")


def samples(place: Path) -> None:
    both(place, 1000, 1000)
    document.write(place / SAMPLES, measured(rto_count=600, overloaded=200))


def fewer_killed(place: Path) -> None:
    parts = [{"name": "mutants", "verdict": "INCONCLUSIVE", "summary": "2 of 3 killed", "lines": ["survives: x: y"]}]
    series(place, parts=parts)


CHANGES: dict[str, tuple[int, Callable[[Path], object]]] = {
    "runs": (0, add_runs),
    "traffic": (0, lambda out: both(out, 1000, 1000)),
    "broken rule": (1, lambda out: layouts(out, "", "OLD_RD")),
    # A member that no rule names is judged as the premerge judged it.
    "stranger": (1, lambda out: layouts(out, "", "RD_STRANGER")),
    # A change that the base lacks is not expected.
    "no change": (0, lambda out: layouts(out, "OLD_RD", "OLD_RD")),
    # What only the sources show, or only the sender saw, makes it worse, never better.
    "not compiled": (3, lambda out: layouts(out, "", "", Verdict.INCONCLUSIVE, "sched.h:3: not compiled")),
    "seen to fail": (3, lambda out: guests(out / "head", "pass.log", seen="FAIL")),
    "mutants": (3, fewer_killed),
    "left out before": (0, lambda out: guests(out / "base", "pass.log", sched_numa="needs CONFIG_NUMA")),
    "panic": (1, lambda out: guests(out / "head", "panic.log")),
    "panic before": (3, panics),
    "worse runs": (1, worse_runs),
    "more traffic": (1, lambda out: both(out, 1000, 9000)),
    "samples": (0, samples),
}


def test_what_decides_and_the_text(out: Path, capsys: Capture, golden: Golden) -> None:
    """The golden text has a good series, and for each change the lines that are other ones."""
    said = good = told(capsys, 0, out)
    for change, (code, make) in CHANGES.items():
        place = shutil.copytree(out, out.with_name(change))
        make(place)
        text = told(capsys, code, place)
        assert max(map(len, text.splitlines())) <= 72 and str(out) not in text
        said += "\n".join(["", f"{change}:", *(line for line in text.splitlines() if line not in good), ""])
    golden("evidence.txt", re.sub("sha256 [0-9a-f]{32}", "sha256 ...", said))


def test_runs_alone(tmp_path: Path, cache: Path, capsys: Capture) -> None:
    add_runs(tmp_path)
    text = told(capsys, 0, tmp_path)
    assert "no series: runs alone" in text and "layout: not looked at" in text
    (tmp_path / premerge_verb.SERIES).write_text("{")
    with pytest.raises(SchedlineError, match="is no premerge-1"):
        told(capsys, 0, tmp_path)


def test_verify(out: Path, capsys: Capture) -> None:
    text = told(capsys, 0, out)
    for none in ("nothing", f"{END}\n{BEGIN}\n", f"{BEGIN}\nhalf"):
        with pytest.raises(SchedlineError, match="no complete evidence"):
            verified(capsys, 2, out, none)
    for shape in (text, f"hello\n\n{text}\nbye\n", "".join(f"> {line}\n" for line in text.splitlines())):
        assert "the data show what the text says" in verified(capsys, 0, out, shape)
    lies = {"6 passed": "7 passed", "PPPP-PP": "PPPPPPP", "verdict: PASS": "verdict: FAIL", "b" * 40: "d" * 40}
    for was, lie in lies.items():
        assert "the data do not show what the text says" in verified(capsys, 1, out, text.replace(was, lie))
        assert was in text


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
    (out / "head/uml-8.log").unlink()
    if "head" not in name:
        layouts(out, "", "")
        with pytest.raises(SchedlineError, match=r"uml-8\.log, which guests\.json names, cannot be read"):
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
