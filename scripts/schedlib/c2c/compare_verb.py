# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c compare`: samples of a real machine beside emulated counts and published figures."""

from __future__ import annotations

from schedlib import options
from schedlib.c2c.c2c_options import C2cCompareOptions
from schedlib.names import named_file, published_names
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c compare`."""
    parser = add_verb(
        verbs,
        "compare",
        "an import beside emulated counts and the figures of a mail, field by field",
        first=[
            "schedline c2c import samples.txt --vmlinux build/vmlinux --map objects.json --out measured",
            "schedline c2c compare --measured measured --emulated base --mail rd-lines",
            "schedline c2c compare --emulated base --mail mmap-lock-one-line",
        ],
        text="""
        For each field its rank and its share on both sides, and the rank correlation of both with its interval. A
        field agrees if the interval of its samples and the range of the quanta have a number in common. Those that do
        not come first, each with the known reasons for a difference of its kind. The third column is what a mail has
        published. This measures agreement and judges nothing: the exit code is 0.

        Without --measured, published figures alone stand beside the counts, with the first three fields of both. The
        file of the figures says which structures are ranked, and with which workload to count them.""",
        operands="",
        read=lambda arguments: options.options_of(C2cCompareOptions, arguments),
        job=_compare,
    )
    add, place = parser.add_argument, options.existing_path
    add("--measured", type=place, metavar="DIR", help="what schedline c2c import has written")
    add("--emulated", type=place, required=True, metavar="DIR", help="a result of schedline c2c, or its directory")
    about = f"published figures: {', '.join(published_names())}, or a file like those"
    add(
        "--mail", type=named_file("file of published figures", published_names, "published"), metavar="NAME", help=about
    )
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-compare-1)")


def _compare(wanted: C2cCompareOptions) -> Verdict:
    from schedlib.c2c.compare_job import compare_sides

    return compare_sides(wanted)
