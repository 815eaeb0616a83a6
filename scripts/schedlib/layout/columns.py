# SPDX-License-Identifier: GPL-2.0
"""The columns that --arch and --config name, the tools that compile them, and the tree that they are compiled from."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.layout.compile import Column, arch_table, chosen_archs, layout_data
from schedlib.layout.layout_options import DEFAULT_ARCH, LayoutOperand
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.process import run
from schedlib.tree.changes import PatchSet
from schedlib.tree.compose import Composition, compose, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, open_tree


def columns_for(archs: Sequence[str], configs: Sequence[str]) -> tuple[Column, ...]:
    """The columns that the options ask for; without configs only each architecture's own configuration."""
    names = list(arch_table()) if "all" in archs else archs or [DEFAULT_ARCH]
    wanted = ["", *layout_data().configs] if "all" in configs else configs or [""]
    return tuple(Column(arch, config) for arch in chosen_archs(names) for config in wanted)


def pack_columns(archs: Sequence[str], configs: Sequence[str]) -> tuple[Column, ...]:
    """The same for packs: with the subsystems of configs/kernel/packs.config in each."""
    return tuple(
        Column(column.arch, "+".join(filter(None, ("packs", column.config)))) for column in columns_for(archs, configs)
    )


def ensure_tools(columns: Sequence[Column], more: Collection[str] = ()) -> None:
    """SchedlineError if this machine lacks what compiling these columns needs, or `more` jobs of doctor."""
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
    doctor.require(["layout", "build", *more], compilers)


def composed_tree(
    chosen: TreeOptions, changes: ChangeOptions, *, expect: Collection[str] | None = None, base: str | None = None
) -> tuple[Tree, Composition]:
    """The tree that the options name, with tests and changes on top; SchedlineError if a change does not apply."""
    doctor.require(["build", *chosen.needs])
    tree = open_tree(cache_dir(), chosen)
    composition = compose(tree, with_=changes.with_, without=changes.without, expect=expect, base=base)
    refuse_conflicts(composition)
    return tree, composition


def composed_operand(operand: LayoutOperand) -> tuple[Tree, Composition]:
    """The tree that an operand names, with the tests, and of the carried changes those alone that it names."""
    carried = PatchSet(operand.series).default() if operand.series else ()
    without = tuple(name for name in carried if name not in operand.changes)
    return composed_tree(TreeOptions(operand.path, operand.series), ChangeOptions(operand.changes, without))
