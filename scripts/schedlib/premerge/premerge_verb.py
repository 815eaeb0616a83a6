# SPDX-License-Identifier: GPL-2.0
"""`schedline premerge`: what is known of a series before it is merged, on one page."""

from __future__ import annotations

import argparse
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from schedlib import doctor, options
from schedlib.cache import write_atomic, write_json
from schedlib.check.check_verb import results_directory
from schedlib.errors import SchedlineError
from schedlib.formats.cover_letter import wrapped
from schedlib.formats.results import TOOL, xml_text
from schedlib.gate import gate_verb as gate
from schedlib.gate.rules import gates_path
from schedlib.kernel.targets import choose
from schedlib.layout.columns import columns_for, ensure_tools
from schedlib.premerge import kcidb, parts, record
from schedlib.premerge.emulated import emulated
from schedlib.premerge.parts import Part
from schedlib.premerge.series import Series, read_series
from schedlib.progress import say
from schedlib.tree.changes import present_changes
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict, worst

PARTS = ("layout", "kunit", "c2c", "mutants")

_DESCRIPTION = """\
Holds a series against what it is based on: the layout on every architecture, the KUnit suites on both, the cache-line
traffic of both on emulated CPUs, the mutants of the files that it touches, and runs of a real machine where there are
some. What fails on the base already is not the
series' fault, and is told apart."""

_EXAMPLES = """\
examples:
  schedline premerge --kdir ~/linux --base origin/master
  schedline premerge --kdir ~/linux --base v7.3 --mbox series.mbox --skip mutants
  schedline premerge --kdir ~/linux --base v7.3 --runs runs/base runs/candidate
  git bisect run schedline premerge --kdir . --base v7.3 --skip mutants --bisect
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline premerge`."""
    parser = subparsers.add_parser(
        "premerge",
        help="a series against its base: layout, suites, mutants and runs on one page",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kdir", type=Path, required=True, metavar="PATH", help="your kernel tree; it is only read")
    parser.add_argument("--base", required=True, metavar="REV", help="what the series is made for")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--head", metavar="REV", help="the last commit of the series (HEAD)")
    what.add_argument("--mbox", type=Path, metavar="FILE", help="mails instead, as b4 am writes them")
    parser.add_argument(
        "--arch", type=options.ids, default=("all",), metavar="ARCH,...", help="for the layout (default: all)"
    )
    parser.add_argument("--skip", type=_skipped, default=(), metavar="PART,...", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--runs",
        nargs=2,
        type=Path,
        metavar=("BASE", "CANDIDATE"),
        help="runs of both kernels on a real machine, for the gate",
    )
    parser.add_argument("--placebo", type=Path, metavar="DIR", help="with --runs: runs of the placebo kernel")
    parser.add_argument("--gates", metavar="NAME|FILE", help="what the gate compares")
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for logs, page, JSON, JUnit and KCIDB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the page's JSON here too")
    parser.add_argument("--bisect", action="store_true", help="exit 125 where nothing can be said (git bisect run)")
    parser.set_defaults(run=_run, series=None)


def _skipped(text: str) -> tuple[str, ...]:
    names = options.ids(text)
    if not set(names) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(PARTS)}")
    return names


def _run(arguments: argparse.Namespace) -> int:
    started = datetime.now(UTC)
    if arguments.placebo and not arguments.runs:
        raise SchedlineError("--placebo is held against the runs of base and candidate", "give --runs, too")
    with options.opened_tree(arguments) as (cache, tree):
        if not (Path(tree.origin) / ".git").exists():
            raise SchedlineError(f"{tree.origin} is no git tree, and a series needs revisions", "give a git tree")
        series = read_series(tree, arguments.base, arguments.head, arguments.mbox)
        expected = present_changes(tree, series.base)
        out = results_directory(cache, arguments.out)
        record.refuse_old(out)
        say(f"{len(series.patches)} patches on {series.base[:12]}, logs in {out}")
        jobs: dict[str, Callable[[], Part]] = {
            "layout": lambda: _layout(cache, tree, series, arguments.arch, expected, out),
            "kunit": lambda: _kunit(cache, tree, series, expected, out),
            "c2c": lambda: emulated(cache, tree, series, out),
            "mutants": lambda: parts.mutated(cache, tree, series, present_changes(tree, series.head), out),
        }
        found = [
            _timed(name, job) if name not in arguments.skip else Part(name, None, "left out by --skip")
            for name, job in jobs.items()
        ]
    found.append(_runs(arguments, out))
    verdict = worst([part.verdict for part in found if part.verdict is not None] or [Verdict.INCONCLUSIVE])
    page = text(series, found, verdict)
    write_atomic(out / "premerge.txt", page)
    write_atomic(out / "junit.xml", junit(found))
    write_json(out / "kcidb.json", kcidb.document(started, series, found))
    document = _document(started, tree, series, found, verdict)
    for file in (out / record.SERIES, *([arguments.json] if arguments.json else [])):
        write_json(file, document)
    print(page, end="")
    return verdict.exit_code


def _timed(name: str, job: Callable[[], Part]) -> Part:
    start = time.monotonic()
    part = job()
    say(f"{name}: {part.summary} ({time.monotonic() - start:.0f} s)")
    return part


def _layout(cache: Path, tree: Tree, series: Series, archs: Sequence[str], expected: frozenset[str], out: Path) -> Part:
    columns = columns_for(archs, ())
    ensure_tools(columns)
    return parts.layout(cache, tree, series, columns, expected, out)


def _kunit(cache: Path, tree: Tree, series: Series, expected: frozenset[str], out: Path) -> Part:
    doctor.ensure([choose(tree, None)[0].name])
    return parts.kunit(cache, tree, series, expected, out)


def _runs(arguments: argparse.Namespace, out: Path) -> Part:
    """The gate's verdict, with the page that it prints kept beside the others."""
    if not arguments.runs:
        return Part("runs", None, "no runs of a real machine were given (--runs)")
    sides = dict(zip(("base", "candidate"), arguments.runs, strict=True))
    if arguments.placebo:
        sides["placebo"] = arguments.placebo
    gates = arguments.gates or "default"
    kept = record.keep_runs(out, sides, gates_path(gates))
    verdict, said = gate.judged(kept["base"], kept["candidate"], gates, out / "gate.json", placebo=kept.get("placebo"))
    return Part("runs", verdict, f"gate: {verdict.name}", tuple(said.splitlines()), (("gate", verdict, said),))


def text(series: Series, found: Sequence[Part], verdict: Verdict) -> str:
    """The page, in 72 columns but for what the gate prints."""
    lines = [f"series of {len(series.patches)} on {series.base[:12]}"]
    lines += [line for patch in series.patches for line in wrapped(f"  {patch.commit[:12]} {patch.subject}", 6)]
    lines.append("")
    for part in found:
        name = part.verdict.name if part.verdict is not None else "not run"
        lines += wrapped(f"{part.name:8} {name:12} {part.summary}", 22)
    for part in found:
        if part.lines:
            lines += ["", f"{part.name}:"]
            lines += [
                each for line in part.lines for each in ([line] if part.name == "runs" else wrapped(f"  {line}", 6))
            ]
    lines += ["", f"verdict: {verdict.name}"]
    return "\n".join(lines) + "\n"


def junit(found: Sequence[Part]) -> bytes:
    """One suite for each part; what was not judged is skipped, and what is inconclusive an error."""
    root = ET.Element("testsuites", name="schedline premerge")
    for part in found:
        suite = ET.SubElement(root, "testsuite", name=part.name, tests=str(len(part.judged)))
        for name, verdict, said in part.judged:
            case = ET.SubElement(suite, "testcase", classname=f"premerge.{part.name}", name=name)
            kind = {None: "skipped", Verdict.FAIL: "failure", Verdict.PASS: ""}.get(verdict, "error")
            if kind:
                clean = xml_text(said)
                ET.SubElement(case, kind, message=clean.split("\n")[0]).text = clean
    data: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def _document(
    started: datetime, tree: Tree, series: Series, found: Sequence[Part], verdict: Verdict
) -> dict[str, object]:
    return {
        "schema": "premerge-1",
        "tool": TOOL,
        "started": started.isoformat(),
        "status": verdict.name,
        "tree": tree.origin,
        "base": series.base,
        "head": series.head,
        "patches": [vars(patch) for patch in series.patches],
        "parts": [
            {
                "name": part.name,
                "verdict": part.verdict.name if part.verdict is not None else None,
                "summary": part.summary,
                "lines": list(part.lines),
            }
            for part in found
        ],
    }
