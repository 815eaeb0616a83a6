# SPDX-License-Identifier: GPL-2.0
"""`schedline kernels`: base, candidate and placebo, to be booted in turn."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from schedlib import options
from schedlib.errors import SchedlineError
from schedlib.names import change_ids, some_of
from schedlib.options import Verbs, add_verb, options_of
from schedlib.runs.run_options import KernelsOptions
from schedlib.verdict import Verdict


def add_parser(verbs: Verbs) -> None:
    """Add `schedline kernels`."""
    parser = add_verb(
        verbs,
        "kernels",
        "base, candidate and placebo, built alike, to be booted in turn",
        first=[
            "schedline kernels --config my.config --change rd-lines --placebo",
            "schedline kernels --config my.config --kdir ~/linux --base v7.3 --head my-branch",
        ],
        text="""
        Builds two kernels from one configuration with one toolchain, so that they differ only in the change, and
        packages them under different names. Functions are aligned to 64 bytes in both. Otherwise the change would
        also move functions.

        --placebo builds a third kernel, with the candidate's sizes and the base's order of members. A gain that the
        placebo also shows does not come from the layout. This project has placebos for its own changes; for another
        change, give a patch.""",
        examples=[
            "schedline kernels --config my.config --kdir ~/linux --base v7.3 --head my-branch --placebo pad.patch",
            "schedline kernels --config my.config --change cpupri-split --with cpupri-lines --placebo --package tar",
        ],
        read=_read,
        job=_kernels,
    )
    changes, there = some_of("change", change_ids), options.existing_path
    parser.add_argument("--config", type=there, required=True, metavar="FILE", help="the .config of all kernels")
    options.add_tree_options(parser)
    parser.add_argument("--base", metavar="REV", help="revision of your tree without the change")
    parser.add_argument("--head", metavar="REV", help="revision of your tree with the change")
    for option, name, about in (
        ("--change", "changes", "instead of revisions: build without and with these carried changes"),
        ("--with", "with_", "changes that all kernels get"),
    ):
        parser.add_argument(option, dest=name, type=changes, default=(), metavar="ID,...", help=about)
    about = "build a third kernel, with the carried placebo of the change or with this patch"
    parser.add_argument("--placebo", nargs="?", type=there, const=True, metavar="FILE", help=about)
    parser.add_argument("--package", choices=("deb", "tar"), default="deb", help="deb (default) or tar")
    about = "directory for the packages (default: ./kernels)"
    parser.add_argument("--out", type=options.new_directory, default=Path("kernels"), metavar="DIR", help=about)


def _read(arguments: argparse.Namespace) -> KernelsOptions:
    config: Path = arguments.config
    try:
        text = config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SchedlineError(f"--config: {config}: {error}", "zcat /proc/config.gz, or /boot/config-*") from error
    if not re.search(r"^CONFIG_\w+=", text, re.M):
        raise SchedlineError(f"--config: {config} has no CONFIG_ line", "give a .config")
    named = arguments.base is not None or arguments.head is not None
    if named == bool(arguments.changes):
        both = "give --base and --head, or --change"
        raise SchedlineError("name either two revisions or carried changes to compare", both)
    if named and not (arguments.kdir and arguments.base and arguments.head):
        raise SchedlineError("--base and --head must be given together, with --kdir", "give --kdir, --base and --head")
    carried = arguments.placebo is True
    if carried and len(arguments.changes) != 1:
        raise SchedlineError("a carried placebo belongs to one change", "give one --change, or --placebo FILE")
    placebo: Path | None = None if carried else arguments.placebo
    if placebo and not placebo.is_file():
        raise SchedlineError(f"--placebo: {placebo} is no file", "git format-patch -1 makes one")
    return options_of(
        KernelsOptions,
        arguments,
        tree=options.tree_options(arguments),
        configuration=text,
        revisions=(arguments.base, arguments.head) if named else None,
        placebo=arguments.placebo is not None,
        placebo_patch=placebo,
    )


def _kernels(wanted: KernelsOptions) -> Verdict:
    from schedlib.runs.packages import build_kernels

    return build_kernels(wanted)
