# SPDX-License-Identifier: GPL-2.0
"""Sample this machine's data accesses with perf, map its objects with drgn, and write the samples by object and field.

`schedline c2c record` does all of it, `schedline c2c import` what comes after perf and drgn.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from schedlib import TOOL
from schedlib.c2c.c2c_options import SOURCES, TAGS, C2cImportOptions, C2cRecordOptions
from schedlib.c2c.kernel_map import KernelMap, kernel_map
from schedlib.c2c.memory_map import MAP_FILE, AddressNames, MemoryMap, ObjectMap, memory_map, slide_of
from schedlib.c2c.objects import PER_CPU_OFFSETS, Instance, watches
from schedlib.c2c.observed import PAGE
from schedlib.c2c.samples import (
    FIELDS,
    MEASURED_FILE,
    NOTHING,
    MeasuredDocument,
    Metric,
    Sampled,
    SampledField,
    SampledRow,
    SampleSource,
    ScriptSums,
    Unresolved,
    effective,
    instructions,
    refuse_other,
    summed,
    wilson,
)
from schedlib.c2c.traffic_report import field_name
from schedlib.cache import cache_dir, results_directory, write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.tables import table
from schedlib.kernel.machine import running_build_id
from schedlib.process import clean_environment, dying_with_us, must
from schedlib.progress import printable, say, step
from schedlib.verdict import Verdict

_FIELDS, _FUNCTIONS = 40, 20
_SAID = {
    "taken": "samples of lines that another CPU's cache had modified or handed over",
    "samples": "all samples: this source does not say which lines came from another CPU's cache",
}
_TEXT = "measured.txt"
_NO_MAP = "see docs/c2c.md, Beside a real machine"
_NO_SAMPLES = (
    "does the command run by itself? Data addresses need Intel's load latency, AMD's IBS (perf 6.1 or later) or Arm's "
    "SPE, which virtual machines lack: count on emulated CPUs there (schedline c2c)"
)


def measured_text(result: MeasuredDocument) -> Iterator[str]:
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
    yield f"shares: of {_SAID[result.metric]}; with intervals of 95 %"
    yield ""
    rows: list[tuple[str, ...]] = [("field", "share", "from", "to", "samples", "taken", "remote", "cycles each")]
    for each in result.fields[:_FIELDS]:
        shares = (f"{number:.1%}" for number in (each.share, each.low, each.high))
        rows.append((each.name, *shares, *_numbers(each.sampled)))
    lost = sum((each.sampled for each in result.unresolved), NOTHING)
    if lost.samples:
        share = sum(each.share for each in result.unresolved)
        rows.append(("unresolved", f"{share:.1%}", "", "", *_numbers(lost)))
    yield from table(rows, "<  >")
    if len(result.fields) > _FIELDS:
        yield f"{len(result.fields) - _FIELDS} others: the JSON has them"
    for reason in result.unresolved:
        yield f"unresolved, {reason.share:.1%}: {reason.why} ({reason.sampled.samples} samples)"
    yield ""
    functions = summed((row.function, row.sampled) for row in result.rows)
    hottest = sorted(functions, key=lambda name: (-functions[name].amount(result.metric), name))
    rows = [("function", "samples", "taken", "remote", "cycles each")]
    rows += [(name, *_numbers(functions[name])) for name in hottest[:_FUNCTIONS]]
    yield from table(rows, "<  >")


def _numbers(sampled: Sampled) -> tuple[str, ...]:
    cycles = f"{sampled.cycles / sampled.samples:.0f}" if sampled.cycles and sampled.samples else ""
    return str(sampled.samples), str(sampled.taken), str(sampled.remote), cycles


def import_samples(options: C2cImportOptions) -> Verdict:
    found = document.read_below(options.map, MAP_FILE, ObjectMap, _NO_MAP) if options.map else None
    for path in options.files:
        refuse_other(path)
    with step("reading symbols and types"):
        known = kernel_map(options.vmlinux, cache_dir() / "c2c", TAGS)
        if found and found.build_id != known.build_id:
            raise SchedlineError(
                f"{options.vmlinux} is another kernel: its build-id is {known.build_id[:16]}, that of the object map "
                f"{found.build_id[:16]}",
                "give the vmlinux of the kernel that ran: perf buildid-list -i perf.data | grep kernel",
            )
        memory = _memory(options.vmlinux, known) if found else None
    seen = (each for path in options.files for each in instructions(path))
    slide = found.slide if found else slide_of(known, seen)
    sums = ScriptSums(AddressNames(known, memory, found, slide, options.line))
    for path in options.files:
        with step(f"reading {path.name}"):
            sums.read(path)
    result = measured_of(sums, options.files, known.build_id, options.line)
    out = results_directory(cache_dir(), options.out)
    for place in (options.json, out / MEASURED_FILE):
        if place:
            document.write(place, result)
    text = "".join(f"{line}\n" for line in measured_text(result))
    write_atomic(out / _TEXT, text)
    print(text, end="")
    say(f"results: {out}/{MEASURED_FILE}, {_TEXT}")
    return Verdict.PASS


def _memory(vmlinux: Path, known: KernelMap) -> MemoryMap | None:
    """What names slabs; None if this kernel describes its pages otherwise."""
    with suppress(SchedlineError):
        return memory_map(vmlinux, cache_dir() / "c2c", known)
    return None


def measured_of(sums: ScriptSums, files: Sequence[Path], build_id: str, line: int) -> MeasuredDocument:
    # The head of a text says something of the machine if perf had --header.
    with files[0].open("rb") as file:
        head = file.read(1 << 16).decode(errors="replace").splitlines()
    said = [words for words in head if words.startswith(("# cpudesc :", "# os release :", "# perf version :"))]
    machine = printable(", ".join(words.partition(":")[2].strip() for words in said))
    names, events = tuple(path.name for path in files), tuple(sorted(sums.events))
    kernel = sum([*sums.rows.values(), *sums.unresolved.values()], NOTHING)
    metric: Metric = "taken" if kernel.taken else "samples"
    whole = kernel.amount(metric)
    number = effective(whole, sums.taken_squares if metric == "taken" else sums.squares)

    def share(sampled: Sampled) -> float:
        return sampled.amount(metric) / whole if whole else 0.0

    named = summed((field_name(place), sampled) for (place, _, _), sampled in sums.rows.items())
    fields = [
        SampledField(name, sampled, share(sampled), *wilson(share(sampled), number)) for name, sampled in named.items()
    ]
    lost = [Unresolved(why, sampled, share(sampled)) for why, sampled in sums.unresolved.items()]
    return MeasuredDocument(
        schema="c2c-measured-1",
        tool=TOOL,
        imported=datetime.now(UTC).replace(microsecond=0),
        source=SampleSource("perf script", names, events, machine, sums.repeated),
        build_id=build_id,
        line=line,
        metric=metric,
        kernel=kernel,
        user=sums.user,
        effective=number,
        fields=tuple(sorted(fields, key=lambda each: (-each.share, -each.sampled.samples, each.name))),
        unresolved=tuple(sorted(lost, key=lambda each: (-each.sampled.samples, each.why))),
        rows=tuple(
            SampledRow(**asdict(place), kind=kind, function=function, sampled=sampled)
            for (place, kind, function), sampled in sorted(sums.rows.items())
        ),
    )


_POSSIBLE = "sys/devices/system/cpu/possible"
_FIRST_PER_CPU = "runqueues"
_MEMORY = Path("/proc/kcore")
DATA_FILE, SAMPLES_FILE = "perf.data", "samples.txt"
_PROGRAMS = {"perf": "apt-get install linux-perf", "drgn": "apt-get install python3-drgn, or pip install drgn"}


def possible_cpus(root: Path = Path("/")) -> int:
    """The number of possible CPUs; SchedlineError if sysfs does not say it."""
    try:
        return int((root / _POSSIBLE).read_text().strip().rpartition("-")[2]) + 1
    except (OSError, ValueError) as error:
        raise SchedlineError(f"/{_POSSIBLE} cannot be read: {error}", "mount sysfs") from error


def objects_of_kernel(
    drgn: Sequence[str],
    vmlinux: Path,
    known: KernelMap,
    memory: MemoryMap | None,
    objects: tuple[str, ...],
    cpus: int,
    pages: Sequence[int],
) -> ObjectMap:
    """The map of a running kernel that the command `drgn` reads, see scripts/c2c/object_map.py; it is that of vmlinux.

    Without `memory`, slabs are not named. `pages`: whose use is asked for.
    """
    offsets, per_cpu = known.symbol(PER_CPU_OFFSETS), known.symbol(_FIRST_PER_CPU)
    if offsets is None or per_cpu is None:
        raise SchedlineError("this kernel has no per-CPU variables: it was built for one CPU", "c2c needs two")
    # Where a base is no variable, as on arm64, slabs have no names yet.
    bases = [] if memory is None else [int(base, 16) for base in memory.bases if not base.startswith("=")]
    looked_at = {watch.key: watch for watch in watches(known, objects, cpus)}
    asked = {
        "offsets": {"name": offsets.name, "address": offsets.address},
        "per_cpu": per_cpu.address,
        "cpus": cpus,
        "areas": bases,
        "watches": [
            {name: getattr(each, name) for name in ("key", "per_cpu", "address", "hops")}
            | {"allocated": bool(each.allocated)}
            for each in looked_at.values()
        ],
        "pages": pages if bases else [],
        "arrays": [(name, *places) for name, places in memory.arrays.items()] if memory and bases else [],
    }
    argv = [*drgn, "--main-symbols", "-s", str(vmlinux), str(SOURCES / "object_map.py")]
    text = must(argv, stdin=json.dumps(asked).encode(), next_step="schedline c2c record --help")
    try:
        answer = json.loads(text)
        found = [Instance(key, cpu, address, looked_at[key].size, 1) for key, cpu, address in answer["instances"]]
        ours = {
            "schema": ObjectMap.kind(),
            "tool": TOOL,
            "made": datetime.now(UTC).replace(microsecond=0),
            "build_id": known.build_id,
            "page": PAGE,
            "cpus": cpus,
            "objects": objects,
            "instances": msgspec.to_builtins(found),
        }
        return msgspec.convert(answer | ours, ObjectMap)
    except (KeyError, TypeError, ValueError) as error:
        raise SchedlineError(
            f"drgn has answered something else: {error!r}", "drgn --version; see docs/c2c.md"
        ) from error


def record(options: C2cRecordOptions) -> Verdict:
    _refuse_unready(options)
    with step("reading symbols and types"):
        known, running = kernel_map(options.vmlinux, cache_dir() / "c2c", TAGS), running_build_id()
    if known.build_id != running:
        raise SchedlineError(
            f"{options.vmlinux} is another kernel than the one that runs: its build-id is {known.build_id[:16]}, that "
            f"of the running kernel {running[:16] or 'not shown'}",
            "install the debug information of this kernel: uname -r",
        )
    options.out.mkdir(parents=True, exist_ok=True)
    data, samples, objects = (options.out / name for name in (DATA_FILE, SAMPLES_FILE, MAP_FILE))
    command = options.arguments or ("sleep", f"{options.seconds:g}")
    with step("sampling"):
        half = str(data.with_name(f".{data.name}"))
        _perf(data, ["c2c", "record", "-a", "-o", half, "--", *command], _NO_SAMPLES, prints=False)
    with step("writing the samples as text"):
        _perf(samples, ["script", "--header", "-i", str(data), "-F", FIELDS], "perf --version", prints=True)
    pages: set[int] = set()

    def kept(address: int) -> str:
        pages.add(address // PAGE * PAGE)
        return ""

    with step("reading where the objects lie"):
        memory = _memory(options.vmlinux, known)
        ScriptSums(kept).read(samples)
        words, where = ["drgn", "-q", "-k"], sorted(pages)
        found = objects_of_kernel(words, options.vmlinux, known, memory, options.objects, possible_cpus(), where)
        document.write(objects, found)
    return import_samples(C2cImportOptions((samples,), options.vmlinux, objects, out=options.out))


def _refuse_unready(options: C2cRecordOptions) -> None:
    for name, next_step in _PROGRAMS.items():
        if shutil.which(name) is None:
            raise SchedlineError(f"{name} is not installed", next_step)
    if os.geteuid():
        raise SchedlineError("only root may sample all CPUs and read the kernel's memory", "run it as root")
    if not _MEMORY.exists():
        raise SchedlineError(
            "this kernel has no /proc/kcore for drgn to read (CONFIG_PROC_KCORE)",
            "sample with perf, and import its text without a map: see docs/c2c.md",
        )
    there = next((name for name in (DATA_FILE, SAMPLES_FILE, MAP_FILE) if (options.out / name).exists()), None)
    if there:
        raise SchedlineError(f"{options.out} has a recording already: {there}", "name another directory")


def _perf(out: Path, words: Sequence[str], next_step: str, *, prints: bool) -> None:
    """Run perf, which writes a file with a dot before its name, or prints it; a complete one gets the name."""
    half, argv = out.with_name(f".{out.name}"), ["perf", *words]
    with half.open("wb") if prints else nullcontext(subprocess.DEVNULL) as to:
        none, kept = subprocess.DEVNULL, subprocess.PIPE
        done = subprocess.run(dying_with_us(argv), stdin=none, stdout=to, stderr=kept, env=clean_environment())
    if done.returncode or not half.is_file() or not (prints or half.stat().st_size):
        half.unlink(missing_ok=True)
        said = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        raise SchedlineError(f"`{' '.join(argv)}` failed ({done.returncode}):\n    " + "\n    ".join(said), next_step)
    half.replace(out)
