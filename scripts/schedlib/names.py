# SPDX-License-Identifier: GPL-2.0
"""The names that a user may give, read from configs/ with the standard library alone.

Options are checked against these before anything is downloaded, locked or built. schedlib.formats reads the rest of
these files.
"""

from __future__ import annotations

import argparse
import difflib
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS

SCHED_H = "kernel/sched/sched.h"


@contextmanager
def plain_toml(file: str) -> Iterator[dict[str, Any]]:
    """A file of configs/ as a plain dictionary, for code that has to work without a library.

    Raises SchedlineError: the file is not valid TOML, or lacks a key. A reader that parses it into a type reports more
    detail.
    """
    try:
        yield tomllib.loads((CONFIGS / file).read_text())
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise SchedlineError(f"{CONFIGS / file} is damaged: {error!r}", f"git diff {CONFIGS / file}") from error


def _keys(file: str) -> tuple[str, ...]:
    with plain_toml(file) as found:
        return tuple(found)


def _stems(folder: str, ending: str = ".toml") -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (CONFIGS / folder).glob(f"*{ending}")))


change_ids = partial(_keys, "changes.toml")
"""The changes under test."""
shown_names = partial(_keys, "shown.toml")
"""What `schedline show` can show."""
series_names = partial(_keys, "series.toml")
"""The kernels that Debian packages."""
topology_names = partial(_stems, "topologies")
"""The shapes of guests."""
workload_suites = partial(_stems, "workloads")
"""The suites of workloads."""
fleet_devices = partial(_stems, "fleet")
"""The kinds of devices that `schedline fleet jobs` knows by name."""
fragment_names = partial(_stems, "kernel", ".config")
"""The fragments of kernel configurations."""


def pack_names() -> tuple[str, ...]:
    """The packs of contracts: the directories of configs/contracts but that of the five changes."""
    places = (CONFIGS / "contracts").iterdir()
    return tuple(sorted(path.name for path in places if path.is_dir() and path.name != "sched"))


def pack_files(directories: Iterable[Path] = ()) -> tuple[str, ...]:
    """What the contracts of packs, and those of other directories, name as declaring their structures."""
    paths = [*(CONFIGS / "contracts").glob("*/*.toml"), *(path for each in directories for path in each.glob("*.toml"))]
    found: set[str] = set()
    for path in paths:
        with plain_toml(str(path)) as contract:
            found.add(contract.get("file", ""))
    return tuple(sorted(found - {""}))


def variables() -> frozenset[tuple[str, str]]:
    """The variables of contracts, each behind the file that defines it."""
    with plain_toml(str(CONFIGS / "contracts/variables.toml")) as contracts:
        return frozenset((each.get("file", ""), each.get("name", "")) for each in contracts.get("variable", ()))


def our_headers() -> tuple[str, ...]:
    """The headers that declare the structures of the five changes. The first one includes the others."""
    found: set[str] = set()
    for path in (CONFIGS / "contracts/sched").glob("*.toml"):
        with plain_toml(str(path)) as contract:
            found.add(contract.get("header", SCHED_H))
    return (SCHED_H, *sorted(found - {SCHED_H}))


def rule_ids(*packs: str) -> dict[str, str]:
    """The rules of packs in their order, each with its change; without packs those of the five changes."""
    found: dict[str, str] = {}
    for pack in packs or ("sched",):
        for path in (CONFIGS / "contracts" / pack).glob("*.toml"):
            with plain_toml(str(path)) as contract:
                rows = contract.get("rule", ())
                found |= {row["id"]: row.get("change") or row["id"].partition(".")[0] for row in rows}
    return {name: found[name] for name in in_order(found)}


def in_order(rules: Mapping[str, str]) -> list[str]:
    """Rules in the order of their changes, and as people sort them: R2 before R10."""
    place = {change: number for number, change in enumerate(change_ids())}

    def key(name: str) -> tuple[int, list[tuple[int, str]]]:
        parts = re.split(r"(\d+)", name)
        return place.get(rules[name], len(place)), [(int(p), "") if p.isdigit() else (0, p) for p in parts]

    return sorted(rules, key=key)


def cpupri_variants() -> tuple[str, ...]:
    """The ways to keep the masks of cpupri-split but the default; each is configs/kernel/cpupri-<name>.config."""
    return tuple(name.removeprefix("cpupri-") for name in fragment_names() if name.startswith("cpupri-"))


def gate_names() -> tuple[str, ...]:
    """The gates files for runs (configs/gates/); the file of `schedline c2c diff` has no [gate] and is left out."""
    return tuple(name for name in _stems("gates") if "gate" in _keys(f"gates/{name}.toml"))


def workload_rows(suite: str) -> tuple[str, ...]:
    with plain_toml(f"workloads/{suite}.toml") as found:
        included = [row for other in found.get("include", ()) for row in workload_rows(other)]
        return tuple(dict.fromkeys((*included, *found.get("rows", {}))))


def suite_of_gates(gates: str) -> str | None:
    """The suite that measures every metric of a gates file of configs/gates/; None if no suite says so."""
    for name in workload_suites():
        with plain_toml(f"workloads/{name}.toml") as found:
            if gates in found.get("gates", ()):
                return name
    return None


def arch_names() -> tuple[str, ...]:
    with plain_toml("layout.toml") as found:
        return tuple(found["arch"])


def unknown(what: str, name: str, allowed: Collection[str]) -> str:
    """The error message for an unknown name; it suggests the nearest known one. Of many names it lists the nearest."""
    near = difflib.get_close_matches(name, allowed, 1)
    meant = f" Did you mean {near[0]}?" if near else ""
    if len(allowed) > 40:
        known = f"Among {len(allowed)}: {', '.join(difflib.get_close_matches(name, allowed, 5, 0))}"
    else:
        known = f"Known: {', '.join(allowed)}"
    return f"there is no {what} {name!r}.{meant} {known}"


def split_list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def one_of(what: str, allowed: Callable[[], Iterable[str]]) -> Callable[[str], str]:
    """An argparse type: one of the allowed names."""
    return lambda text: _known(text, what, tuple(allowed()))


def some_of(
    what: str, allowed: Callable[[], Iterable[str]], *, everything: str | None = None
) -> Callable[[str], tuple[str, ...]]:
    """An argparse type: a comma separated list of allowed names, or a word that stands for everything."""

    def read(text: str) -> tuple[str, ...]:
        known = tuple(allowed())
        if everything and text == everything:
            return known
        if not (chosen := split_list(text)):
            raise argparse.ArgumentTypeError(f"the list is empty. Known: {', '.join(known)}")
        return tuple(_known(name, what, known) for name in chosen)

    return read


def _known(name: str, what: str, known: Sequence[str]) -> str:
    if name not in known:
        raise argparse.ArgumentTypeError(unknown(what, name, known))
    return name


def named_file(what: str, allowed: Callable[[], Iterable[str]], folder: str) -> Callable[[str], Path]:
    """An argparse type: a file in a folder of configs/ by its name, or any file by its path."""

    def read(text: str) -> Path:
        known = tuple(allowed())
        if text in known:
            return CONFIGS / folder / f"{text}.toml"
        if not Path(text).is_file():
            raise argparse.ArgumentTypeError(unknown(what, text, known))
        return Path(text)

    return read
