# SPDX-License-Identifier: GPL-2.0
"""The gates file for runs of other tools: which of their metrics are judged if nobody says it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from schedlib.errors import SchedlineError
from schedlib.gate.boots import Key
from schedlib.gate.imports.imported import BY_FILE_TIME, Imported

_HEAD = """\
# Made by schedline gate from what the files of other tools hold. Save it, and give it with --gates.

[gate]
order = "{order}"
"""

_METRIC = """
[[metric]]
tool = {tool}
name = {name}
direction = "{direction}"
method = "rank"
budget = {budget:g}
detect = {detect:g}
"""


def gates_text(sides: Sequence[Imported], budget: float, detect: float) -> str:
    """A gates file for the metrics that the parsers judge by default.

    Args:
        budget, detect: in percent.

    Raises:
        SchedlineError: there is none.
    """
    if not (rules := judged(sides)):
        names = sorted({f"{run.row} {metric.name}" for side in sides for _, run in side.runs for metric in run.metrics})
        raise SchedlineError(
            f"nothing says which of these metrics are better lower or higher: {', '.join(names[:5])}",
            "add a column direction (lower or higher) to --columns, or give a gates file with --gates",
        )
    first = sides[0].runs[0][1].fingerprint
    known = first["unit"] == "boot" and all(
        run.fingerprint["order"] != BY_FILE_TIME for side in sides for _, run in side.runs
    )
    text = [_HEAD.format(order="interleaved" if known else "any")]
    for (tool, name), direction in rules.items():
        values = {"tool": json.dumps(tool), "name": json.dumps(name), "direction": direction}
        text.append(_METRIC.format(**values, budget=budget, detect=detect))
    return "".join(text)


def judged(sides: Sequence[Imported]) -> Mapping[Key, str]:
    """The metrics that are judged by default, with their direction.

    Of a format's alternatives the first counts that any run has. If another run lacks it, the gate says so: its value
    may be missing because it is so bad.
    """
    rules: dict[Key, str] = {}
    pairs = [(kind, run) for side in sides for (_, run), kind in zip(side.runs, side.formats, strict=True)]
    for tool in dict.fromkeys(run.row for _, run in pairs):
        mine = [(kind, run) for kind, run in pairs if run.row == tool]
        directions = {each.name: each.direction for _, run in mine for each in run.metrics}
        for patterns in mine[0][0].judged:
            names = [name for name in directions if any(fnmatchcase(name, pattern) for pattern in patterns)]
            if kept := {(tool, name): directions[name] for name in names if directions[name] != "neither"}:
                rules |= kept
                break
    return rules
