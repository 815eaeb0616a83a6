# SPDX-License-Identifier: GPL-2.0
"""The changes under test: which of them a tree has, and how carried patches are applied and changes reverted."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import msgspec

from schedlib.errors import SchedlineError
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Strict, Word, check_patterns
from schedlib.git import git, try_git
from schedlib.paths import CONFIGS, PATCHES
from schedlib.tree.kernel_tree import Tree, apply_diff
from schedlib.tree.source import source_signs, without_hooks


class State(Enum):
    """The state of a change in a composed tree."""

    APPLIED = "applied"
    UPSTREAM = "upstream"
    REVERTED = "reverted"
    LEFT_OUT = "left out"
    ABSENT = "absent"
    CONFLICT = "conflict"

    @property
    def is_there(self) -> bool:
        """Whether the composed tree has the change."""
        return self in (State.APPLIED, State.UPSTREAM)


class Change(Strict, frozen=True):
    """One change as configs/changes.toml describes it.

    Attributes:
        file, start, patterns: its signs in the source.
        suite: the KUnit suite that judges it; empty while there is none.
        symbol: its sign in a built kernel, where the layout does not show it.
        source: commit, Message-ID or address of the mail.
        gain: what the author measured, as the mail says.
    """

    id: Word
    title: str
    file: Word
    start: Word
    patterns: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)]
    suite: str = ""
    symbol: str = ""
    source: str = ""
    author: str = "unknown"
    gain: str = "not measured"

    def __post_init__(self) -> None:
        check_patterns(self.start, *self.patterns)


@dataclass(frozen=True)
class ChangeState:
    """A change's state in a tree, with one line for each hunk that drifted or failed."""

    id: str
    state: State
    hunk_offsets: tuple[str, ...] = ()


@dataclass(frozen=True)
class PatchSet:
    """The carried patches of one series: patches/<name>/."""

    name: str

    @property
    def directory(self) -> Path:
        """The directory of the patches."""
        return PATCHES / self.name

    def order(self, *, optional: bool = True) -> tuple[str, ...]:
        """The ids in the order in which they apply, with or without those marked `optional`."""
        rows = [line.split("#")[0].split() for line in (self.directory / "series").read_text().splitlines()]
        return tuple(words[0] for words in rows if words and (optional or "optional" not in words[1:]))

    def default(self) -> tuple[str, ...]:
        """The ids that are applied to our own trees by default."""
        return self.order(optional=False)

    def patch(self, change: str) -> Path:
        """The mail with the patch of a change."""
        return self.directory / f"{change}.patch"

    def revert(self, change: str) -> Path:
        """The mail with the patch that reverts a change that is upstream in this series."""
        return self.directory / "revert" / f"{change}.patch"


def change_table() -> dict[str, Change]:
    """Every known change, by id."""
    return read_toml(CONFIGS / "changes.toml", dict[str, Change], keys="id")


def known(ids: Collection[str], option: str) -> None:
    """Reject ids that do not exist, with a SchedlineError that names the first one."""
    unknown = sorted(set(ids) - set(change_table()))
    if unknown:
        raise SchedlineError(f"{option}: there is no change {unknown[0]!r}", f"choose from {', '.join(change_table())}")


def present_changes(tree: Tree, commit: str | None = None) -> frozenset[str]:
    """The ids of the changes that a tree has at a commit (default: the tree's base).

    One sign of a change is enough: a change that is partly there is judged, too.
    """
    rows = source_signs().items()
    return frozenset(name for name, signs in rows if any(signs.found_in(tree.read(signs.file, commit) or "")))


def patch_sets(tree: Tree) -> tuple[PatchSet, ...]:
    """The patch sets to try on a tree, the nearest version first. The caller finds the one that applies."""
    names = [path.name for path in PATCHES.iterdir() if (path / "series").is_file()]
    if tree.name in names:
        return (PatchSet(tree.name),)
    text = tree.read("Makefile") or ""
    numbers = [re.search(rf"^{word} = (\d+)", text, re.M) for word in ("VERSION", "PATCHLEVEL")]
    own = tuple(int(number.group(1)) if number else 0 for number in numbers)

    def distance(name: str) -> tuple[int, int]:
        major, minor = (int(part) for part in name.split("."))
        return abs(major - own[0]), abs(minor - own[1])

    return tuple(PatchSet(name) for name in sorted(names, key=distance))


@dataclass(frozen=True)
class PatchMail:
    """A mail with a patch, as git reads it.

    Attributes:
        author: git's variables. A mail of ours has no From: line and leaves out name and address.
        text: subject and message.
        diff: all that follows the message: notes, the list of files, and the diff.
    """

    author: dict[str, str]
    text: str
    diff: bytes


def read_mail(src: Path, mail: Path) -> PatchMail:
    """Read a mail with `git mailinfo`, run in some git repository."""
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        message, diff = Path(scratch, "message"), Path(scratch, "diff")
        header = git(src, "mailinfo", message, diff, stdin=mail.read_bytes())
        fields = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
        author = {"GIT_AUTHOR_DATE": fields.get("Date", "2000-01-01T00:00:00Z")}
        if "Author" in fields:
            author["GIT_AUTHOR_NAME"] = fields["Author"]
            author["GIT_AUTHOR_EMAIL"] = fields.get("Email", "unknown")
        text = f"{fields.get('Subject', mail.stem)}\n\n{message.read_text(errors='replace')}"
        return PatchMail(author, text, diff.read_bytes())


def apply_mail(
    tree: Tree, parent: str, mail: Path | PatchMail, sender: dict[str, str] | None = None
) -> tuple[str | None, tuple[str, ...]]:
    """Apply a mail on top of a commit without a work tree, as `git am -3` does.

    The new commit, or None when it does not apply; and a line for each hunk that drifted or was rejected. `sender`: the
    author if the mail has no From: line, as git's variables; default: schedline.
    """
    read = mail if isinstance(mail, PatchMail) else read_mail(tree.src, mail)
    hunk_offsets = hunk_offsets_of(tree, parent, read.diff)
    author = (sender or {}) | read.author
    return apply_diff(tree, parent, read.diff, read.text, "--3way", author=author), hunk_offsets


def hunks(hunk_offsets: Collection[str]) -> str:
    """The hunks of a mail that does not apply, one per line, for the end of a message."""
    return "\n    " + "\n    ".join(hunk_offsets or ("no hunk fits",))


def hunk_offsets_of(tree: Tree, commit: str, diff: bytes) -> tuple[str, ...]:
    """How each hunk of a diff applies to the files of a commit, without the tests' hooks; an exact hunk is left out."""
    touched = re.findall(r"^--- a/(\S+)", diff.decode(errors="replace"), re.M)
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        for name in touched:
            text = tree.read(name, commit)
            if text is not None:
                Path(scratch, name).parent.mkdir(parents=True, exist_ok=True)
                Path(scratch, name).write_text(without_hooks(text))
        environment = {"GIT_CEILING_DIRECTORIES": str(Path(scratch).parent)}
        words = ("apply", "--reject", "--verbose", "-")
        said = try_git(Path(scratch), *words, env=environment, stdin=diff).stderr.decode()
    lines: list[str] = []
    file = ""
    for line in said.splitlines():
        if match := re.match(r"(?:Checking|Applying) patch (\S+?)(?:\.\.\.| with)", line):
            file = match.group(1)
        elif match := re.match(r"Hunk (#\d+) succeeded at (\d+) \((offset -?\d+ lines?)\)", line):
            lines.append(f"{file}: hunk {match.group(1)} at line {match.group(2)}, {match.group(3)}")
        elif match := re.match(r"Rejected hunk (#\d+)", line):
            lines.append(f"{file}: hunk {match.group(1)} rejected")
        elif line.startswith("error:") and "No such file" in line:
            lines.append(line.removeprefix("error: "))
    return tuple(lines)


def apply_changes(
    tree: Tree, parent: str, wanted: Collection[str], without: Collection[str], sender: dict[str, str] | None = None
) -> tuple[str, tuple[ChangeState, ...]]:
    """Make a commit with the wanted changes: carried patches are applied, upstream changes are kept or reverted.

    The commit, and the state of every known change. After a conflict the commit has the changes that did apply.
    `sender`: the author of patches that name none, see apply_mail().
    """
    sets, missing = patch_sets(tree), set(wanted) - present_changes(tree)
    # Skip the patch sets that lack a wanted change, however near their version is: their conflicts say nothing.
    carrying = tuple(patches for patches in sets if all(patches.patch(name).is_file() for name in missing))
    if not sets:
        raise SchedlineError("there is no patch set under patches/", "check the clone of schedline for missing files")
    tried = []
    for patches in carrying or sets:
        tried.append(_apply_set(tree, parent, patches, wanted, without, sender))
        if not any(state.state is State.CONFLICT for state in tried[-1][1]):
            return tried[-1]
    return tried[0]


def _apply_set(
    tree: Tree,
    parent: str,
    patches: PatchSet,
    wanted: Collection[str],
    without: Collection[str],
    sender: dict[str, str] | None,
) -> tuple[str, tuple[ChangeState, ...]]:
    present = present_changes(tree)
    order = patches.order()
    commit = parent
    states: list[ChangeState] = []
    for name in [*(name for name in change_table() if name not in order), *order]:
        mail, state, hunk_offsets = patches.patch(name), State.ABSENT, tuple[str, ...]()
        if name in without:
            mail, state = patches.revert(name), State.REVERTED if name in present else State.LEFT_OUT
        elif name in present:
            state = State.UPSTREAM
        elif name in wanted:
            state = State.APPLIED
        if state in (State.APPLIED, State.REVERTED):
            applied = None
            if mail.is_file():
                applied, hunk_offsets = apply_mail(tree, commit, mail, sender)
            else:
                hunk_offsets = (f"there is no patches/{patches.name}/{mail.relative_to(patches.directory)}",)
            state, commit = (state, applied) if applied else (State.CONFLICT, commit)
        states.append(ChangeState(name, state, hunk_offsets))
    return commit, tuple(states)
