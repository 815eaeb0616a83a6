# SPDX-License-Identifier: GPL-2.0
"""`schedline dev test-tree`: the exported series in a plain kernel tree, run by the tree's own kunit.py."""

from __future__ import annotations

from schedlib import options
from schedlib.dev.dev_options import KUNIT_RUNS, PlainTreeOptions
from schedlib.names import some_of
from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev test-tree`."""
    parser = add_verb(
        verbs,
        "test-tree",
        "the exported series in a plain kernel tree, without schedline",
        first=[
            "schedline dev test-tree                  in UML, in QEMU, and with --alltests",
            "schedline dev test-tree --skip alltests  a quicker answer",
        ],
        text="""
        Exports tests and changes, applies them with `git am` to a fresh clone, and runs the clone's own kunit.py: in
        UML, in QEMU, and with --alltests, which builds half the kernel. From there on only the clone and Python's
        standard library are used.""",
        read=lambda arguments: PlainTreeOptions(options.tree_options(arguments), arguments.skip),
        job=_test_tree,
    )
    options.add_tree_options(parser)
    runs, about = some_of("run", lambda: KUNIT_RUNS), f"leave out some of {', '.join(KUNIT_RUNS)}"
    parser.add_argument("--skip", type=runs, default=(), metavar="RUN,...", help=about)


def _test_tree(wanted: PlainTreeOptions) -> Verdict:
    from schedlib.dev.plain_tree import run_series

    return run_series(wanted)
