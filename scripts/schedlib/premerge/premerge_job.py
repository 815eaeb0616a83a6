# SPDX-License-Identifier: GPL-2.0
"""Compare a series with its base: judge each part, and write the page as text, JSON and JUnit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import convert

from schedlib import TOOL, doctor
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.contracts.contract_rules import our_rules, pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.junit import JUnitCase, Mark, junit_document
from schedlib.gate.gate_options import gates_path
from schedlib.kernel.targets import choose
from schedlib.layout.columns import columns_for, ensure_tools
from schedlib.layout.patch_job import CheckRemark, as_sarif, checks_text, remarks
from schedlib.layout.patch_text import touches_layout
from schedlib.names import pack_names
from schedlib.premerge import parts
from schedlib.premerge.parts import Part
from schedlib.premerge.premerge_verb import GATES, RUNS, SERIES, PremergeOptions
from schedlib.premerge.series import PatchSeries, PremergeDocument, PremergePart, read_series, tracked_range
from schedlib.progress import counted, say, wrapped
from schedlib.tree.changes import present_changes
from schedlib.tree.kernel_tree import open_kdir
from schedlib.verdict import Verdict, worst

_FAILS = "FAIL: ", "fails since the series: "
"""How the lines begin that make a part FAIL."""

_MARKS: dict[Verdict | None, Mark | None] = {Verdict.PASS: None, Verdict.FAIL: "failure", None: "skipped"}


def premerge(options: PremergeOptions) -> Verdict:
    """Compare a series with its base, write the documents and print the page."""
    started = datetime.now(UTC)
    cache = cache_dir()
    tree = open_kdir(cache, options.kdir)
    base, head = (options.base, options.head) if options.base else tracked_range()
    series = read_series(tree, base, head, options.mbox)
    expected = present_changes(tree, series.base)
    contracts = (options.contracts,) if options.contracts else ()
    # Report missing tools of later parts now, not after an earlier part has run for half an hour.
    if "layout" not in options.skip and touches_layout(series.diff, contracts):
        ensure_tools(columns_for(options.archs, ()))
    if not {"kunit", "mutants"} <= set(options.skip):
        doctor.require(["build", choose(tree, None)[0].name])
    out = results_directory(cache, options.out)
    say(f"{counted(len(series.patches), 'patch', 'patches')} on {series.base[:12]}, logs in {out}")
    jobs: dict[str, Callable[[], Part]] = {
        "layout": lambda: parts.layout(tree, series, options.archs, contracts, expected, out),
        "kunit": lambda: parts.kunit(cache, tree, series, expected, out),
        "c2c": lambda: parts.emulated(cache, tree, series, options.measured, out),
        "mutants": lambda: parts.mutated(cache, tree, series, present_changes(tree, series.head), out),
    }
    found = []
    for name, job in jobs.items():
        if name in options.skip:
            found.append(Part(name, None, "left out by --skip"))
            continue
        start = time.monotonic()
        found.append(job())
        say(f"{name}: {found[-1].summary} ({time.monotonic() - start:.0f} s)")
    found.append(_runs(options, out))
    content = content_of(started, tree.origin, series, found)
    page = text(content)
    write_atomic(out / "premerge.txt", page)
    write_atomic(out / "junit.xml", junit(found))
    rules = (*our_rules().rules, *pack_rules(pack_names(), contracts).rules)
    write_atomic(out / "layout.sarif", as_sarif(rules, [each for part in found for each in part.findings]))
    for file in filter(None, (out / SERIES, options.json)):
        document.write(file, content)
    if options.html:
        write_atomic(options.html, html_page(content))
    if options.form == "b4":
        print(checks_text(_checks(found)))
    else:
        print(page, end="")
    return content.status


def content_of(started: datetime, origin: str, series: PatchSeries, found: Sequence[Part]) -> PremergeDocument:
    return PremergeDocument(
        schema="premerge-1",
        tool=TOOL,
        started=started,
        status=worst([part.verdict for part in found if part.verdict is not None] or [Verdict.INCONCLUSIVE]),
        tree=origin,
        base=series.base,
        head=series.head,
        patches=series.patches,
        parts=tuple(convert(part, PremergePart, from_attributes=True) for part in found),
    )


def _checks(found: Sequence[Part]) -> Iterator[tuple[str, str, list[CheckRemark]]]:
    """A result of each part that has something to say, for b4."""
    for part in found:
        if part.verdict not in (None, Verdict.PASS):
            lines = part.lines or (part.summary,)
            bad = [line for line in lines if line.startswith(_FAILS)] or lines[:1]
            is_bad = part.verdict is Verdict.FAIL
            said: list[CheckRemark] = [("fail" if is_bad and line in bad else "warn", line) for line in lines]
            yield f"schedline {part.name}", part.summary, remarks(part.findings) or said


def _runs(options: PremergeOptions, out: Path) -> Part:
    if not options.runs:
        return Part("runs", None, "no runs of a real machine were given (--runs)")
    sides = dict(zip(("base", "candidate"), options.runs, strict=True))
    if options.placebo:
        sides["placebo"] = options.placebo
    gates = options.gates or "default"
    kept = {role: out / RUNS / role for role in sides}
    try:
        for role, directory in sides.items():
            shutil.copytree(directory, kept[role])
        shutil.copyfile(gates_path(gates), out / GATES)
    except (OSError, shutil.Error) as error:
        raise SchedlineError(f"the runs cannot be copied to {out}: {error}", "ls -l these directories") from error
    part, found = parts.runs(out, gates)
    document.write(out / "gate.json", found)
    return part


def text(found: PremergeDocument) -> str:
    """The page, in 72 columns, except for the output of the gate."""
    lines = [f"series of {len(found.patches)} on {found.base[:12]}"]
    lines += [line for patch in found.patches for line in wrapped(f"  {patch.commit[:12]} {patch.subject}", 6)]
    lines.append("")
    for part in found.parts:
        name = part.verdict.name if part.verdict is not None else "not run"
        lines += wrapped(f"{part.name:8} {name:12} {part.summary}", 22)
    for part in found.parts:
        if part.lines:
            lines += ["", f"{part.name}:", *part.shown()]
    return "\n".join([*lines, "", f"verdict: {found.status.name}"]) + "\n"


def junit(found: Sequence[Part]) -> bytes:
    """One suite for each part. Tests without a verdict are skipped; inconclusive tests are errors."""
    suites = []
    for part in found:
        rows = part.tests or ((part.name, part.verdict, part.summary),)
        cases = [
            JUnitCase(name, _MARKS.get(verdict, "error"), said.split("\n")[0], said) for name, verdict, said in rows
        ]
        suites.append((f"premerge.{part.name}", cases))
    return junit_document(suites)


def html_page(document: PremergeDocument) -> str:
    """The page as one self-contained HTML file. Subjects of patches and what a kernel printed are untrusted."""
    # jinja2 is installed only if a page is asked for.
    from schedlib.formats.html_page import rendered

    if document.status is Verdict.PASS:
        banner = "looked at: " + ", ".join(part.name for part in document.parts if part.verdict is not None)
    else:
        decided = (f"{part.name}: {part.summary}" for part in document.parts if part.verdict is document.status)
        banner = "; ".join(decided) or "nothing was judged"
    return rendered(
        Path(__file__).with_name("premerge_page.html.jinja"),
        found=document,
        banner=banner,
        started=document.started.isoformat(" ", "seconds"),
    )
