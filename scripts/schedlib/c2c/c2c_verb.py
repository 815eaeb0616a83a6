# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c`: which fields the scheduler's CPUs take from each other, on emulated ones."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from schedlib import options
from schedlib.c2c import diff_verb, heat_map, traffic_report
from schedlib.c2c.counting import Wanted, measure, subject
from schedlib.c2c.document import FILE, Result, document
from schedlib.c2c.guest_programs import WORKLOADS
from schedlib.c2c.objects import DEFAULT, KINDS
from schedlib.c2c.plugin_guest import DEFAULT_TARGET, PLACES, Setting
from schedlib.cache import write_atomic, write_json
from schedlib.check.check_verb import CPUPRI_VARIANTS, results_directory
from schedlib.kernel.targets import TARGETS, refuse_impossible
from schedlib.kernel.topology import MOST_CPUS, flat, load_topology
from schedlib.progress import say
from schedlib.verdict import Verdict

QUANTA = (97, 100, 103)
_TEXT, _PICTURE = "c2c.txt", "c2c.svg"
_CPUS = 16
_LINES = (64, 128, 256)
_TIMEOUT = 600.0

_DESCRIPTION = """\
Boots a kernel in QEMU with a plugin that follows each access to some objects of the scheduler through caches that
never run full, and shows which lines, fields and functions make CPUs fetch them from each other, as perf c2c does
on a machine with hundreds of CPUs. What is fetched for nothing is pure false sharing. Instructions are counted in
place of time, so that the same kernel gives the same numbers; several quanta, the length of a CPU's turn, show
how much of a number is the schedule's.

There are no latencies here, no cache that is too small, and no prefetcher."""

_EXAMPLES = """\
examples:
  schedline c2c                                        7.3 with all changes, RT overload on 16 CPUs
  schedline c2c --without rd-lines --out base          the same without one
  schedline c2c diff base candidate                    what moved, by field
  schedline c2c --kdir ~/linux --workload wakeup --cpus 32
  schedline c2c --objects rq,sched_domain --workload balance --svg lines.svg
  schedline c2c --config preempt-rt --objects root_domain    the fields of the push IPI, too
  schedline c2c --cpupri llc --topology llcs           masks by LLC
  schedline c2c --on qemu-arm64 --topology clusters --workload wakeup-idle --without cluster-scan
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline c2c`."""
    parser = subparsers.add_parser(
        "c2c",
        help="cache-line traffic of the scheduler, from emulated CPUs: lines, fields, functions",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(parser)
    options.add_change_options(parser)
    parser.add_argument(
        "--on",
        choices=PLACES,
        default=DEFAULT_TARGET.name,
        help=f"emulator and architecture; QEMU 7.2 has clusters on arm64 alone (default: {DEFAULT_TARGET.name})",
    )
    about = "; ".join(f"{each.name}: {each.about}" for each in WORKLOADS.values())
    parser.add_argument("--workload", choices=list(WORKLOADS), default="rt", help=f"{about} (default: rt)")
    parser.add_argument("--rounds", type=_number, metavar="N", help="how often each thread goes round")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--cpus", type=_cpus, default=_CPUS, metavar="N", help=f"2 to {MOST_CPUS} (default: {_CPUS})")
    shape.add_argument(
        "--topology",
        metavar="NAME",
        help="the shape in configs/topologies/NAME.toml; its clusters, LLCs and nodes tell near from far",
    )
    parser.add_argument(
        "--objects",
        type=options.ids,
        default=DEFAULT,
        metavar="NAME,...",
        help=f"of {', '.join(KINDS)} (default: {','.join(DEFAULT)})",
    )
    parser.add_argument(
        "--quanta",
        type=_quanta,
        default=QUANTA,
        metavar="N,...",
        help=f"blocks of code of a turn, a guest for each ({','.join(map(str, QUANTA))})",
    )
    parser.add_argument("--line", type=int, choices=_LINES, default=_LINES[0], help="bytes of a cache line (64)")
    parser.add_argument(
        "--config",
        type=options.ids,
        default=(),
        metavar="FRAGMENT,...",
        help="of configs/kernel/, on top of what c2c needs",
    )
    parser.add_argument("--cpupri", choices=CPUPRI_VARIANTS, help="a kernel with cpupri-split in this variant")
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT,
        metavar="SECONDS",
        help=f"end a guest after this time ({_TIMEOUT:.0f})",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for the results")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here too (schema c2c-1)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write a picture of the lines here too")
    parser.set_defaults(run=_run)
    more = parser.add_subparsers(metavar="VERB", help="schedline c2c VERB --help")
    diff_verb.add_parser(more)


def _number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _cpus(text: str) -> int:
    value = int(text)
    if not 2 <= value <= MOST_CPUS:
        raise argparse.ArgumentTypeError(f"2 to {MOST_CPUS} CPUs")
    return value


def _quanta(text: str) -> tuple[int, ...]:
    values = tuple(_number(word) for word in text.split(","))
    if len(set(values)) != len(values):
        raise argparse.ArgumentTypeError("the same quantum twice is the same guest twice")
    return values


def default_setting(workload: str) -> Setting:
    """What is measured where nothing else is asked for."""
    return Setting(flat(_CPUS), _LINES[0], 0, WORKLOADS[workload].rounds, _TIMEOUT)


def _run(arguments: argparse.Namespace) -> int:
    topology = load_topology(arguments.topology) if arguments.topology else flat(arguments.cpus)
    if arguments.topology:
        refuse_impossible(TARGETS[arguments.on], topology)
    workload = WORKLOADS[arguments.workload]
    setting = Setting(topology, arguments.line, 0, arguments.rounds or workload.rounds, arguments.timeout)
    config, with_ = (*arguments.config, *workload.config), arguments.with_
    if arguments.cpupri:
        config, with_ = (*config, f"cpupri-{arguments.cpupri}"), (*with_, "cpupri-split")
    wanted = Wanted(
        arguments.workload,
        arguments.objects or DEFAULT,
        arguments.quanta,
        setting,
        config,
        with_,
        arguments.without,
        TARGETS[arguments.on],
    )
    with options.opened_tree(arguments) as (cache, tree):
        made = subject(cache, tree, wanted)
        out = results_directory(cache, arguments.out)
        # What an earlier run left there must not pass for this one's, should this one fail.
        for name in (FILE, _TEXT, _PICTURE):
            (out / name).unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".now-") as name:
            result = measure(cache, made, wanted, Path(name), out)
    _write(result, out, arguments)
    return Verdict.PASS.exit_code


def _write(result: Result, out: Path, arguments: argparse.Namespace) -> None:
    text, picture = traffic_report.text(result), heat_map.draw(result)
    write_atomic(out / _TEXT, text)
    write_atomic(out / _PICTURE, picture)
    for path in (arguments.json, out / FILE):
        if path:
            write_json(path, document(result))
    if arguments.svg:
        write_atomic(arguments.svg, picture)
    print(text, end="")
    say(f"results: {out}/{FILE}, {_TEXT}, {_PICTURE}")
