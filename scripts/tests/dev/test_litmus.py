# SPDX-License-Identifier: GPL-2.0
"""Litmus tests say what they say they do; what herd7 answers is not taken for better than it is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import git, write_files
from schedlib.cache import cache_dir
from schedlib.dev.litmus import (
    KILLED,
    LITMUS,
    Answer,
    Herd,
    LitmusTest,
    Row,
    accesses,
    fates,
    judge_test,
    mutant_file,
    other_code,
    read_answer,
    read_test,
    read_tests,
)
from schedlib.dev.mutants import MUTANTS, read_mutant
from schedlib.errors import SchedlineError
from schedlib.main import main
from schedlib.options import DEFAULT_SERIES
from schedlib.paths import PATCHES
from schedlib.verdict import Verdict

RECORDED = Path(__file__).parents[1] / "litmus"
TESTS = read_tests()

SMALL = """\
C small

(*
 * Result: Never
 *)

{
}

P0(int *x)
{
	smp_mb();		// -one -other/two
	// +two WRITE_ONCE(*x, 2);
	WRITE_ONCE(*x, 1);	// a comment
	(* +fix-it smp_wmb(); *)
	smp_rmb();		(* -two *)
}

exists (x=0)
"""


def small(tmp_path: Path, text: str = SMALL) -> LitmusTest:
    """Read a test from text."""
    (tmp_path / "small.litmus").write_text(text)
    return read_test(tmp_path / "small.litmus")


# ---- the marks ----


def body(text: str) -> list[str]:
    """The statements of P0."""
    return [line.strip() for line in text.partition("*x)\n{\n")[2].partition("\n}")[0].splitlines()]


def test_variants(tmp_path: Path) -> None:
    test = small(tmp_path)
    assert (test.name, test.arch, test.result) == ("small", "C", "Never")
    assert (test.fixes(), test.mutants()) == (("fix-it",), ("one", "other/two", "two"))
    one = "WRITE_ONCE(*x, 1);	// a comment"
    assert body(test.text()) == ["smp_mb();", one, "smp_rmb();"]
    assert body(test.text("one")) == [one, "smp_rmb();"]
    assert body(test.text("two")) == ["smp_mb();", "WRITE_ONCE(*x, 2);", one]
    assert body(test.text("fix-it", "other/two")) == [one, "smp_wmb();", "smp_rmb();"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" * Result: Never", " * Result: perhaps", "does not say what to expect"),
        ("C small", "C large", "another name inside"),
        (" * Result: Never", " * Result: Never\n * Unseen: three: no reason", "no line is left out of three"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SchedlineError, match=message):
        small(tmp_path, SMALL.replace(old, new))


def test_no_test_is_an_error() -> None:
    with pytest.raises(SchedlineError, match="no litmus test matches 'nothing'"):
        read_tests("nothing")


# ---- the tests of this project ----


@pytest.mark.parametrize("test", TESTS, ids=lambda test: str(test.name))
def test_each_mutant_is_one_and_lacks_what_the_test_lacks(test: LitmusTest) -> None:
    for name in test.mutants():
        mutant = read_mutant(MUTANTS / mutant_file(name), name)
        gone = re.findall(r"^-.*?\b(smp_\w+)\(", mutant.diff.decode(), re.M)
        here = {match for line in test.lines if name in line.left_out_of for match in re.findall(r"smp_\w+", line.text)}
        if name.startswith("no-barrier-") and test.arch == "C":
            assert here == set(gone)


def test_each_mutant_of_the_order_is_in_a_test() -> None:
    wanted = {path.stem for path in (MUTANTS / "cpupri").glob("no-barrier-*.diff")}
    wanted |= {"clear-before-set", "cpupri-split/clear-before-set"}
    shown = {name for test in TESTS for name in test.mutants() if name not in test.unseen}
    assert wanted == shown


@pytest.mark.parametrize("path", sorted(LITMUS.iterdir()), ids=lambda path: str(path.name))
def test_form(path: Path) -> None:
    text = path.read_text()
    assert path.suffix == ".litmus"
    assert " * SPDX-License-Identifier: GPL-2.0\n" in text
    assert max(len(line.expandtabs(8)) for line in text.splitlines()) <= 100
    # A mark that is not understood would be a mutant that is never tried.
    assert len(re.findall(r"(?://|\(\*)\s*[+-]", text)) == sum(
        line.only_in is not None or bool(line.left_out_of) for line in read_test(path).lines
    )


def test_a_known_defect_is_reported() -> None:
    report = (PATCHES / "cpupri-find-report.md").read_text()
    for test in TESTS:
        assert (test.result == "Sometimes") == bool(test.fixes()) == (f"`{test.name}`" in report)


# ---- what herd7 printed ----


def recorded(name: str) -> Answer:
    """What herd7 7.58 said of a test."""
    return read_answer(name, (RECORDED / f"{name}.out").read_text(), "")


def test_recorded_answers() -> None:
    assert recorded("cpupri-enter") == Answer("Never", frozenset({"1:c=0; 1:m=0;", "1:c=1; 1:m=1;"}))
    for name in ("cpupri-rise", "cpupri-rise-arm64"):
        answer = recorded(name)
        assert (answer.observation, len(answer.states)) == ("Sometimes", 4)


def test_a_test_that_herd7_cannot_read_is_no_answer() -> None:
    answer = read_answer("broken", "", (RECORDED / "broken.err").read_text())
    assert answer.observation is None
    assert "Lex error" in answer.said


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text.partition("Observation")[0],
        lambda text: text.replace("Observation cpupri-enter", "Observation other"),
        lambda text: text.replace("1:c=1; 1:m=1;\n", ""),
        lambda text: text + text,
        lambda text: "Test cpupri-enter Allowed\nStates 0\nNo\nObservation cpupri-enter Never 0 0\n",
    ],
)
def test_a_damaged_answer_is_none(change: Callable[[str], str]) -> None:
    text = change((RECORDED / "cpupri-enter.out").read_text())
    assert read_answer("cpupri-enter", text, "").observation is None


# ---- judging ----


class Told(Herd):
    """Answers as it is told, for each set of variants."""

    def __init__(self, answers: dict[tuple[str, ...], Answer]) -> None:
        super().__init__(Path())
        self.answers = answers

    def ask(self, test: LitmusTest, *variants: str) -> Answer:
        """Look the answer up."""
        return self.answers[variants]


NEVER = Answer("Never", frozenset({"a", "b"}))
SOMETIMES = Answer("Sometimes", frozenset({"a", "b", "c"}))
LESS = Answer("Never", frozenset({"a"}))
NOTHING = Answer(None, said="Lex error")

MUTATED = "C small\n(*\n * Result: Never\n *)\nsmp_mb(); // -mutant\n"
UNSEEN = MUTATED.replace("Never\n", "Never\n * Unseen: mutant: it is so\n")


@pytest.mark.parametrize(
    ("text", "sound", "mutated", "fate", "verdict"),
    [
        (MUTATED, NEVER, SOMETIMES, "killed", Verdict.PASS),
        (MUTATED, NEVER, NEVER, "survived", Verdict.FAIL),
        (MUTATED, NEVER, LESS, "survived", Verdict.FAIL),
        (MUTATED, SOMETIMES, SOMETIMES, "survived", Verdict.FAIL),
        (MUTATED, NEVER, NOTHING, "herd7 said: Lex error", Verdict.ERROR),
        (UNSEEN, NEVER, NEVER, "cannot show here: it is so", Verdict.PASS),
        (UNSEEN, NEVER, LESS, "survived, but changes what may be seen", Verdict.FAIL),
        (UNSEEN, NEVER, SOMETIMES, "killed, which the test says it cannot show", Verdict.FAIL),
        (UNSEEN, NEVER, NOTHING, "herd7 said: Lex error", Verdict.ERROR),
    ],
)
def test_fate_of_a_mutant(
    tmp_path: Path, text: str, sound: Answer, mutated: Answer, fate: str, verdict: Verdict
) -> None:
    _, row = judge_test(Told({(): sound, ("mutant",): mutated}), small(tmp_path, text))
    assert (row.variant, row.fate, row.verdict) == ("mutant", fate, verdict)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [(NEVER, Verdict.PASS), (SOMETIMES, Verdict.FAIL), (Answer("Always"), Verdict.FAIL), (NOTHING, Verdict.ERROR)],
)
def test_the_test_itself(tmp_path: Path, answer: Answer, verdict: Verdict) -> None:
    row, _ = judge_test(Told({(): answer, ("mutant",): SOMETIMES}), small(tmp_path, MUTATED))
    assert (row.variant, row.verdict) == ("", verdict)


def test_a_mutant_of_a_known_defect_is_tried_on_top_of_the_remedy(tmp_path: Path) -> None:
    test = small(tmp_path, MUTATED.replace("Never", "Sometimes") + "// +fix-it smp_rmb();\n")
    answers = {(): SOMETIMES, ("fix-it",): NEVER, ("fix-it", "mutant"): SOMETIMES}
    rows = list(judge_test(Told(answers), test))
    assert [row.fate for row in rows] == ["known defect", "as expected", "killed"]
    rows = list(judge_test(Told(answers | {("fix-it",): SOMETIMES}), test))
    assert [row.fate for row in rows] == ["known defect", "not as expected", "survived"]
    assert next(judge_test(Told(answers | {(): NEVER}), test)).verdict is Verdict.FAIL


def test_a_mutant_is_told_once() -> None:
    def row(test: str, fate: str) -> Row:
        return Row(test, "mutant", "", "", fate, Verdict.PASS)

    assert fates([row("a", "cannot show here: x"), row("b", KILLED), row("c", KILLED)]) == {"mutant": "killed by b, c"}
    assert fates([row("a", "cannot show here: x")]) == {"mutant": "cannot show here: x"}
    assert fates([Row("a", "fix-it", "", "", "as expected", Verdict.PASS)]) == {}


# ---- the code that is modelled ----

CPUPRI = """\
static inline int __cpupri_find(struct cpupri *cp, struct task_struct *p,
				struct cpumask *lowest_mask, int idx)
{
	if (!atomic_read(&(vec)->count))
		skip = 1;
	/* then smp_mb(); no, this is enough: */
	smp_rmb();
	if (skip)
		return 0;
	if (cpumask_any_and(&p->cpus_mask, vec->mask) >= nr_cpu_ids)
		return 0;
	if (lowest_mask) {
		cpumask_and(lowest_mask, &p->cpus_mask, vec->mask);
		cpumask_and(lowest_mask, lowest_mask, cpu_active_mask);
		if (cpumask_empty(lowest_mask))
			return 0;
	}
	return 1;
}

int cpupri_find(struct cpupri *cp)
{
	smp_wmb();
}

void cpupri_set(struct cpupri *cp, int cpu, int newpri)
{
	if (likely(newpri != CPUPRI_INVALID)) {
		cpumask_set_cpu(cpu, vec->mask);
		smp_mb__before_atomic();
		atomic_inc(&(vec)->count);
		do_mb = 1;
	}
	if (likely(oldpri != CPUPRI_INVALID)) {
		if (do_mb)
			smp_mb__after_atomic();
		atomic_dec(&(vec)->count);
		smp_mb__after_atomic();
		cpumask_clear_cpu(cpu, vec->mask);
	}
}
"""


def test_accesses() -> None:
    assert accesses(CPUPRI, "cpupri_find") == ("smp_wmb",)
    assert accesses(CPUPRI, "cpupri_init") == ()
    assert other_code(CPUPRI) == ()
    assert other_code(CPUPRI.replace("cpumask_set_cpu", "cpupri_set_cpu")) == ()
    assert len(other_code("")) == 2


@pytest.mark.parametrize("line", ["smp_rmb();", "smp_mb__before_atomic();", "atomic_dec(&(vec)->count);"])
def test_other_code_is_noticed(line: str) -> None:
    assert len(other_code(CPUPRI.replace(line, ""))) == 1


# ---- the verb ----

HERD = """\
#!/bin/sh
for file; do :; done
name=${file%.litmus}
case ANSWERS in
right) test "$(grep -c '^	smp_' "$file")" = 2 && said=Never || said=Sometimes ;;
*) said=ANSWERS ;;
esac
echo "Test $name Allowed"
echo "States 1"
echo "1:c=0; 1:m=0;"
echo "Observation $name $said 1 1"
"""


@pytest.fixture
def modelled(kernel: Path) -> Path:
    """A tree that has cpupri and a memory model."""
    write_files(kernel, {"kernel/sched/cpupri.c": CPUPRI, "tools/memory-model/linux-kernel.cfg": "model x\n"})
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "model")
    return kernel


def fake_herd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str) -> None:
    """Put a herd7 first in PATH that answers as told."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/herd7").write_text(HERD.replace("ANSWERS", answers))
    (tmp_path / "bin/herd7").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ("right", 0, "mutant no-barrier-mask-to-count: killed by cpupri-enter"),
        ("Never", 1, "mutant no-barrier-mask-to-count: survived"),
        ("Sometimes", 1, "not as expected"),
        ("Nonsense", 2, "herd7 said: Observation cpupri-enter Nonsense 1 1"),
    ],
)
def test_verdict(
    tmp_path: Path,
    modelled: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: str,
    code: int,
    said: str,
) -> None:
    fake_herd(tmp_path, monkeypatch, answers)
    out = tmp_path / "litmus.json"
    assert main(["litmus", "--kdir", str(modelled), "--only", "cpupri-enter", "--json", str(out)]) == code
    printed = capsys.readouterr().out
    assert said in printed
    document = json.loads(out.read_text())
    assert printed.endswith(f"verdict: {document['status']}\n")
    assert [row["variant"] for row in document["rows"]] == ["", "no-barrier-mask-to-count", "no-barrier-count-to-mask"]


def test_without_herd7_nothing_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["litmus", "--json", str(tmp_path / "litmus.json")]) == 3
    assert "herdtools7" in capsys.readouterr().out
    assert json.loads((tmp_path / "litmus.json").read_text())["status"] == "INCONCLUSIVE"


def test_other_code_is_not_judged(
    tmp_path: Path,
    modelled: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_herd(tmp_path, monkeypatch, "right")
    (modelled / "kernel/sched/cpupri.c").write_text(CPUPRI.replace("smp_rmb();", ""))
    assert main(["litmus", "--kdir", str(modelled), "--only", "cpupri-enter"]) == 3
    assert "not what the tests model" in capsys.readouterr().out


def test_a_tree_without_the_model_is_an_error(
    tmp_path: Path, modelled: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_herd(tmp_path, monkeypatch, "right")
    (modelled / "tools/memory-model/linux-kernel.cfg").unlink()
    with pytest.raises(SchedlineError, match=r"has no tools/memory-model/linux-kernel\.cfg"):
        main(["litmus", "--kdir", str(modelled)])


@pytest.mark.skipif(shutil.which("herd7") is None, reason="herd7 is not in PATH (package herdtools7)")
def test_herd7_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    if not (cache_dir() / "trees" / DEFAULT_SERIES / "manifest.json").is_file():
        pytest.skip(f"no tree of {DEFAULT_SERIES} in the cache (schedline fetch)")
    assert main(["litmus", "--series", DEFAULT_SERIES]) == 0, capsys.readouterr().out
