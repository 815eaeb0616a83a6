# SPDX-License-Identifier: GPL-2.0
"""From a mail, an mbox of several, or a plain diff to the diff, by git's own programs, as `git am` does it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from schedlib.git import git, try_git

# quilt's "Index: file" begins a diff.
_HEADER = re.compile(rb"\s*(?:From \S+|(?!Index:)[A-Za-z][A-Za-z0-9-]*:[ \t])")


def diff_of(text: bytes) -> bytes:
    """The diff in a text, all diffs of a series one after the other.

    A mail may be encoded in any way, may have CRLF, and an mbox may have several; those without a diff, such as a cover
    letter, have no part in it. Any other text is returned as it is, but for CRLF.
    """
    if _HEADER.match(text):
        with tempfile.TemporaryDirectory(prefix="schedline-") as name:
            scratch = Path(name)
            (scratch / "mbox").write_bytes(text.lstrip())
            (scratch / "mails").mkdir()
            # A mail without a "From " line is one mail (-b).
            try_git(scratch, "mailsplit", "-b", f"-o{scratch / 'mails'}", scratch / "mbox")
            found = b"".join(_diff(scratch, mail.read_bytes()) for mail in sorted((scratch / "mails").iterdir()))
        if found.strip():
            return found
    lines = text.count(b"\n")
    return text.replace(b"\r\n", b"\n") if lines and lines == text.count(b"\r\n") else text


def _diff(scratch: Path, mail: bytes) -> bytes:
    message, diff = scratch / "message", scratch / "diff"
    git(scratch, "mailinfo", message, diff, stdin=mail)
    return diff.read_bytes()
