# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c` and the verbs below it: which fields of the scheduler move between the caches of CPUs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from schedlib import options
from schedlib.c2c.c2c_options import (
    ALL,
    CLOCK,
    CLOCKS,
    CPUS,
    DEFAULT,
    KINDS,
    LINES,
    PRICE,
    QUANTA,
    RESTARTS,
    TIMEOUT,
    TRACED,
    WEIGHTS,
    WORKLOADS,
    C2cDiffOptions,
    C2cImportOptions,
    C2cOptions,
    C2cRecordOptions,
    C2cReplayOptions,
    OwnProgram,
    SuggestOptions,
)
from schedlib.errors import SchedlineError
from schedlib.names import cpupri_variants, latency_names, named_file, some_of
from schedlib.options import MOST_CPUS, Verbs, add_verb
from schedlib.paths import CONFIGS
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c`, with the verbs below it."""
    parser = add_verb(
        verbs,
        "c2c",
        "cache-line traffic of the scheduler, counted on emulated CPUs",
        first=[
            "schedline c2c --kdir ~/linux --out after   which fields the CPUs take from each other",
            "schedline c2c diff before after            how a change affects that; one verdict",
        ],
        text="""
        Boots a kernel in QEMU with a plugin that sends each access to some objects of the scheduler through a model
        of caches. The report shows which lines, fields and functions make CPUs fetch lines from each other, as
        perf c2c does on a machine with hundreds of CPUs, and how much of that is false sharing. It begins with the
        fields to blame: what each would save on a line of its own, counted with the same accesses.

        Instructions are counted instead of time, so the same kernel gives the same numbers. A quantum is the length
        of a CPU's turn. Several quanta show how much of a number comes from the order of turns.

        The model has no latencies, no prefetcher, and caches that never run full.""",
        examples=[
            "schedline c2c                                       7.3 with its changes, RT overload on 16 CPUs",
            "schedline c2c --without rd-lines --out base         the same without one change",
            "schedline c2c --kdir ~/linux --workload wakeup --cpus 32",
            "schedline c2c --objects rq,sched_domain --workload balance --html lines.html",
            "schedline c2c --trace rt.trace                      keep the accesses; c2c replay plays them again",
            "schedline c2c --config preempt-rt --objects root_domain   with the fields of the push IPI",
            "schedline c2c --cpupri llc --topology llcs          masks by LLC",
            "schedline c2c --on qemu-arm64 --topology clusters --workload wakeup-idle --without cluster-scan",
            "schedline c2c --script my.sh --files my-files       your own workload, in busybox's shell",
            "schedline c2c --program ./server --marked -- -t 8   your own program, between its marks",
            "schedline c2c --topology llcs --latencies epyc-7r13 --html page.html",
        ],
        operands="[replay TRACE | diff A B | suggest STRUCT | record | import FILE]",
        read=_read,
        job=_count,
        libraries=_libraries,
    )
    options.words_behind_dashes(parser, "arguments")
    options.add_tree_options(parser)
    options.add_change_options(parser)
    add = parser.add_argument
    about = f"emulator and architecture (default: {TRACED[0]}); QEMU 7.2 has clusters on arm64 only"
    add("--on", choices=TRACED, default=TRACED[0], help=about)
    about = "; ".join(f"{each.name}: {each.about}" for each in WORKLOADS.values())
    runs = parser.add_mutually_exclusive_group()
    runs.add_argument("--workload", choices=list(WORKLOADS), help=f"{about} (default: rt)")
    about = "run this program instead; its arguments follow --, and the libraries that it needs go along"
    runs.add_argument("--program", type=_file, metavar="FILE", help=about)
    about = "run this script in busybox's shell instead"
    runs.add_argument("--script", type=_file, metavar="FILE", help=about)
    about = "the files that the program or script finds where it is started"
    add("--files", type=options.existing_directory, metavar="DIR", help=about)
    about = "count from `schedline-count start` to `schedline-count stop`, which it runs (default: all of it)"
    add("--marked", action="store_true", help=about)
    add("--rounds", type=_number, metavar="N", help="how many rounds each thread makes")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=_cpus, default=CPUS, metavar="N", help=f"2 to {MOST_CPUS} (default: {CPUS})")
    about = "the shape in configs/topologies/NAME.toml; its clusters, LLCs and nodes define near and far"
    options.add_topology_option(shape, about)
    about = f"what to watch: {', '.join(KINDS)}, or {ALL} of the kernel's memory (default: {','.join(DEFAULT)})"
    add("--objects", type=some_of("object", lambda: [*KINDS, ALL]), default=DEFAULT, metavar="NAME,...", help=about)
    about = f"length of a CPU's turn in blocks of code, one guest for each (default: {','.join(map(str, QUANTA))})"
    add("--quanta", type=_quanta, default=QUANTA, metavar="N,...", help=about)
    add("--line", type=int, choices=LINES, default=LINES[0], help="bytes of a cache line (64)")
    about = "guest time for an instruction of any CPU; less lets waiters spin longer before they sleep"
    add("--clock", type=int, choices=CLOCKS, default=CLOCK, help=f"{about} (default: {CLOCK} ns)")
    options.add_config_option(parser, "fragments of configs/kernel/, or paths, on top of those that c2c needs")
    add("--cpupri", choices=cpupri_variants(), help="a kernel with cpupri-split in this variant")
    about = f"end a guest after this time ({TIMEOUT:.0f})"
    add("--timeout", type=options.seconds, default=TIMEOUT, metavar="SECONDS", help=about)
    add("--trace", type=options.new_file, metavar="FILE", help="keep the accesses in this file, for c2c replay")
    _add_results(parser)
    below = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline c2c VERB --help")
    _add_replay(below)
    _add_diff(below)
    _add_suggest(below)
    _add_record(below)
    _add_import(below)


def _add_results(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    about = "leave out the fields to blame, which takes minutes where all of a busy kernel's memory is watched"
    add("--no-blame", dest="blame", action="store_false", help=about)
    about = f"weight misses by a machine's latencies: {', '.join(latency_names())}, or a file like those"
    add("--latencies", type=named_file("file of latencies", latency_names, "latencies"), metavar="FILE", help=about)
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-1)")
    add("--html", type=options.new_path, metavar="FILE", help="write a page with lists and pictures here")


def _add_replay(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "replay",
        "count the accesses of a trace again, with other offsets or other lines",
        first=[
            "schedline c2c --trace rt.trace                     keep the accesses of a measurement",
            "schedline c2c replay rt.trace --layout moved.toml  what other offsets would do to them",
        ],
        text="""
        Plays the accesses that schedline c2c --trace has kept through the same model. No kernel is built and no guest
        boots. Without --layout and --line, the result is that of the guests, to the byte.

        A layout is a TOML file with the new offsets of members, or a result of schedline c2c, whose offsets are
        taken. The order of accesses stays that of the guests: a kernel with these offsets might run another way.""",
        examples=[
            "schedline c2c replay rt.trace --line 128           the same accesses on longer lines",
            "schedline c2c replay rt.trace --layout after --out predicted   the offsets of another result",
            "schedline c2c diff base predicted                  what the offsets alone change",
        ],
        operands="TRACE",
        read=lambda arguments: options.options_of(C2cReplayOptions, arguments),
        job=_replay,
        libraries=_libraries,
    )
    add, place = parser.add_argument, options.existing_path
    add("trace", type=place, metavar="TRACE", help="a file that schedline c2c --trace has written")
    about = "other offsets: a layout file, or a result of schedline c2c"
    add("--layout", type=place, metavar="FILE", help=about)
    add("--line", type=int, choices=LINES, help="bytes of a cache line (default: those of the trace)")
    _add_results(parser)


def _add_diff(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "diff",
        "two results by field: false sharing, misses, HITM; one verdict",
        first=[
            "schedline c2c --without rd-lines --out base   a result to compare with",
            "schedline c2c diff base candidate             FAIL if a count rises by more than its budget",
        ],
        text="""
        Compares two results of schedline c2c field by field, even if a field has moved. Each count has a budget in a
        gates file. FAIL if every quantum is over it, INCONCLUSIVE if only some are, PASS if none is.""",
        operands="BASE CANDIDATE",
        read=lambda arguments: options.options_of(C2cDiffOptions, arguments),
        job=_diff,
    )
    add, place = parser.add_argument, options.existing_path
    add("base", type=place, metavar="BASE", help="a result, or the directory that has one")
    add("candidate", type=place, metavar="CANDIDATE", help="the same for the other kernel")
    add(
        "--gates",
        type=place,
        default=CONFIGS / "gates/c2c.toml",
        metavar="FILE",
        help="budgets (default: configs/gates/c2c.toml)",
    )
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-diff-1)")


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _cpus(text: str) -> int:
    value = options.cpu_count(text)
    if value < 2:
        raise argparse.ArgumentTypeError("one CPU shares no lines; give 2 or more")
    return value


def _quanta(text: str) -> tuple[int, ...]:
    values = tuple(_number(word) for word in text.split(","))
    if len(set(values)) != len(values):
        raise argparse.ArgumentTypeError("a quantum is listed twice; name each once")
    return values


def _file(text: str) -> Path:
    path = options.existing_path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text} is no file")
    return path


def _program(arguments: argparse.Namespace) -> OwnProgram | None:
    """The program or script of the user."""
    file = arguments.program or arguments.script
    given = {"--files": arguments.files, "--marked": arguments.marked, "words behind --": arguments.arguments}
    lonely = next((name for name, value in given.items() if value), "")
    if not file and lonely:
        observed = f"{lonely}: there is no program that it could be for"
        raise SchedlineError(observed, "add --program FILE or --script FILE")
    if file and arguments.rounds:
        raise SchedlineError("--rounds is for a --workload, and a program of yours is run once", "leave it out")
    is_script = arguments.script is not None
    return OwnProgram(file, is_script, arguments.arguments, arguments.files, arguments.marked) if file else None


def _read(arguments: argparse.Namespace) -> C2cOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    changes, program = options.change_options(arguments), _program(arguments)
    # Not the option's default: argparse would not see that the default and --program contradict each other.
    workload = arguments.workload or "rt"
    return options.options_of(C2cOptions, arguments, tree=tree, changes=changes, program=program, workload=workload)


def _libraries(wanted: C2cOptions | C2cReplayOptions) -> Sequence[str]:
    """Only a page needs more than the basic libraries."""
    return (*options.BASIC, "report") if wanted.html else options.BASIC


def _count(wanted: C2cOptions) -> Verdict:
    from schedlib.c2c.c2c_job import count

    return count(wanted)


def _replay(wanted: C2cReplayOptions) -> Verdict:
    from schedlib.c2c.c2c_job import replay

    return replay(wanted)


def _diff(wanted: C2cDiffOptions) -> Verdict:
    from schedlib.c2c.c2c_job import diff

    return diff(wanted)


def _add_suggest(verbs: Verbs) -> None:
    """Add `schedline c2c suggest`."""
    parser = add_verb(
        verbs,
        "suggest",
        "an order of a structure's members that costs fewer misses, as a patch",
        first=[
            "schedline c2c --objects root_domain --trace rt.trace",
            "schedline c2c --objects root_domain --workload balance --trace balance.trace",
            "schedline c2c suggest root_domain --trace rt.trace --held-out balance.trace",
        ],
        text="""
        Searches the orders of a structure's members, and which of them start a line, for the one with the fewest
        misses. The misses are those of the traces' accesses, played again. No promise of a contract may break, and a
        member has to bring --price percent to be moved.

        The order is then counted in all quanta, with lines of 64, 128 and 256 bytes, and in workloads that the search
        has not seen. If the gain is there in all of them, a kernel with it is built and run. If it is there, too, the
        result is a patch for git am. Otherwise the answer is that there is no gain.""",
        examples=[
            "schedline c2c suggest rq --trace rt.trace balance.trace --held-out wakeup.trace --bytes 4096",
            "schedline c2c suggest rq --trace rt.trace --held-out wakeup.trace --no-measure   only predict",
            "schedline c2c suggest root_domain --without rd-lines --trace rt.trace --compare candidate",
        ],
        operands="STRUCT",
        read=_read_suggest,
        job=_suggest,
    )
    add = parser.add_argument
    add("struct", type=_tag, metavar="STRUCT", help="the structure whose members may move")
    about = "accesses that schedline c2c --trace has kept; one file for each workload"
    add("--trace", type=options.existing_path, nargs="+", required=True, metavar="FILE", help=about)
    about = "the same for workloads that the search does not see; without one there is no patch"
    add("--held-out", type=options.existing_path, nargs="+", default=(), metavar="FILE", help=about)
    options.add_tree_options(parser)
    options.add_change_options(parser)
    add("--file", metavar="FILE", help="the file that declares it, if several do")
    about = "the largest size that it may have (default: today's, rounded up to whole lines)"
    add("--bytes", type=_bytes, metavar="N", help=about)
    shown = ",".join(f"{weight:g}" for weight in WEIGHTS)
    about = f"how much lines of 64, 128 and 256 bytes count (default: {shown})"
    add("--weights", type=_weights, default=WEIGHTS, metavar="A,B,C", help=about)
    about = f"percent of the misses that each moved member has to save (default: {PRICE:g})"
    add("--price", type=_percent, default=PRICE, metavar="PERCENT", help=about)
    about = f"how often the search begins again from a changed order (default: {RESTARTS})"
    add("--restarts", type=_whole, default=RESTARTS, metavar="N", help=about)
    add("--seed", type=_whole, default=1, metavar="N", help="of the search (default: 1)")
    about = "a layout file, or a result of schedline c2c, to count beside the suggestion"
    add("--compare", type=options.existing_path, nargs="+", default=(), metavar="FILE", help=about)
    about = "do not build and run a kernel with the suggestion"
    add("--no-measure", dest="measure", action="store_false", help=about)
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (suggest-1)")


def _tag(text: str) -> str:
    if not text.isidentifier() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a structure")
    return text


def _bytes(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) < 1 << 24 or len(text) > 8:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in bytes, below 16 MB")
    return int(text)


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return value


def _weights(text: str) -> tuple[float, ...]:
    values = tuple(_percent(word) for word in text.split(","))
    if len(values) != len(WEIGHTS) or not any(values):
        raise argparse.ArgumentTypeError("give three numbers, for lines of 64, 128 and 256 bytes; not all 0")
    return values


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 999999")
    return int(text)


def _read_suggest(arguments: argparse.Namespace) -> SuggestOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    arguments.trace, arguments.held_out = tuple(arguments.trace), tuple(arguments.held_out)
    arguments.compare = tuple(arguments.compare)
    return options.options_of(SuggestOptions, arguments, tree=tree, changes=options.change_options(arguments))


def _suggest(wanted: SuggestOptions) -> Verdict:
    from schedlib.suggest.suggest_job import suggest

    return suggest(wanted)


_SECONDS = 10.0


def _add_record(verbs: Verbs) -> None:
    """Add `schedline c2c record`."""
    parser = add_verb(
        verbs,
        "record",
        "sample this machine with perf, and keep where its objects lie; needs root, perf and drgn",
        first=[
            "schedline c2c record --vmlinux build/vmlinux --out measured   for ten seconds",
            "schedline c2c record --vmlinux build/vmlinux --out measured -- hackbench -l 1000   until it ends",
        ],
        text="""
        Runs perf c2c record with what this CPU has: Intel's load latency, AMD's IBS or Arm's SPE. Then drgn reads from
        the running kernel where the objects and the slabs of the sampled pages lie, because perf knows variables alone.
        Then it does what schedline c2c import does.

        Nothing is installed, loaded or set. Objects that were freed before drgn looked have no name, or that of what
        took their place; so sample a load that goes on.""",
        examples=[
            "schedline c2c record --vmlinux build/vmlinux --out measured --seconds 30",
            "schedline c2c record --vmlinux build/vmlinux --out measured --objects rq,root_domain,nohz",
            "schedline c2c record --vmlinux build/vmlinux --out measured --without-map   only variables have names",
        ],
        operands="",
        read=lambda arguments: options.options_of(C2cRecordOptions, arguments, command=arguments.arguments),
        job=_record,
    )
    options.words_behind_dashes(parser, "arguments")
    add = parser.add_argument
    about = "the kernel that runs, with debug information"
    add("--vmlinux", type=options.existing_path, required=True, metavar="FILE", help=about)
    add("--out", type=options.new_directory, required=True, metavar="DIR", help="a directory without a recording")
    about = f"objects for the map: {', '.join(KINDS)} (default: {','.join(DEFAULT)})"
    add("--objects", type=some_of("object", lambda: [*KINDS]), default=DEFAULT, metavar="NAME,...", help=about)
    about = f"how long to sample (default: {_SECONDS:.0f}); with a command after --, until it ends"
    add("--seconds", type=options.seconds, default=_SECONDS, metavar="N", help=about)
    about = "least latency of a sampled load in cycles, on Intel and POWER (default: perf's)"
    add("--ldlat", type=_cycles, default=0, metavar="CYCLES", help=about)
    add("--without-map", action="store_true", help="do without drgn: allocated objects have no names")


def _cycles(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of cycles from 1 to 65535")
    return int(text)


def _record(wanted: C2cRecordOptions) -> Verdict:
    from schedlib.c2c.record_job import record

    return record(wanted)


def _add_import(verbs: Verbs) -> None:
    """Add `schedline c2c import`."""
    parser = add_verb(
        verbs,
        "import",
        "what perf c2c, perf mem and perf script have sampled, by object and field",
        first=[
            "schedline c2c import samples.txt --vmlinux build/vmlinux --map objects.json --out measured",
            "schedline c2c import report.txt --vmlinux build/vmlinux   perf c2c report --stdio",
        ],
        text="""
        Reads a text of perf: that of perf script with data addresses and data sources, perf c2c report --stdio,
        perf mem report --stdio, or perf report -s type,typeoff --stdio. Each sample is named by the field that lies at
        its address. Intel's load latency, AMD's IBS and Arm's SPE are read alike.

        Samples stay samples: each share has its interval. What has no field is in a row of its own, with its share and
        the reason. The vmlinux has to be that of the kernel that ran. The map says where allocated objects and per-CPU
        variables lay; docs/c2c.md describes it. Without one, only variables of vmlinux have names.""",
        examples=[
            "schedline c2c import types.txt --out measured                  perf report -s type,typeoff --stdio",
            "schedline c2c import samples.txt --vmlinux build/vmlinux --build-id 8d0f3a --json measured.json",
        ],
        operands="FILE",
        read=_read_import,
        job=_import,
    )
    add, place = parser.add_argument, options.existing_path
    add("files", type=place, nargs="+", metavar="FILE", help="texts that perf has printed, all of one kind")
    about = "the kernel that ran, with debug information; only types need none"
    add("--vmlinux", type=place, metavar="FILE", help=about)
    add("--map", type=place, metavar="FILE", help="where its objects lay (c2c-objects-1)")
    about = "of the kernel that ran, as perf buildid-list prints it; a map has it"
    add("--build-id", type=_build_id, metavar="HEX", help=about)
    add("--line", type=int, choices=LINES, default=LINES[0], help="bytes of a cache line (64)")
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-measured-1)")


def _build_id(text: str) -> str:
    if len(text) < 6 or len(text) > 64 or set(text) - set("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a build-id: 6 to 64 of the digits 0 to 9 and a to f")
    return text


def _read_import(arguments: argparse.Namespace) -> C2cImportOptions:
    files = tuple(arguments.files)
    return options.options_of(C2cImportOptions, arguments, files=files, build_id=arguments.build_id or "")


def _import(wanted: C2cImportOptions) -> Verdict:
    from schedlib.c2c.samples_job import import_samples

    return import_samples(wanted)
