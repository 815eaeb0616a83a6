# SPDX-License-Identifier: GPL-2.0
"""What the text of a patch alone shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.names import pack_files

_MOST_NAMES = 3


def require_diff(patch: bytes) -> None:
    """Reject a text that is not a patch.

    Raises:
        SchedlineError: there is no diff in it.
    """
    if not re.search(rb"^(?:diff --git |--- )", patch, re.M):
        raise SchedlineError("--patch: there is no diff in it", "git show | schedline layout --patch -")


def touches_layout(patch: bytes, contracts: Sequence[Path] = ()) -> bool:
    """Whether a patch changes anything that offsets depend on: a header, Kconfig, or a .c file with a contract.

    Args:
        contracts: directories with more contracts.
    """
    private = "|".join(re.escape(file) for file in pack_files(contracts) if file.endswith(".c"))
    ends = rf"^(?:\+\+\+|---) \S*(?:\.h|Kconfig[^\s/]*{'|/' + private if private else ''})(?:\t.*)?\s*$"
    # A hunk of a .c file is inside of a structure if its heading or a line of it opens one.
    inside = rb"^(?:@@ .*@@ |[ +-])(?:typedef )?(?:struct|union) \w+[^;(){}=]*(?:\{|$)"
    return re.search(ends.encode(), patch, re.M) is not None or re.search(inside, patch, re.M) is not None


def why_untouched(patch: bytes, contracts: Sequence[Path] = ()) -> str:
    """Why a patch cannot move a member; empty if it may. See touches_layout()."""
    if not patch.strip():
        return "the patch is empty"
    if touches_layout(patch, contracts):
        return ""
    names = re.findall(r"^(?:\+\+\+ b|--- a)/(\S+)", patch.decode(errors="replace"), re.M)
    files = list(dict.fromkeys(names))
    only = f", only {', '.join(files[:_MOST_NAMES])}" if files else ""
    more = f" and {len(files) - _MOST_NAMES} more" if len(files) > _MOST_NAMES else ""
    return f"it changes no header, no Kconfig and no structure of a .c file{only}{more}"


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
