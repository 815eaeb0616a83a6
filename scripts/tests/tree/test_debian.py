# SPDX-License-Identifier: GPL-2.0
"""Fetching from Debian's archive, with a fake apt that gives prepared answers. Nothing here uses the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.tree import debian
from schedlib.tree.debian import Series

SOURCES = """\
http://third.example/apt nodistro main
http://mirror.example/debian bookworm main
http://mirror.example/debian bookworm non-free
http://mirror.example/debian-security bookworm-security main
"""

# The output of each program of apt comes from files beside it. `download` creates a package.
APT_GET = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 1
case $1 in
indextargets) cat sources ;;
update) cat update >&2; ! grep -q ^E: update ;;
download) printf package > "$OLDPWD/${2%=*}_${2#*=}_all.deb" ;;
esac
"""
APT_CACHE = '#!/bin/sh\ncat "$(dirname "$0")/madison"\n'
APT_CONFIG = '#!/bin/sh\nprintf "%s\\n" \'Acquire::http::Proxy "http://proxy.example:3128";\' \'APT::Other "x";\'\n'

SERIES = Series("7.3", "linux-source-7.3", ("trixie-backports", "trixie"), "7.3.4-1", "0" * 64)


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the three programs, first in PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, text in (("apt-get", APT_GET), ("apt-cache", APT_CACHE), ("apt-config", APT_CONFIG)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    (directory / "sources").write_text(SOURCES)
    (directory / "update").write_text("")
    (directory / "madison").write_text(
        "linux-source-7.3 | 7.3.9-1 | http://mirror.example/debian trixie/main amd64 Packages\n"
        "linux-source-7.3 | 7.3.5-1 | http://mirror.example/debian trixie-backports/main amd64 Packages\n"
    )
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    return directory


@pytest.fixture
def keyring(tmp_path: Path) -> Path:
    """An empty file in place of Debian's keyring."""
    (tmp_path / "keyring.gpg").touch()
    return tmp_path / "keyring.gpg"


def test_mirrors_are_the_machines_own(apt: Path) -> None:
    assert debian.mirrors() == {
        "archive": "http://mirror.example/debian",
        "security": "http://mirror.example/debian-security",
    }

    (apt / "sources").write_text("http://third.example/apt nodistro main\n")
    with pytest.raises(SchedlineError, match="no Debian archive"):
        debian.mirrors()


def test_earlier_suite_wins_and_the_configuration_is_private(apt: Path, keyring: Path, tmp_path: Path) -> None:
    path, package = debian.download(SERIES, tmp_path / "work", keyring)
    assert (package["version"], package["suite"]) == ("7.3.5-1", "trixie-backports")
    assert path.read_text() == "package"
    sources = (tmp_path / "work/etc/sources.list").read_text()
    assert sources.splitlines()[0] == f"deb [signed-by={keyring}] http://mirror.example/debian trixie-backports main"
    configuration = (tmp_path / "work/apt.conf").read_text()
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in configuration
    assert "APT::Other" not in configuration
    assert 'AllowUnauthenticated "false"' in configuration


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("W: GPG error: NO_PUBKEY 6ED0E7B82643E131\nE: The repository is not signed.\n", "signature does not verify"),
        ("E: Failed to fetch x  Temporary failure resolving 'x'\n", "cannot be reached"),
        ("E: Release file for x is expired (invalid since 3d)\n", "out of date"),
    ],
)
def test_failures_of_the_archive(apt: Path, keyring: Path, tmp_path: Path, said: str, message: str) -> None:
    (apt / "update").write_text(said)
    with pytest.raises(SchedlineError, match=message):
        debian.download(SERIES, tmp_path / "work", keyring)


def test_series_that_left_the_archive_names_the_other(apt: Path, keyring: Path, tmp_path: Path) -> None:
    (apt / "madison").write_text("")
    with pytest.raises(SchedlineError, match=r"(?s)no longer in trixie-backports.*--series 7\.2"):
        debian.download(SERIES, tmp_path / "work", keyring)


def test_tested_version_with_another_content_is_refused(apt: Path, keyring: Path, tmp_path: Path) -> None:
    text = (apt / "madison").read_text()
    (apt / "madison").write_text(text.replace("7.3.5-1", "7.3.4-1"))
    with pytest.raises(SchedlineError, match="sha256"):
        debian.download(SERIES, tmp_path / "work", keyring)
    assert not list((tmp_path / "work").glob("*.deb"))


def test_missing_keyring(apt: Path, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match="keyring"):
        debian.download(SERIES, tmp_path / "work", tmp_path / "nothing")
