# SPDX-License-Identifier: GPL-2.0
"""`schedline gate import`: runs of other tools, written as ours, and the gates file that judges them by default."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.run_file import BY_FILE_TIME, NOT_RECORDED
from schedlib.gate.boots import Key
from schedlib.gate.gate_options import BUDGET, DETECT
from schedlib.gate.imports.import_options import ImportOptions
from schedlib.gate.imports.imported import ENTRIES, Imported, imported
from schedlib.progress import printable

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


def import_runs(options: ImportOptions) -> str:
    """Write each run as a file of schedline, and a gates file for them; a text that says what was done.

    Raises:
        SchedlineError: there is nothing to import, or the directory for the runs has files already.
    """
    out = options.out
    if out.exists() and any(out.iterdir()):
        raise SchedlineError(f"{out} is not empty, and runs of two imports must not mix", "name a new directory: --out")
    found = imported(options.directory, options.reading)
    for number, (name, run) in enumerate(found.runs):
        document.write(out / f"{number:04}-{Path(name).stem}.json", run)
    try:
        gates = out / "gates.toml"
        write_atomic(gates, gates_text([found], BUDGET, DETECT))
        said = f"gates file: {gates}"
    except SchedlineError as error:
        said = f"no gates file: {error.observed}"
    return "\n".join([*_summary(found), f"runs: {out}", said])


def _summary(found: Imported) -> list[str]:
    """What was imported, what was skipped, and what no file tells."""
    kinds = Counter(kind.name for kind in found.formats)
    lines = [f"{count} runs of {name}" for name, count in kinds.items()]
    lines += [printable(note) for note in found.notes]
    fingerprint = [run.fingerprint for _, run in found.runs]
    untold = [entry for entry in ENTRIES if any(each[entry] == NOT_RECORDED for each in fingerprint)]
    if untold:
        lines.append(f"not recorded: {', '.join(untold)}")
    orders = sorted({each["order"] for each in fingerprint})
    return [*lines, f"order: {', '.join(orders)}"]
