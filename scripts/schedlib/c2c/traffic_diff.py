# SPDX-License-Identifier: GPL-2.0
"""Two results, field by field: what was fetched for nothing, what was fetched, and whether that is over a budget."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.c2c.document import Result
from schedlib.c2c.raw import Counts
from schedlib.c2c.traffic_report import COUNTS, TITLES, grid
from schedlib.c2c.traffic_table import Row, field_name, function_name, middle, object_name, spread, totals
from schedlib.errors import SchedlineError
from schedlib.verdict import Verdict, worst

_FIELDS, _FUNCTIONS = 40, 20


@dataclass(frozen=True)
class Metric:
    """A row of configs/gates/c2c.toml.

    Attributes:
        of: an object, or a field with its object; `*` for each object, `*.*` for each field.
        count: of COUNTS.
        budget: percent that it may rise.
        floor: events that it may rise beside that.
    """

    of: str
    count: str
    budget: float
    floor: int


@dataclass(frozen=True)
class Pair:
    """A count in both results, one number for each quantum."""

    name: str
    count: str
    base: tuple[int, ...]
    candidate: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """A metric on one object or field."""

    metric: Metric
    pair: Pair
    verdict: Verdict


def load_metrics(path: Path) -> tuple[Metric, ...]:
    """The metrics of a gates file.

    Raises:
        SchedlineError: it is none.
    """
    try:
        found = tuple(Metric(**row) for row in tomllib.loads(path.read_text())["metric"])
        if not found or any(metric.count not in COUNTS for metric in found):
            raise ValueError(f"each metric has a count of {', '.join(COUNTS)}")
    except OSError as error:
        raise SchedlineError(f"--gates: {path}: {error.strerror}", "name a file as configs/gates/c2c.toml") from error
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise SchedlineError(f"--gates: {path}: {error}", "see configs/gates/c2c.toml") from error
    return found


def refuse_unlike(base: Result, candidate: Result) -> None:
    """Counts of different guests, or of another model, say nothing of each other.

    Raises:
        SchedlineError: they are.
    """
    one, other = dict(base.parameters), dict(candidate.parameters)
    for side, result in ((one, base), (other, candidate)):
        side["quanta"] = [each.quantum for each in result.quanta]
        side["operations"] = [each.operations for each in result.quanta]
        side |= {name: result.fingerprint.get(name) for name in ("emulator", "mode", "plugin", "compiler")}
        # cpupri-split is compared with kernels that lack it.
        side["config"] = [name for name in result.parameters["config"] if not name.startswith("cpupri-")]
    differing = sorted(name for name in one | other if one.get(name) != other.get(name))
    if differing:
        name = differing[0]
        raise SchedlineError(
            f"the results are not alike: {name} is {one.get(name)} in BASE and {other.get(name)} in CANDIDATE",
            "measure both with the same options, on the same machine",
        )


def _pairs(base: Result, candidate: Result, count: str, key: Callable[[Row], str]) -> list[Pair]:
    def tables(result: Result) -> list[dict[str, Counts]]:
        return [totals((row for row in each.rows if not row.place.neighbour), key) for each in result.quanta]

    both = tables(base), tables(candidate)
    names = sorted({name for side in both for table in side for name in table})
    return [
        Pair(name, count, *(tuple(int(getattr(table.get(name, Counts()), count)) for table in side) for side in both))
        for name in names
    ]


def judge(base: Result, candidate: Result, metrics: Sequence[Metric]) -> tuple[Judged, ...]:
    """Each metric. It fails where every quantum of the candidate is over the budget of every one of the base, and
    passes where none is; where they differ nothing is said."""
    found = []
    for metric in metrics:
        pairs = _pairs(base, candidate, metric.count, field_name if "." in metric.of else object_name)
        for pair in pairs:
            if metric.of in ("*", "*.*", pair.name):
                found.append(Judged(metric, pair, _verdict(metric, pair)))
    return tuple(found)


def _verdict(metric: Metric, pair: Pair) -> Verdict:
    most = max(pair.base) * (1 + metric.budget / 100) + metric.floor
    if max(pair.candidate) <= most:
        return Verdict.PASS
    return Verdict.FAIL if min(pair.candidate) > most else Verdict.INCONCLUSIVE


def verdict_of(judged: Sequence[Judged]) -> Verdict:
    """The worst; where no metric is of anything that was watched nothing is said."""
    return worst(each.verdict for each in judged)


def text(base: Result, candidate: Result, judged: Sequence[Judged]) -> str:
    """All of it: changes, objects, fields, verdict."""
    out = list(_changes(base, candidate))
    for title, key, most in (
        ("object", object_name, _FIELDS),
        ("field", field_name, _FIELDS),
        ("function", function_name, _FUNCTIONS),
    ):
        out += ["", *_table(base, candidate, title, key, most)]
    out.append("")
    for each in judged:
        if each.verdict is not Verdict.PASS:
            out.append(f"{each.verdict.value}: {sentence(each)}")
    out.append(f"{len(judged)} counts were judged")
    out.append(f"verdict: {verdict_of(judged).value}")
    return "\n".join(out) + "\n"


def sentence(judged: Judged) -> str:
    """What was judged, with its numbers."""
    metric, pair = judged.metric, judged.pair
    return (
        f"{pair.name}, {pair.count}: {spread(pair.base)} -> {spread(pair.candidate)}; "
        f"budget {metric.budget:g} % and {metric.floor}"
    )


def _changes(base: Result, candidate: Result) -> Iterator[str]:
    for name in sorted(base.changes.keys() | candidate.changes.keys()):
        one, other = base.changes.get(name, "unknown"), candidate.changes.get(name, "unknown")
        if one != other:
            yield f"{name}: {one} -> {other}"
    if base.fingerprint.get("build_id") == candidate.fingerprint.get("build_id"):
        yield "the kernels are the same, by their build-id"


def _table(base: Result, candidate: Result, title: str, key: Callable[[Row], str], most: int) -> Iterator[str]:
    columns = {count: {pair.name: pair for pair in _pairs(base, candidate, count, key)} for count in COUNTS}

    def order(name: str) -> tuple[int, int, int, str]:
        false, misses = columns["false_shared"][name], columns["misses"][name]
        return -abs(_moved(false)), -abs(_moved(misses)), -middle(misses.base), name

    names = sorted(columns["misses"], key=order)
    rows: list[tuple[str, ...]] = [(title, *TITLES)]
    rows += [(name, *(_change(columns[count][name]) for count in COUNTS)) for name in names[:most]]
    yield from grid(rows, 1)
    if len(names) > most:
        yield f"{len(names) - most} others moved less"


def _moved(pair: Pair) -> int:
    return middle(pair.candidate) - middle(pair.base)


def _change(pair: Pair) -> str:
    one, other = middle(pair.base), middle(pair.candidate)
    if one == other:
        return f"{one}"
    return f"{one} -> {other}" + (f" ({100 * (other - one) / one:+.1f} %)" if one else "")
