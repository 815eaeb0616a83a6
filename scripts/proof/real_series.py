# SPDX-License-Identifier: GPL-2.0
"""A labelled series of another project, judged by the gate and by Otava: docs/results/gate.md."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from otava.analysis import compute_change_points

from schedlib.formats.tables import markdown
from schedlib.gate.history import change_points
from schedlib.main import main as schedline

RECORDED = Path(__file__).with_name("tigerbeetle.json")

LABELS = (15, 71, 95)
"""The first value behind each change that Otava's authors name: "16, 71, 97"."""

WINDOW = 20


def series() -> list[float]:
    """The series in the tests of Otava."""
    return [float(each) for each in json.loads(RECORDED.read_text())["values"]]


def points(values: Sequence[float]) -> Mapping[str, Sequence[int]]:
    """Where the history and Otava find changes."""
    return {"history": change_points(values), "Otava": [int(each.index) for each in compute_change_points(values)[0]]}


def places(count: int) -> list[int]:
    """The labels, and every 20th place of which neither window has a label."""
    others = range(2 * WINDOW, count - WINDOW, WINDOW)
    return sorted([*LABELS, *(at for at in others if all(abs(at - each) >= WINDOW for each in LABELS))])


def gate_said(values: Sequence[float], at: int) -> str:
    """What the documented command says of the values before and behind a place, whichever direction is better."""
    with tempfile.TemporaryDirectory() as name:
        said = []
        for direction in ("higher", "lower"):
            for kernel, part in (("base", values[max(0, at - WINDOW) : at]), ("candidate", values[at : at + WINDOW])):
                directory = Path(name, direction, kernel)
                directory.mkdir(parents=True)
                for number, value in enumerate(part):
                    (directory / f"{number:02}.csv").write_text(f"load,{value},1/s,{direction}\n")
            sides = (f"{name}/{direction}/base", f"{name}/{direction}/candidate")
            with redirect_stdout(io.StringIO()) as told:
                schedline(["gate", *sides, "--unit", "boot", "--columns", "metric,value,unit,direction", "--trust"])
            said.append(told.getvalue().rpartition("verdict: ")[2].strip())
    return next((each for each in ("FAIL", "INCONCLUSIVE") if each in said), said[0])


def main() -> None:
    """Print the table."""
    values = series()
    found = points(values)
    rows = [
        (
            at,
            "yes" if at in LABELS else "",
            gate_said(values, at),
            *("yes" if at in its else "" for its in found.values()),
        )
        for at in places(len(values))
    ]
    print("\n".join(markdown(("place", "labelled", "gate", *found), rows)))
    for name, its in found.items():
        print(f"{name}: {', '.join(map(str, its))}")


if __name__ == "__main__":
    main()
