# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: allnoconfig plus fragments, with every requested line verified afterwards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.command import must
from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS
from schedlib.trees import Tree

_VERIFIED = "schedline.verified"


@dataclass(frozen=True)
class Configuration:
    """What was asked of Kconfig: `CONFIG_X` -> value, later fragments winning."""

    names: tuple[str, ...]
    values: Mapping[str, str]

    def text(self) -> str:
        """As a file for KCONFIG_ALLCONFIG."""
        return "".join(f"{name}={value}\n" for name, value in self.values.items())

    def digest(self) -> str:
        """Short hash that names the build directory."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:12]


def load(names: Sequence[str]) -> Configuration:
    """Merge configs/kernel/<name>.config in the order given; a name with a slash is a file of the user's own.

    Raises:
        SchedlineError: there is no such fragment, or a line in it is not an assignment.
    """
    values: dict[str, str] = {}
    for name in names:
        path = Path(name) if "/" in name else CONFIGS / "kernel" / f"{name}.config"
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            have = ", ".join(sorted(path.stem for path in (CONFIGS / "kernel").glob("*.config")))
            raise SchedlineError(
                f"--config: there is no fragment {name!r}", f"choose from {have}, or give a path"
            ) from error
        for line in lines:
            if match := re.fullmatch(r"\s*(CONFIG_\w+)=(.+?)\s*", line):
                values[match.group(1)] = match.group(2)
            elif match := re.fullmatch(r"\s*# (CONFIG_\w+) is not set\s*", line):
                values[match.group(1)] = "n"
            elif line.strip() and not line.lstrip().startswith("#"):
                raise SchedlineError(f"{path}: {line!r} is no Kconfig assignment", "write CONFIG_NAME=y")
    return Configuration(tuple(names), values)


def configure(tree: Tree, build: Path, arch: str, wanted: Configuration) -> None:
    """Write build/.config, and see that it holds every line that was asked for.

    Raises:
        SchedlineError: Kconfig failed, or dropped a line; the message has the dependency that is not met.
    """
    build.mkdir(parents=True, exist_ok=True)
    (build / _VERIFIED).unlink(missing_ok=True)
    fragment = build / "schedline.config"
    write_atomic(fragment, wanted.text())
    must(
        ["make", "-s", f"ARCH={arch}", f"O={build}", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"],
        cwd=tree.src,
        next_step="is this tree complete? make allnoconfig in it shows the same error",
    )
    got = _read(build / ".config")
    for name, value in wanted.values.items():
        actual = got.get(name, "n")
        if actual != value:
            raise SchedlineError(
                f"the configuration {'+'.join(wanted.names)} asks for {name}={value}, Kconfig left it at {actual}: "
                + _unmet(tree, name.removeprefix("CONFIG_"), got),
                "add what it depends on to a fragment (configs/kernel/, or --config ./my.config)",
            )

    write_atomic(build / _VERIFIED, wanted.text())


def is_configured(build: Path, wanted: Configuration) -> bool:
    """Whether a build directory was configured so, to the end."""
    marker = build / _VERIFIED
    return (build / ".config").is_file() and marker.is_file() and marker.read_text() == wanted.text()


def _read(path: Path) -> dict[str, str]:
    pairs = re.findall(r"^(CONFIG_\w+)=(.*)$", path.read_text(), re.M)
    return dict(pairs)


def _unmet(tree: Tree, symbol: str, got: Mapping[str, str]) -> str:
    """Where a symbol is defined and what it depends on, with the current values beside it."""
    search = must(["git", "-C", tree.src, "grep", "-hE", "-A12", rf"^(menu)?config {symbol}$", "--", "*Kconfig*"])
    depends = re.findall(r"^\s+depends on (.+)$", search.split("\n--\n")[0], re.M)
    if not depends:
        return "it is selected, ranged or promptless there"
    names = dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*\b", " ".join(depends)))
    values = ", ".join(f"{name}={got.get('CONFIG_' + name, 'n')}" for name in names)
    return f"it depends on {' && '.join(depends)} ({values})"
