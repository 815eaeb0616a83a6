# SPDX-License-Identifier: GPL-2.0
"""`schedline c2c variants`: several designs in one table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from schedlib import options
from schedlib.c2c.c2c_options import TIMEOUT, C2cVariantsOptions
from schedlib.names import design_files, named_file
from schedlib.options import Verbs, add_verb
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline c2c variants`."""
    parser = add_verb(
        verbs,
        "variants",
        "several designs in one table: misses, false sharing, lines and bytes",
        first=[
            "schedline c2c variants designs.toml         build and run each, and print the table",
            "schedline c2c variants cpupri --out cpupri  the designs of configs/variants/cpupri.toml",
        ],
        text="""
        Builds a kernel for each design, runs the same workloads on all, and shows the counts side by side, with lines
        of 64, 128 and 256 bytes, and the bytes that the objects take. The others are compared with the first design.
        A placebo is added: the first kernel with a page of constants more. Its counts show how much of a difference
        is chance.

        The file has a [[variant]] for each design: a name, and any of: with, without, cpupri, config, patch. Or a name
        and a layout: then the accesses of the first design are played again with other offsets.

        What has been counted is kept in the cache. A run that was interrupted goes on where it was.""",
        examples=["schedline c2c variants designs.toml --kdir ~/linux    the designs are patches of this tree"],
        operands="FILE",
        read=_read,
        job=_variants,
        libraries=_libraries,
    )
    add = parser.add_argument
    about = f"the designs, the workloads and the guests: {', '.join(design_files())}, or a file like those"
    add("file", type=named_file("file of designs", design_files, "variants"), metavar="FILE", help=about)
    options.add_tree_options(parser)
    about = f"end a guest after this time ({TIMEOUT:.0f})"
    add("--timeout", type=options.seconds, default=TIMEOUT, metavar="SECONDS", help=about)
    add("--out", type=options.new_path, metavar="DIR", help="directory for the results and the logs of guests")
    add("--json", type=options.new_path, metavar="FILE", help="write the result here too (c2c-variants-1)")
    add("--html", type=options.new_path, metavar="FILE", help="write a page with the tables here")


def _read(arguments: argparse.Namespace) -> C2cVariantsOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    return options.options_of(C2cVariantsOptions, arguments, tree=tree)


def _libraries(wanted: C2cVariantsOptions) -> Sequence[str]:
    """Only a page needs more than the basic libraries."""
    return (*options.BASIC, "requirements-report.txt") if wanted.html else options.BASIC


def _variants(wanted: C2cVariantsOptions) -> Verdict:
    from schedlib.c2c.variants_job import variants

    return variants(wanted)
