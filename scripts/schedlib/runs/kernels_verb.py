# SPDX-License-Identifier: GPL-2.0
"""`schedline kernels`: base, candidate and placebo, to be booted in turn."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.options import CHANGES, TreeOptions, Verbs, add_verb, existing_file, new_directory, option


@dataclass(frozen=True)
class KernelsOptions:
    """The two or three kernels to build. placebo: True for the carried one."""

    config: Path = option("--config FILE", "the .config of all kernels", existing_file, required=True)
    tree: TreeOptions = field(default_factory=TreeOptions)
    base: str | None = option("--base REV", "revision of your tree without the change")
    head: str | None = option("--head REV", "revision of your tree with the change")
    changes: tuple[str, ...] = option(
        "--change ID,...", "instead of revisions: build without and with these carried changes", CHANGES, default=()
    )
    with_: tuple[str, ...] = option("--with ID,...", "changes that all kernels get", CHANGES, default=())
    placebo: Path | bool = option(
        "--placebo FILE",
        "build a third kernel, with the carried placebo of the change or with this patch",
        existing_file,
        default=False,
        nargs="?",
        const=True,
    )
    package: str = option("--package", "deb (default) or tar", default="deb", choices=("deb", "tar"))
    out: Path = option(
        "--out DIR", "directory for the packages (default: ./kernels)", new_directory, default=Path("kernels")
    )


def add_parser(verbs: Verbs) -> None:
    add_verb(
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
        options=KernelsOptions,
        read=_checked,
        job="runs.packages.build_kernels",
    )


def _checked(options: KernelsOptions) -> KernelsOptions:
    if not re.search(r"^CONFIG_\w+=", options.config.read_text(errors="replace"), re.M):
        raise SchedlineError(f"--config: {options.config} has no CONFIG_ line", "give a .config")
    named = options.base is not None or options.head is not None
    if named == bool(options.changes):
        both = "give --base and --head, or --change"
        raise SchedlineError("name either two revisions or carried changes to compare", both)
    if named and not (options.tree.kdir and options.base and options.head):
        raise SchedlineError("--base and --head must be given together, with --kdir", "give --kdir, --base and --head")
    if options.placebo is True and len(options.changes) != 1:
        raise SchedlineError("a carried placebo belongs to one change", "give one --change, or --placebo FILE")
    return options
