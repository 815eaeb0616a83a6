# SPDX-License-Identifier: GPL-2.0
"""Any structure of a tree or of a built kernel: its lines, and a first contract of it."""

from __future__ import annotations

from dataclasses import replace

from schedlib.cache import write_atomic
from schedlib.contracts.contract_rules import Rules
from schedlib.contracts.first_contract import first_contract
from schedlib.errors import SchedlineError
from schedlib.layout.kernel_text import declaration_in, declaring_file
from schedlib.layout.kernel_versions import CommitVersions, opened
from schedlib.layout.layout_diff import draw_struct
from schedlib.layout.layout_options import InitOptions, LayoutOptions
from schedlib.layout.own_build import OURS, Versions
from schedlib.layout.picture import draw_line
from schedlib.layout.rule_judge import Layout
from schedlib.layout.vmlinux import layout_of_built
from schedlib.progress import say
from schedlib.verdict import Verdict


def show_struct(options: LayoutOptions, patch: bytes | None = None) -> Verdict:
    """Print every line of a structure, on each kernel asked for; with a patch, without and with it.

    Raises:
        SchedlineError: there is no such structure, or the tree, the kernel or the machine does not allow it.
    """
    struct = options.struct or ""
    if options.built:
        layouts = [layout_of_built(options.vmlinux, _rules(struct, ""))]
    else:
        with opened(options, patch or b"") as versions:
            pairs = _both(versions, struct, declaring_file(versions.text, struct, versions.texts))
        layouts = [pair[1] for pair in pairs]
        if patch:
            layouts = [
                replace(layout, name=f"{layout.name}, {which} the patch")
                for pair in pairs
                for layout, which in zip(pair, ("without", "with"), strict=True)
            ]
    for layout in layouts:
        if layout.assumed:
            say(layout.assumed)
        _require(layout, struct)
        size = layout.types[struct].size
        print(f"struct {struct} on {layout.name}: {size} bytes, {layout.lines(size)} lines of {layout.line}")
        for line in range(layout.lines(size)):
            for text in draw_line(struct, line, layout, frozenset()):
                print(text)
    if options.svg:
        write_atomic(options.svg, draw_struct(struct, layouts))
        say(f"picture: {options.svg}")
    return Verdict.PASS


def _both(versions: Versions | CommitVersions, struct: str, file: str) -> list[tuple[Layout, Layout]]:
    """A structure without and with a patch, in each configuration."""
    every = (versions.layouts(column, _rules(struct, file), {}, every=True) for column in versions.pack_columns)
    found = [pair for pair in every if pair]
    if not found and versions.own:
        raise SchedlineError(f"no object of {versions.own.build} is made from {file}", f"make one, or add {OURS}")
    if not found:
        raise SchedlineError("there is no such kernel", "choose another --arch or --config")
    return found


def init_contract(options: InitOptions) -> Verdict:
    """Write a first contract of a structure.

    Raises:
        SchedlineError: there is no such structure, or the tree or the machine does not allow it.
    """
    struct = options.struct
    with opened(options) as versions:
        file = options.file or declaring_file(versions.text, struct)
        layouts = [pair[1] for pair in _both(versions, struct, file)]
        for layout in layouts:
            _require(layout, struct)
        text = first_contract(declaration_in(versions.text, struct, file, layouts))
    if options.out:
        write_atomic(options.out, text)
        print(options.out)
    else:
        print(text, end="")
    return Verdict.PASS


def _rules(struct: str, file: str) -> Rules:
    """Rules that say nothing about a structure."""
    return Rules((), (), files={struct: file})


def _require(layout: Layout, struct: str) -> None:
    if struct not in layout.structures:
        raise SchedlineError(
            f"{layout.name} has no struct {struct}",
            "check its name; configs/kernel/packs.config has the subsystems that are compiled, --config adds others",
        )
