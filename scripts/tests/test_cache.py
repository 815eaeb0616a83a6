# SPDX-License-Identifier: GPL-2.0
"""The cache: a half-written file is never trusted, and a second run waits for the first."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from schedlib import cache as module
from schedlib.errors import SchedlineError
from schedlib.process import must


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
        "with lock(Path(sys.argv[2])): print('got it', flush=True)\n"
    )
    path = tmp_path / "lock"
    with module.lock(path):
        argv = [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(path)]
        other = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert other.stdout is not None
        assert "waiting for `schedline" in other.stdout.readline()
    assert "waited" in other.stdout.readline()
    assert other.stdout.readline() == "got it\n"
    assert other.wait(timeout=60) == 0


def test_the_same_state_is_shared_and_another_one_waits(tmp_path: Path) -> None:
    reached: list[str] = []

    def hold(state: str) -> AbstractContextManager[None]:
        return module.shared_lock(tmp_path / "src.lock", state, lambda: reached.append(state))

    with hold("a"), hold("a"):
        pass
    with hold("b"):
        pass
    with hold("b"):
        pass
    assert reached == ["a", "b"]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from schedlib.cache import shared_lock\n"
        "with shared_lock(Path(sys.argv[2]), sys.argv[3], lambda: print('prepared', flush=True)):\n"
        "    print('got it', flush=True)\n"
    )
    argv = [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(tmp_path / "src.lock")]
    with hold("b"):
        same = subprocess.run([*argv, "b"], capture_output=True, text=True, check=True, timeout=60)
        assert same.stdout == "got it\n"
    with hold("b"):
        other = subprocess.Popen([*argv, "c"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert other.stdout is not None
        # It named itself.
        assert f"(pid {os.getpid()}, " in other.stdout.readline()
    assert other.wait(timeout=60) == 0
    assert other.stdout.read().endswith("prepared\ngot it\n")


def test_a_state_that_was_not_reached_is_prepared_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise OSError("killed")

    with module.shared_lock(tmp_path / "src.lock", "a", lambda: None):
        pass
    with pytest.raises(OSError, match="killed"), module.shared_lock(tmp_path / "src.lock", "b", fail):
        pass
    reached = []
    with module.shared_lock(tmp_path / "src.lock", "a", lambda: reached.append("a")):
        pass
    assert reached == ["a"]


def test_a_killed_command_leaves_its_scratch_to_the_next_one(tmp_path: Path) -> None:
    gone = tmp_path / "scratch" / "4194399-x"
    gone.mkdir(parents=True)
    with module.scratch(tmp_path) as place:
        assert not gone.exists()
        assert place.is_dir()
    assert not place.exists()


def test_unwritable_cache_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLINE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SchedlineError, match="SCHEDLINE_CACHE"):
        module.cache_dir()


def test_xdg_cache_home_is_honoured_unless_it_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCHEDLINE_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for given, found in ((str(tmp_path / "xdg"), "xdg/schedline"), ("caches", ".cache/schedline")):
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert module.cache_path() == tmp_path / found


def test_builds_do_not_see_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "PWD OLDPWD MAKEFLAGS KBUILD_OUTPUT CDPATH GREP_OPTIONS GIT_DIR CC BASH_ENV ANY".split()  # noqa: SIM905
    for name in (*hostile, "CCACHE_DIR"):
        monkeypatch.setenv(name, "x")
    told = must(["env"]).splitlines()
    assert {"CCACHE_DIR=x", "LC_ALL=C"} <= set(told)
    assert {each.partition("=")[0] for each in told}.isdisjoint(hostile)


def test_a_killed_command_leaves_nothing_in_tmp(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    program = (
        "import os, sys, tempfile; sys.path.insert(0, sys.argv[1])\n"
        "from schedlib.cache import temporary_files\n"
        "with temporary_files():\n"
        "    tempfile.mkdtemp(); os.system('mktemp >/dev/null'); os.kill(os.getpid(), int(sys.argv[2]))\n"
    )
    for signal, left in ((9, 1), (0, 0)):
        env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "SCHEDLINE_CACHE": str(tmp_path / "cache")}
        argv = [sys.executable, "-c", program, str(Path(__file__).parents[1]), str(signal)]
        subprocess.run(argv, env=env, timeout=60, check=False)
        assert list((tmp_path / "tmp").iterdir()) == []
        assert len(list((tmp_path / "cache/scratch").iterdir())) == left
