# SPDX-License-Identifier: GPL-2.0
"""Compares two results field by field: false sharing, misses and other counts, and whether they exceed a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.c2c_options import C2cDiffOptions
from schedlib.c2c.traffic_report import (
    COUNTS,
    CountName,
    Section,
    by_quantum,
    columns,
    field_name,
    function_name,
    lines_of,
    middle,
    object_name,
    ranked,
    spread,
)
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_document import Counts, TrafficResult, TrafficRow, read_result
from schedlib.formats.data_file import read_table
from schedlib.formats.document import Document
from schedlib.formats.strict import Amount, Count, Strict, Word
from schedlib.progress import print_untrusted
from schedlib.verdict import Verdict, worst


class TrafficMetric(Strict, frozen=True):
    """What may rise by `budget` percent and `floor` events.

    Attributes:
        of: an object, or a field with its object; `*` for each object, `*.*` for each field.
    """

    of: Word
    count: CountName
    budget: Amount
    floor: Count


class JudgedTraffic(TrafficMetric, frozen=True):
    name: Word
    base: tuple[Count, ...]
    candidate: tuple[Count, ...]
    verdict: Verdict


class TrafficDiffDocument(Document, frozen=True, kw_only=True):
    """schedline c2c diff: two results of c2c against budgets."""

    schema: Literal["c2c-diff-1"]
    tool: Word
    status: Verdict
    metrics: tuple[JudgedTraffic, ...]


_Both = tuple[tuple[int, ...], tuple[int, ...]]
"""A count in the base and in the candidate, one number for each quantum."""


def load_metrics(path: Path) -> tuple[TrafficMetric, ...]:
    kind = Annotated[tuple[TrafficMetric, ...], msgspec.Meta(min_length=1)]
    found: tuple[TrafficMetric, ...] = read_table(path, "metric", kind)
    return found


def refuse_unlike(base: TrafficResult, candidate: TrafficResult) -> None:
    """Reject, with a SchedlineError, results that cannot be compared because their guests or models differ."""
    one, other = asdict(base.parameters), asdict(candidate.parameters)
    for side, result in ((one, base), (other, candidate)):
        side["quanta"] = [each.quantum for each in result.quanta]
        side["operations"] = [each.operations for each in result.quanta]
        side |= {name: result.fingerprint.get(name) for name in ("emulator", "mode", "plugin", "compiler")}
        # Ignore the options of cpupri-split: it is compared with kernels that lack it.
        side["config"] = [name for name in result.parameters.config if not name.startswith("cpupri-")]
    differing = sorted(name for name in one | other if one.get(name) != other.get(name))
    if differing:
        name = differing[0]
        observed = f"the results are not alike: {name} is {one.get(name)} in BASE and {other.get(name)} in CANDIDATE"
        raise SchedlineError(observed, "measure both with the same options, on the same machine")


def _both(base: TrafficResult, candidate: TrafficResult, key: Callable[[TrafficRow], str]) -> dict[str, list[_Both]]:
    """The COUNTS of both results, by object, field or function."""
    one, other = (by_quantum(result, key, neighbours=False) for result in (base, candidate))
    none, nothing = ([Counts()] * len(result.quanta) for result in (base, candidate))
    return {
        name: [*zip(columns(one.get(name, none)), columns(other.get(name, nothing)), strict=True)]
        for name in sorted(one.keys() | other.keys())
    }


def judge(base: TrafficResult, candidate: TrafficResult, metrics: Sequence[TrafficMetric]) -> TrafficDiffDocument:
    """Judge each metric; INCONCLUSIVE if none covers anything that was watched.

    The limit is the largest count of the base plus the budget. A metric fails if every quantum of the candidate
    exceeds the limit, and passes if none does. Otherwise it is inconclusive.
    """
    found = []
    for metric in metrics:
        for name, both in _both(base, candidate, field_name if "." in metric.of else object_name).items():
            if metric.of in ("*", "*.*", name):
                one, other = both[COUNTS.index(metric.count)]
                most = max(one) * (1 + metric.budget / 100) + metric.floor
                over = [number > most for number in other]
                verdict = Verdict.FAIL if all(over) else Verdict.INCONCLUSIVE if any(over) else Verdict.PASS
                found.append(JudgedTraffic(**asdict(metric), name=name, base=one, candidate=other, verdict=verdict))
    status = worst(each.verdict for each in found)
    return TrafficDiffDocument(schema="c2c-diff-1", tool=TOOL, status=status, metrics=tuple(found))


def text(base: TrafficResult, candidate: TrafficResult, found: TrafficDiffDocument) -> Iterator[str]:
    for name in sorted(base.changes.keys() | candidate.changes.keys()):
        one, other = base.changes.get(name, "unknown"), candidate.changes.get(name, "unknown")
        if one != other:
            yield f"{name}: {one} -> {other}"
    if base.fingerprint.get("build_id") == candidate.fingerprint.get("build_id"):
        yield "the kernels are the same, by their build-id"
    for each in sections(base, candidate):
        yield from lines_of(each)
    yield ""
    yield from (f"{each.verdict.value}: {sentence(each)}" for each in found.metrics if each.verdict is not Verdict.PASS)
    yield f"{len(found.metrics)} counts were judged"
    yield f"verdict: {found.status.value}"


def sections(base: TrafficResult, candidate: TrafficResult) -> list[Section]:
    found = []
    for title, key in (("Objects", object_name), ("Fields", field_name), ("Functions", function_name)):
        both = _both(base, candidate, key)
        moves = {name: [-abs(middle(other) - middle(one)) for one, other in both[name][:2]] for name in both}
        names = sorted(both, key=lambda name: (moves[name], -middle(both[name][1][0]), name))
        rows = [(name, *(_change(*each) for each in both[name])) for name in names]
        found.append(ranked(title, f"{title}: from the base to the candidate", (), rows))
    return found


def sentence(judged: JudgedTraffic) -> str:
    return (
        f"{judged.name}, {judged.count}: {spread(judged.base)} -> {spread(judged.candidate)}; "
        f"budget {judged.budget:g} % and {judged.floor}"
    )


def _change(base: Sequence[int], candidate: Sequence[int]) -> str:
    one, other = middle(base), middle(candidate)
    if one == other:
        return f"{one}"
    return f"{one} -> {other}" + (f" ({100 * (other - one) / one:+.1f} %)" if one else "")


def diff(options: C2cDiffOptions) -> Verdict:
    base, candidate = read_result(options.base), read_result(options.candidate)
    refuse_unlike(base, candidate)
    found = judge(base, candidate, load_metrics(options.gates))
    if options.json:
        document.write(options.json, found)
    for line in text(base, candidate, found):
        print_untrusted(line)
    return found.status
