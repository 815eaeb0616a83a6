# SPDX-License-Identifier: GPL-2.0
"""Makes a text for a mail from the raw data of a premerge alone, so that anyone can make and compare it again."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from pathlib import Path

from msgspec.structs import replace

from schedlib import TOOL
from schedlib.cache import read_text, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.tables import table
from schedlib.gate.gate_options import GATES as OUR_GATES
from schedlib.git import try_git
from schedlib.layout.patch_findings import broken_rules, with_old_names
from schedlib.layout.rule_judge import RuleOutcome, judge_rule, presence_of
from schedlib.premerge import parts, record
from schedlib.premerge.parts import Part
from schedlib.premerge.premerge_verb import GATES, LAYOUTS, RUNS, SERIES, TRAFFIC, EvidenceOptions
from schedlib.premerge.series import PremergeDocument, PremergePart
from schedlib.progress import counted, printable, wrapped
from schedlib.tree.debian import sha256_of
from schedlib.tree.source import Presence
from schedlib.verdict import Verdict, worst

BEGIN, END = "schedline evidence 2", "end of evidence"
"""The first and the last line."""

_LETTER = {RuleOutcome.PASS: "P", RuleOutcome.FAIL: "F", RuleOutcome.NA: "-"}

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
    before, after = (record.read_guests(directory / side) for side in ("base", "head"))
    # To repeat the mutants takes a build each, so only a bad result of the sender counts.
    tried = [part for part in series.parts if part.name == "mutants" and part.verdict] if series else []
    verdict, mutants = _section("mutants, as the sender saw it", tried[0] if tried else None)
    sections = [
        _layout(directory),
        _section("KUnit, from the consoles", parts.suites(before, after) if after else None),
        _section("cache-line traffic", parts.compared(directory) if (directory / TRAFFIC).is_dir() else None),
        (None if verdict is Verdict.PASS else verdict, mutants),
        _section("runs of a real machine", _runs(directory)),
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


def _section(what: str, part: PremergePart | None) -> Section:
    if part is None:
        return None, [f"{what}: not looked at"]
    verdict = part.verdict.name if part.verdict else "not judged"
    return part.verdict, [*wrapped(f"{what}: {verdict}: {part.summary}"), *part.shown()]


def _runs(directory: Path) -> Part | None:
    if not (directory / RUNS).is_dir():
        return None
    part, _ = parts.runs(directory)
    known, gates = "default, of this schedline", directory / GATES
    if gates.is_file():
        ours = (each.stem for each in sorted(OUR_GATES.glob("*.toml")) if each.read_bytes() == gates.read_bytes())
        name = next(ours, "")
        known = f"{name}, of this schedline" if name else "the sender's own"
    return replace(part, lines=(f"gates file: {known}", *part.lines))


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
