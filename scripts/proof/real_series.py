# SPDX-License-Identifier: GPL-2.0
"""A labelled series of another project, judged by the gate and by Otava: docs/results/gate.md.

It is TigerBeetle's, 365 values of one benchmark, in the tests of Apache Otava:

    pip download --no-deps --no-binary :all: apache-otava==0.8.0
    python3 scripts/proof real_series apache_otava-0.8.0.tar.gz
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from otava.analysis import compute_change_points

from schedlib.errors import SchedlineError
from schedlib.formats.tables import markdown_row
from schedlib.gate.history import change_points
from schedlib.paths import PROGRAM

LABELS = (15, 71, 95)
"""The first value behind each change that Otava's authors name: "16, 71, 97"."""

WINDOW = 20


def series_of(package: Path) -> list[float]:
    """The series in the tests of Otava."""
    with tarfile.open(package) as packed:
        name = next((each for each in packed.getnames() if each.endswith("tests/tigerbeetle_test.py")), "")
        file = packed.extractfile(name) if name else None
        if not file:
            raise SchedlineError(f"{package} has no tests/tigerbeetle_test.py", "give the source package of Otava 0.8")
        tree = ast.parse(file.read())
    lists = (each.value for each in ast.walk(tree) if isinstance(each, ast.Return) and isinstance(each.value, ast.List))
    return [float(each) for each in ast.literal_eval(next(lists))]


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
            words = ["--unit", "boot", "--columns", "metric,value,unit,direction", "--trust"]
            argv = [sys.executable, str(PROGRAM), "gate", f"{name}/{direction}/base", f"{name}/{direction}/candidate"]
            done = subprocess.run([*argv, *words], check=False, capture_output=True, text=True)
            said.append(done.stdout.rpartition("verdict: ")[2].strip() or done.stderr)
    return next((each for each in ("FAIL", "INCONCLUSIVE") if each in said), said[0])


def main() -> None:
    """Print the table."""
    values = series_of(Path(sys.argv[1]))
    found = {"history": change_points(values), "Otava": [int(each.index) for each in compute_change_points(values)[0]]}
    print(markdown_row(("place", "labelled", "gate", *found)), "|---" * (3 + len(found)) + "|", sep="\n")
    for at in places(len(values)):
        cells = ["yes" if at in points else "" for points in found.values()]
        print(markdown_row((at, "yes" if at in LABELS else "", gate_said(values, at), *cells)))
    for name, points in found.items():
        print(f"{name}: {', '.join(map(str, points))}")


if __name__ == "__main__":
    main()
