# SPDX-License-Identifier: GPL-2.0
"""Read what perf has sampled on a real machine, and write it by object and field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.address_names import AddressNames, ObjectMap, names_of, read_objects, slide_of
from schedlib.c2c.c2c_options import C2cImportOptions
from schedlib.c2c.kernel_map import KernelMap
from schedlib.c2c.perf_reports import REPORTS, PerfReport, ReportedType
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
from schedlib.formats.c2c_document import Place
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
    cache = cache_dir()
    found = read_objects(options.map) if options.map else None
    kinds = {path: _kind(path) for path in options.files}
    kind = kinds[options.files[0]]
    other = next((path for path in options.files if kinds[path] != kind), None)
    if other:
        raise SchedlineError(
            f"{other} is the text of {kinds[other]}, and the first file that of {kind}", "import one kind"
        )
    reports = {} if kind == "perf script" else {path: _report(kind, path) for path in options.files}
    known, names = _names(options, kind, found, reports, cache)
    sums = ScriptSums()
    for path in options.files:
        with step(f"reading {path.name}"):
            if path in reports:
                sums.add(_of_report(reports[path], names, known))
            else:
                assert names  # noqa: S101  _names() has them for everything but types
                sums.add(read_script(path, names))
    source = SampleSource(
        kind,
        tuple(path.name for path in options.files),
        tuple(sorted(sums.events)),
        _machine(options.files[0]),
        sums.repeated,
        any(report.approximate for report in reports.values()),
    )
    build_id = (found.build_id if found else "") or (known.build_id if known else "") or options.build_id or ""
    result = measured_of(sums, source, build_id, options.line)
    out = results_directory(cache, options.out)
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
    if kind := next((kind for kind, (is_one, _) in REPORTS.items() if is_one(text)), None):
        return kind
    if text.startswith("PERFILE2"):
        raise SchedlineError(f"{path} is perf's data, not a text", f"{COMMAND} -i {path} > samples.txt")
    if "Memory access" in text and "Samples" in text:
        raise SchedlineError(
            f"{path} is a list of perf mem report without data symbols: it counts levels of memory, and no field",
            "make it again without -F and -s: perf mem report --stdio",
        )
    raise SchedlineError(
        f"{path} is no text of perf with data addresses: it has neither data sources nor a known list",
        f"{COMMAND} > samples.txt; or perf c2c report --stdio > report.txt",
    )


def _text(path: Path) -> str:
    try:
        return read_regular(path, _LARGEST_REPORT).decode(errors="replace")
    except OSError as error:
        raise SchedlineError(f"{path} cannot be read: {error.strerror}", f"ls -l {path}") from error


def _report(kind: SourceKind, path: Path) -> PerfReport:
    try:
        return REPORTS[kind][1](_text(path))
    except ValueError as error:
        raise SchedlineError(f"{path} is damaged: {error}", "make it again") from error


def _names(
    options: C2cImportOptions,
    kind: SourceKind,
    found: ObjectMap | None,
    reports: Mapping[Path, PerfReport],
    cache: Path,
) -> tuple[KernelMap | None, AddressNames | None]:
    if options.vmlinux is None:
        if kind != "perf report -s type,typeoff":
            raise SchedlineError(
                f"{kind} has addresses, and no vmlinux says what lies there",
                "add --vmlinux FILE: the kernel that ran, with debug information",
            )
        return None, None
    with step("reading symbols and types"):
        known, names = names_of(options.vmlinux, cache, found, options.build_id or "", options.line)
    if found is None and kind != "perf report -s type,typeoff":
        seen: list[tuple[int, str]] = []
        for path in options.files:
            if path in reports:
                seen += [(each.code, each.function) for each in reports[path].accesses if each.code]
            else:
                seen += instructions(path)
        names.moved(slide_of(known, seen))
    return known, names


def _of_report(report: PerfReport, names: AddressNames | None, known: KernelMap | None) -> ScriptSums:
    sums = ScriptSums(events=set(report.events))
    for access in report.accesses:
        assert names  # noqa: S101
        if access.address is not None and access.address < 1 << 63:
            if access.address:
                sums.user += access.sampled
            else:
                sums.fail("the sample has no address", access.sampled)
            continue
        place = names.symbol(access.symbol, access.offset) if access.address is None else names(access.address)
        _add(sums, place, (access.kind, access.function), access.sampled)
    for each in report.types:
        _add(sums, type_place(each, known), (each.kind, "(all)"), each.sampled)
    return sums


def _add(sums: ScriptSums, place: Place | str, about: tuple, sampled: Sampled) -> None:  # type: ignore[type-arg]
    sums.squares += sampled.samples
    sums.taken_squares += sampled.taken
    if isinstance(place, str):
        sums.fail(place, sampled)
    else:
        key: Key = (place, *about)
        sums.rows[key] = sums.rows.get(key, NOTHING) + sampled


def type_place(row: ReportedType, known: KernelMap | None) -> Place | str:
    """The place of a row of types; or why it has none."""
    if not row.structure:
        return "perf found no structure"
    structure = known.structures.get(row.structure) if known else None
    if structure is None:
        # perf took the name from the kernel's own types.
        path = "" if row.field == "no field" else row.field
        return Place(row.structure, "", row.offset // 64, row.offset, path, neighbour=False)
    inside = next((each for each in structure.fields if each.offset <= row.offset < each.offset + each.size), None)
    word = row.field.partition(".")[0]
    if inside is None or (word not in ("", "no field") and word.partition("[")[0] not in inside.path):
        return f"struct {row.structure} of perf's data is not that of the vmlinux"
    return Place(row.structure, "", row.offset // 64, row.offset, inside.path, neighbour=False)


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
