# SPDX-License-Identifier: GPL-2.0
"""Kernel configurations: allnoconfig plus fragments, with every requested line verified afterwards."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.names import fragment_names
from schedlib.paths import CONFIGS
from schedlib.process import must, run

_VERIFIED = "schedline.verified"


@dataclass(frozen=True)
class Configuration:
    """The lines requested of Kconfig, `CONFIG_X` -> value, and the names of the fragments that they come from.

    where_it_exists: symbols that not every tree can have, and for each the symbol (itself, or the one that it is there
    for) that a tree which lacks it does not define.
    """

    names: tuple[str, ...]
    values: Mapping[str, str]
    where_it_exists: Mapping[str, str] = field(default_factory=dict)

    def without(self, names: Collection[str]) -> Configuration:
        """A copy that does not request some symbols."""
        return replace(self, values={name: value for name, value in self.values.items() if name not in names})

    def text(self) -> str:
        """The content of a file for KCONFIG_ALLCONFIG."""
        return "".join(f"{name}={value}\n" for name, value in self.values.items())

    def asked(self) -> str:
        """All that decides whether Kconfig's answer is accepted: the lines, and which of them a tree may lack."""
        return self.text() + "".join(f"# {name} where {there} exists\n" for name, there in self.where_it_exists.items())

    def digest(self) -> str:
        """Short hash that names the build directory."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:12]


class Dropped(SchedlineError):
    """Kconfig dropped a requested line; the message has the dependency that is not met."""


def load(names: Sequence[str]) -> Configuration:
    """Merge configs/kernel/<name>.config in the order given.

    A name with a slash is a file of the user's own, and CONFIG_NAME=VALUE is a line.

    Raises SchedlineError: there is no such fragment, or a line in it is not an assignment.
    """
    values: dict[str, str] = {}
    where_it_exists: dict[str, str] = {}
    for name in names:
        if given := re.fullmatch(r"(CONFIG_\w+)=([ymn])", name):
            values[given[1]] = given[2]
            continue
        path = Path(name) if "/" in name else CONFIGS / "kernel" / f"{name}.config"
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            have = f"choose from {', '.join(fragment_names())}, or give a path"
            raise SchedlineError(f"--config: there is no fragment {name!r}", have) from error
        for line in lines:
            if match := re.fullmatch(r"\s*(CONFIG_\w+)=(.+?)\s*(?:# where (it|CONFIG_\w+) exists)?", line):
                values[match[1]] = match[2]
                if match[3]:
                    where_it_exists[match[1]] = match[1] if match[3] == "it" else match[3]
            elif match := re.fullmatch(r"\s*# (CONFIG_\w+) is not set\s*", line):
                values[match[1]] = "n"
            elif line.strip() and not line.lstrip().startswith("#"):
                raise SchedlineError(f"{path}: {line!r} is no Kconfig assignment", "write CONFIG_NAME=y")
    return Configuration(tuple(names), values, where_it_exists)


def configure(src: Path, build: Path, arch: str, wanted: Configuration, variables: Sequence[str] = ()) -> None:
    """Write build/.config and check that it has every requested line. Kconfig's answers depend on make's variables.

    Raises Dropped: Kconfig dropped a line. Raises SchedlineError: Kconfig failed.
    """
    build.mkdir(parents=True, exist_ok=True)
    (build / _VERIFIED).unlink(missing_ok=True)
    fragment = build / "schedline.config"
    write_atomic(fragment, wanted.text())
    must(
        ["make", "-s", f"ARCH={arch}", *variables, f"O={build}", f"KCONFIG_ALLCONFIG={fragment}", "allnoconfig"],
        cwd=src,
        next_step="is this tree complete? make allnoconfig in it shows the same error",
    )
    got = parse_config((build / ".config").read_text())
    for name, value in wanted.values.items():
        actual = got.get(name, "n")
        needed = wanted.where_it_exists.get(name, "").removeprefix("CONFIG_")
        if actual != value and not (needed and not _definition(src, arch, needed)):
            raise Dropped(
                f"the configuration {'+'.join(wanted.names)} asks for {name}={value}, Kconfig left it at {actual}: "
                + _unmet(src, arch, name.removeprefix("CONFIG_"), got),
                "add what it depends on to a fragment (configs/kernel/, or --config ./my.config)",
            )
    write_atomic(build / _VERIFIED, _verified(build, wanted))


def is_configured(build: Path, wanted: Configuration) -> bool:
    """Whether a build directory was completely configured as wanted, and .config has not changed since."""
    marker = build / _VERIFIED
    return (build / ".config").is_file() and marker.is_file() and marker.read_text() == _verified(build, wanted)


def _verified(build: Path, wanted: Configuration) -> str:
    got = parse_config((build / ".config").read_text())
    return wanted.asked() + "".join(f"# {name}={got.get(name, 'n')}\n" for name in wanted.values)


def parse_config(text: str) -> dict[str, str]:
    """The values in a .config."""
    return dict(re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M))


def _definition(src: Path, arch: str, symbol: str) -> str:
    """The lines that define a symbol; empty if it does not exist on this architecture."""
    own = f"arch/{'x86' if arch == 'x86_64' else arch}/*Kconfig*"
    found = b""
    for paths in (["*Kconfig*", ":(exclude)arch/*/*"], [own]):
        words = ["git", "-C", str(src), "grep", "-hE", "-A12", rf"^\s*(menu)?config {symbol}$", "--", *paths]
        found += run(words).stdout
    return found.decode(errors="replace")


def _unmet(src: Path, arch: str, symbol: str, got: Mapping[str, str]) -> str:
    search = _definition(src, arch, symbol)
    if not search:
        return "there is no such symbol in this tree for this architecture"
    depends = re.findall(r"^\s+depends on (.+)$", search.split("\n--\n")[0], re.M)
    if not depends:
        return "another option selects it, or it has a range or no prompt"
    names = dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*\b", " ".join(depends)))
    values = ", ".join(f"{name}={got.get('CONFIG_' + name, 'n')}" for name in names)
    return f"it depends on {' && '.join(depends)} ({values})"
