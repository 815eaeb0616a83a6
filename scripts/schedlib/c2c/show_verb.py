# SPDX-License-Identifier: GPL-2.0
"""`schedline show`: what a layout change, or the fix of an incident, does to the cache lines, in one picture."""

from __future__ import annotations

from schedlib import options
from schedlib.c2c.c2c_options import ShowOptions
from schedlib.c2c.c2c_verb import with_tree
from schedlib.options import Verbs, add_verb


def add_parser(verbs: Verbs) -> None:
    """Add `schedline show`."""
    add_verb(
        verbs,
        "show",
        "a layout change or an incident in one picture: the contended lines before and after",
        first=[
            "schedline show rd-lines                      two maps side by side, as text, picture and page",
            "schedline show cpupri-lines --kdir ~/linux   the same for your tree",
            "schedline show futex                         an incident that 7.3 has mended, before its fix and after it",
        ],
        text="""
        Builds a kernel without a layout change and one with it, counts both as schedline c2c does, and draws the lines
        of the structure side by side. For an incident, the fix is undone first. Counts that were made before are taken
        from the cache.""",
        operands="NAME",
        options=ShowOptions,
        read=with_tree,
        job="c2c.show_job.show",
        libraries=(*options.BASIC, "report"),
    )
