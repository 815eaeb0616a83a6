# SPDX-License-Identifier: GPL-2.0
"""A patch is judged alike, however it comes: as a diff, in a mail of any encoding, in an mbox, or from git itself."""

from __future__ import annotations

import base64
import quopri
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import toys
from layout_command import heard, run, said

from conftest import git
from schedlib import environment
from schedlib.errors import SchedlineError
from schedlib.layout.patch_text import diff_of
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

HEADER = "kernel/sched/sched.h"
FIRST = ("void *idle;", "void *idle; /* the idle task */")
SECOND = ("void *idle; /* the idle task */", "void *idle; /* the idle task */ u32 stranger;")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy kernel with two commits: the second needs the first, and breaks rq-order.Q2."""
    clone = toys.toy_tree(tmp_path_factory.mktemp("kernels") / "toy")
    for number, change in enumerate((FIRST, SECOND), 1):
        toys.edit(clone, HEADER, *change)
        git(clone, "commit", "-qam", f"sched: Change {number}")
    return clone


@pytest.fixture
def series(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "linux")


def mails(series: Path, *words: str) -> bytes:
    text = git(series, "format-patch", "--stdout", *words, "HEAD~2")
    return text.encode() + b"\n"


def encoded(mail: bytes, how: str) -> bytes:
    """A mail with its body in another transfer encoding."""
    head, _, body = mail.partition(b"\n\n")
    made = base64.encodebytes(body) if how == "base64" else quopri.encodestring(body)
    told = f"\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\nContent-Transfer-Encoding: {how}\n\n"
    return head + told.encode() + made


def one_diff(series: Path, *words: str) -> bytes:
    """Both changes, also as other options of git, or other programs, print them."""
    return git(series, "diff", *words, "HEAD~2", "HEAD").encode() + b"\n"


def one_mail(series: Path) -> bytes:
    """Both changes in one mail, without the "From " line of an mbox."""
    head = b"Return-Path: <a@localhost>\nFrom: A <a@localhost>\nSubject: [PATCH] sched: Change\n\nWhy.\n---\n"
    return head + one_diff(series) + b"-- \n2.39\n"


def backwards(series: Path) -> bytes:
    """An mbox whose mails are in the order in which they were answered."""
    first, second = re.split(rb"^(?=From )", mails(series), flags=re.M)[1:]
    return second + first


FORMS: dict[str, Callable[[Path], bytes]] = {
    "diff": one_diff,
    "diff with CRLF": lambda series: one_diff(series).replace(b"\n", b"\r\n"),
    "log of git": lambda series: git(series, "log", "-p", "-1").encode() + b"\n",
    "mail": one_mail,
    "mail with CRLF": lambda series: one_mail(series).replace(b"\n", b"\r\n"),
    "mail in base64": lambda series: encoded(one_mail(series), "base64"),
    "mail in base64 with CRLF": lambda series: encoded(one_mail(series).replace(b"\n", b"\r\n"), "base64").replace(
        b"\r\n\r\n", b"\n\n", 1
    ),
    "mbox backwards": backwards,
    "without prefixes": lambda series: one_diff(series, "--no-prefix"),
    "with prefixes of its own": lambda series: one_diff(series, "--src-prefix=i/", "--dst-prefix=w/"),
    "diff of two directories": lambda series: re.sub(
        rb"diff --git .*\nindex .*\n", b"", one_diff(series, "--src-prefix=linux.orig/", "--dst-prefix=linux/")
    ),
    "mail in quoted-printable": lambda series: encoded(one_mail(series), "quoted-printable"),
    "mbox": mails,
    "mbox with CRLF": lambda series: mails(series).replace(b"\n", b"\r\n"),
    "mbox with a cover letter": lambda series: mails(series, "--cover-letter"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_patch_is_the_same_diff(form: str, made: Path, tmp_path: Path) -> None:
    (tmp_path / "x.diff").write_bytes(diff_of(FORMS[form](made)))
    git(made, "read-tree", "HEAD~1" if form == "log of git" else "HEAD~2")
    git(made, "apply", "--cached", str(tmp_path / "x.diff"))
    assert git(made, "write-tree") == git(made, "rev-parse", "HEAD^{tree}")


def broken(*words: str) -> bool:
    """Whether a patch breaks rq-order.Q2, and nothing else happens."""
    verdict, text = said("layout", *words)
    assert (verdict is Verdict.FAIL) is ("ERROR: rq-order.Q2" in text) and verdict in (Verdict.FAIL, Verdict.PASS)
    return verdict is Verdict.FAIL


@pytest.mark.parametrize("form", [mails, lambda series: one_diff(series, "-U0")])
def test_a_series_is_judged_as_one(form: Callable[[Path], bytes], series: Path, tmp_path: Path, cache: Path) -> None:
    """Git puts what is added without context at the end of the file, so that it broke nothing."""
    (tmp_path / "x.mbox").write_bytes(form(series))
    git(series, "checkout", "-q", "HEAD~2")
    assert broken("--kdir", str(series), "--patch", str(tmp_path / "x.mbox"))


def test_context_that_moved_is_found_by_its_blob(series: Path, tmp_path: Path, cache: Path) -> None:
    """`git am -3` takes it; `git apply` alone does not."""
    (tmp_path / "x.patch").write_bytes(git(series, "diff", "--full-index", "HEAD~1", "HEAD").encode() + b"\n")
    git(series, "checkout", "-q", "HEAD~1")
    lines = (series / HEADER).read_text().splitlines(keepends=True)
    (at,) = (number for number, line in enumerate(lines) if FIRST[1] in line)
    lines[at - 2] = lines[at - 2].rstrip("\n") + " /* moved */\n"
    (series / HEADER).write_text("".join(lines))
    git(series, "commit", "-qam", "other")
    assert broken("--kdir", str(series), "--patch", str(tmp_path / "x.patch"))


def test_git_is_asked_for_the_patch(series: Path, cache: Path) -> None:
    kdir = ["--kdir", str(series)]
    git(series, "config", "diff.context", "0")
    for words in (("--commit", "HEAD"), ("--commit", ":/Change 2"), ("--range", "HEAD~2..HEAD")):
        assert broken(*kdir, *words)
    assert not broken(*kdir, "--commit", "HEAD~1")
    # What others took away since is not in it.
    other = git(series, "commit-tree", "HEAD~1^{tree}", "-p", "HEAD", "-m", "others").strip()
    for unchanged, why in (
        (["--range", f"{other}..HEAD"], ""),
        (["--range", "HEAD..HEAD"], "HEAD..HEAD changes nothing\n"),
        (["--staged"], "nothing is staged\n  next: git add FILE\n"),
    ):
        verdict, _, errors = heard("layout", *kdir, *unchanged)
        assert verdict is Verdict.INCONCLUSIVE and why in errors
    git(series, "reset", "-q", "--soft", "HEAD~1")
    assert broken(*kdir, "--staged")
    for wrong, why in (
        ([*kdir, "--commit", "HEAD^!"], "is no commit"),
        ([*kdir, "--range", "HEAD~1"], "--range HEAD~1..HEAD"),
        ([*kdir, "--commit", "typo"], "typo"),
        (["--commit", "HEAD"], "add --kdir ."),
        ([*kdir, "--commit", "HEAD", "--staged"], "name one patch"),
    ):
        with pytest.raises(SchedlineError, match=re.escape(why)):
            run("layout", *wrong)


def test_the_installed_hook_stops_a_bad_commit(series: Path, cache: Path, tmp_path: Path) -> None:
    # The hook takes the libraries of this Python, and downloads none.
    libraries = environment._place(environment.CORE)
    libraries.parent.mkdir(parents=True)
    libraries.symlink_to(sys.prefix)
    git(series, "reset", "-q", "--hard", "HEAD~1")
    install = ("layout", "--kdir", str(series), "--install-hook")
    (tmp_path / "my contracts").mkdir()
    assert run(*install, "--contracts", str(tmp_path / "my contracts")) is run(*install) is Verdict.PASS
    assert "layout --kdir . --quiet --patch -" in git(series, "config", "b4.am-perpatch-check-cmd")
    commit = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-am", "x"]
    text = (series / HEADER).read_text()
    for change, code in ((SECOND, 1), (("void *idle;", "void  *idle;"), 0)):
        (series / HEADER).write_text(text.replace(*change))
        done = subprocess.run(commit, cwd=series, capture_output=True, text=True, check=False)
        assert done.returncode == code and ("ERROR: rq-order.Q2" in done.stdout + done.stderr) is bool(code), done
    # Contracts of one's own are judged, too.
    assert run(*install, "--contracts", str(tmp_path / "my contracts")) is Verdict.PASS
    own = f"--contracts '{tmp_path / 'my contracts'}' --kdir"
    assert own in (series / ".git/hooks/pre-commit").read_text()
    for name in ("b4.am-perpatch-check-cmd", "b4.review-series-check-cmd"):
        assert own in git(series, "config", name)
    (series / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    with pytest.raises(SchedlineError, match="exists, and stays as it is"):
        run(*install)


@pytest.mark.parametrize("text", [b"", b"Index: a.h\n--- a/a.h\n+++ b/a.h\n", b"diff --git a/x b/x\n", b"\xff\xfe"])
def test_what_is_no_mail_stays_as_it_is(text: bytes) -> None:
    assert diff_of(text) == text
