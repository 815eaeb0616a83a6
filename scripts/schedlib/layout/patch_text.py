# SPDX-License-Identifier: GPL-2.0
"""The patch of `schedline layout --patch`: from a mail, a diff or git to its text, and what the text alone shows."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.git import git, merge_base, try_git
from schedlib.names import pack_files, variables
from schedlib.paths import COMMAND
from schedlib.process import must, run
from schedlib.verdict import Verdict

_MOST_NAMES = 3

_HEADER = re.compile(rb"\s*(?:From \S+|(?!Index:)[A-Za-z][A-Za-z0-9-]*:[ \t])")
"""Begins a mail. quilt's "Index: file" begins a diff."""

_FILES = re.compile(
    rb"^(diff --git (?=\S+ \S+\n)|--- (?=.*\n\+\+\+ .*\n@@ -))([^\s\"]\S*)( |.*\n\+\+\+ )([^\s\"]\S*)", re.M
)
"""The names of a file before and after a change."""

MAKEFILE = re.compile(r"(?:^|/)(?:Makefile|Kbuild)[^/]*$")

_WORD = re.compile(r"\w+")

_DEFINES = re.compile(
    r"\s*(?:#\s*(?:define|undef|pragma|if|ifdef|ifndef|elif|else)\b|typedef\b|enum\b)|.*\\$"
    r"|\s+(?!else\b)(?:\d[\w +*]*|\(.*\)|[A-Za-z_]\w*(?:\s*=[^;]*)?,?)\s*(?:/\*.*)?$"
)
"""A line that may be of a macro, an enumeration or a typedef. What it means is asked of the compiler."""

FLAG = re.compile(r"(?:^|[\s=,(])-(?:[DUm]|include|fpack|fshort)")
"""A compiler's option in a Makefile that types may depend on."""

_PLAIN = ("--no-ext-diff", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", "-U3")

_HOOK = """\
#!/bin/sh
# Written by `schedline layout --install-hook`. An error of schedline itself does not stop a commit.
git diff --cached --quiet && exit 0
{layout} "$(git rev-parse --show-toplevel)" --staged --quiet
[ $? -ne 1 ]
"""


def diff_of(text: bytes) -> bytes:
    """The diff in a text, all diffs of a series one after the other, with the prefixes a/ and b/.

    A mail may be encoded in any way, may have CRLF, and an mbox may have several, in any order, also a cover letter.
    """
    if _HEADER.match(text):
        with tempfile.TemporaryDirectory(prefix="schedline-") as name:
            scratch = Path(name)
            (scratch / "mbox").write_bytes(text.lstrip())
            (scratch / "mails").mkdir()
            # A mail without a "From " line is one mail (-b).
            try_git(scratch, "mailsplit", "-b", f"-o{scratch / 'mails'}", scratch / "mbox")
            mails = [file.read_bytes() for file in sorted((scratch / "mails").iterdir())]
            found = [(_number(mail), diff) for mail in mails if (diff := _diff(scratch, mail)).strip()]
        if found:
            if len({number for number, _ in found}) == len(found):
                found.sort()
            return b"".join(diff for _, diff in found)
    return _usual(text)


def _number(mail: bytes) -> int:
    """Which patch of its series a mail is; 0 if it does not say so."""
    match = re.search(rb"^Subject:[^]]*?\b(\d+)/\d+\]", mail.partition(b"\n\n")[0].replace(b"\r", b""), re.M)
    return int(match[1]) if match else 0


def _diff(scratch: Path, mail: bytes) -> bytes:
    diff = scratch / "diff"
    git(scratch, "mailinfo", scratch / "message", diff, stdin=mail)
    return _usual(diff.read_bytes())


def _usual(text: bytes) -> bytes:
    """A diff without CRLF, and with the prefixes that git uses unless it is configured otherwise."""
    lines = text.count(b"\n")
    text = text.replace(b"\r\n", b"\n") if lines and lines == text.count(b"\r\n") else text
    pairs = [match.group(2, 4) for match in _FILES.finditer(text)]
    # diff.noprefix leaves the names as they are; -R, or two directories, give them other prefixes.
    tops = [(one.partition(b"/")[0], other.partition(b"/")[0]) for one, other in pairs]
    is_bare = any(one == other not in (b"a", b"b") for one, other in tops)

    def name(prefix: bytes, old: bytes) -> bytes:
        return old if old == b"/dev/null" else prefix + (old if is_bare else old.partition(b"/")[2])

    def both(match: re.Match[bytes]) -> bytes:
        return match[1] + name(b"a/", match[2]) + match[3] + name(b"b/", match[4])

    return _FILES.sub(both, text)


def git_patch(kdir: Path, commit: str | None, between: str | None) -> bytes:
    """The diff of a commit (of a merge: against its first parent), of a range A..B, or without both of the index."""
    if try_git(kdir, "rev-parse", "--git-dir").returncode:
        raise SchedlineError(f"{kdir} is no git tree", "give the patch: --patch FILE")
    which = git_revisions(kdir, commit, between) or ["--cached"]
    done = try_git(kdir, "diff", *_PLAIN, *which, "--", env=chosen_index())
    if done.returncode:
        if commit is not None and not try_git(kdir, "cat-file", "commit", which[1]).stdout.count(b"\nparent "):
            raise SchedlineError(f"{commit} in {kdir} has no parent: it adds the whole tree", "name a later commit")
        said = next(iter(done.stderr.decode(errors="replace").strip().splitlines()), "failed")
        raise SchedlineError(f"git diff in {kdir}: {said}", f"git -C {kdir} log --oneline")
    if unmerged := re.search(rb"^\* Unmerged path (.*)", done.stdout, re.M):
        file = os.fsdecode(unmerged[1])
        raise SchedlineError(f"{file} in {kdir} has conflicts", f"resolve them: git -C {kdir} status")
    return done.stdout


def chosen_index() -> dict[str, str]:
    """In a hook of `git commit -a` the index is another file."""
    return {"GIT_INDEX_FILE": str(Path(chosen).absolute())} if (chosen := os.environ.get("GIT_INDEX_FILE")) else {}


def git_revisions(
    kdir: Path, commit: str | None = None, between: str | None = None, staged: bool = False
) -> tuple[str, str] | None:
    """The commits before and after a patch that git was asked for, "" being the index; None if it was not asked."""
    if staged:
        return "HEAD", ""
    if commit is not None:
        found = _commit(kdir, commit)
        return f"{found}^", found
    if between is None:
        return None
    before, dots, after = between.partition("..")
    if not dots:
        raise SchedlineError(f"{between} is no range", f"--range {between}..HEAD")
    first, last = _commit(kdir, before or "HEAD"), _commit(kdir, after.lstrip(".") or "HEAD")
    # Where both have their last commit in common: A may have gone on since.
    if not (begin := merge_base(kdir, first, last)):
        raise SchedlineError(f"{between}: git finds no commit that both have", "name a range of one history")
    return begin, last


def _commit(kdir: Path, revision: str) -> str:
    """The id of a commit; SchedlineError if a revision is none."""
    words = ["rev-parse", "--verify", "--quiet", "--end-of-options"]
    found = try_git(kdir, *words, revision).stdout.decode().strip()
    # What is behind `:/text` belongs to the text; `A^!` may be `^` and an id.
    if not re.fullmatch(r"[0-9a-f]+", found) or try_git(kdir, *words, f"{found}^{{commit}}").returncode:
        raise SchedlineError(f"{revision} is no commit of {kdir}", f"git -C {kdir} log --oneline")
    return found


def install_hook(kdir: Path | None, contracts: Sequence[Path] = ()) -> Verdict:
    """Let git commit and b4 judge patches of a tree, by contracts of its owner, too, and print what was written."""
    if kdir is None:
        raise SchedlineError("--install-hook is for a git tree, and none is named", "add --kdir .")
    found = run(["git", "-C", kdir, "rev-parse", "--git-path", "hooks"])
    if found.returncode:
        raise SchedlineError(f"{kdir} is no git tree", "name one with --kdir")
    schedline = shlex.join(COMMAND)
    own = "".join(f" --contracts {shlex.quote(str(each.absolute()))}" for each in contracts)
    layout, premerge = (f"{schedline} {verb}{own} --kdir" for verb in ("layout", "premerge"))
    hook = kdir / found.stdout.decode().strip() / "pre-commit"
    ours = re.escape(_HOOK).replace(re.escape("{layout}"), ".*")
    if hook.exists() and not re.fullmatch(ours, hook.read_text()):
        line = f"{layout} . --staged --quiet; [ $? -ne 1 ] || exit 1"
        raise SchedlineError(f"{hook} exists, and stays as it is", f"add a line to it: {line}")
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(_HOOK.format(layout=layout))
    hook.chmod(0o755)
    patch, series = f"{layout} . --quiet --patch -", f"{premerge} . --format b4"
    settings = {
        "b4.prep-perpatch-check-cmd": patch,
        "b4.am-perpatch-check-cmd": patch,
        "b4.review-perpatch-check-cmd": f"{patch} --format b4",
        "b4.review-series-check-cmd": f"{series} --skip c2c,mutants",
    }
    for name, value in settings.items():
        must(["git", "-C", kdir, "config", "--local", name, value])
    print(f"wrote {hook}", *(f"git config {name} {shlex.quote(value)}" for name, value in settings.items()), sep="\n")
    return Verdict.PASS


def require_diff(patch: bytes) -> None:
    """Reject a text without a diff."""
    if not re.search(rb"^(?:diff --git |--- )", patch, re.M):
        raise SchedlineError("--patch: there is no diff in it", "git show | schedline layout --patch -")


def touches_layout(patch: bytes, contracts: Sequence[Path] = ()) -> bool:
    """Whether a patch changes anything that offsets depend on: a header, Kconfig, flags, a .c file with a contract."""
    private = "|".join(re.escape(file) for file in pack_files(contracts) if file.endswith(".c"))
    ends = rf"^(?:\+\+\+|---) \S*(?:\.h|Kconfig[^\s/]*{'|/' + private if private else ''})\"?(?:\t.*)?\s*$"
    # A hunk of a .c file is inside of a structure if its heading or a line of it opens one.
    opens = rb"(?:typedef |static |extern |const )*(?:struct|union)\b(?:\s+__\w+\s*\(.*?\)+)?[^;(){}=]*(?:\{|$)"
    inside = rb"^(?:@@ .*@@ |[ +-])" + opens
    # diff -u gives no headings, and git none where no line above could be one.
    bare = re.search(rb"^\+\+\+ \S*\.c\b.*\n@@ -(?:[2-9]|\d\d).*@@\s*$", patch, re.M)
    is_bare = bare and not re.search(rb"^(?:diff --git |@@ .*@@ \S)", patch, re.M)
    changed = (*added_lines(patch), *removed_lines(patch))
    named = variables()
    if any((file, word) in named for file, _, line in changed if line[:1].strip() for word in _WORD.findall(line)):
        return True
    flags = any(MAKEFILE.search(file) and FLAG.search(line) for file, _, line in changed)
    flags |= any(
        file == "kernel/bounds.c" or (file.endswith(".c") and _DEFINES.match(line)) for file, _, line in changed
    )
    return bool(flags or is_bare or re.search(ends.encode(), patch, re.M) or re.search(inside, patch, re.M))


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
    return _lines(patch, "+", "[+]{3}")


def removed_lines(patch: bytes) -> Iterator[tuple[str, int, str]]:
    """File, line number before the patch and text of each removed line."""
    return _lines(patch, "-", "---")


def as_applied(patch: bytes, after: Mapping[str, str]) -> bytes:
    """The patch with the numbers of lines that its hunks have where they applied: git takes them at other places.

    `after`: files with the patch.
    """
    first, *hunks = re.split(rb"^(?=@@ )", patch, flags=re.M)
    out, file, before = [first], "", first
    for hunk in hunks:
        if named := re.findall(rb"^\+\+\+ (?:b/)?(\S+)", before, re.M):
            file = named[-1].decode(errors="replace")
        before = hunk
        head, *rows = hunk.decode(errors="replace").splitlines()
        start = re.match(r"@@ .*?\+(\d+)(?:,(\d+))? @@", head)
        if start and file in after:
            new = [row[1:] for row in rows if not row.startswith(("-", "\\"))][: int(start[2] or 1)]
            lines = after[file].splitlines()
            first_line = (at for at, line in enumerate(lines, 1) if new and line == new[0])
            there = [at for at in first_line if lines[at - 1 : at - 1 + len(new)] == new]
            number = min(there, key=lambda at: abs(at - int(start[1])), default=int(start[1]))
            hunk = re.sub(rb"\+\d+", b"+%d" % number, hunk, count=1)
        out.append(hunk)
    return b"".join(out)


def _lines(patch: bytes, sign: str, head: str) -> Iterator[tuple[str, int, str]]:
    file, number = "", 0
    for line in patch.decode(errors="replace").splitlines():
        if match := re.match(rf'{head} "?(?:[ab]/)?([^\s"]+)', line):
            file = match[1]
        elif match := re.match(rf"@@ .*?\{sign}(\d+)", line):
            number = int(match[1])
        elif line.startswith(sign):
            yield file, number, line[1:]
            number += 1
        elif not line.startswith(("+", "-", "\\")):
            number += 1
