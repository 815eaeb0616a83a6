# SPDX-License-Identifier: GPL-2.0
"""The packs: contracts of structures all over the kernel, which no change of ours made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from schedlib.contracts.contract_rules import CONTRACTS, Rules, rules_of
from schedlib.contracts.struct_source import HEADERS
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import read_contract
from schedlib.formats.data_file import refuse

_PACKS = CONTRACTS.parent


def pack_rules(packs: Sequence[str], directories: Sequence[Path] = ()) -> Rules:
    """The rules of packs, and of contracts that somebody keeps elsewhere.

    Raises:
        SchedlineError: a contract is wrong, is no pack's, or a directory has none.
    """
    return rules_of(tuple(_paths(packs, directories)))


def all_rules(packs: Sequence[str], directories: Sequence[Path] = ()) -> Rules:
    """The same, where the pack `sched` is that of the five changes: one set of rules, all compiled in one way.

    Raises:
        SchedlineError: see pack_rules().
    """
    ours = sorted(CONTRACTS.glob("*.toml")) if CONTRACTS.name in packs else []
    others = [name for name in packs if name != CONTRACTS.name]
    found = rules_of((*ours, *_paths(others, directories)))
    return replace(found, files=dict.fromkeys(found.types(), HEADERS[0]) | dict(found.files))


def _paths(packs: Sequence[str], directories: Sequence[Path]) -> list[Path]:
    paths: list[Path] = []
    for directory in (*(_PACKS / name for name in packs), *directories):
        found = sorted(directory.glob("*.toml"))
        if not found:
            raise SchedlineError(
                f"{directory} has no contracts", "schedline layout contract init STRUCT writes a first one"
            )
        paths += found
    for path in paths:
        contract = read_contract(path)
        if not contract.file:
            refuse(path, ("file",), "is missing: it names what declares the structure", 'add file = "fs/eventpoll.c"')
        if contract.struct != path.stem:
            refuse(path, ("struct",), f"is {contract.struct!r}", f"name the file after it: {contract.struct}.toml")
    return paths


def unknown_members(rules: Rules, read: Callable[[str], str | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The members, in all their spellings, that the file which declares their structure has in no configuration.

    Args:
        read: returns the text of a file of the tree; None if there is no such file.
    """
    texts = {file: read(file) for file in sorted(set(rules.files.values()))}
    for tag, names, _ in rules.members:
        text = texts[rules.files[tag]]
        if text is not None and not has_member(text, names):
            yield tag, names


def refuse_unknown_members(rules: Rules, read: Callable[[str], str | None]) -> None:
    """Check that the text of each declaring file has the members that the contracts name.

    A compiler leaves out what a configuration has not; what no configuration has was renamed, and nothing holds it.

    Args:
        read: see unknown_members().

    Raises:
        SchedlineError: a file lacks a member.
    """
    for tag, names in unknown_members(rules, read):
        raise SchedlineError(
            f"{rules.files[tag]} of this tree has no member {' or '.join(names)}, which the contract of struct {tag} "
            "names",
            "correct the contract; for a renamed member write both: `old|new`",
        )


def has_member(text: str, names: Sequence[str]) -> bool:
    """Whether a source has one of the spellings of a member, in whatever configuration."""
    words = "|".join(re.split(r"[.\[]", name)[0] for name in names)
    return re.search(rf"\b({words})\b", text) is not None
