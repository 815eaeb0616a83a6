# SPDX-License-Identifier: GPL-2.0
"""`schedline gate`: base against candidate, one verdict. numpy and scipy are loaded when it runs, not before."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from schedlib.cache import write_json
from schedlib.environment import environment
from schedlib.errors import SchedlineError
from schedlib.verdict import Verdict


def load_libraries() -> None:
    """Make numpy and scipy importable: 150 MB that nobody else needs.

    Raises:
        SchedlineError: no network, or a package whose hash differs.
    """
    if find_spec("scipy") is None:
        environment("requirements-gate.txt")


_DESCRIPTION = """\
Compares the runs of two kernels, boot by boot, and says PASS, FAIL or INCONCLUSIVE. BASE and CANDIDATE are directories
of run files (one run, one JSON, as the workloads of selftests/ write them); runs within a boot are averaged.

Boot both kernels in turn (ABBA or random pairs), at least as often as the gates file says. FAIL needs a confirmation:
as many boots again, in the same directories or given by --confirm. Without it a difference is INCONCLUSIVE; later
boots than those are not judged. Results of different machines or settings are refused."""

_EXAMPLES = """\
examples:
  schedline gate runs/base runs/candidate
  schedline gate runs/base runs/candidate --gates configs/gates/default.toml --json gate.json
  schedline gate runs/base runs/candidate --confirm again/base again/candidate
  schedline gate runs/base runs/candidate --placebo runs/placebo
  schedline gate runs/6.12 runs/7.3 --expect-improvement      which of the mails' claims this machine shows

exit codes: 0 PASS, 1 FAIL, 2 ERROR (bad input, other machine), 3 INCONCLUSIVE (too few boots, too noisy, not confirmed)
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline gate`."""
    parser = subparsers.add_parser(
        "gate",
        help="base against candidate: one verdict from the runs of two kernels",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_sides(parser)
    parser.add_argument(
        "--expect-improvement", action="store_true", help="which of the file's claims do the runs show?"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer here (schema gate-1)")
    parser.set_defaults(run=_run)


def add_sides(parser: argparse.ArgumentParser) -> None:
    """What is compared with what, by which rules."""
    parser.add_argument("base", type=_directory, metavar="BASE", help="runs of the kernel without the change")
    parser.add_argument("candidate", type=_directory, metavar="CANDIDATE", help="runs of the kernel with it")
    parser.add_argument(
        "--gates",
        metavar="NAME|FILE",
        help="what is compared, from configs/gates (default: default; for claims: claims)",
    )
    parser.add_argument(
        "--confirm",
        nargs=2,
        type=_directory,
        metavar=("BASE", "CANDIDATE"),
        help="one fresh batch of both kernels, measured after the first",
    )
    parser.add_argument(
        "--placebo",
        type=_directory,
        metavar="DIR",
        help="runs of the placebo kernel: what of a change is the layout's?",
    )


def _directory(text: str) -> Path:
    if not text:  # make without BASE=; an empty path would be the current directory
        raise argparse.ArgumentTypeError("no directory is named")
    return Path(text)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.expect_improvement and arguments.confirm:
        raise SchedlineError("--expect-improvement takes all boots as one batch", "leave out --confirm")
    if arguments.expect_improvement and arguments.placebo:
        raise SchedlineError("claims are held against the base alone", "leave out --placebo, or --expect-improvement")
    verdict, text = judged(
        arguments.base,
        arguments.candidate,
        arguments.gates,
        arguments.json,
        confirm=arguments.confirm,
        placebo=arguments.placebo,
        expect_improvement=arguments.expect_improvement,
    )
    print(text)
    print(f"verdict: {verdict.name}")
    return verdict.exit_code


def judged(
    base_at: Path,
    candidate_at: Path,
    gates: str | None,
    json: Path | None,
    *,
    confirm: Sequence[Path] | None = None,
    placebo: Path | None = None,
    expect_improvement: bool = False,
) -> tuple[Verdict, str]:
    """Compare two directories of runs; the verdict, and the text for people.

    Raises:
        SchedlineError: bad input, or another machine.
    """
    load_libraries()
    from schedlib.gate import gate_report
    from schedlib.gate.comparison import compare

    found = compare(
        base_at, candidate_at, gates, confirm=confirm, placebo=placebo, expect_improvement=expect_improvement
    )
    if json:
        write_json(json, gate_report.document(found))
    return found.verdict, gate_report.text(found)
