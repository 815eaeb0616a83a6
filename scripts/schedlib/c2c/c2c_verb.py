# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c`, `c2c replay` and `c2c diff`: which fields of the scheduler move between the caches of CPUs."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.c2c.c2c_options import (
    ALL,
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
)
from schedlib.names import cpupri_variants, some_of
from schedlib.options import MOST_CPUS, Verbs, add_verb
from schedlib.paths import CONFIGS
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c`, with `replay` and `diff` below it."""
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
        ],
        operands="[replay TRACE | diff BASE CANDIDATE]",
        read=_read,
        job=_count,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    add = parser.add_argument
    about = f"emulator and architecture (default: {TRACED[0]}); QEMU 7.2 has clusters on arm64 only"
    add("--on", choices=TRACED, default=TRACED[0], help=about)
    about = "; ".join(f"{each.name}: {each.about}" for each in WORKLOADS.values())
    add("--workload", choices=list(WORKLOADS), default="rt", help=f"{about} (default: rt)")
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
    options.add_config_option(parser, "fragments of configs/kernel/, or paths, on top of those that c2c needs")
    add("--cpupri", choices=cpupri_variants(), help="a kernel with cpupri-split in this variant")
    about = f"end a guest after this time ({TIMEOUT:.0f})"
    add("--timeout", type=options.seconds, default=TIMEOUT, metavar="SECONDS", help=about)
    add("--trace", type=options.new_file, metavar="FILE", help="keep the accesses in this file, for c2c replay")
    _add_results(parser)
    below = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline c2c VERB --help")
    _add_replay(below)
    _add_diff(below)


def _add_results(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-1)")
    add("--svg", type=options.new_path, metavar="FILE", help="write a picture of the lines here too")


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


def _read(arguments: argparse.Namespace) -> C2cOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    return options.options_of(C2cOptions, arguments, tree=tree, changes=options.change_options(arguments))


def _count(wanted: C2cOptions) -> Verdict:
    from schedlib.c2c.c2c_job import count

    return count(wanted)


def _replay(wanted: C2cReplayOptions) -> Verdict:
    from schedlib.c2c.c2c_job import replay

    return replay(wanted)


def _diff(wanted: C2cDiffOptions) -> Verdict:
    from schedlib.c2c.c2c_job import diff

    return diff(wanted)
