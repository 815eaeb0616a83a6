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
from layout_command import run

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
        text = (clone / HEADER).read_text()
        assert text.count(change[0]) == 1
        (clone / HEADER).write_text(text.replace(*change))
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


@pytest.mark.parametrize("form", [mails, lambda series: one_diff(series, "-U0")])
def test_a_series_is_judged_as_one(
    form: Callable[[Path], bytes], series: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Git puts what is added without context at the end of the file, so that it broke nothing."""
    (tmp_path / "x.mbox").write_bytes(form(series))
    git(series, "checkout", "-q", "HEAD~2")
    assert run("layout", "--kdir", str(series), "--patch", str(tmp_path / "x.mbox")) is Verdict.FAIL
    assert "ERROR: rq-order.Q2" in capsys.readouterr().out


def test_context_that_moved_is_found_by_its_blob(
    series: Path, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git am -3` takes it; `git apply` alone does not."""
    (tmp_path / "x.patch").write_bytes(git(series, "diff", "--full-index", "HEAD~1", "HEAD").encode() + b"\n")
    git(series, "checkout", "-q", "HEAD~1")
    lines = (series / HEADER).read_text().splitlines(keepends=True)
    (at,) = (number for number, line in enumerate(lines) if FIRST[1] in line)
    lines[at - 2] = lines[at - 2].rstrip("\n") + " /* moved */\n"
    (series / HEADER).write_text("".join(lines))
    git(series, "commit", "-qam", "other")
    assert run("layout", "--kdir", str(series), "--patch", str(tmp_path / "x.patch")) is Verdict.FAIL
    assert "ERROR: rq-order.Q2" in capsys.readouterr().out


def test_git_is_asked_for_the_patch(series: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kdir = ["layout", "--kdir", str(series)]
    git(series, "config", "diff.context", "0")
    for commit in ("HEAD", ":/Change 2"):
        assert run(*kdir, "--commit", commit) is Verdict.FAIL
    assert run(*kdir, "--range", "HEAD~2..HEAD") is Verdict.FAIL
    # What others took away since is not in it.
    other = git(series, "commit-tree", "HEAD~1^{tree}", "-p", "HEAD", "-m", "others").strip()
    assert run(*kdir, "--range", f"{other}..HEAD") is Verdict.INCONCLUSIVE
    assert run(*kdir, "--commit", "HEAD~1") is Verdict.PASS
    assert run(*kdir, "--staged") is Verdict.INCONCLUSIVE
    assert "nothing is staged\n  next: git add FILE\n" in capsys.readouterr().err
    assert run(*kdir, "--range", "HEAD..HEAD") is Verdict.INCONCLUSIVE
    assert "HEAD..HEAD changes nothing\n" in capsys.readouterr().err
    git(series, "reset", "-q", "--soft", "HEAD~1")
    capsys.readouterr()
    assert run(*kdir, "--staged") is Verdict.FAIL
    assert "ERROR: rq-order.Q2" in capsys.readouterr().out
    for words, said in ((["--commit", "HEAD^!"], "is no commit"), (["--range", "HEAD~1"], "--range HEAD~1..HEAD")):
        with pytest.raises(SchedlineError, match=re.escape(said)):
            run(*kdir, *words)
    with pytest.raises(SchedlineError, match="typo"):
        run(*kdir, "--commit", "typo")
    with pytest.raises(SchedlineError, match=r"add --kdir \."):
        run("layout", "--commit", "HEAD")
    with pytest.raises(SchedlineError, match="name one patch"):
        run(*kdir, "--commit", "HEAD", "--staged")


def test_the_installed_hook_stops_a_bad_commit(series: Path, cache: Path) -> None:
    # The hook takes the libraries of this Python, and downloads none.
    libraries = environment._place(environment.CORE)
    libraries.parent.mkdir(parents=True)
    libraries.symlink_to(sys.prefix)
    git(series, "reset", "-q", "--hard", "HEAD~1")
    assert run("layout", "--kdir", str(series), "--install-hook") is Verdict.PASS
    assert run("layout", "--kdir", str(series), "--install-hook") is Verdict.PASS
    assert "layout --kdir . --quiet --patch -" in git(series, "config", "b4.am-perpatch-check-cmd")
    commit = ["git", "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-am", "x"]
    text = (series / HEADER).read_text()
    (series / HEADER).write_text(text.replace(*SECOND))
    stopped = subprocess.run(commit, cwd=series, capture_output=True, text=True, check=False)
    assert stopped.returncode == 1, stopped
    assert "ERROR: rq-order.Q2" in stopped.stdout + stopped.stderr
    (series / HEADER).write_text(text.replace("void *idle;", "void  *idle;"))
    done = subprocess.run(commit, cwd=series, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    (series / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    with pytest.raises(SchedlineError, match="exists, and stays as it is"):
        run("layout", "--kdir", str(series), "--install-hook")


def test_the_hook_judges_contracts_of_ones_own(series: Path, cache: Path, tmp_path: Path) -> None:
    own = tmp_path / "my contracts"
    own.mkdir()
    for more in ([], ["--contracts", str(own)]):
        assert run("layout", "--kdir", str(series), "--install-hook", *more) is Verdict.PASS
    words = f"--contracts '{own}' --kdir"
    assert words in (series / ".git/hooks/pre-commit").read_text()
    for name in ("b4.am-perpatch-check-cmd", "b4.review-series-check-cmd"):
        assert words in git(series, "config", name)


@pytest.mark.parametrize("text", [b"", b"Index: a.h\n--- a/a.h\n+++ b/a.h\n", b"diff --git a/x b/x\n", b"\xff\xfe"])
def test_what_is_no_mail_stays_as_it_is(text: bytes) -> None:
    assert diff_of(text) == text
