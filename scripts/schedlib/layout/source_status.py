# SPDX-License-Identifier: GPL-2.0
"""Which of the changes a kernel's source has. For a directory this needs neither a repository nor a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.tree.source import Presence, SourceSigns, presence, readable, require_kernel, source_signs


@dataclass(frozen=True)
class Found:
    """A change, and the evidence; each piece says what was seen."""

    change: str
    presence: Presence
    evidence: tuple[str, ...]


def of_source(read: Callable[[str], str | None]) -> Iterator[Found]:
    """Each change by its signs in the source.

    Args:
        read: returns the text of a file of the source; None if there is no such file.
    """
    for change, signs in source_signs().items():
        text = read(signs.file)
        seen = signs.found_in(text or "")
        evidence = (f"there is no {signs.file}",) if text is None else tuple(_evidence(signs, seen))
        yield Found(change, presence([bool(each) for each in seen]), evidence)


def _evidence(signs: SourceSigns, seen: Sequence[str]) -> Iterator[str]:
    yield from (f"{signs.file} has `{text}`" for text in seen if text)
    for pattern, text in zip(signs.patterns, seen, strict=True):
        if not text:
            yield f"{signs.file} has no `{readable(pattern)}` in `{signs.place()}`"


def of_directory(path: Path) -> tuple[Found, ...]:
    """Each change by the files of a kernel tree as they are, git or not.

    Raises:
        SchedlineError: it is no kernel tree, or too old.
    """

    def read(name: str) -> str | None:
        file = path / name
        return file.read_text(errors="replace") if file.is_file() else None

    require_kernel(path, lambda name: (path / name).exists())
    return tuple(of_source(read))


def show(name: str, found: Sequence[Found]) -> None:
    """Print what was found in a kernel."""
    print(name)
    for row in found:
        print(f"{row.change}: {row.presence.value}")
        for text in row.evidence:
            print(f"    {text}")
