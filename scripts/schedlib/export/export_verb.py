# SPDX-License-Identifier: GPL-2.0
"""`schedline export`: tests and changes, in separate patches, as a series for a kernel tree without schedline."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.options import ChangeOptions, TreeOptions, Verbs, add_verb, new_directory, option
from schedlib.verdict import Verdict


def _empty_directory(text: str) -> Path:
    path = new_directory(text)
    if path.exists() and any(path.iterdir()):
        raise argparse.ArgumentTypeError(f"{text} is not empty; name another directory")
    return path


@dataclass(frozen=True)
class ExportOptions:
    """What is exported, and where to."""

    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    out: Path | None = option("-o --out DIR", "an empty or new directory (default: in the cache)", _empty_directory)


def add_parser(verbs: Verbs) -> None:
    """Add `schedline export`."""
    add_verb(
        verbs,
        "export",
        "a git am-able series of tests and changes for a kernel tree",
        first=[
            "schedline export --kdir ~/linux -o /tmp/series                  the tests alone",
            "schedline export --kdir ~/linux --with rd-lines -o /tmp/series  and a carried change after them",
        ],
        text="""
        Writes patches against the HEAD of a tree: the fixes that it lacks, the KUnit suites one by one, each change
        that --with names, followed by its tests, then the documentation and the workloads for
        tools/testing/selftests/. In the tree they work without schedline. The tests of a change that the tree does
        not have are left out, and the output names them. Your tree is only read.""",
        examples=["git -C ~/linux am /tmp/series/*.patch"],
        options=ExportOptions,
        job=_export,
    )


def _export(wanted: ExportOptions) -> Verdict:
    from schedlib.export.export_job import export_tree

    return export_tree(wanted.tree, wanted.changes, wanted.out)
