# SPDX-License-Identifier: GPL-2.0
"""What a premerge leaves behind so that others can judge it again: offsets, consoles with their list of tests, runs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from schedlib.cache import read_json, write_json
from schedlib.check.check_verb import Plan, expected_tests
from schedlib.console.judge import Ending, judge
from schedlib.console.races import load_known_races
from schedlib.errors import SchedlineError
from schedlib.formats.results import Boot
from schedlib.layout.tables import Compiled, Condition, Field, Type
from schedlib.verdict import Verdict, worst

SERIES = "premerge.json"
LAYOUTS = "layout.json"
GUESTS = "guests.json"
RUNS = "runs"
TRAFFIC = "c2c"
GATES = "gates.toml"

Pair = tuple[Compiled, Compiled]
"""The offsets of base and head."""


def write_layouts(out: Path, pairs: Mapping[str, Pair | None]) -> None:
    """Keep the offsets of each column; None for one that this tree cannot have."""
    columns = {name: [_plain(each) for each in pair] if pair else None for name, pair in pairs.items()}
    write_json(out / LAYOUTS, {"schema": "offsets-1", "columns": columns})


def _plain(compiled: Compiled) -> dict[str, object]:
    return asdict(compiled) | {"holds": sorted(condition.name for condition in compiled.holds)}


def read_layouts(out: Path) -> dict[str, Pair | None] | None:
    """The offsets of each column; None where no layout was looked at.

    Raises:
        SchedlineError: the file is damaged.
    """
    if not (out / LAYOUTS).is_file():
        return None
    content = read_json(out / LAYOUTS)
    try:
        if content is None or content["schema"] != "offsets-1":
            raise ValueError("no document of schema offsets-1")
        return {
            name: (_compiled(pair[0]), _compiled(pair[1])) if pair else None
            for name, pair in content["columns"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise _damaged(out / LAYOUTS, error) from error


def _compiled(plain: Mapping[str, Any]) -> Compiled:
    found = Compiled(
        plain["line"],
        plain["mask"],
        frozenset(Condition[name] for name in plain["holds"]),
        tuple(Type(**row) for row in plain["types"]),
        tuple(Field(**row) for row in plain["fields"]),
    )
    numbers = [found.line, found.mask, *(row.size for row in found.types)]
    numbers += [number for row in found.fields for number in (row.offset, row.size, row.count, row.stride)]
    if not all(type(number) is int and number >= 0 for number in numbers) or found.line < 1:
        raise ValueError("an offset is no number")
    return found


def write_guests(place: Path, plan: Plan, boots: Sequence[Boot]) -> None:
    """Keep beside the consoles what each had to run, and what only the one who booted it could see. Written last."""
    rows = [
        {"name": boot.name, "cpus": cpus, "ending": boot.ending.value, "seen": boot.judgement.verdict.name}
        for cpus, boot in zip(plan.classes, boots, strict=True)
    ]
    lacking = {suite.name: suite.why for suite in plan.left_out}
    write_json(
        place / GUESTS,
        {
            "schema": "guests-1",
            "target": plan.target.name,
            "left_out": lacking,
            "expected": sorted(plan.expected),
            "guests": rows,
        },
    )


def read_guests(place: Path) -> tuple[dict[str, Any], tuple[Boot, ...]] | None:
    """The record, and its consoles, judged again; None where nothing was booted.

    What the record says can make a verdict worse, never better.

    Raises:
        SchedlineError: the record is damaged, or a console is missing.
    """
    if not (place / GUESTS).is_file():
        return None
    record = read_json(place / GUESTS)
    boots: list[Boot] = []
    try:
        if record is None or record["schema"] != "guests-1" or not record["guests"]:
            raise ValueError("no document of schema guests-1 with a guest")
        for row in record["guests"]:
            log = place / f"{Path(row['name']).name}.log"
            ending = Ending(row["ending"])
            expected = expected_tests(row["cpus"], None, list(record["left_out"]))
            judgement = judge(log.read_bytes(), expected, ending=ending, known_races=load_known_races())
            judgement = replace(judgement, verdict=worst([judgement.verdict, Verdict[row["seen"]]]))
            boots.append(Boot(row["name"], (), ending, log, None, judgement))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(place / GUESTS, error) from error
    return record, tuple(boots)


def keep_runs(out: Path, sides: Mapping[str, Path], gates: Path) -> dict[str, Path]:
    """Copy directories of runs to the others, by role, and the gates file; where the runs are now.

    Raises:
        SchedlineError: one cannot be read.
    """
    kept = {role: out / RUNS / role for role in sides}
    try:
        for role, directory in sides.items():
            shutil.copytree(directory, kept[role])
        shutil.copyfile(gates, out / GATES)
    except (OSError, shutil.Error) as error:
        raise SchedlineError(f"the runs cannot be copied to {out}: {error}", "ls -l these directories") from error
    return kept


def refuse_old(out: Path) -> None:
    """What another premerge has left must not be taken for this one's.

    Raises:
        SchedlineError: there is something of it.
    """
    if old := next((name for name in (SERIES, LAYOUTS, "base", "head", TRAFFIC, RUNS) if (out / name).exists()), None):
        raise SchedlineError(f"--out: {out} has {old} of an earlier premerge", "name a new directory, or remove that")


def _damaged(path: Path, error: Exception) -> SchedlineError:
    return SchedlineError(f"{path} is damaged: {type(error).__name__} {error}", "make it again: schedline premerge")
