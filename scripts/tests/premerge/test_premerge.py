# SPDX-License-Identifier: GPL-2.0
"""A series before it is merged: its patches, who is to blame for a failure, and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import campaigns
import pytest
import toy_results
from msgspec.structs import replace
from toy_results import measured

from conftest import SCHED_H, git
from golden import Golden
from one_verb import importable, main_of, parsed, said_without_libraries
from schedlib import doctor
from schedlib.check import mutants
from schedlib.check.check_results import JudgedBoot
from schedlib.check.mutants import Fate
from schedlib.console import judge
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import TrafficResult
from schedlib.guest.boot import Ending
from schedlib.layout.patch_findings import Finding
from schedlib.layout.patch_job import checks_text
from schedlib.premerge import parts, premerge_job, premerge_verb
from schedlib.premerge.parts import Part
from schedlib.premerge.premerge_verb import TRAFFIC
from schedlib.premerge.record import GuestRow, Guests, GuestsDocument
from schedlib.premerge.series import PatchSeries, PremergeDocument, PremergePatch, read_series
from schedlib.tree.kernel_tree import Tree, open_kdir
from schedlib.verdict import Verdict

pytestmark = pytest.mark.slow

main = main_of(premerge_verb)

NOTHING: frozenset[str] = frozenset()


@pytest.fixture
def series_kdir(kernel: Path) -> Path:
    """A tree with a tag `base` and two patches on top of it."""
    git(kernel, "tag", "base")
    (kernel / "kernel/sched/core.c").write_text("/* core */\n")
    git(kernel, "add", "-A")
    git(kernel, "commit", "-qm", "sched/core: Add a comment")
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("nr_running;", "nr_running, spare;"))
    git(kernel, "commit", "-qam", "sched: Add a spare field")
    return kernel


@pytest.fixture
def tree(series_kdir: Path, cache: Path) -> Tree:
    return open_kdir(cache, series_kdir)


def mailbox(kdir: Path, path: Path, *, cover: bool = False) -> Path:
    words = ["--cover-letter"] if cover else []
    path.write_text(git(kdir, "format-patch", "--stdout", *words, "base..HEAD"))
    return path


def test_series_of_revisions(tree: Tree) -> None:
    series = read_series(tree, "base", None, None)
    assert [patch.subject for patch in series.patches] == ["sched/core: Add a comment", "sched: Add a spare field"]
    assert series.files == {"kernel/sched/core.c", "kernel/sched/sched.h"}
    assert len({patch.patch_id for patch in series.patches}) == 2


def test_a_base_that_has_gone_on_is_where_the_series_leaves_it(series_kdir: Path, cache: Path) -> None:
    """`--base origin/master` was an error as soon as somebody else had pushed."""
    moved = git(series_kdir, "commit-tree", "HEAD^{tree}", "-p", "base", "-m", "others").strip()
    git(series_kdir, "tag", "moved", moved)
    tree = open_kdir(cache, series_kdir)
    assert read_series(tree, "moved", None, None) == read_series(tree, "base", None, None)


@pytest.mark.parametrize("cover", [False, True])
def test_mails_are_the_same_series(tree: Tree, series_kdir: Path, tmp_path: Path, cover: bool) -> None:
    mails = mailbox(series_kdir, tmp_path / "series.mbox", cover=cover)
    series, other = read_series(tree, "base", None, mails), read_series(tree, "base", None, None)
    assert series.diff == other.diff
    assert [patch.patch_id for patch in series.patches] == [patch.patch_id for patch in other.patches]
    assert git(series_kdir, "status", "--porcelain") == ""


def test_series_that_are_none(tree: Tree, series_kdir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("From nobody\n\nhello\n")
    good, broken = (mailbox(series_kdir, tmp_path / f"{name}.mbox") for name in ("good", "broken"))
    text = broken.read_text().replace(" \tunsigned int", " \tunsigned long")
    broken.write_text(text.replace("-\tunsigned", "-\tlong"))
    rows: list[tuple[str, str | None, Path | None, str]] = [
        ("nowhere", None, None, "no revision"),
        ("HEAD", None, None, "no patch between"),
        ("HEAD", "base", None, "no patch between"),
        ("base", None, tmp_path / "absent", "no file"),
        ("base", None, tmp_path / "empty", "holds no patch"),
        ("base", None, broken, "patch 2 of 2 does not apply"),
        ("HEAD", None, good, "patch 1 of 2 changes nothing"),
    ]
    for base, head, mbox, said in rows:
        with pytest.raises(SchedlineError, match=said):
            read_series(tree, base, head, mbox)


def guests(*failed: str) -> Guests:
    skipped = judge.TestResult("sched_numa:far", judge.TestOutcome.SKIP, reason="needs CONFIG_NUMA")
    tests = (*(judge.TestResult(name, judge.TestOutcome.FAIL) for name in failed), skipped)
    verdict = Verdict.FAIL if failed else Verdict.PASS
    boot = JudgedBoot("uml-8", (), Ending.EXITED, "", None, None, verdict, tests, ())
    row = GuestRow("uml-8", 8, Ending.EXITED, verdict)
    return GuestsDocument(schema="guests-1", target="uml", left_out={}, expected=(), guests=(row,)), (boot,)


GOOD, BAD, WORSE = guests(), guests("sched_cpupri:oracle"), guests("sched_cpupri:oracle", "panic")
OLD = "fails on the base, too: sched_cpupri:oracle"
ROW = "{} uml-8: FAIL, 0 passed, {} failed, 1 skipped"
SKIPPED = "skipped, needs CONFIG_NUMA: 1 of sched_numa"


@pytest.mark.parametrize(
    ("base", "head", "verdict", "lines", "new"),
    [
        (GOOD, BAD, Verdict.FAIL, ("fails since the series: sched_cpupri:oracle", ROW.format("head", 1)), 1),
        # What failed before is not its fault, and no pass.
        (BAD, BAD, Verdict.INCONCLUSIVE, (OLD, ROW.format("base", 1), ROW.format("head", 1)), 0),
        (
            BAD,
            WORSE,
            Verdict.FAIL,
            ("fails since the series: panic", OLD, ROW.format("base", 1), ROW.format("head", 2)),
            1,
        ),
        (BAD, GOOD, Verdict.PASS, ("fixed by the series: sched_cpupri:oracle", ROW.format("base", 1)), 0),
    ],
)
def test_what_fails_since_the_series_fails(
    base: Guests,
    head: Guests,
    verdict: Verdict,
    lines: tuple[str, ...],
    new: int,
    monkeypatch: pytest.MonkeyPatch,
    tree: Tree,
) -> None:
    series = read_series(tree, "base", None, None)
    results = {series.base: base, series.head: head}
    monkeypatch.setattr(parts, "booted", lambda cache, tree, commit, *rest: results[commit])
    part = parts.kunit(Path("cache"), tree, series, NOTHING, Path("out"))
    assert (part.verdict, part.lines) == (verdict, (*lines, SKIPPED))
    assert part.summary.endswith(f"; new failures: {new}")


def test_all_names_are_kept_and_only_what_fails_is_marked_so() -> None:
    """A text shortens them, and says how many more there are."""
    names = [f"sched_cpupri:case_{number:02}" for number in range(25)]
    part = parts.suites(GOOD, guests(*names))
    content = content_of([part])
    assert ", ".join(names) in content.parts[0].lines[0]
    (row,) = json.loads(checks_text(premerge_job._checks([part])))
    marks = {each["description"].partition(":")[0]: each["status"] for each in json.loads(row["details"])}
    assert marks == {"fails since the series": "fail", "head uml-8": "warn", "skipped, needs CONFIG_NUMA": "warn"}
    assert "case_24" in row["details"] and row["status"] == "fail"
    pytest.importorskip("jinja2")
    for text in (premerge_job.text(content), premerge_job.html_page(content)):
        assert "case_19 and 5 more" in " ".join(text.split()) and "case_20" not in text


@pytest.mark.parametrize(
    ("fate", "verdict"),
    [(Fate.KILLED, Verdict.PASS), (Fate.SURVIVED, Verdict.INCONCLUSIVE), (Fate.DOES_NOT_APPLY, None)],
)
def test_mutants_of_the_touched_files(
    monkeypatch: pytest.MonkeyPatch, tree: Tree, fate: Fate, verdict: Verdict | None
) -> None:
    tried: list[str] = []

    def fake(cache: Path, tree: Tree, mutant: mutants.Mutant, *rest: object) -> tuple[Fate, frozenset[str], float]:
        tried.append(mutant.diff.decode())
        return fate, NOTHING, 0.0

    monkeypatch.setattr(mutants, "try_mutant", fake)
    part = parts.mutated(Path("cache"), tree, read_series(tree, "base", None, None), NOTHING, Path("out"))
    assert part.verdict is verdict
    touched = ("+++ b/kernel/sched/sched.h", "+++ b/kernel/sched/core.c")
    assert tried and all(any(file in diff for file in touched) for diff in tried)
    assert len(tried) < len(mutants.read_mutants(mutants.MUTANTS))
    assert bool(part.lines) == (fate is Fate.SURVIVED)


TOUCHED, ELSEWHERE = (
    PatchSeries("a" * 40, "b" * 40, (), f"--- a/{file}\n+++ b/{file}\n".encode())
    for file in ("kernel/sched/core.c", "mm/slub.c")
)


def test_what_a_series_does_not_touch_needs_no_tool(tree: Tree, tmp_path: Path) -> None:
    assert parts.layout(tree, TOUCHED, (), (), NOTHING, Path("out")).verdict is Verdict.PASS
    assert parts.emulated(tmp_path, tree, ELSEWHERE, None, tmp_path).verdict is Verdict.PASS


def content_of(found: Sequence[Part]) -> PremergeDocument:
    series = PatchSeries("a" * 40, "b" * 40, (PremergePatch("b" * 40, "sched: Add a field " * 5, "c" * 40, ""),), b"")
    return premerge_job.content_of(datetime.now(UTC), "~/linux", series, found)


def test_the_page_junit_and_what_b4_gets(golden: Golden) -> None:
    remarks = tuple(Finding("a.h", 1, error, "rd-lines.R2", "why") for error in (True, False))
    tests = (("x86_64", Verdict.FAIL, "\x1b"),)
    found = [
        Part("layout", Verdict.FAIL, "1 rule broken " * 9, ("x86_64: rq-order.Q1 " * 9, "more"), tests, remarks),
        Part("kunit", None, "left out by --skip"),
        Part("c2c", Verdict.PASS, "as before"),
        Part("mutants", Verdict.INCONCLUSIVE, "1 survives", (), (("a/b", Verdict.INCONCLUSIVE, "c"),)),
    ]
    page = premerge_job.text(content_of(found))
    assert max(map(len, page.splitlines())) <= 72
    checks = checks_text(premerge_job._checks(found))
    golden("premerge.txt", f"{page}\n{premerge_job.junit(found).decode()}\n{checks}\n")


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((Verdict.PASS, None), "looked at: layout"),
        ((Verdict.FAIL, Verdict.PASS), "layout: 1 rule broken"),
        ((None, None), "nothing was judged"),
    ],
)
def test_the_html_page_says_what_decided_and_escapes_what_is_theirs(
    verdicts: tuple[Verdict | None, Verdict | None], said: str
) -> None:
    pytest.importorskip("jinja2")
    layout, kunit = verdicts
    found = [
        Part("layout", layout, "1 rule broken", ("<script>x</script> \x1b[31m",)),
        Part("kunit", kunit, "171 tests passed"),
    ]
    content = content_of(found)
    page = premerge_job.html_page(content)
    assert f'class="name">{content.status.name}</span> <span><bdi>{said}</bdi>' in page
    assert "&lt;script&gt;x&lt;/script&gt;" in page and "<script" not in page and "\x1b" not in page
    assert page == premerge_job.html_page(content)


def words(kdir: Path, out: Path, *more: str) -> list[str]:
    """The command line for a premerge of both patches that judges nothing."""
    skip = "--skip=layout,kunit,c2c,mutants"
    return ["premerge", "--kdir", str(kdir), "--base", "base", "--out", str(out), skip, *more]


def test_nothing_judged_is_inconclusive(series_kdir: Path, cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(words(series_kdir, out, "--html", str(tmp_path / "page.html"))) == 3
    content = json.loads((out / "premerge.json").read_text())
    assert content["status"] == "INCONCLUSIVE" and len(content["patches"]) == 2
    assert (out / "premerge.txt").read_text().endswith("verdict: INCONCLUSIVE\n")
    assert "nothing was judged" in (tmp_path / "page.html").read_text()
    with pytest.raises(SchedlineError, match="earlier premerge"):
        main(words(series_kdir, out, "--bisect"))


@pytest.mark.tools
def test_runs_are_judged_by_the_gate(
    series_kdir: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = campaigns.Campaign(tmp_path / "runs")
    campaign.boots(campaigns.noise(1), campaigns.noise(2))
    _, base, candidate, *_ = campaign.words()
    out, mine = tmp_path / "out", tmp_path / "mine.toml"
    mine.write_text("[[[")
    given = "--runs", base, candidate, "--gates", str(mine)
    with pytest.raises(SchedlineError, match=f"^{mine} is no TOML"):
        main(words(series_kdir, tmp_path / "broken", *given))
    mine.write_text(campaigns.GATES)
    assert main(words(series_kdir, out, *given)) == 0
    page = capsys.readouterr().out
    assert "runs     PASS         gate: PASS" in page and "\ngates: mine;" in page
    found = json.loads((out / "gate.json").read_text())
    assert (found["status"], found["gates"]["name"]) == ("PASS", "mine")
    assert main(["premerge", "evidence", str(out)]) == 0
    assert "10+10" in capsys.readouterr().out


def test_what_a_later_part_lacks_is_said_before_the_first_begins(
    series_kdir: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise SchedlineError("this machine lacks a compiler", "install it")

    monkeypatch.setattr(doctor, "require", lacking)
    monkeypatch.setattr(premerge_job, "ensure_tools", lacking)
    out = tmp_path / "out"
    for skip in ("layout,c2c,kunit", "layout,c2c,mutants", "kunit,c2c,mutants"):
        with pytest.raises(SchedlineError, match="lacks a compiler"):
            main(words(series_kdir, out, "--skip", skip))
    assert not out.exists()
    # A series that touches no header needs no cross compiler.
    assert main(words(series_kdir, out, "--skip", "kunit,c2c,mutants", "--head", "HEAD~1")) == 0


def test_words_are_checked_before_libraries_are_needed(series_kdir: Path, tmp_path: Path) -> None:
    old, absent, file = tmp_path / "old", str(tmp_path / "absent"), str(tmp_path / "said.txt")
    old.mkdir()
    for path in (old / "layout.json", old / "premerge.json", tmp_path / "said.txt"):
        path.touch()
    good, out, evidence = words(series_kdir, tmp_path / "out"), str(old), ["premerge", "evidence"]
    verify = [*evidence, "verify"]
    pairs = [
        (["premerge"], "premerge needs a kernel tree"),
        (["premerge", "--kdir", str(series_kdir)], "premerge needs a kernel tree"),
        (["premerge", "--kdir", "", "--base", "base"], "the path is empty"),
        (["premerge", "--kdir", absent, "--base", "base"], "absent: no such file"),
        (["premerge", "--kdir", str(tmp_path), "--base", "base"], "is no git tree"),
        ([*good, "--arch", "vax"], "there is no architecture 'vax'"),
        ([*good, "--skip", "kunits"], "Did you mean kunit?"),
        ([*good, "--mbox", absent], "absent: no such file"),
        ([*good, "--head", "HEAD", "--mbox", str(old / "layout.json")], "not allowed with argument"),
        ([*good, "--runs", str(old), absent], "absent: no such file or directory"),
        ([*good, "--runs", str(old), str(old), "--placebo", absent], "absent: no such file or directory"),
        ([*good, "--placebo", str(old)], "give --runs, too"),
        ([*good, "--gates", "default"], "give --runs, too"),
        ([*good, "--gates", "defualt"], "Did you mean default?"),
        ([*good, "--out", str(old)], "has premerge.json of an earlier premerge"),
        ([*good, "--json", str(old)], "is a directory; name a file"),
        (good, ""),
        (evidence, "required: DIR | verify FILE DIR"),
        ([*evidence, absent], "absent has neither"),
        ([*evidence, out, out], "one directory makes one text"),
        ([*verify, out], "verify takes a file and a directory"),
        ([*verify, file, out, "-o", absent], "verify takes a file and a directory"),
        ([*verify, absent, out], "absent: no such file"),
        ([*verify, file, absent], "absent has neither"),
        ([*evidence, out, "-o", out], "is a directory; name a file"),
        ([*verify, "-", out], ""),
        ([*evidence, out, "-o", absent], ""),
    ]
    found = said_without_libraries(premerge_verb, [line for line, _ in pairs])
    for (line, expected), said in zip(pairs, found, strict=True):
        assert expected in said if expected else said == "", (line, said)


def test_only_runs_need_the_gates_libraries(series_kdir: Path, tmp_path: Path) -> None:
    runs = str(tmp_path)
    for more, files in (([], ("core",)), (["--runs", runs, runs], ("core", "gate"))):
        arguments = parsed(premerge_verb, words(series_kdir, tmp_path / "out", *more))
        assert arguments.libraries(arguments.read(arguments)) == files
    (tmp_path / "premerge.json").touch()
    for files in (("core",), ("core", "gate")):
        arguments = parsed(premerge_verb, ["premerge", "evidence", runs])
        assert arguments.libraries(arguments.read(arguments)) == files
        (tmp_path / "runs").mkdir(exist_ok=True)
    jobs = ("schedlib.premerge.premerge_job", "schedlib.premerge.evidence")
    assert importable(*jobs, without=["numpy", "scipy", "matplotlib", "jinja2"]) == jobs


# ---- the cache-line traffic ----


def traffic(false: int) -> TrafficResult:
    rows = (toy_results.row("rto_count", 0, false, 4000), toy_results.row("overloaded", 40, 100, 300))
    return toy_results.result(rows, rows, rows, build_id=str(false))


def both(out: Path, base: int, head: int) -> None:
    for side, false in (("base", base), ("head", head)):
        document.write(out / TRAFFIC / f"{side}.json", traffic(false))


def test_other_settings_are_refused(tmp_path: Path) -> None:
    both(tmp_path, 1, 1)
    other = replace(traffic(1), parameters=replace(traffic(1).parameters, cpus=32))
    document.write(tmp_path / TRAFFIC / "head.json", other)
    with pytest.raises(SchedlineError, match="cpus is 8 in BASE and 32"):
        parts.compared(tmp_path)


def test_samples_of_a_machine_are_shown_and_judge_nothing(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "refuse_other_qemu", lambda: "QEMU 7.2")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    monkeypatch.setattr(parts, "remembered", lambda cache, tree, quanta, logs: traffic(1000))
    samples = tmp_path / "measured"
    document.write(samples / "measured.json", measured(rto_count=600, overloaded=200, a_name_of_thirty_characters_ok=9))
    part = parts.emulated(tmp_path, tree, ELSEWHERE, samples, tmp_path)
    assert part.verdict is Verdict.PASS
    assert part.lines[0].startswith("measured on a machine: 0 of 3 fields agree")
    assert part.lines[2].split() == ["root_domain.rto_count", "74.2%", "71.0%", "77.1%", "92.6%"]
    assert part.lines[4] == "root_domain.a_name_of_thirty_characters_ok" and max(map(len, part.lines)) <= 70
    document.write(samples / "measured.json", measured("inode", i_count=5))
    with pytest.raises(SchedlineError, match="no sample lies in what was emulated"):
        parts.emulated(tmp_path, tree, ELSEWHERE, samples, tmp_path)


def test_another_qemu_is_a_skip(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise SchedlineError("c2c needs QEMU 7.2; this is QEMU 10.0", "")

    monkeypatch.setattr(parts, "refuse_other_qemu", refuse)
    monkeypatch.setattr(doctor, "require", lambda names: None)
    part = parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path)
    assert part.verdict is None and "QEMU 10.0" in part.summary


def test_a_missing_tool_is_a_skip_with_its_reason_in_a_line(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    part = parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path)
    assert part.verdict is None
    assert "this machine lacks: " in part.summary and "qemu-system-x86_64" in part.summary
    assert "\n" not in part.summary


@pytest.mark.parametrize(("head", "verdict"), [(1000, Verdict.PASS), (10, Verdict.PASS), (9000, Verdict.FAIL)])
def test_both_are_measured(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(parts, "refuse_other_qemu", lambda: "QEMU 7.2")
    monkeypatch.setattr(doctor, "require", lambda names: None)
    said = {TOUCHED.base: 1000, TOUCHED.head: head}
    monkeypatch.setattr(parts, "remembered", lambda cache, tree, quanta, logs: traffic(said[tree.head]))
    part = parts.emulated(tmp_path, tree, TOUCHED, None, tmp_path)
    assert (part.verdict, bool(part.lines)) == (verdict, verdict is Verdict.FAIL)
