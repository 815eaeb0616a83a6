# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline layout`, of the verbs below it, and of `schedline status`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from schedlib.names import (
    arch_names,
    change_ids,
    fragment_names,
    pack_names,
    pack_rule_ids,
    series_names,
    some_of,
    unknown,
    words,
)
from schedlib.options import ChangeOptions, TreeOptions, change_options, existing_path, tree_options
from schedlib.paths import CONFIGS, KUNIT
from schedlib.verdict import Verdict

DEFAULT_ARCH = "x86_64"


@dataclass(frozen=True)
class ColumnOptions:
    """The architectures and configurations; without configurations only each architecture's own."""

    arch: tuple[str, ...] = (DEFAULT_ARCH,)
    config: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutOptions:
    """The layouts to judge: those of a tree, or that of one built kernel.

    Attributes:
        built: whether to judge a built kernel: `vmlinux`, or the running one if that is None.
        expect: changes that the kernel has to have; None: those of `base`.
        require: rules that must not be n/a everywhere.
        packs: the packs to judge, in place of the rules of the five changes.
        contracts: directories with more contracts of packs.
    """

    tree: TreeOptions
    changes: ChangeOptions
    columns: ColumnOptions
    built: bool = False
    vmlinux: Path | None = None
    expect: tuple[str, ...] | None = None
    base: str | None = None
    require: tuple[str, ...] = ()
    json: Path | None = None
    packs: tuple[str, ...] = ()
    contracts: tuple[Path, ...] = ()

    @property
    def of_packs(self) -> bool:
        """Whether packs are judged."""
        return bool(self.packs or self.contracts)

    def source(self) -> list[str]:
        """What is judged, as command-line arguments."""
        if self.built:
            return ["--vmlinux", str(self.vmlinux)] if self.vmlinux else ["--running"]
        return self.tree.words()


@dataclass(frozen=True)
class PatchOptions:
    """Which patch is judged on which tree.

    Attributes:
        contracts: directories with contracts, beside those of this project.
        source: where git has the patch, which is empty then: a commit, or a range A..B, or without both what is staged.
    """

    patch: bytes
    tree: TreeOptions
    changes: ChangeOptions
    columns: ColumnOptions
    verbose: bool = False
    form: str = "text"
    contracts: tuple[Path, ...] = ()
    source: tuple[str | None, str | None] | None = None


@dataclass(frozen=True)
class QueryOptions:
    """The options of `layout emit`, `explain` and `headroom`.

    Attributes:
        rule: the rule to explain.
        out: the file for the answer; None: standard output.
        json: the file for the figures.
    """

    tree: TreeOptions
    changes: ChangeOptions
    columns: ColumnOptions
    rule: str = ""
    out: Path | None = None
    json: Path | None = None


@dataclass(frozen=True)
class HookOptions:
    """The git tree whose commits and mails are judged from now on."""

    kdir: Path | None


@dataclass(frozen=True)
class StructOptions:
    """Which structure is shown, or gets a first contract.

    Attributes:
        file: what declares it; empty: it is looked for.
        built: whether it is read from a built kernel: `vmlinux`, or the running one if that is None.
        out: the file for the contract; None: standard output.
        profile: a result of `schedline c2c`, from which classes are taken, too.
    """

    struct: str
    tree: TreeOptions
    changes: ChangeOptions
    columns: ColumnOptions
    file: str = ""
    built: bool = False
    vmlinux: Path | None = None
    out: Path | None = None
    profile: Path | None = None


@dataclass(frozen=True)
class ContractCheckOptions:
    """The contract that is held against a profile, a result of `schedline c2c`."""

    contract: Path
    profile: Path


@dataclass(frozen=True)
class LayoutOperand:
    """One side of `layout diff`.

    Attributes:
        text: as the user wrote it.
        path: a tree, a vmlinux or an object.
        series: or a series, with the carried changes in `changes` and no others. With neither: the running kernel.
    """

    text: str
    path: Path | None = None
    series: str | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutDiffOptions:
    """The two layouts to compare, the column, and the files for figures and picture."""

    before: LayoutOperand
    after: LayoutOperand
    columns: ColumnOptions
    json: Path | None
    svg: Path | None


@dataclass(frozen=True)
class DriftOptions:
    """The kernels to compare, in order of time.

    Attributes:
        archs: architectures; empty for those of the built kernels, or else the default.
        configs: fragments; empty for each architecture's own configuration.
        packs: which contracts; `sched` is that of the five changes.
        contracts: directories with more contracts.
        command: the command line, for the document.
    """

    kernels: tuple[LayoutOperand, ...]
    archs: tuple[str, ...]
    configs: tuple[str, ...]
    packs: tuple[str, ...]
    contracts: tuple[Path, ...]
    json: Path | None
    command: str


@dataclass(frozen=True)
class StatusOptions:
    """Which kernel is looked at.

    Attributes:
        built: whether to look at a built kernel: `vmlinux`, or the running one if that is None.
        apply: print how the carried changes apply, instead of which changes the kernel has.
        changes: the changes to apply.
    """

    tree: TreeOptions
    changes: ChangeOptions
    built: bool = False
    vmlinux: Path | None = None
    apply: bool = False
    json: Path | None = None

    @property
    def directory(self) -> Path | None:
        """The directory whose files are enough for the answer; None if a tree in the cache or a kernel is needed."""
        kdir = self.tree.kdir
        return kdir if kdir and kdir.is_dir() and not self.apply else None


def job(module: str, function: str) -> Callable[[Any], Verdict]:
    """What a verb does. Its module is imported when it runs: --help needs none of them."""

    def run(wanted: object) -> Verdict:
        verdict: Verdict = getattr(import_module(f"schedlib.layout.{module}"), function)(wanted)
        return verdict

    return run


def add_column_options(parser: argparse.ArgumentParser) -> None:
    """--arch, --config."""
    parser.add_argument(
        "--arch",
        type=some_of("architecture", arch_names, everything="all"),
        metavar="ARCH,...",
        help=f"all, or of {', '.join(arch_names())} (default: {DEFAULT_ARCH})",
    )
    parser.add_argument(
        "--config",
        type=configurations,
        default=(),
        metavar="NAME,...",
        help="all, or fragments of configs/kernel/, joined by + into one column",
    )


def column_options(arguments: argparse.Namespace) -> ColumnOptions:
    """What add_column_options() read."""
    return ColumnOptions(arguments.arch or (DEFAULT_ARCH,), arguments.config)


def of_tree(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of options that name a tree and what is compiled of it."""
    columns = column_options(arguments)
    return {"tree": tree_options(arguments), "changes": change_options(arguments), "columns": columns}


def add_pack_options(parser: argparse.ArgumentParser, more: tuple[str, ...] = ()) -> None:
    """--pack, --contracts. `more`: names that a verb takes beside those of packs."""
    parser.add_argument(
        "--pack",
        type=some_of("pack", lambda: (*more, *pack_names()), everything="all"),
        metavar="NAME,...",
        help=f"contracts of other structures: all, or of {', '.join((*more, *pack_names()))}",
    )
    parser.add_argument(
        "--contracts", type=existing_path, metavar="DIR", help="contracts of your own; docs/contracts.md has the format"
    )


def packs(arguments: argparse.Namespace) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """What add_pack_options() read: packs, and directories with contracts."""
    return arguments.pack or (), (arguments.contracts,) if arguments.contracts else ()


def struct_tag(text: str) -> str:
    """An argparse type: the tag of a structure, with or without `struct`."""
    tag = text.removeprefix("struct ").strip()
    if not re.fullmatch(r"[A-Za-z_]\w*", tag):
        raise argparse.ArgumentTypeError(f"{text!r} is no tag of a structure, such as net_device")
    return tag


def contract_file(text: str) -> Path:
    """An argparse type: a contract by the tag of its structure, or its file."""
    if "/" in text or text.endswith(".toml"):
        return existing_path(text)
    tag = struct_tag(text)
    known = {path.stem: path for path in (CONFIGS / "contracts").glob("*/*.toml")}
    if tag not in known:
        raise argparse.ArgumentTypeError(
            f"{unknown('contract', tag, sorted(known))}; schedline layout contract init {tag} writes a first one"
        )
    return known[tag]


def configurations(text: str) -> tuple[str, ...]:
    """An argparse type: a list of configurations, each of them fragments joined by `+`; or all."""
    for name in (part for config in words(text) if config != "all" for part in config.split("+")):
        if name not in fragment_names() and not ("/" in name and Path(name).is_file()):
            raise argparse.ArgumentTypeError(unknown("fragment", name, fragment_names()))
    return words(text)


def rule_id(text: str) -> str:
    """An argparse type: a rule by its id, or by the part after the dot: Q1. Rules of packs go by their whole id."""
    packed = pack_rule_ids() if "." in text else ()
    return text if text in packed else find_rule(text, (*rule_ids(), *packed))


def rules_required(text: str) -> tuple[str, ...]:
    """An argparse type: a list of rules."""
    return tuple(find_rule(word, rule_ids()) for word in words(text))


def rule_ids() -> tuple[str, ...]:
    """The id of every rule, as kunit/tests.txt lists them."""
    return tuple(re.findall(r"^sched_layout:\w+:([\w-]+\.\w+)$", (KUNIT / "tests.txt").read_text(), re.M))


def find_rule(text: str, ids: Sequence[str]) -> str:
    """The id that a text stands for: itself, or the only one that ends with it.

    Raises:
        argparse.ArgumentTypeError: there is none, or several; the candidates are listed.
    """
    found = [each for each in ids if text in (each, each.rpartition(".")[2])]
    if len(found) == 1:
        return found[0]
    candidates = found or [each for each in ids if each.startswith(f"{text}.")]
    if candidates:
        raise argparse.ArgumentTypeError(f"{text!r} names {len(candidates)} rules: {', '.join(candidates)}")
    raise argparse.ArgumentTypeError(unknown("rule", text, ids))


def layout_operand(text: str) -> LayoutOperand:
    """An argparse type: a series, with or without changes; a tree, a vmlinux, an object; the running kernel."""
    if text == "running":
        return LayoutOperand(text)
    series, *changes = text.split("+")
    if series in series_names() and not Path(text).exists():
        for name in changes:
            if name not in change_ids():
                raise argparse.ArgumentTypeError(unknown("change", name, change_ids()))
        return LayoutOperand(text, series=series, changes=tuple(changes))
    try:
        return LayoutOperand(text, path=existing_path(text))
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, and it is no series ({', '.join(series_names())})") from error
