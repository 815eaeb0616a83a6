# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c` and the verbs below it: which fields of the scheduler move between the caches of CPUs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from schedlib import options
from schedlib.c2c import record_verb, samples_verb, suggest_verb
from schedlib.c2c.c2c_options import (
    ALL,
    CLOCK,
    CLOCKS,
    CPUS,
    DEFAULT,
    KINDS,
    LINES,
    QUANTA,
    TIMEOUT,
    TRACED,
    WORKLOADS,
    C2cDiffOptions,
    C2cOptions,
    C2cReplayOptions,
    OwnProgram,
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
            "schedline c2c --objects rq,sched_domain --workload balance --svg lines.svg",
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
    suggest_verb.add_parser(below)
    record_verb.add_parser(below)
    samples_verb.add_parser(below)


def _add_results(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    about = "leave out the fields to blame, which takes minutes where all of a busy kernel's memory is watched"
    add("--no-blame", dest="blame", action="store_false", help=about)
    about = f"weight misses by a machine's latencies: {', '.join(latency_names())}, or a file like those"
    add("--latencies", type=named_file("file of latencies", latency_names, "latencies"), metavar="FILE", help=about)
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-1)")
    add("--svg", type=options.new_path, metavar="FILE", help="write a picture of the lines here too")
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
    return (*options.BASIC, "requirements-report.txt") if wanted.html else options.BASIC


def _count(wanted: C2cOptions) -> Verdict:
    from schedlib.c2c.c2c_job import count

    return count(wanted)


def _replay(wanted: C2cReplayOptions) -> Verdict:
    from schedlib.c2c.c2c_job import replay

    return replay(wanted)


def _diff(wanted: C2cDiffOptions) -> Verdict:
    from schedlib.c2c.c2c_job import diff

    return diff(wanted)
