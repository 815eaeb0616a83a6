# SPDX-License-Identifier: GPL-2.0
"""What a verb prints, held against a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Golden:
    """The files in golden/ beside a test. `pytest --golden` writes them anew; `git diff` shows what changed."""

    directory: Path
    anew: bool

    def __call__(self, name: str, text: str) -> None:
        path = self.directory / name
        if self.anew:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()
