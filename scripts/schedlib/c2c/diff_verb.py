# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c diff`: two results, one verdict."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from schedlib.c2c import traffic_diff
from schedlib.c2c.document import read_result
from schedlib.cache import write_json
from schedlib.formats.results import TOOL
from schedlib.paths import CONFIGS

_GATES = CONFIGS / "gates/c2c.toml"

_EXAMPLES = """\
examples:
  schedline c2c --without rd-lines --out base
  schedline c2c --out candidate
  schedline c2c diff base candidate
  schedline c2c diff candidate base                    FAIL: the lines are shared again

exit codes: 0 PASS, 1 FAIL, 2 ERROR (no such result, other settings), 3 INCONCLUSIVE (the quanta do not agree)
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline c2c diff`."""
    parser = subparsers.add_parser(
        "diff",
        help="two results by field: false sharing, misses, HITM; one verdict",
        description="Compares two results of schedline c2c field by field, wherever a field lies in each, and holds\n"
        "them against the budgets of a gates file. Counts are exact: what they depend on beside the kernel is the\n"
        "schedule, of which each quantum is one.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("base", type=Path, metavar="BASE", help="a result, or the directory that has one")
    parser.add_argument("candidate", type=Path, metavar="CANDIDATE", help="the same of the other kernel")
    parser.add_argument("--gates", type=Path, default=_GATES, metavar="FILE", help="budgets (configs/gates/c2c.toml)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer here (schema c2c-diff-1)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    base, candidate = read_result(arguments.base), read_result(arguments.candidate)
    traffic_diff.refuse_unlike(base, candidate)
    judged = traffic_diff.judge(base, candidate, traffic_diff.load_metrics(arguments.gates))
    verdict = traffic_diff.verdict_of(judged)
    if arguments.json:
        rows = [{**asdict(each.metric), **asdict(each.pair), "verdict": each.verdict.name} for each in judged]
        write_json(arguments.json, {"schema": "c2c-diff-1", "tool": TOOL, "status": verdict.name, "metrics": rows})
    print(traffic_diff.text(base, candidate, judged), end="")
    return verdict.exit_code
