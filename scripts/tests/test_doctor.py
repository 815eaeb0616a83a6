# SPDX-License-Identifier: GPL-2.0
"""What a machine lacks, in the words of its distribution; nothing calls apt where it is not."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from schedlib import doctor, environment
from schedlib.errors import SchedlineError
from schedlib.main import main

ABSENT = {"git", "pahole", "qemu-system-x86_64", "qemu-system-aarch64", "apt-get", "dpkg-deb", "apt", "dnf", "zypper"}
NEEDS = tuple(need for need in doctor.NEEDS if need.name in ("pahole", "qemu-system-x86_64", "libelf's headers"))


def machine(monkeypatch: pytest.MonkeyPatch, likes: str, *there: str) -> None:
    """A machine of this distribution with these programs of ABSENT, and without the headers of libelf."""
    which, glob = shutil.which, Path.glob
    monkeypatch.setattr(doctor, "freedesktop_os_release", lambda: {"ID": "mine", "ID_LIKE": likes})
    monkeypatch.setattr(
        shutil, "which", lambda name: name if name in there else None if name in ABSENT else which(name)
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "glob", lambda place, name: iter(()) if place == Path("/") else glob(place, name))


@pytest.mark.parametrize(
    ("likes", "program", "command"),
    [
        ("debian", "apt-get", "sudo apt-get install -y --no-install-recommends pahole libelf-dev qemu-system-x86"),
        ("rhel fedora", "dnf", "sudo dnf install dwarves elfutils-libelf-devel qemu-system-x86-core"),
        ("suse opensuse", "zypper", "sudo zypper install dwarves libelf-devel qemu-x86"),
        ("arch", "pacman", "sudo pacman -S pahole libelf qemu-system-x86"),
        ("alpine", "apk", "sudo apk add pahole elfutils-dev qemu-system-x86_64"),
        ("nixos", "nix-shell", "nix-shell -p pahole elfutils qemu"),
        ("debian", "dnf", "install them with this system's package manager"),
        ("plan9", "apt-get", "install them with this system's package manager"),
    ],
)
def test_each_distribution_has_its_names(
    likes: str, program: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, likes, program)
    assert doctor.next_step(NEEDS) == command


def test_each_row_has_a_name_for_each_distribution() -> None:
    rows = [line.split("|") for line in doctor._NAMES.splitlines()]
    assert {len(row) for row in rows} == {len(doctor._DISTRIBUTIONS.splitlines())}
    assert {row[0].strip() for row in rows} <= {need.package for need in doctor.NEEDS}


def test_without_apt_a_tree_of_the_users_own_is_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(monkeypatch, "fedora", "git", "dnf")
    with pytest.raises(
        SchedlineError, match=r"(?s)apt-get: .*without apt, give a kernel tree of your own: --kdir PATH"
    ):
        doctor.require(["fetch"])
    assert main(["doctor", "check"]) == 2
    said = capsys.readouterr().out
    assert "apt-get" not in said and "(package dwarves)" in said and "next: sudo dnf install " in said


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("check", "check"),
        ("check-x86_64", "check --sanitize kasan"),
        ("check-arm64", "check --on qemu-arm64 --selftests"),
        ("c2c", "c2c"),
        ("c2c", "show rd-lines"),
        ("c2c-arm64", "c2c --on qemu-arm64"),
        ("layout", "layout"),
    ],
)
def test_a_verb_names_what_doctor_names(job: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, before a kernel is fetched: who had installed what was named was told of more."""
    machine(monkeypatch, "debian", "apt-get", "dpkg-deb")
    with pytest.raises(SchedlineError) as error:
        main(words.split())
    assert error.value.observed.partition("\n")[2] == doctor.listed(doctor.JOBS[job].missing())


def test_layout_needs_no_libelf(monkeypatch: pytest.MonkeyPatch) -> None:
    """It links nothing, so nobody needs objtool, which took half of the time of a first run."""
    machine(monkeypatch, "debian", "apt-get", "dpkg-deb")
    assert "libelf's headers" not in {need.name for need in doctor.JOBS["layout"].missing()}


def test_root_installs_by_apt_whatever_the_distribution_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice for people was run as a command."""

    class Called(Exception):
        pass

    def called(argv: list[str], *, outliving: bool, **_: object) -> None:
        raise Called(argv, outliving)

    machine(monkeypatch, "plan9", "apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(doctor, "run", called)
    with pytest.raises(Called) as error:
        doctor.install(NEEDS)
    assert error.value.args[0][:2] == ["apt-get", "install"] and "libelf-dev" in error.value.args[0]
    assert error.value.args[1], "dpkg was cut off by kill -9 of schedline"


def test_a_library_that_pip_did_not_install_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """doctor called gate ready, and gate said that it has no numpy."""

    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(environment, "INSTALLED", True)
    monkeypatch.setattr(metadata, "version", version)
    assert main(["doctor", "gate"]) == 2
    said = capsys.readouterr().out
    assert "NOT READY gate" in said and "    numpy: " in said and "pip install 'schedline[gate]'" in said
