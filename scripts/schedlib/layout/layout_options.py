# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline layout`, of the verbs below it, and of `schedline status`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from schedlib.cache import read_text
from schedlib.names import (
    arch_names,
    change_ids,
    fragment_names,
    one_of,
    pack_names,
    rule_ids,
    series_names,
    some_of,
    split_list,
    unknown,
)
from schedlib.options import (
    CHANGES,
    ChangeOptions,
    TreeOptions,
    existing_file,
    existing_path,
    flag,
    new_file,
    new_path,
    option,
)
from schedlib.paths import CONFIGS

DEFAULT_ARCH = "x86_64"


@dataclass(frozen=True)
class LayoutOperand:
    """A tree or vmlinux, or a series with these carried changes alone, or else the running kernel."""

    text: str
    path: Path | None = None
    series: str | None = None
    changes: tuple[str, ...] = ()

    @property
    def is_built(self) -> bool:
        """Whether it is a kernel that is built already."""
        return self.series is None and (self.path is None or not self.path.is_dir())


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
    for name in (part for config in split_list(text) if config != "all" for part in config.split("+")):
        if name not in fragment_names() and not ("/" in name and Path(name).is_file()):
            raise argparse.ArgumentTypeError(unknown("fragment", name, fragment_names()))
    return split_list(text)


def rule_id(text: str) -> str:
    """An argparse type: a rule by its id, or by the part after the dot: Q1. Rules of packs go by their whole id."""
    packed = rule_ids(*pack_names()) if "." in text else {}
    return text if text in packed else find_rule(text, rule_ids() | packed)


def rules_required(text: str) -> tuple[str, ...]:
    """An argparse type."""
    return tuple(find_rule(word, rule_ids()) for word in split_list(text))


def find_rule(text: str, ids: Collection[str]) -> str:
    """The id that a text stands for: itself, or the only one that ends with it; in small letters, too."""
    found = [each for each in ids if text.lower() in (each.lower(), each.rpartition(".")[2].lower())]
    if len(found) == 1:
        return found[0]
    candidates = found or [each for each in ids if each.startswith(f"{text}.")]
    if candidates:
        raise argparse.ArgumentTypeError(f"{text!r} names {len(candidates)} rules: {', '.join(candidates)}")
    raise argparse.ArgumentTypeError(unknown("rule", text, ids))


def layout_operand(text: str) -> LayoutOperand:
    """An argparse type: a series, with or without changes; a tree, a vmlinux; the running kernel."""
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


def contract_directory(text: str) -> tuple[Path, ...]:
    """An argparse type."""
    return (existing_path(text),)


def patch_text(text: str) -> bytes:
    """An argparse type: the diff in a file or in standard input."""
    from schedlib.layout.patch_text import diff_of

    try:
        return diff_of(read_text(text if text == "-" else existing_path(text)))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from error


def drift_packs() -> tuple[str, ...]:
    """The packs, and `sched`: the contracts of the five changes."""
    return ("sched", *pack_names())


_OPERAND = "a series (7.3, or with a change 7.3+rd-lines), a tree, a vmlinux, BTF, or running"
_CONTRACTS: Any = partial(
    option,
    "--contracts DIR",
    "contracts of your own; docs/contracts.md has the format",
    contract_directory,
    default=(),
)


def _packs(known: Callable[[], tuple[str, ...]]) -> Any:
    return option(
        "--pack NAME,...",
        lambda: f"contracts of other structures: all, or of {', '.join(known())}",
        some_of("pack", known, everything="all"),
        default=(),
    )


@dataclass(frozen=True)
class ColumnOptions:
    """The architectures, or the default, and configurations; without these only each architecture's own."""

    arch: tuple[str, ...] = option(
        "--arch ARCH,...",
        lambda: f"all, or of {', '.join(arch_names())} (default: {DEFAULT_ARCH})",
        some_of("architecture", arch_names, everything="all"),
        default=(),
    )
    config: tuple[str, ...] = option(
        "--config NAME,...",
        "all, or fragments of configs/kernel/, joined by + into one column",
        configurations,
        default=(),
    )


@dataclass(frozen=True)
class LayoutOptions:
    """What `schedline layout` looks at: a tree, a built kernel, a structure, or a patch.

    Without packs and contracts the rules of the five changes are judged. `expect` None: what `base` has is expected.
    """

    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    vmlinux: Path | None = option(
        "--vmlinux FILE", "a vmlinux with DWARF or BTF, of any machine", existing_file, group="built"
    )
    running: bool = option(
        "--running", "this machine's kernel, by its BTF", default=False, action="store_true", group="built"
    )
    expect: tuple[str, ...] | None = option("--expect ID,...", "changes that have to be there", CHANGES)
    base: str | None = option("--base REV", "expect what this revision of your tree has")
    require: tuple[str, ...] = option(
        "--require RULE,...", "these rules must not be n/a everywhere", rules_required, default=()
    )
    pack: tuple[str, ...] = _packs(pack_names)
    contracts: tuple[Path, ...] = _CONTRACTS()
    struct: str | None = option("--struct NAME", "print the lines of this structure; nothing is judged", struct_tag)
    svg: Path | None = option(
        "--svg FILE", "with --struct: draw its lines; with a patch, without and with it", new_path
    )
    variables: bool = flag("--variables", "judge the contracts of variables in a vmlinux, and tell who is beside them")
    patch: bytes | None = option(
        "--patch FILE",
        "print what a patch or mail (-: standard input) breaks, or takes room from, in checkpatch's form",
        patch_text,
    )
    build: Path | None = option(
        "--build DIR",
        "where make O=DIR built your tree, for --patch, --struct, --variables (default: in it)",
        existing_path,
    )
    commit: str | None = option("--commit REV", "--patch of a commit of your git tree")
    staged: bool = flag("--staged", "--patch of what `git commit` would commit")
    between: str | None = option("--range A..B", "--patch of the commits that B has and A has not, as one change")
    install_hook: bool = flag("--install-hook", "let git commit and b4 run this for your tree (--kdir)")
    form: str | None = option(
        "--format FORMAT",
        "with --patch: text, b4 or sarif; b4's is for b4.review-perpatch-check-cmd",
        one_of("format", lambda: ("text", "b4", "sarif")),
    )
    verbose: bool = flag("--verbose", "with --patch: say also what was looked at")
    quiet: bool = flag("--quiet", "with --patch: no note of structures whose lines have the members that they had")
    json: Path | None = option("--json FILE", "write the results here", new_path)

    @property
    def built(self) -> bool:
        """Whether a built kernel is judged: `vmlinux`, or the running one if that is None."""
        return self.running or self.vmlinux is not None

    @property
    def of_packs(self) -> bool:
        """Whether packs are judged."""
        return bool(self.pack or self.contracts)

    @property
    def of_git(self) -> bool:
        """Whether git has the patch to judge."""
        return self.staged or self.commit is not None or self.between is not None

    def source(self) -> list[str]:
        """What is judged, as command-line arguments."""
        if self.built:
            return ["--vmlinux", str(self.vmlinux)] if self.vmlinux else ["--running"]
        return self.tree.words()


@dataclass(frozen=True)
class EmitOptions:
    """The options of `layout emit`."""

    out: Path | None = option("-o --out FILE", "write it here (default: standard output)", new_path)
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)


@dataclass(frozen=True)
class LayoutDiffOptions:
    """The two layouts to compare, the column, and the files for figures and picture."""

    before: LayoutOperand = option("A", _OPERAND, layout_operand)
    after: LayoutOperand = option("B", "the same", layout_operand)
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    json: Path | None = option("--json FILE", "write the figures here", new_path)
    svg: Path | None = option("--svg FILE", "draw both, before above after", new_path)


@dataclass(frozen=True)
class DriftOptions:
    """The kernels to compare, in order of time. Without packs and contracts all are judged."""

    kernels: tuple[LayoutOperand, ...] = option("KERNEL", f"{_OPERAND}; the oldest first", layout_operand, nargs="+")
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    pack: tuple[str, ...] = _packs(drift_packs)
    contracts: tuple[Path, ...] = _CONTRACTS()
    json: Path | None = option("--json FILE", "write everything that was found", new_file)


@dataclass(frozen=True)
class ExplainOptions:
    """The rule to explain, and on which kernels."""

    rule: str = option("RULE", "its id, or what stands behind the dot: Q1", rule_id)
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    columns: ColumnOptions = field(default_factory=ColumnOptions)


@dataclass(frozen=True)
class RulesOptions:
    """The directory or file of the kernel whose contracts are told."""

    directory: str = option("--for PATH", "a directory or file of the kernel", required=True)


@dataclass(frozen=True)
class InitOptions:
    """Which structure gets a first contract, and where to."""

    struct: str = option("STRUCT", "its tag", struct_tag)
    file: str = option("--file FILE", "what declares it, if several files do: fs/eventpoll.c", default="")
    out: Path | None = option("-o --out PATH", "its file, or the directory for it (default: standard output)", new_path)
    profile: Path | None = option(
        "--profile FILE", "a result of schedline c2c, or its directory: take classes from it, too", existing_path
    )
    build: Path | None = option("--build DIR", "where make O=DIR built your tree (default: in it)", existing_path)
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    columns: ColumnOptions = field(default_factory=ColumnOptions)


@dataclass(frozen=True)
class ContractCheckOptions:
    """The contract that is held against a profile, a result of `schedline c2c`."""

    contract: Path = option("STRUCT|FILE", "a tag, or the contract's file", contract_file)
    profile: Path = option(
        "--profile FILE", "a result of schedline c2c, or its directory", existing_path, required=True
    )


@dataclass(frozen=True)
class StatusOptions:
    """Which kernel `schedline status` looks at; `changes` are those that `apply` is about."""

    tree: TreeOptions = field(default_factory=TreeOptions)
    vmlinux: Path | None = option("--vmlinux FILE", "a kernel with DWARF or BTF", existing_file, group="built")
    running: bool = option("--running", "this machine's kernel", default=False, action="store_true", group="built")
    apply: bool = flag("--apply", "say how the carried changes apply")
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    json: Path | None = option("--json FILE", "write the answer here", new_path)

    @property
    def built(self) -> bool:
        """Whether to look at a built kernel: `vmlinux`, or the running one if that is None."""
        return self.running or self.vmlinux is not None

    @property
    def directory(self) -> Path | None:
        """The directory whose files are enough for the answer; None if a tree in the cache or a kernel is needed."""
        kdir = self.tree.kdir
        return kdir if kdir and kdir.is_dir() and not self.apply else None
