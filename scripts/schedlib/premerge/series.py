# SPDX-License-Identifier: GPL-2.0
"""The series to be merged, commits or mails on top of one, and the document of what `schedline premerge` says of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schedlib.errors import SchedlineError
from schedlib.formats.document import Document
from schedlib.formats.strict import Moment, Strict, Word
from schedlib.git import git, merge_base, try_git
from schedlib.progress import say, wrapped
from schedlib.runs.packages import revision
from schedlib.tree.changes import apply_mail, hunks, read_mail
from schedlib.tree.kernel_tree import Tree
from schedlib.verdict import Verdict


class PremergePatch(Strict, frozen=True):
    """One patch.

    Attributes:
        commit: in the cache's repository.
        subject: the first line of its message.
        patch_id: the output of `git patch-id --stable`.
        sha256: of the mail that git format-patch makes of it, without commit id and version.
    """

    commit: Word
    subject: str
    patch_id: str
    sha256: str


_MOST = 20
"""How many names of tests a text lists."""


class PremergePart(Strict, frozen=True):
    """The result of one part. verdict: null if there was nothing to judge."""

    name: Word
    verdict: Verdict | None
    summary: str
    lines: tuple[str, ...]

    def shown(self) -> list[str]:
        """Its lines, in 72 columns and with the first names of tests, except for the output of the gate."""
        if self.name == "runs":
            return list(self.lines)
        lines = map(_shortened, self.lines) if self.name == "kunit" else self.lines
        return [row for line in lines for row in wrapped(f"  {line}", 6)]


def _shortened(line: str) -> str:
    names = line.split(", ")
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


class PremergeDocument(Document, frozen=True, kw_only=True):
    """schedline premerge: what is known about a series before it is merged.

    Attributes:
        tool: name and version of what wrote this file.
        started: with time zone.
        tree: where it came from.
        base, head: commits.
    """

    schema: Literal["premerge-1"]
    tool: Word
    started: Moment
    status: Verdict
    tree: str
    base: Word
    head: Word
    patches: tuple[PremergePatch, ...]
    parts: tuple[PremergePart, ...]


@dataclass(frozen=True)
class PatchSeries:
    base: str
    head: str
    patches: tuple[PremergePatch, ...]
    diff: bytes

    @property
    def files(self) -> frozenset[str]:
        return touched(self.diff)


def touched(diff: bytes) -> frozenset[str]:
    """The files that a diff names."""
    return frozenset(re.findall(r"^(?:\+\+\+ b|--- a)/(\S+)", diff.decode(errors="replace"), re.M))


def tracked_range() -> tuple[str, str]:
    """Base and last patch of the series under review, which b4 names in the file $B4_TRACKING_FILE.

    Raises SchedlineError: b4 gives no such file, or it is none of b4's.
    """
    name = os.environ.get("B4_TRACKING_FILE", "")
    advice = "check the series out for review (b4 review), or give --base"
    if not name:
        raise SchedlineError("--format b4 without --base takes the series from b4, which names none", advice)
    try:
        series = json.loads(Path(name).read_bytes())["series"]
        first, change = series["first-patch-commit"], series["change-id"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, cannot be used: {error!r}", advice) from error
    is_text = isinstance(first, str) and isinstance(change, str)
    if not is_text or not re.fullmatch("[0-9a-f]{7,64}", first) or change.startswith("-"):
        raise SchedlineError(f"$B4_TRACKING_FILE, {name}, names no commits", advice)
    # The last commit of a review branch holds b4's own notes.
    return f"{first}~1", f"b4/review/{change}~1"


def read_series(tree: Tree, base: str, head: str | None, mbox: Path | None) -> PatchSeries:
    """A series between two revisions, or of the mails in a file on top of the base."""
    first = revision(tree, base, "--base")
    last = _applied(tree, first, mbox) if mbox else revision(tree, head or "HEAD", "--head")
    # The base may have gone on since.
    if not (begin := merge_base(tree.src, first, last)):
        raise SchedlineError(
            f"{base} and {head or 'HEAD'} have no commit in common that git can read",
            "give the revision that the series is based on; of a shallow clone git fetch --unshallow",
        )
    if begin != first:
        say(f"the series leaves {base} at {begin[:12]}, which is its base")
    first = begin
    if not (rows := git(tree.src, "rev-list", "--reverse", "--no-merges", f"{first}..{last}").split()):
        raise SchedlineError(f"there is no patch between {base} and {mbox or head or 'HEAD'}", "give two that differ")
    diff = try_git(tree.src, "diff", "--full-index", first, last).stdout
    return PatchSeries(first, last, tuple(_patch(tree, commit) for commit in rows), diff)


def _patch(tree: Tree, commit: str) -> PremergePatch:
    shown = try_git(tree.src, "show", "--full-index", commit).stdout
    words = try_git(tree.src, "patch-id", "--stable", stdin=shown).stdout.decode().split()
    mail = try_git(tree.src, "format-patch", "--stdout", "-1", "--zero-commit", "--no-signature", commit).stdout
    subject = git(tree.src, "log", "-1", "--format=%s", commit)
    return PremergePatch(commit, subject, words[0] if words else "", hashlib.sha256(mail).hexdigest())


def _applied(tree: Tree, base: str, mbox: Path) -> str:
    if not mbox.is_file():
        raise SchedlineError(f"--mbox: there is no file {mbox}", "b4 am -o- MESSAGE-ID > series.mbox")
    commit = base
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        try_git(tree.src, "mailsplit", "--mboxrd", f"-o{scratch}", mbox.absolute())
        mails = sorted(Path(scratch).iterdir())
        read = [read_mail(tree.src, mail) for mail in mails]
        patches = [mail for mail in read if mail.diff.strip()]  # a cover letter has none
        if not patches:
            raise SchedlineError(f"--mbox: {mbox} holds no patch", "b4 am -o- MESSAGE-ID > series.mbox")
        for number, mail in enumerate(patches, 1):
            applied, hunk_offsets = apply_mail(tree, commit, mail)
            why = "" if applied else f"does not apply:{hunks(hunk_offsets)}"
            trees = {git(tree.src, "rev-parse", f"{each}^{{tree}}") for each in (applied, commit) if each}
            if applied is None or len(trees) == 1:
                raise SchedlineError(
                    f"{mbox}: patch {number} of {len(patches)} {why or 'changes nothing: the base already has it'}",
                    "give the revision that the series is based on (its base-commit: line) as --base",
                )
            commit = applied
    return commit
