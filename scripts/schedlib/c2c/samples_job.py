# SPDX-License-Identifier: GPL-2.0
"""Read what perf has sampled on a real machine, and write it by object and field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.address_names import AddressNames, names_of, read_objects, slide_of
from schedlib.c2c.c2c_options import C2cImportOptions
from schedlib.c2c.perf_reports import TITLES, PerfReport, read_c2c_report
from schedlib.c2c.perf_script import COMMAND, Key, ScriptSums, instructions, is_script, read_script
from schedlib.c2c.samples import (
    MEASURED_FILE,
    NOTHING,
    MeasuredDocument,
    Metric,
    Sampled,
    SampledField,
    SampledRow,
    SampleSource,
    SourceKind,
    Unresolved,
    effective,
    wilson,
)
from schedlib.c2c.traffic_table import field_name, grid
from schedlib.cache import cache_dir, read_regular, results_directory, write_atomic
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
_LARGEST_REPORT = 1 << 28


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
    if source.approximate:
        yield "numbers of samples were computed from rounded percentages"
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
    kinds = {path: _kind(path) for path in options.files}
    kind = kinds[options.files[0]]
    other = next((path for path in options.files if kinds[path] != kind), None)
    if other:
        raise SchedlineError(
            f"{other} is the text of {kinds[other]}, and the first file that of {kind}", "import one kind"
        )
    reports = {} if kind == "perf script" else {path: _report(path) for path in options.files}
    with step("reading symbols and types"):
        known, names = names_of(options.vmlinux, cache_dir(), found, options.build_id or "", options.line)
    if found is None:
        seen = [(each.code, each.function) for report in reports.values() for each in report.accesses if each.code]
        seen += [each for path in options.files if path not in reports for each in instructions(path)]
        names.moved(slide_of(known, seen))
    sums = ScriptSums()
    for path in options.files:
        with step(f"reading {path.name}"):
            sums.add(_of_report(reports[path], names) if path in reports else read_script(path, names))
    source = SampleSource(
        kind,
        tuple(path.name for path in options.files),
        tuple(sorted(sums.events)),
        _machine(options.files[0]),
        sums.repeated,
        approximate=bool(reports),
    )
    result = measured_of(sums, source, known.build_id, options.line)
    out = results_directory(cache_dir(), options.out)
    for place in (options.json, out / MEASURED_FILE):
        if place:
            document.write(place, result)
    text = measured_text(result)
    write_atomic(out / _TEXT, text)
    print(text, end="")
    say(f"results: {out}/{MEASURED_FILE}, {_TEXT}")
    return Verdict.PASS


def _kind(path: Path) -> SourceKind:
    if not path.is_file():
        raise SchedlineError(f"{path} is no file", "name the text that perf has printed")
    if is_script(path):
        return "perf script"
    text = _text(path)
    if any(title in text for title in TITLES):
        return "perf c2c report"
    if text.startswith("PERFILE2"):
        raise SchedlineError(f"{path} is perf's data, not a text", f"{COMMAND} -i {path} > samples.txt")
    raise SchedlineError(
        f"{path} is no text of perf with data addresses: it has neither data sources nor a known list",
        f"{COMMAND} > samples.txt; or perf c2c report --stdio > report.txt",
    )


def _text(path: Path) -> str:
    try:
        return read_regular(path, _LARGEST_REPORT).decode(errors="replace")
    except OSError as error:
        raise SchedlineError(f"{path} cannot be read: {error.strerror}", f"ls -l {path}") from error


def _report(path: Path) -> PerfReport:
    try:
        return read_c2c_report(_text(path))
    except ValueError as error:
        raise SchedlineError(f"{path} is damaged: {error}", "make it again") from error


def _of_report(report: PerfReport, names: AddressNames) -> ScriptSums:
    sums = ScriptSums(events=set(report.events))
    for access in report.accesses:
        sampled = access.sampled
        if not access.address:
            sums.fail("the sample has no address", sampled)
            continue
        if access.address < 1 << 63:
            sums.user += sampled
            continue
        sums.squares += sampled.samples
        sums.taken_squares += sampled.taken
        place = names(access.address)
        if isinstance(place, str):
            sums.fail(place, sampled)
        else:
            key: Key = (place, access.kind, access.function)
            sums.rows[key] = sums.rows.get(key, NOTHING) + sampled
    return sums


def _machine(path: Path) -> str:
    """What the head of a text says of the machine, if it has one: perf script --header, perf report --header."""
    wanted = ("# cpudesc :", "# os release :", "# perf version :")
    with path.open("rb") as file:
        head = file.read(1 << 16).decode(errors="replace")
    lines = (line for line in head.splitlines() if line.startswith(wanted))
    return printable(", ".join(line.partition(":")[2].strip() for line in lines))


def measured_of(sums: ScriptSums, source: SampleSource, build_id: str, line: int) -> MeasuredDocument:
    """The result of an import."""
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
