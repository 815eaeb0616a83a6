# SPDX-License-Identifier: GPL-2.0
"""Litmus tests do what they claim, each barrier is left out once, and the kernel's scripts judge the results."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlib.cache import cache_dir
from schedlib.check.mutants import MUTANTS, read_mutant
from schedlib.dev.litmus import LITMUS, check, marks, variants, with_marks
from schedlib.errors import SchedlineError
from schedlib.paths import PATCHES
from schedlib.tree.kernel_tree import Tree, fetch_series, open_kdir
from schedlib.verdict import Verdict

ANSWERS = Path(__file__).parents[1] / "litmus/answers"
"""The output of herd7 7.58 for each variant, with the memory model of 7.3.4 and herd7's own of arm64 and x86."""

TESTS = sorted(path for path in LITMUS.iterdir() if path.is_file())

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


def expected(path: Path) -> dict[str, str]:
    """The result that is expected of each variant of a test."""
    found = {name: re.findall(r"^ \* Result: (\w+)$", text, re.M) for name, text in variants(path).items()}
    return {name: result for name, [result] in found.items()}


# ---- the marks ----


def test_a_mutant_has_to_make_the_outcome_possible(tmp_path: Path) -> None:
    path = tmp_path / "small.litmus"
    path.write_text(SMALL)
    seen = {"small+one": "Sometimes", "small+other.two": "Sometimes", "small+two": "Sometimes"}
    assert expected(path) == {"small": "Never", **seen, "small+fix-it": "Never"}
    path.write_text(SMALL.replace(" * Result: Never", " * Result: Never\n * Unseen: two: it is so"))
    assert expected(path)["small+two"] == "Never"
    assert variants(path)["small+other.two"].startswith("C small+other.two\n")
    # A mutant of a known defect is tried on top of the remedy.
    path.write_text(SMALL.replace("Never", "Sometimes"))
    assert expected(path) == {"small": "Sometimes", **seen, "small+fix-it": "Never"}
    found = variants(path)
    assert "smp_wmb();" in found["small+one"] and "smp_wmb();" not in found["small"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (" * Result: Never", " * Result: perhaps", "does not say what to expect"),
        ("C small", "C large", "another name inside"),
        (" * Result: Never", " * Result: Never\n * Unseen: three: no reason", "no line is marked for three"),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "small.litmus").write_text(SMALL.replace(old, new))
    with pytest.raises(SchedlineError, match=message):
        variants(tmp_path / "small.litmus")


# ---- the tests of this project ----


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.name))
def test_each_mutant_is_one_and_lacks_what_the_test_lacks(path: Path) -> None:
    text = path.read_text()
    assert path.suffix == ".litmus"
    assert " * SPDX-License-Identifier: GPL-2.0\n" in text
    assert max(len(line.expandtabs(8)) for line in text.splitlines()) <= 100
    # A mark that is not recognised would be a mutant that is never tried.
    for plain in (with_marks(text, ()), with_marks(text, marks(text))):
        assert not re.search(r"(?://|\(\*)\s*[+-]", plain)
    for name in marks(text):
        if name.startswith("fix-"):
            continue
        # The suites notice no missing barrier: x86 orders what they read.
        place = LITMUS / "mutants" if name.startswith("no-barrier-") else MUTANTS / ("" if "/" in name else "cpupri")
        mutant = read_mutant(place / f"{name}.diff", name)
        gone = re.findall(r"^-.*?\b(smp_\w+)\(", mutant.diff.decode(), re.M)
        if name.startswith("no-barrier-") and text.startswith("C "):
            marked = [line for line in text.splitlines() if f"-{name}" in line.split()]
            assert {word for line in marked for word in re.findall(r"smp_\w+", line)} == set(gone)


def test_each_mutant_of_the_order_is_in_a_test() -> None:
    wanted = {path.stem for path in (LITMUS / "mutants").glob("no-barrier-*.diff")}
    wanted |= {"clear-before-set", "cpupri-split.clear-before-set"}
    shown = {name.partition("+")[2] for path in TESTS for name, result in expected(path).items() if result != "Never"}
    assert wanted == shown - {""}


REPORT = (PATCHES / "reports/04-cpupri-find.patch").read_text()


def test_a_known_defect_is_reported() -> None:
    for path in TESTS:
        results = expected(path)
        fixed = any(name.startswith(f"{path.stem}+fix-") for name in results)
        reported = re.search(rf"^  {path.stem} \(.*\) +Sometimes \d \d +Never 0 \d$", REPORT, re.M) is not None
        assert (results[path.stem] == "Sometimes") == fixed == reported


def test_the_report_has_the_test_of_the_kernels_model() -> None:
    text = next(with_marks(path.read_text(), ()) for path in TESTS if path.stem == "cpupri-rise")
    code = re.sub(r"\(\*.*?\*\)|//[^\n]*", "", text, flags=re.S)
    shown = REPORT[REPORT.index("  C cpupri-rise\n") : REPORT.index("\nIn tools/memory-model,")]
    assert shown.split() == code.split()


def test_the_memory_models_say_what_is_expected() -> None:
    said = dict(re.findall(r"^Observation (\S+) (\w+) \d+ \d+$", ANSWERS.read_text(), re.M))
    assert said == {name: result for path in TESTS for name, result in expected(path).items()}


# ---- the modelled code ----

ORDER = {
    "cpupri_set": "enter smp_mb__before_atomic atomic_inc smp_mb__after_atomic atomic_dec smp_mb__after_atomic leave",
    "__cpupri_find": "atomic_read smp_rmb read read read cpumask_empty",
}
"""The accesses and barriers of kernel/sched/cpupri.c that the tests model, in the order of the text."""

ACCESSES = {"set_cpu": "enter", "clear_cpu": "leave", "any_and": "read", "and": "read"}


def accesses(source: str, function: str) -> str:
    """The accesses and barriers in the source of a function."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.S)
    body = re.search(rf"^\w[^;{{}}]*\b{function}\([^;{{}}]*\{{\n.*?^\}}", code, re.M | re.S)
    assert body
    found = re.findall(
        r"\b(?:(?:cpumask|cpupri)_(set_cpu|clear_cpu|any_and|and)|((?:atomic|smp|cpumask)_\w+))\s*\(", body[0]
    )
    return " ".join(ACCESSES.get(access, other) for access, other in found)


@pytest.mark.guest
@pytest.mark.parametrize("name", ["6.12", "7.3"])
def test_the_tests_model_the_code_of_the_series(name: str) -> None:
    source = fetch_series(cache_dir(), name).read("kernel/sched/cpupri.c") or ""
    assert {function: accesses(source, function) for function in ORDER} == ORDER


# ---- the kernel's scripts ----

HERD = """\
for file; do :; done
name=${file##*/}
name=${name%.litmus}
case $name in *arm64*|*x86*) wanted=1 ;; *) wanted=3 ;; esac
[ $# = $wanted ] || { echo "options: $*"; exit 1; }
echo "Test $name Allowed"
grep "^Observation $name " ANSWERS
echo "Time $name 0.01"
"""


@pytest.mark.guest
@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("", "", Verdict.PASS),
        ("enter+no-barrier-mask-to-count Sometimes", "enter+no-barrier-mask-to-count Never", Verdict.FAIL),
        ("enter Never", "enter Sometimes", Verdict.FAIL),
        ("Observation cpupri-enter Never", "Warning: cpupri-enter: Lex error", Verdict.FAIL),
        ("rise-arm64 Sometimes", "rise-arm64 Never", Verdict.FAIL),
        ("rise-arm64+no-barrier-count-to-clear Never", "rise-arm64+no-barrier-count-to-clear Sometimes", Verdict.FAIL),
    ],
)
def test_the_kernels_scripts_judge_each_variant(
    old: str, new: str, verdict: Verdict, series: Tree, tmp_path: Path, fake: Callable[[str, str], Path]
) -> None:
    answers = ANSWERS.read_text()
    assert old in answers
    (tmp_path / "answers").write_text(answers.replace(old, new))
    fake("herd7", HERD.replace("ANSWERS", str(tmp_path / "answers")))
    only = "*" if not old else "*arm64" if "arm64" in old else "cpupri-enter"
    found, said = check(series, only)
    assert found is verdict
    assert said.count("All litmus tests verified as was expected") == (verdict is Verdict.PASS) * 2
    assert ("!!!" in said) == (verdict is Verdict.FAIL)


def test_what_is_missing_is_named(
    kernel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, fake: Callable[[str, str], Path]
) -> None:
    tree = open_kdir(cache, kernel)
    with pytest.raises(SchedlineError, match="no litmus test matches 'nothing'"):
        check(tree, "nothing")
    fake("herd7", HERD)
    with pytest.raises(SchedlineError, match="has no tools/memory-model"):
        check(tree)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SchedlineError, match="herd7 is not installed") as caught:
        check(tree)
    assert "herdtools7" in str(caught.value)


@pytest.mark.guest
@pytest.mark.skipif(shutil.which("herd7") is None, reason="herd7 is not in PATH (package herdtools7)")
def test_herd7_says_so(series: Tree) -> None:
    verdict, said = check(series)
    assert verdict is Verdict.PASS, said
