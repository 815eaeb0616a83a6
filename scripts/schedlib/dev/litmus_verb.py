# SPDX-License-Identifier: GPL-2.0
"""`schedline dev litmus`: checks cpupri's barriers with the kernel's memory model."""

from __future__ import annotations

from dataclasses import dataclass

from schedlib import doctor, options
from schedlib.options import TreeOptions, Verbs, add_verb
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class LitmusOptions:
    """The tree whose memory model is used, and a glob for the names of the tests."""

    tree: TreeOptions
    only: str


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev litmus`."""
    parser = add_verb(
        verbs,
        "litmus",
        "what the kernel's memory model says of cpupri's barriers, each left out once",
        first=[
            "schedline dev litmus                        all tests, with the model of Debian's 7.3",
            "schedline dev litmus --only 'cpupri-rise*'  those whose name matches",
        ],
        text="""
        Runs the litmus tests of kunit/litmus/ with herd7 and the memory model of a kernel tree, by the kernel's own
        scripts. Each test is run as it is, with each remedy of a known defect, and with each barrier left out, which
        has to make the bad outcome possible. The tests model cpupri of 6.12 and 7.3, not the tree's own.""",
        read=lambda arguments: LitmusOptions(options.tree_options(arguments), arguments.only),
        job=_litmus,
    )
    options.add_tree_options(parser)
    parser.add_argument("--only", metavar="GLOB", default="*", help="the tests whose name matches")


def _litmus(wanted: LitmusOptions) -> Verdict:
    from schedlib.cache import cache_dir
    from schedlib.dev.litmus import check
    from schedlib.tree.kernel_tree import open_tree

    doctor.require(wanted.tree.needs)
    tree = open_tree(cache_dir(), wanted.tree)
    verdict, said = check(tree, wanted.only)
    print(f"{said}tree: {tree.origin}\nverdict: {verdict.name}")
    return verdict
