# SPDX-License-Identifier: GPL-2.0
"""Makes a text for a mail from the raw data of a premerge alone, so that anyone can make and compare it again."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from schedlib import TOOL
from schedlib.cache import read_text, write_atomic
from schedlib.check.check_results import JudgedBoot, skips
from schedlib.console.judge import TestOutcome
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.tables import table
from schedlib.gate.gate_options import GATES as OUR_GATES
from schedlib.gate.gate_options import GateOptions
from schedlib.git import try_git
from schedlib.layout.patch_findings import broken_rules, with_old_names
from schedlib.layout.rule_judge import RuleOutcome, judge_rule, presence_of
from schedlib.premerge import record
from schedlib.premerge.parts import Booted, blame, compared, said_by
from schedlib.premerge.premerge_verb import GATES, LAYOUTS, RUNS, SERIES, TRAFFIC, EvidenceOptions
from schedlib.premerge.series import PremergeDocument, PremergePart
from schedlib.progress import counted, printable, wrapped
from schedlib.tree.debian import sha256_of
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict, worst

BEGIN, END = "schedline evidence 1", "end of evidence"
"""The first and the last line."""

_LETTER = {RuleOutcome.PASS: "P", RuleOutcome.FAIL: "F", RuleOutcome.NA: "-"}
_MOST = 20
"""How many names of failed tests are listed."""


Section = tuple[Verdict | None, list[str]]
"""One part of the text, and its verdict; None if nothing was judged."""


def _evidence(directory: Path) -> tuple[Verdict, str, tuple[str, ...]]:
    """The verdict on the data, by the rules of this schedline, not of the sender's; the text, and its patch ids."""
    file = directory / SERIES
    series = (
        document.read(file, PremergeDocument, "make it again: schedline premerge") if os.path.lexists(file) else None
    )
    patches = series.patches if series else ()
    head = wrapped(f"base-commit: {series.base}") if series else ["no series: runs alone"]
    for patch in patches:
        head += [*wrapped(f"patch-id: {patch.patch_id}"), *wrapped(f"    {patch.subject}", 6)]
    again = [printable(f"schedline premerge --kdir LINUX --base {series.base[:16]} --mbox SERIES")] if series else []
    sections = [
        _layout(directory),
        _kunit(directory),
        _emulated(directory),
        _mutants(series.parts if series else ()),
        _runs(directory),
    ]
    verdict = worst([verdict for verdict, _ in sections if verdict is not None] or [Verdict.INCONCLUSIVE])
    body = [line for _, lines in sections for line in (*lines, "")]
    out = [f"{BEGIN} ({TOOL})", *head, "", *body, _data(directory)]
    if (directory / RUNS).is_dir():
        again.append("schedline gate runs/base runs/candidate --gates gates.toml")
    out += [
        "again:",
        *(f"  {line}" for line in again),
        "  schedline premerge evidence verify THIS DIRECTORY",
    ]
    out += [f"verdict: {verdict.name}", END]
    return verdict, "".join(f"{line.rstrip()}\n" for line in out), tuple(patch.patch_id for patch in patches)


def _layout(directory: Path) -> Section:
    """The outcomes of the rules on each architecture, as letters, and what the series breaks there and in packs."""
    found = record.read_layouts(directory)
    if found is None:
        return None, ["layout: not looked at"]
    ours, packs = record.judged_rules()
    changes = ours.changes()
    rows = [("", "line", *changes)]
    broken: dict[tuple[str, str], list[str]] = {}
    more = 0
    for name, pair in found.columns.items():
        is_own = "+" not in name
        if pair is None:
            rows += [(name, *[""] * (len(changes) + 1))] * is_own
            continue
        before, after = (each.layout(name) for each in pair)
        for rules in (ours, packs):
            for result in broken_rules(rules, before, with_old_names(before, after)):
                broken.setdefault((result.rule, rules.rule(result.rule).reason), []).append(name)
        more += not is_own
        if is_own:
            # A change is expected on the head if the base has it.
            states = {change: presence_of(ours, change, before)[0] for change in changes}
            expected = frozenset(change for change in changes if states[change] in (Presence.PRESENT, Presence.PARTIAL))
            letters = dict.fromkeys(changes, "")
            for rule in ours.rules:
                letters[rule.change] += _LETTER[judge_rule(ours, rule.id, after, expected).outcome]
            rows.append((name, str(after.line), *letters.values()))
    judged = any(pair for name, pair in found.columns.items() if "+" not in name)
    verdict = Verdict.FAIL if broken else Verdict.PASS if judged else Verdict.INCONCLUSIVE
    # Of what only the sources show, the sender's verdict can make it worse, never better.
    verdict = worst([verdict, found.seen])
    lines = [f"layout, the rules of each change on the head (P, F, - n/a): {verdict.name}"]
    for row, line in zip(rows, table(rows, "<9<6< <"), strict=True):
        lines.append(line if any(row[1:]) else f"{line:9}cannot be had here")
    lines += [f"{counted(more, 'further configuration')}: packs, and other options"] if more else []
    for (name, reason), where in broken.items():
        lines += wrapped(f"broken by the series: {name} ({', '.join(where)}): {reason}")
    for text in found.said:
        lines += wrapped(f"as the sender saw it: {' '.join(text.split())}")
    return verdict, lines


def _kunit(directory: Path) -> Section:
    said: dict[str, tuple[JudgedBoot, ...]] = {}
    left_out: dict[str, str] = {}
    rows = [("", "passed", "failed", "skipped", "verdict")]
    for side in ("base", "head"):
        found = record.read_guests(directory / side)
        if found is None:
            continue
        left_out |= found[0].left_out
        said[side] = found[1]
        for boot in found[1]:
            outcomes = [test.outcome for test in boot.tests]
            counts = [outcomes.count(outcome) for outcome in (TestOutcome.PASS, TestOutcome.SKIP)]
            bad = len(outcomes) - sum(counts)
            rows.append((f"{side} {boot.name}", str(counts[0]), str(bad), str(counts[1]), boot.verdict.name))
    if "head" not in said:
        return None, ["KUnit: not run"]
    base = said_by(said["base"]) if "base" in said else Booted(Verdict.PASS, frozenset(), 0, 0)
    verdict, new, old = blame(base, said_by(said["head"]))
    lines = [f"KUnit, from the consoles: {verdict.name}", *table(rows, "<20>6>8>9  <")]
    lines += _listed("fails since the series", new) + _listed("fails on the base, too", old)
    for suite, why in left_out.items():
        lines += wrapped(f"left out: {suite}: {why}")
    for reason, names in skips(said["head"]).items():
        of_suites = Counter(name.split(":")[0] for name in names)
        suites = ", ".join(f"{count} of {suite}" for suite, count in of_suites.items())
        lines += wrapped(f"skipped, {reason}: {suites}")
    return verdict, lines


def _listed(what: str, names: Sequence[str]) -> list[str]:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return wrapped(f"{what}: {', '.join(names[:_MOST])}{more}") if names else []


def _emulated(directory: Path) -> Section:
    if not (directory / TRAFFIC).is_dir():
        return None, ["cache-line traffic on emulated CPUs: not counted"]
    part = compared(directory)
    lines = wrapped(f"cache-line traffic, {part.summary}: {part.verdict.name if part.verdict else 'not judged'}")
    return part.verdict, [*lines, *(line for each in part.lines for line in wrapped(f"  {each}", 6))]


def _mutants(parts: Sequence[PremergePart]) -> Section:
    """The mutants as the sender saw them. To repeat them takes a build each, so only a bad result counts."""
    part = next((each for each in parts if each.name == "mutants" and each.verdict), None)
    if part is None or part.verdict is None:
        return None, ["mutants: not tried"]
    lines = wrapped(f"mutants of the touched files, as the sender saw it: {part.summary}")
    lines += [line for each in part.lines for line in wrapped(f"  {each}", 6)]
    return None if part.verdict is Verdict.PASS else part.verdict, lines


def _runs(directory: Path) -> Section:
    place = directory / RUNS
    if not place.is_dir():
        return None, ["runs of a real machine: none"]
    # numpy is installed only if there are runs.
    from schedlib.gate.comparison import compare
    from schedlib.gate.gate_report import text

    gates = directory / GATES
    placebo = place / "placebo" if (place / "placebo").is_dir() else None
    name, known = "default", "default, of this schedline"
    if gates.is_file():
        name, content = str(gates), gates.read_bytes()
        same = next((each.stem for each in sorted(OUR_GATES.glob("*.toml")) if each.read_bytes() == content), None)
        known = f"{same}, of this schedline" if same else "the sender's own"
    found = compare(GateOptions(place / "base", place / "candidate", name, placebo=placebo))
    lines = [f"runs: {found.status.name}", *wrapped(f"gates file: {known}")]
    return found.status, [*lines, *text(found).splitlines()]


def _data(directory: Path) -> str:
    """A hash of everything that was judged, which identifies a copy."""
    files = [
        file
        for name in (LAYOUTS, GATES, "base", "head", TRAFFIC, RUNS)
        for file in sorted([directory / name, *(directory / name).rglob("*")])
        if file.is_file()
    ]
    digest = hashlib.sha256()
    for file in files:
        content = sha256_of(file)
        digest.update(f"{content} {file.relative_to(directory)}\n".encode(errors="surrogateescape"))
    return f"data: {len(files)} files, sha256 {digest.hexdigest()[:32]}"


def block_in(text: str) -> str | None:
    """The evidence in a file or mail, quoted or not; None if there is none."""
    lines = [re.sub(r"^(?:> ?)+", "", line).rstrip() for line in text.splitlines()]
    begin = next((number for number, line in enumerate(lines) if line.startswith(BEGIN)), None)
    if begin is None or END not in lines[begin:]:
        return None
    return "\n".join(lines[begin : lines.index(END, begin) + 1]) + "\n"


def evidence(options: EvidenceOptions) -> Verdict:
    return verify(options.verify, options.directory) if options.verify else make(options.directory, options.out)


def make(directory: Path, out: Path | None) -> Verdict:
    """Write the text to a file or to standard output; the verdict of the data."""
    verdict, text, _ = _evidence(directory)
    if out:
        write_atomic(out, text)
    else:
        print(text, end="")
    return verdict


def verify(file: Path, directory: Path) -> Verdict:
    """Compare a text, or a mail that contains it, with the data: FAIL if they differ. `file`: `-` is standard input."""
    try:
        content = read_text(file)
    except OSError as error:
        raise SchedlineError(f"{file}: {error.strerror}", "name the text, or a mail that has it") from error
    said = block_in(content.decode(errors="replace"))
    if said is None:
        observed = f"{file} holds no complete evidence, from {BEGIN!r} to its end"
        raise SchedlineError(observed, "schedline premerge evidence DIR")
    verdict, text, ids = _evidence(directory)
    problems = list(difflib.unified_diff(said.splitlines(), text.splitlines(), "said", "shown by the data", "", "", 1))
    if re.search(rb"^diff --git ", content, re.M):
        rows = try_git(directory, "patch-id", "--stable", stdin=content).stdout.decode().splitlines()
        for identity in [row.split()[0] for row in rows]:
            if identity not in ids:
                problems.append(f"{file}: the data are not about its patch, {identity}")
    else:
        print("the patch itself was not given, so its id is not checked")
    for line in problems:
        print(printable(line))
    verdict = worst([verdict, Verdict.FAIL if problems else Verdict.PASS])
    print("the data do not show what the text says" if problems else "the data show what the text says")
    print(f"verdict: {verdict.name}")
    return verdict
