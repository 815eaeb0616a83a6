# SPDX-License-Identifier: GPL-2.0
"""`schedline dev kselftest`: the exported workloads in a plain kernel tree, by the tree's own targets and runner."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib import options
from schedlib.options import TreeOptions, Verbs, add_verb
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class KselftestOptions:
    """The tree, and the file for each step's verdict."""

    tree: TreeOptions
    json: Path | None


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev kselftest`."""
    parser = add_verb(
        verbs,
        "kselftest",
        "the workloads in a plain kernel tree: make kselftest, an installation, the tarball",
        first=[
            "schedline dev kselftest                 Debian's 7.3",
            "schedline dev kselftest --kdir ~/linux  your tree",
        ],
        text="""
        Exports the series, applies it with `git am` to a fresh clone, and lets the clone configure, build, run,
        install and pack the workloads as its users would. They run on this machine, for some minutes. The tarball
        runs in a guest, too, which has busybox, and neither compiler nor Python. Every log is judged against the list
        of the tests that had to run.""",
        read=lambda arguments: KselftestOptions(options.tree_options(arguments), arguments.json),
        job=_kselftest,
    )
    options.add_tree_options(parser)
    parser.add_argument("--json", type=options.new_path, metavar="FILE", help="write each step's verdict here")


def _kselftest(wanted: KselftestOptions) -> Verdict:
    from schedlib.dev.kselftest import run_steps

    return run_steps(wanted.tree, wanted.json)
