# SPDX-License-Identifier: GPL-2.0
"""`schedline dev mutants`: prove that each test can fail."""

from __future__ import annotations

import argparse

from schedlib import options
from schedlib.dev.dev_options import EMULATED, MutantsOptions
from schedlib.kernel.targets import TARGETS
from schedlib.names import one_of
from schedlib.options import Verbs, add_verb, options_of
from schedlib.tree.source import require_tree
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev mutants`."""
    parser = add_verb(
        verbs,
        "mutants",
        "prove that each test can fail",
        first=[
            "schedline dev mutants                      all of configs/mutants/; hours with an empty cache",
            "schedline dev mutants --only 'rd-lines/*'  those of one change",
        ],
        text="""
        Applies each diff of configs/mutants/ to the patched tree, builds and boots it. One of the tests that its
        Killed-by header names has to fail. Answers are kept in the cache, so an interrupted run goes on.""",
        examples=["schedline dev mutants --from ~/my-diffs   diffs without headers: any failing test kills"],
        read=_read,
        job=_try,
    )
    options.add_tree_options(parser)
    traffic = f"or {EMULATED}: count the traffic of the mutants that have a Traffic header"
    options.add_values(
        parser,
        ("--on", one_of("target", lambda: (*TARGETS, EMULATED)), "TARGET", f"{', '.join(TARGETS)}; {traffic}"),
        ("--only", str, "GLOB", "only those whose <change>/<slug> matches"),
        ("--json", options.new_path, "FILE", "write the table here"),
    )
    diffs = options.existing_path
    parser.add_argument("--from", dest="from_", type=diffs, metavar="DIR", help="diffs of your own instead")


def _read(arguments: argparse.Namespace) -> MutantsOptions:
    tree = options.tree_options(arguments)
    require_tree(tree)
    return options_of(MutantsOptions, arguments, tree=tree)


def _try(wanted: MutantsOptions) -> Verdict:
    from schedlib.dev.mutants_job import try_mutants

    return try_mutants(wanted)
