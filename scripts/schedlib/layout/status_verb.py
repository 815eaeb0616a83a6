# SPDX-License-Identifier: GPL-2.0
"""`schedline status`: which of the changes a tree, a vmlinux or the running kernel has, and how the others apply."""

from __future__ import annotations

from schedlib.environment import activate
from schedlib.errors import SchedlineError
from schedlib.layout.layout_options import StatusOptions
from schedlib.options import BASIC, ChangeOptions, Verbs, add_verb
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline status`."""
    add_verb(
        verbs,
        "status",
        "which of the changes a kernel has, and how the carried ones apply",
        first=[
            "schedline status --kdir ~/linux           which changes your tree has",
            "schedline status --kdir ~/linux --apply   how the carried changes apply to it, on a copy",
        ],
        text="""
        Says of each change present, partial, absent or n/a, and by what one sees it. Nothing is built. For a directory
        nothing is downloaded or copied either.

        --apply applies the carried changes to a copy as `git am -3` does. It says of each applied, upstream, reverted,
        left out, absent or conflict, with every hunk that drifted. Without --with it applies those that a check of a
        series applies. The exit code is 2 when one conflicts.""",
        examples=[
            "schedline status --series 6.12",
            "schedline status --running",
            "schedline status --vmlinux ~/build/vmlinux --json status.json",
            "schedline status --kdir ~/linux --apply --with cpupri-split",
        ],
        options=StatusOptions,
        read=_checked,
        job=_status,
        libraries=(),
    )


def _checked(options: StatusOptions) -> StatusOptions:
    if options.built and (options.tree.kdir or options.tree.series or options.apply):
        raise SchedlineError("--vmlinux and --running name a kernel that is built", "drop --kdir, --series, --apply")
    if options.changes != ChangeOptions() and not options.apply:
        raise SchedlineError("--with and --without choose what --apply applies", "add --apply, or drop them")
    if options.apply and options.json:
        raise SchedlineError("--json holds which changes are there, which --apply does not ask", "drop one of them")
    return options


def _status(wanted: StatusOptions) -> Verdict:
    if wanted.directory and not wanted.json:
        from schedlib.tree.source import of_directory

        print(wanted.directory, *of_directory(wanted.directory), sep="\n")
        return Verdict.PASS
    for extra in BASIC:
        activate(extra)
    from schedlib.layout.status import show_applied, show_status

    return show_applied(wanted) if wanted.apply else show_status(wanted)
