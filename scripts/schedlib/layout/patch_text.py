# SPDX-License-Identifier: GPL-2.0
"""What the text of a patch alone shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from schedlib.errors import SchedlineError

_MOST_NAMES = 3


def require_diff(patch: bytes) -> None:
    """Reject a text that is not a patch.

    Raises:
        SchedlineError: there is no diff in it.
    """
    if not re.search(rb"^(?:diff --git |--- )", patch, re.M):
        raise SchedlineError("--patch: there is no diff in it", "git show | schedline layout --patch -")


def touches_layout(patch: bytes) -> bool:
    """Whether a patch changes anything that offsets depend on: a header or Kconfig."""
    return re.search(rb"^(?:\+\+\+|---) \S*(?:\.h|Kconfig[^\s/]*)(?:\t.*)?\s*$", patch, re.M) is not None


def why_untouched(patch: bytes) -> str:
    """Why a patch cannot move a member; empty if it may."""
    if not patch.strip():
        return "the patch is empty"
    if touches_layout(patch):
        return ""
    names = re.findall(r"^(?:\+\+\+ b|--- a)/(\S+)", patch.decode(errors="replace"), re.M)
    files = list(dict.fromkeys(names))
    only = f", only {', '.join(files[:_MOST_NAMES])}" if files else ""
    more = f" and {len(files) - _MOST_NAMES} more" if len(files) > _MOST_NAMES else ""
    return f"it changes no header and no Kconfig file{only}{more}"


def added_lines(patch: bytes) -> Iterator[tuple[str, int, str]]:
    """File, line number after the patch and text of each added line."""
    file, number = "", 0
    for line in patch.decode(errors="replace").splitlines():
        if match := re.match(r"\+\+\+ (?:b/)?(\S+)", line):
            file = match.group(1)
        elif match := re.match(r"@@ -\S+ \+(\d+)", line):
            number = int(match.group(1))
        elif line.startswith("+"):
            yield file, number, line[1:]
            number += 1
        elif not line.startswith(("-", "\\")):
            number += 1
