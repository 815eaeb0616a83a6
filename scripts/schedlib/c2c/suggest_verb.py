# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c suggest`: an order of a structure's members, from who reads and who writes them."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.options import Verbs, add_verb
from schedlib.suggest.suggest_options import PRICE, RESTARTS, WEIGHTS, SuggestOptions
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
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
        read=_read,
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
    add("--price", type=_number, default=PRICE, metavar="PERCENT", help=about)
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


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return value


def _weights(text: str) -> tuple[float, ...]:
    values = tuple(_number(word) for word in text.split(","))
    if len(values) != len(WEIGHTS) or not any(values):
        raise argparse.ArgumentTypeError("give three numbers, for lines of 64, 128 and 256 bytes; not all 0")
    return values


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 999999")
    return int(text)


def _read(arguments: argparse.Namespace) -> SuggestOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    arguments.trace, arguments.held_out = tuple(arguments.trace), tuple(arguments.held_out)
    arguments.compare = tuple(arguments.compare)
    return options.options_of(SuggestOptions, arguments, tree=tree, changes=options.change_options(arguments))


def _suggest(wanted: SuggestOptions) -> Verdict:
    from schedlib.suggest.suggest_job import suggest

    return suggest(wanted)
