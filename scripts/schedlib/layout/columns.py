# SPDX-License-Identifier: GPL-2.0
"""The columns that --arch and --config name, and what compiling them needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor, options
from schedlib.kernel.kconfig import Dropped
from schedlib.layout.compile import Column, all_configs, arch_table, chosen_archs, compiled
from schedlib.process import run
from schedlib.progress import say
from schedlib.tree.kernel_tree import Tree

DEFAULT_ARCH = "x86_64"


def add_column_options(
    parser: argparse.ArgumentParser, beside_arch: argparse._MutuallyExclusiveGroup | None = None
) -> None:
    """--arch, --config.

    Args:
        beside_arch: options that --arch excludes.
    """
    (beside_arch or parser).add_argument(
        "--arch",
        type=options.ids,
        metavar="ARCH,...",
        help=f"all, or of {', '.join(arch_table())} (default: {DEFAULT_ARCH})",
    )
    parser.add_argument(
        "--config",
        type=options.ids,
        default=(),
        metavar="NAME,...",
        help="all, or fragments of configs/kernel/, joined by + into one column",
    )


def columns_for(archs: Sequence[str], configs: Sequence[str]) -> tuple[Column, ...]:
    """The columns that the options ask for; without configs each architecture's own alone."""
    names = list(arch_table()) if "all" in archs else archs
    more = all_configs() if "all" in configs else configs
    own = not configs or "all" in configs
    return tuple(Column(arch, config) for arch in chosen_archs(names) for config in [*([""] if own else []), *more])


def ensure_tools(columns: Sequence[Column]) -> None:
    """Install what compiling these columns needs.

    Raises:
        SchedlineError: it is missing and cannot be installed.
    """
    packages = {column.arch.package: column.arch for column in columns if column.arch.compiler}
    compilers = [
        doctor.Need(f"{arch.compiler}gcc", package, f"compiles for {arch.name}", frozenset({"layout"}))
        for package, arch in packages.items()
    ]
    if any("randstruct" in column.config.split("+") for column in columns):
        major = run(["gcc", "-dumpversion"]).stdout.decode().split(".")[0].strip()
        headers = f"usr/lib/gcc/*/{major}/plugin/include/gcc-plugin.h"
        why = "shuffles structures in the configuration randstruct"
        compilers.append(
            doctor.Need("gcc's plugin headers", f"gcc-{major}-plugin-dev", why, frozenset({"layout"}), headers)
        )
    objtool = ["objtool"] if any(column.arch.name == "x86_64" for column in columns) else []
    doctor.ensure(["layout", "build", *objtool], compilers)


def compiled_or_none(cache: Path, tree: Tree, commit: str, column: Column) -> Path | None:
    """The object of a column; None, said why, where this architecture has no such configuration."""
    try:
        return compiled(cache, tree, commit, column)
    except Dropped as dropped:
        say(f"no column {column.name}: {dropped.observed}")
        return None
