# SPDX-License-Identifier: GPL-2.0
"""`schedline litmus`: what the memory models say of cpupri's order, and of each barrier left out.

`herd7` runs a litmus test as it is. Comments say what is changed for a variant, so that there is one text: a line that
ends in `// -NAME` is left out of NAME, and `// +NAME TEXT` puts TEXT into NAME; `(* *)` does as well as `//`. A NAME
is a mutant, configs/mutants/NAME.diff (of those in cpupri/ when it names no change), or it begins with `fix-`: then it
is the remedy of a test whose result is Sometimes, and there the mutants are tried on top of it.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib import options
from schedlib.cache import write_atomic, write_json
from schedlib.errors import SchedlineError
from schedlib.git import git
from schedlib.paths import KUNIT
from schedlib.process import run
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict, worst

LITMUS = KUNIT / "litmus"
MODEL = "tools/memory-model"
PACKAGE = "herdtools7"

KILLED = "killed"
SURVIVED = "survived"
AS_EXPECTED = "as expected"
KNOWN = "known defect"
UNEXPECTED = "not as expected"
UNSEEN = "cannot show here"

_SECONDS = 120.0
"""CPU time for one run; the longest takes one second."""

_RESULT = re.compile(r"^ \* Result: (Never|Sometimes|Always)$", re.M)
_UNSEEN = re.compile(r"^ \* Unseen: (\S+): (.+)$", re.M)
_ADDED = re.compile(r"^\s*(?://|\(\*)\s*\+(\S+)\s+(.*?)\s*(?:\*\))?$")
_LEFT_OUT = re.compile(r"(?://|\(\*)((?:\s+-[\w/-]+)+)\s*(?:\*\))?\s*$")
_OBSERVATION = re.compile(r"^Observation (\S+) (Never|Sometimes|Always) \d+ \d+$", re.M)
_STATES = re.compile(r"^States (\d+)\n((?:.*;\n)*)", re.M)


@dataclass(frozen=True)
class Line:
    """A line of a test.

    Attributes:
        text: as `herd7` is to see it.
        left_out_of: the variants that lack it.
        only_in: the variant that alone has it.
    """

    text: str
    left_out_of: frozenset[str] = frozenset()
    only_in: str | None = None


@dataclass(frozen=True)
class LitmusTest:
    """A litmus test and its variants.

    Attributes:
        name: of the file, without suffix.
        arch: the first word of the file; C is for the kernel's own model.
        result: Never, Sometimes or Always, for the text as it is.
        unseen: mutants that change no outcome, with the reason.
    """

    name: str
    arch: str
    result: str
    unseen: dict[str, str]
    lines: tuple[Line, ...]

    def variants(self) -> tuple[str, ...]:
        """The names that its lines have, in the order in which they appear."""
        found = (name for line in self.lines for name in (line.only_in, *sorted(line.left_out_of)))
        return tuple(dict.fromkeys(name for name in found if name))

    def fixes(self) -> tuple[str, ...]:
        """Those that are a remedy."""
        return tuple(name for name in self.variants() if name.startswith("fix-"))

    def mutants(self) -> tuple[str, ...]:
        """Those that break something."""
        return tuple(name for name in self.variants() if not name.startswith("fix-"))

    def text(self, *variants: str) -> str:
        """The test with some variants applied."""
        chosen = frozenset(variants)
        kept = (
            line.text
            for line in self.lines
            if line.left_out_of.isdisjoint(chosen) and (line.only_in is None or line.only_in in chosen)
        )
        return "".join(f"{text}\n" for text in kept)


def mutant_file(name: str) -> str:
    """The path of a mutant's diff below configs/mutants/."""
    return f"{name if '/' in name else f'cpupri/{name}'}.diff"


def read_test(path: Path) -> LitmusTest:
    """Parse one test.

    Raises:
        SchedlineError: no result is given, or the marks are not understood.
    """
    text = path.read_text()
    result = _RESULT.search(text)
    if result is None:
        raise SchedlineError(f"{path} does not say what to expect", "add a line ` * Result: Never` to its comment")
    arch, _, name = text.partition("\n")[0].partition(" ")
    if name != path.stem:
        raise SchedlineError(f"{path} has another name inside", f"let its first line end in {path.stem}")
    lines: list[Line] = []
    for line in text.splitlines():
        if match := _ADDED.match(line):
            lines.append(Line(match.group(2), only_in=match.group(1)))
        elif match := _LEFT_OUT.search(line):
            names = frozenset(word[1:] for word in match.group(1).split())
            lines.append(Line(line[: match.start()].rstrip(), left_out_of=names))
        else:
            lines.append(Line(line))
    test = LitmusTest(name, arch, result.group(1), dict(_UNSEEN.findall(text)), tuple(lines))
    if unknown := sorted(set(test.unseen) - set(test.mutants())):
        raise SchedlineError(f"{path}: no line is left out of {', '.join(unknown)}", "correct the line ` * Unseen:`")
    return test


def read_tests(only: str | None = None, directory: Path = LITMUS) -> tuple[LitmusTest, ...]:
    """The tests whose name matches.

    Raises:
        SchedlineError: none does.
    """
    tests = tuple(
        read_test(path) for path in sorted(directory.glob("*.litmus")) if fnmatch.fnmatchcase(path.stem, only or "*")
    )
    if not tests:
        raise SchedlineError(f"--only: no litmus test matches {only!r}", f"ls {directory}")
    return tests


@dataclass(frozen=True)
class Answer:
    """What `herd7` said of one test.

    Attributes:
        observation: Never, Sometimes, Always, or None when it gave no answer.
        states: the final states that it lists.
        said: its last line, when there is no answer.
    """

    observation: str | None
    states: frozenset[str] = frozenset()
    said: str = ""


def read_answer(name: str, stdout: str, stderr: str) -> Answer:
    """Parse what `herd7` printed. Its exit status is 0 even for a test that it cannot read."""
    found, states = _OBSERVATION.findall(stdout), _STATES.search(stdout)
    if len(found) != 1 or found[0][0] != name or states is None:
        said = (stderr.strip() or stdout.strip()).splitlines()
        return Answer(None, said=said[-1] if said else f"nothing, as it does after {_SECONDS:.0f} s")
    listed = frozenset(line.strip() for line in states.group(2).splitlines())
    if len(listed) != int(states.group(1)) or not listed:
        return Answer(None, said=f"{states.group(1)} states, of which {len(listed)} are listed")
    return Answer(found[0][1], listed)


@dataclass(frozen=True)
class Row:
    """One test, as it is or with a variant, and what became of it.

    Attributes:
        test: its name.
        variant: of it; empty for the test as it is.
        expected, got: Never, Sometimes or Always; got is `no answer` where `herd7` gave none.
        fate: killed, survived, as expected, known defect, not as expected, or cannot show here: with the reason.
        verdict: FAIL for what is not as it should be.
    """

    test: str
    variant: str
    expected: str
    got: str
    fate: str
    verdict: Verdict


class Herd:
    """`herd7` and a directory that holds the kernel's model."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def ask(self, test: LitmusTest, *variants: str) -> Answer:
        """Run a test with some variants applied."""
        file = self.directory / f"{test.name}.litmus"
        file.write_text(test.text(*variants))
        model = ["-conf", "linux-kernel.cfg"] if test.arch == "C" else []
        done = run(["herd7", "-timeout", str(_SECONDS), *model, file.name], cwd=self.directory)
        return read_answer(test.name, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def judge_test(herd: Herd, test: LitmusTest) -> Iterator[Row]:
    """The test as it is, each remedy, and each mutant."""
    plain = herd.ask(test)
    yield _row(test, "", test.result, plain)
    for fix in test.fixes():
        yield _row(test, fix, "Never", herd.ask(test, fix))
    remedies = test.fixes() if test.result == "Sometimes" else ()
    sound = herd.ask(test, *remedies) if remedies else plain
    for mutant in test.mutants():
        yield _mutant_row(test, mutant, sound, herd.ask(test, *remedies, mutant))


def _row(test: LitmusTest, variant: str, expected: str, answer: Answer) -> Row:
    got = answer.observation
    if got is None:
        return Row(test.name, variant, expected, "no answer", f"herd7 said: {answer.said}", Verdict.ERROR)
    if got != expected:
        return Row(test.name, variant, expected, got, UNEXPECTED, Verdict.FAIL)
    is_known = not variant and expected == "Sometimes" and test.fixes()
    return Row(test.name, variant, expected, got, KNOWN if is_known else AS_EXPECTED, Verdict.PASS)


def _mutant_row(test: LitmusTest, mutant: str, sound: Answer, answer: Answer) -> Row:
    """A mutant is killed when the outcome that never was, is. One that is said to be unseen changes no outcome."""
    reason = test.unseen.get(mutant)
    row = _row(test, mutant, "Never" if reason else "Sometimes", answer)
    if row.verdict is Verdict.ERROR:
        return row
    killed = sound.observation == "Never" and answer.observation != "Never"
    if reason is None:
        fate, verdict = (KILLED, Verdict.PASS) if killed else (SURVIVED, Verdict.FAIL)
    elif killed:
        fate, verdict = f"{KILLED}, which the test says it cannot show", Verdict.FAIL
    elif answer.states != sound.states:
        fate, verdict = f"{SURVIVED}, but changes what may be seen", Verdict.FAIL
    else:
        fate, verdict = f"{UNSEEN}: {reason}", Verdict.PASS
    return replace(row, fate=fate, verdict=verdict)


# ---- is the code still what the tests model? ----

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_ACCESSES = {
    "cpumask_set_cpu": "enter the mask",
    "cpupri_set_cpu": "enter the mask",
    "cpumask_clear_cpu": "leave the mask",
    "cpupri_clear_cpu": "leave the mask",
    "cpumask_any_and": "read the mask",
    "cpupri_any_and": "read the mask",
    "cpumask_and": "read the mask",
    "cpupri_and": "read the mask",
}
"""Whatever the masks are made of."""

_ACCESS = re.compile(rf"\b({'|'.join(_ACCESSES)}|atomic_\w+|smp_\w+|cpumask_\w+)\s*\(")

MODELLED = {
    "cpupri_set": (
        "enter the mask",
        "smp_mb__before_atomic",
        "atomic_inc",
        "smp_mb__after_atomic",
        "atomic_dec",
        "smp_mb__after_atomic",
        "leave the mask",
    ),
    "__cpupri_find": (
        "atomic_read",
        "smp_rmb",
        "read the mask",
        "read the mask",
        "read the mask",
        "cpumask_empty",
    ),
}
"""The accesses and barriers of kernel/sched/cpupri.c that the tests are a model of, in the order of the text."""


def accesses(source: str, function: str) -> tuple[str, ...]:
    """The accesses and barriers in a function's text; nothing when there is no such function."""
    body = re.search(rf"^\w[^;{{}}]*\b{function}\([^;{{}}]*\{{\n.*?^\}}", _COMMENT.sub("", source), re.M | re.S)
    return tuple(_ACCESSES.get(name, name) for name in _ACCESS.findall(body.group())) if body else ()


def other_code(source: str) -> tuple[str, ...]:
    """For each function that is not what the tests model: how it differs."""
    return tuple(
        f"{function}() is: {', '.join(found) or 'not there'}; the tests model: {', '.join(modelled)}"
        for function, modelled in MODELLED.items()
        if (found := accesses(source, function)) != modelled
    )


# ---- the verb ----


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline litmus`."""
    parser = subparsers.add_parser(
        "litmus",
        help="what the memory models say of cpupri's order, and of each barrier left out",
        description="Runs the litmus tests of kunit/litmus/ with herd7 and the memory model of a kernel tree: as they\n"
        "are, with each remedy of a known defect, and with each mutant, which has to make the bad outcome possible.\n"
        f"Without herd7 (Debian's package {PACKAGE}) nothing is judged: exit code 3.",
        epilog="examples:\n  schedline litmus\n  schedline litmus --only 'cpupri-rise*' --json litmus.json\n"
        "  schedline litmus --kdir ~/linux",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    parser.add_argument("--only", metavar="GLOB", help="the tests whose name matches")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table here")
    parser.set_defaults(run=_run)


@contextmanager
def _herd(tree: Tree) -> Iterator[Herd]:
    """Lay the memory model of a tree into a directory of its own."""
    listed = git(tree.src, "ls-tree", "--name-only", tree.base, f"{MODEL}/").split()
    files = [name for name in listed if name.endswith((".cfg", ".cat", ".bell", ".def"))]
    if f"{MODEL}/linux-kernel.cfg" not in files:
        raise SchedlineError(f"{tree.origin} has no {MODEL}/linux-kernel.cfg", "give a whole kernel tree: --kdir PATH")
    with tempfile.TemporaryDirectory(prefix="schedline-litmus-") as name:
        for file in files:
            write_atomic(Path(name) / Path(file).name, tree.read(file) or "")
        yield Herd(Path(name))


def _run(arguments: argparse.Namespace) -> int:
    tests = read_tests(arguments.only)
    if shutil.which("herd7") is None:
        reason = f"herd7, which runs litmus tests, is not in PATH: install {PACKAGE} (7.58 or later)"
        return _report(arguments, Verdict.INCONCLUSIVE, reason=reason)
    rows: list[Row] = []
    with options.opened_tree(arguments) as (_, tree):
        if other := other_code(tree.read("kernel/sched/cpupri.c") or ""):
            reason = "\n    ".join(("kernel/sched/cpupri.c is not what the tests model:", *other))
            return _report(arguments, Verdict.INCONCLUSIVE, tree, reason=reason)
        print(_line("test", "variant", "expected", "got", "fate"))
        with _herd(tree) as herd:
            for test in tests:
                for row in judge_test(herd, test):
                    print(_line(row.test, row.variant, row.expected, row.got, row.fate), flush=True)
                    rows.append(row)
    for mutant, fate in fates(rows).items():
        print(f"mutant {mutant}: {fate}")
    return _report(arguments, worst(row.verdict for row in rows), tree, rows)


def _line(test: str, variant: str, expected: str, got: str, fate: str) -> str:
    return f"{test:19} {variant:29} {expected:10} {got:10} {fate}"


def fates(rows: Iterable[Row]) -> dict[str, str]:
    """For each mutant: by which tests it is killed, or why by none."""
    tried: dict[str, list[Row]] = {}
    for row in rows:
        if row.variant and not row.variant.startswith("fix-"):
            tried.setdefault(row.variant, []).append(row)
    killers = {mutant: [row.test for row in found if row.fate == KILLED] for mutant, found in tried.items()}
    return {
        mutant: f"{KILLED} by {', '.join(killers[mutant])}" if killers[mutant] else found[0].fate
        for mutant, found in sorted(tried.items())
    }


def _report(
    arguments: argparse.Namespace,
    verdict: Verdict,
    tree: Tree | None = None,
    rows: Iterable[Row] = (),
    *,
    reason: str = "",
) -> int:
    """The end of the report, and the JSON; the exit code."""
    if arguments.json:
        table = [
            {
                "test": row.test,
                "variant": row.variant,
                "expected": row.expected,
                "got": row.got,
                "fate": row.fate,
            }
            for row in rows
        ]
        origin = tree.origin if tree else None
        document = {"schema": "litmus-1", "tree": origin, "status": verdict.name, "reason": reason, "rows": table}
        write_json(arguments.json, document)
    if tree:
        print(f"tree: {tree.origin}" + (f" (dirty: {tree.dirty} files)" if tree.dirty else ""))
    if reason:
        print(f"skipped: {reason}")
    print(f"verdict: {verdict.name}")
    return verdict.exit_code
