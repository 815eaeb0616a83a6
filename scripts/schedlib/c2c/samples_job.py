# SPDX-License-Identifier: GPL-2.0
"""Read what perf has sampled on a real machine, and write it by object and field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.address_names import names_of, read_objects, slide_of
from schedlib.c2c.c2c_options import C2cImportOptions
from schedlib.c2c.perf_script import COMMAND, ScriptSums, instructions, is_script, read_script
from schedlib.c2c.samples import (
    MEASURED_FILE,
    NOTHING,
    MeasuredDocument,
    Metric,
    Sampled,
    SampledField,
    SampledRow,
    SampleSource,
    Unresolved,
    effective,
    wilson,
)
from schedlib.c2c.traffic_table import field_name, grid
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.progress import printable, say, step
from schedlib.verdict import Verdict

_FIELDS, _FUNCTIONS = 40, 20
METRICS = {
    "taken": "samples of lines that another CPU's cache had modified or handed over",
    "samples": "all samples: this source does not say which lines came from another CPU's cache",
}


_TEXT = "measured.txt"


def measured_text(result: MeasuredDocument) -> str:
    """The whole report."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: MeasuredDocument) -> Iterator[str]:
    source = result.source
    yield f"{source.kind}: {', '.join(source.files)}" + (f"; {source.machine}" if source.machine else "")
    if source.events:
        yield f"events: {', '.join(source.events)}"
    kernel = result.kernel
    taken = f", {kernel.taken} of them taken from another CPU, {kernel.remote} from another node"
    whole = f"samples of kernel memory: {kernel.samples}{taken if kernel.taken else ''}"
    yield f"{whole}; of user memory: {result.user.samples}"
    if source.repeated:
        yield f"left out: {source.repeated} samples that repeat others"
    yield f"shares: of {METRICS[result.metric]}; with intervals of 95 %"
    yield ""
    rows: list[tuple[str, ...]] = [("field", "share", "from", "to", "samples", "taken", "remote", "cycles each")]
    for each in result.fields[:_FIELDS]:
        rows.append(
            (each.name, *(f"{number:.1%}" for number in (each.share, each.low, each.high)), *_numbers(each.sampled))
        )
    lost = sum((each.sampled for each in result.unresolved), NOTHING)
    if lost.samples:
        share = sum(each.share for each in result.unresolved)
        rows.append(("unresolved", f"{share:.1%}", "", "", *_numbers(lost)))
    yield from grid(rows, 1)
    if len(result.fields) > _FIELDS:
        yield f"{len(result.fields) - _FIELDS} others: the JSON has them"
    for reason in result.unresolved:
        yield f"unresolved, {reason.share:.1%}: {reason.why} ({reason.sampled.samples} samples)"
    yield ""
    functions: dict[str, Sampled] = {}
    for row in result.rows:
        functions[row.function] = functions.get(row.function, NOTHING) + row.sampled
    hottest = sorted(functions, key=lambda name: (-functions[name].amount(result.metric), name))
    rows = [("function", "samples", "taken", "remote", "cycles each")]
    rows += [(name, *_numbers(functions[name])) for name in hottest[:_FUNCTIONS]]
    yield from grid(rows, 1)


def _numbers(sampled: Sampled) -> tuple[str, ...]:
    cycles = f"{sampled.cycles / sampled.samples:.0f}" if sampled.cycles and sampled.samples else ""
    return str(sampled.samples), str(sampled.taken), str(sampled.remote), cycles


def import_samples(options: C2cImportOptions) -> Verdict:
    """Read the files and write the result; SchedlineError if a file is no text of perf, or the vmlinux is wrong."""
    found = read_objects(options.map) if options.map else None
    for path in options.files:
        _refuse_other(path)
    with step("reading symbols and types"):
        known, names = names_of(options.vmlinux, cache_dir(), found, options.line)
    if found is None:
        names.moved(slide_of(known, (each for path in options.files for each in instructions(path))))
    sums = ScriptSums()
    for path in options.files:
        with step(f"reading {path.name}"):
            sums.add(read_script(path, names))
    result = measured_of(sums, options.files, known.build_id, options.line)
    out = results_directory(cache_dir(), options.out)
    for place in (options.json, out / MEASURED_FILE):
        if place:
            document.write(place, result)
    text = measured_text(result)
    write_atomic(out / _TEXT, text)
    print(text, end="")
    say(f"results: {out}/{MEASURED_FILE}, {_TEXT}")
    return Verdict.PASS


def _refuse_other(path: Path) -> None:
    """SchedlineError if a file is not the text of perf script."""
    if not path.is_file():
        raise SchedlineError(f"{path} is no file", "name the text that perf has printed")
    if not is_script(path):
        with path.open("rb") as file:
            is_data = file.read(8) == b"PERFILE2"
        what = "perf's data, not a text" if is_data else "no text of perf script with addresses and data sources"
        raise SchedlineError(f"{path} is {what}", f"{COMMAND}{f' -i {path}' if is_data else ''} > samples.txt")


def _machine(path: Path) -> str:
    """What the head of a text says of the machine, if it has one: perf script --header, perf report --header."""
    wanted = ("# cpudesc :", "# os release :", "# perf version :")
    with path.open("rb") as file:
        head = file.read(1 << 16).decode(errors="replace")
    lines = (line for line in head.splitlines() if line.startswith(wanted))
    return printable(", ".join(line.partition(":")[2].strip() for line in lines))


def measured_of(sums: ScriptSums, files: Sequence[Path], build_id: str, line: int) -> MeasuredDocument:
    """The result of an import."""
    names, events = tuple(path.name for path in files), tuple(sorted(sums.events))
    source = SampleSource("perf script", names, events, _machine(files[0]), sums.repeated, approximate=False)
    metric: Metric = "taken" if any(each.taken for each in _all(sums)) else "samples"
    kernel = sum(_all(sums), NOTHING)
    whole = kernel.amount(metric)
    squares = sums.taken_squares if metric == "taken" else sums.squares
    number = effective(whole, squares)
    fields: dict[str, Sampled] = {}
    for (place, _, _), sampled in sums.rows.items():
        name = field_name(place)
        fields[name] = fields.get(name, NOTHING) + sampled

    def share(sampled: Sampled) -> float:
        return sampled.amount(metric) / whole if whole else 0.0

    listed = [
        SampledField(name, sampled, share(sampled), *wilson(share(sampled), number)) for name, sampled in fields.items()
    ]
    return MeasuredDocument(
        schema="c2c-measured-1",
        tool=TOOL,
        imported=datetime.now(UTC).replace(microsecond=0),
        source=source,
        build_id=build_id,
        line=line,
        metric=metric,
        kernel=kernel,
        user=sums.user,
        effective=number,
        fields=tuple(sorted(listed, key=lambda each: (-each.share, -each.sampled.samples, each.name))),
        unresolved=tuple(
            Unresolved(why, sampled, share(sampled))
            for why, sampled in sorted(sums.unresolved.items(), key=lambda item: (-item[1].samples, item[0]))
        ),
        rows=tuple(
            SampledRow(**asdict(place), kind=kind, function=function, sampled=sampled)
            for (place, kind, function), sampled in sorted(sums.rows.items())
        ),
    )


def _all(sums: ScriptSums) -> Iterable[Sampled]:
    return [*sums.rows.values(), *sums.unresolved.values()]
