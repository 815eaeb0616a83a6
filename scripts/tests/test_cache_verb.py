# SPDX-License-Identifier: GPL-2.0
"""`schedline cache`: everything is listed, and what somebody uses is not removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from schedlib.cache import lock
from schedlib.main import main

LONG_AGO = 1_600_000_000


@pytest.fixture
def full(cache: Path) -> Path:
    """A cache with an old build, a new one whose name begins alike, an old tree and one that borrows from another."""
    for name in ("builds/7.3-uml", "builds/7.3-uml-new", "trees/7.3/src/.git", "trees/kdir-1/src/.git/objects/info"):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_text("x" * 5000)
    (cache / "trees/kdir-1/src/.git/objects/info/alternates").write_text(f"{cache}/trees/7.3/src/.git/objects\n")
    (cache / "trees/7.3.src.state").write_text("abc")
    for name in ("builds/7.3-uml.lock", "builds/7.3-uml-new.lock", "trees/7.3.src.lock", "trees/kdir-1.src.lock"):
        (cache / name).touch()
        if "new" not in name and "kdir" not in name:
            os.utime(cache / name, (LONG_AGO, LONG_AGO))
    return cache


def test_everything_is_listed(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("builds/7.3-uml\n", "builds/7.3-uml-new\n", "trees/7.3\n", "trees/kdir-1\n"))
    assert "2020-09-13  trees/7.3\n" in out


def test_what_is_old_goes_but_not_what_another_tree_needs(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--prune", "30"]) == 0
    out = capsys.readouterr().out
    assert "trees/7.3: another tree needs it" in out and "builds/7.3-uml: removed" in out
    assert sorted(each.name for each in (full / "builds").iterdir()) == [
        "7.3-uml-new",
        "7.3-uml-new.lock",
        "7.3-uml.lock",
    ]
    assert (full / "trees/7.3.src.state").exists()
    (full / "trees/kdir-1/src/.git/objects/info/alternates").unlink()
    assert main(["cache", "--prune", "30"]) == 0
    assert not (full / "trees/7.3").exists() and not (full / "trees/7.3.src.state").exists()


def test_what_is_used_stays(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lock(full / "builds/7.3-uml.lock"):
        assert main(["cache", "--remove"]) == 2
    assert "builds/7.3-uml: in use" in capsys.readouterr().out
    assert (full / "builds/7.3-uml/file").exists() and not (full / "trees/7.3").exists()
    assert main(["cache", "--remove"]) == 0
    assert not full.exists()
    assert main(["cache"]) == 0


@pytest.mark.parametrize("words", [["--prune", "-1"], ["--prune", "1", "--remove"]])
def test_contradictions(words: list[str], full: Path) -> None:
    with pytest.raises(Exception, match="next: "):
        main(["cache", *words])
