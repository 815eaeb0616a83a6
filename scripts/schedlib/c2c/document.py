# SPDX-License-Identifier: GPL-2.0
"""A result as JSON (schema c2c-1), written and read back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from schedlib.c2c.kernel_map import Field
from schedlib.c2c.objects import Place
from schedlib.c2c.raw import Counts
from schedlib.c2c.traffic_table import Row
from schedlib.errors import SchedlineError
from schedlib.formats.results import TOOL

FILE = "c2c.json"


@dataclass(frozen=True)
class Watched:
    """An object of the result.

    Attributes:
        prefix: of a mask and the like behind its pointers; empty for itself.
        size: in bytes.
        number: how many of it there were.
        later: how many of these were allocated between the markers.
        skews: where on a line they began, in bytes; one number where all were alike.
        fields: of a structure.
    """

    owner: str
    prefix: str
    size: int
    number: int
    later: int
    skews: tuple[int, ...]
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True)
class Quantum:
    """One guest.

    Attributes:
        quantum: blocks of code of a CPU's turn.
        operations: what its program did.
        watched: accesses to watched lines.
    """

    quantum: int
    operations: int
    watched: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Result:
    """A kernel, a workload, a machine; one guest for each quantum.

    Attributes:
        started: ISO 8601 with time zone.
        fingerprint: of the kernel and the emulator.
        changes: state of each, by id.
        parameters: on, workload, cpus, topology, rounds, line, per_cluster, per_llc, per_node, shift, config, objects.
        absent: watches that some CPU had no object for.
    """

    started: str
    fingerprint: Mapping[str, str]
    changes: Mapping[str, str]
    parameters: Mapping[str, Any]
    watched: tuple[Watched, ...]
    absent: Mapping[str, int]
    quanta: tuple[Quantum, ...]

    @property
    def line(self) -> int:
        """Bytes of a cache line."""
        return int(self.parameters["line"])


def document(result: Result) -> dict[str, object]:
    """As JSON."""
    return {
        "schema": "c2c-1",
        "tool": TOOL,
        "started": result.started,
        "fingerprint": dict(result.fingerprint),
        "changes": dict(result.changes),
        "parameters": dict(result.parameters),
        "objects": [asdict(watched) for watched in result.watched],
        "absent": dict(result.absent),
        "runs": [
            {
                "quantum": each.quantum,
                "operations": each.operations,
                "watched": each.watched,
                "rows": [_row_document(row) for row in each.rows],
            }
            for each in result.quanta
        ],
    }


def _row_document(row: Row) -> dict[str, object]:
    counts = {name: value for name, value in asdict(row.counts).items() if value}
    return {**asdict(row.place), "size": row.size, "kind": row.kind, "function": row.function, "counts": counts}


def read_result(path: Path) -> Result:
    """A result from its file, or from the directory that it lies in.

    Raises:
        SchedlineError: it is none.
    """
    file = path / FILE if path.is_dir() else path
    try:
        found = json.loads(file.read_bytes())
        if found["schema"] != "c2c-1":
            raise ValueError(f"its schema is {found['schema']!r}")
        return _result(found)
    except OSError as error:
        raise SchedlineError(f"{file}: {error.strerror}", "schedline c2c --out DIR writes one") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchedlineError(f"{file} is no result of c2c: {error}", "schedline c2c --out DIR writes one") from error


def _result(found: Mapping[str, Any]) -> Result:
    watched = tuple(
        Watched(
            row["owner"],
            row["prefix"],
            row["size"],
            row["number"],
            row["later"],
            tuple(row["skews"]),
            tuple(Field(**field) for field in row["fields"]),
        )
        for row in found["objects"]
    )
    quanta = tuple(
        Quantum(each["quantum"], each["operations"], each["watched"], tuple(map(_row, each["rows"])))
        for each in found["runs"]
    )
    if not quanta:
        raise ValueError("it has no runs")
    return Result(
        found["started"], found["fingerprint"], found["changes"], found["parameters"], watched, found["absent"], quanta
    )


def _row(found: Mapping[str, Any]) -> Row:
    names: Sequence[str] = ("owner", "prefix", "line", "offset", "path", "neighbour")
    place = Place(**{name: found[name] for name in names})
    return Row(place, found["size"], found["kind"], found["function"], Counts(**found["counts"]))
