# SPDX-License-Identifier: GPL-2.0
"""The cache: what is half-written is never trusted, two runs wait for each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from schedlib import cache as module
from schedlib.errors import SchedlineError


def test_atomic_write_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file"
    module.write_atomic(path, "old")

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        module.write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1', "\0"])
def test_damaged_json_reads_as_absent(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content)
    assert module.read_json(tmp_path / "x.json") is None


def test_second_run_waits_and_says_so(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from schedlib.cache import lock\n"
        "with lock(Path(sys.argv[2]), lambda text: print(text, flush=True)): print('got it', flush=True)\n"
    )
    path = tmp_path / "lock"
    with module.lock(path, pytest.fail):
        argv = [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(path)]
        other = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        assert "waiting: another schedline (pid" in other.stdout.readline()
    assert other.stdout.readline() == "got it\n"
    assert other.wait(timeout=60) == 0


def test_unwritable_cache_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLINE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SchedlineError, match="SCHEDLINE_CACHE"):
        module.cache_dir()


def test_xdg_cache_home_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDLINE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert module.cache_dir() == tmp_path / "schedline"
