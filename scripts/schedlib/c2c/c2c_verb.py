# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c` and the verbs below it: which fields of the scheduler move between the caches of CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from schedlib import options
from schedlib.c2c.c2c_options import (
    WORKLOADS,
    C2cDiffOptions,
    C2cImportOptions,
    C2cOptions,
    C2cRecordOptions,
    C2cReplayOptions,
    ShowOptions,
    SuggestOptions,
)
from schedlib.options import Verbs, add_verb
from schedlib.tree.source import require_tree

_T = TypeVar("_T", C2cOptions, ShowOptions, SuggestOptions)


def with_tree(wanted: _T) -> _T:
    """The options, if their tree is one; see require_tree()."""
    require_tree(wanted.tree)
    return wanted


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
        perf c2c does, how much of that is false sharing, and what each field would save on a line of its own.

        Instructions are counted instead of time, so the same kernel gives the same numbers. A quantum is the length
        of a CPU's turn. The model has no latencies, and caches that never run full.

        workloads:
        """
        + "".join(f"  {each.name:<12}{each.about}\n        " for each in WORKLOADS.values()),
        examples=[
            "schedline c2c                                       7.3 with its changes, RT overload on 16 CPUs",
            "schedline c2c --without rd-lines --out base         the same without one change",
            "schedline c2c --kdir ~/linux --workload wakeup --cpus 32",
            "schedline c2c --config preempt-rt --objects root_domain   with the fields of the push IPI",
            "schedline c2c --on qemu-arm64 --topology clusters --workload wakeup --without cluster-scan",
            "schedline c2c --program ./server --marked -- -t 8   your own program, between its marks",
        ],
        operands="[replay TRACE | diff A B | suggest STRUCT | record | import FILE]",
        options=C2cOptions,
        read=_checked,
        job="c2c.c2c_job.count",
        libraries=_libraries,
    )
    options.words_behind_dashes(parser, "arguments")
    verbs = parser.add_subparsers(prog=parser.prog, metavar="VERB", help="schedline c2c VERB --help")
    add_verb(
        verbs,
        "replay",
        "count the accesses of a trace again, with other offsets or other lines",
        first=[
            "schedline c2c --trace rt.trace                     keep the accesses of a measurement",
            "schedline c2c replay rt.trace --layout moved.toml  what other offsets would do to them",
        ],
        text="""
        Plays the accesses that schedline c2c --trace has kept through the same model. A layout is a TOML file with the
        new offsets of members, or a result of schedline c2c, whose offsets are taken. The order of accesses stays that
        of the guests: a kernel with these offsets might run another way.""",
        examples=["schedline c2c replay rt.trace --line 128   the same accesses on longer lines"],
        operands="TRACE",
        options=C2cReplayOptions,
        job="c2c.c2c_job.replay",
        libraries=_libraries,
    )
    add_verb(
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
        options=C2cDiffOptions,
        job="c2c.traffic_diff.diff",
    )
    add_verb(
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
        misses when the traces are played again. No promise of a contract may break. If no workload gets worse, a kernel
        with the order is built and run. If there, too, none gets worse, and one that was searched and one that was not
        have fewer misses, the result is a patch for git am. Otherwise the answer is that there is no gain.""",
        examples=["schedline c2c suggest rq --trace rt.trace --held-out wakeup.trace --no-measure   only predict"],
        operands="STRUCT",
        options=SuggestOptions,
        read=with_tree,
        job="suggest.suggest_job.suggest",
    )
    parser = add_verb(
        verbs,
        "record",
        "sample this machine with perf, and keep where its objects lie; needs root, perf and drgn",
        first=[
            "schedline c2c record --vmlinux build/vmlinux --out measured   for ten seconds",
            "schedline c2c record --vmlinux build/vmlinux --out measured -- hackbench -l 1000   until it ends",
        ],
        text="""
        Runs perf c2c record. Then drgn reads from the running kernel where the objects and the slabs of the sampled
        pages lie, and schedline does what c2c import does. Nothing is installed, loaded or set. Objects that were freed
        before drgn looked have no name, or that of what took their place; so sample a load that goes on.""",
        examples=["schedline c2c record --vmlinux build/vmlinux --out measured --seconds 30 --objects rq,nohz"],
        operands="",
        options=C2cRecordOptions,
        job="c2c.samples_job.record",
    )
    options.words_behind_dashes(parser, "arguments")
    add_verb(
        verbs,
        "import",
        "what perf has sampled on a machine, by object and field",
        first=[
            "schedline c2c import samples.txt --vmlinux build/vmlinux --map objects.json --out measured",
            "schedline c2c import samples.txt --vmlinux build/vmlinux   without a map only variables have names",
        ],
        text="""
        Reads the text of perf script with data addresses and data sources of Intel's load latency, AMD's IBS or Arm's
        SPE, and names each sample by the field at its address. Each share has its interval. What has no field is in a
        row of its own, with the reason. The map says where allocated objects and per-CPU variables lay; schedline c2c
        record makes it.""",
        operands="FILE",
        options=C2cImportOptions,
        job="c2c.samples_job.import_samples",
    )


def _checked(wanted: C2cOptions) -> C2cOptions:
    wanted.own_program()
    return with_tree(wanted)


def _libraries(wanted: C2cOptions | C2cReplayOptions) -> Sequence[str]:
    return (*options.BASIC, "report") if wanted.results.html else options.BASIC
