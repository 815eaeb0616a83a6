# SPDX-License-Identifier: GPL-2.0
"""Reports to the mailing lists can be sent as they are, and nobody signs or vouches for them but the sender."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from schedlib.paths import PATCHES
from schedlib.tree.changes import PatchMail, read_mail

MAILS = sorted([*(PATCHES / "reports").iterdir(), *PATCHES.glob("*/fix-*.patch")])
"""A report of a carried patch is that patch."""

UNWRAPPED = re.compile(r"Fixes: |https?://\S+$|  ")
"""Lines that keep their length: tags, links, and what is quoted."""


def ids(mail: Path) -> str:
    return f"{mail.parent.name}-{mail.stem}"


def read(mail: Path) -> PatchMail:
    """A mail as git reads it."""
    return read_mail(PATCHES.parent, mail)


def notes(mail: Path) -> str:
    """What is between the message and the diff."""
    return re.split(r"^diff --git ", read(mail).diff.decode(), flags=re.M)[0]


def test_there_is_a_mail_for_each_report() -> None:
    names = {mail.stem for mail in MAILS if mail.parent.name in ("7.3", "reports")}
    assert names == {
        *("fix-cluster-key", "fix-share-id", "01-cluster-key", "02-share-id", "03-cpus-share-cache"),
        *("04-cpupri-find", "05-kunit-skip", "06-selftests-sched"),
    }


@pytest.mark.parametrize("mail", MAILS, ids=ids)
def test_git_reads_it(mail: Path) -> None:
    found = read(mail)
    subject, _, message = found.text.partition("\n\n")
    assert re.match(r"[\w/]+: [A-Z]\w+|kunit: ", subject)
    assert len(message) > 300
    assert (b"\ndiff --git a/" in found.diff) == (mail.suffix == ".patch")
    assert "GIT_AUTHOR_NAME" not in found.author  # git send-email takes the sender's


@pytest.mark.parametrize("mail", MAILS, ids=ids)
def test_it_is_plain_text_of_72_columns(mail: Path) -> None:
    text = read(mail).text.partition("\n\n")[2] + notes(mail)
    assert text.isascii()
    assert [line for line in text.splitlines() if len(line) > 72 and not UNWRAPPED.match(line)] == []
    assert [line for line in text.splitlines() if len(line) > 78 and line.startswith("  ")] == []
    assert not re.search(r"^ ?[#|]|\*\*|```|@[A-Z]+@|schedline (check|export|dev)|make \w+ ONLY=", text, re.M)


@pytest.mark.parametrize("mail", MAILS, ids=ids)
def test_only_the_sender_can_sign(mail: Path) -> None:
    whole = mail.read_text()
    assert "localhost" not in whole
    assert not re.search(r"^\s*[\w-]+-by: ", whole, re.M | re.I)
    # A note to the sender would be sent: patches/README.md and the file SENDER of a series have them.
    assert not re.search(r"^\[|\b[Tt]he sender\b|Signed-off-by", whole, re.M)

    # Commits are named with their titles.
    text = " ".join(whole.split("\ndiff --git ")[0].split())
    for name in re.findall(r"\b(?:commit|Fixes:) ([0-9a-f]{8,40})\b", text):
        assert re.search(rf'\b{name} \("[^"]+"\)', text), name


@pytest.mark.skipif(
    not shutil.which("git-send-email", path="/usr/lib/git-core:/usr/libexec/git-core"), reason="no git send-email"
)
@pytest.mark.parametrize("mail", MAILS, ids=ids)
def test_git_can_send_it(mail: Path, tmp_path: Path) -> None:
    argv = ["git", "send-email", "--dry-run", "--confirm=never", "--from=Sender <sender@example.org>"]
    argv += ["--to=list@example.org", str(mail)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Result: OK" in done.stdout
    assert "\nFrom: Sender <sender@example.org>\n" in done.stdout
