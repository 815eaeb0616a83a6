# SPDX-License-Identifier: GPL-2.0
"""The cache: a half-written file is never trusted, a second run waits for the first, what is used stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path

import pytest

from schedlib import cache as module
from schedlib.errors import SchedlineError
from schedlib.main import main
from schedlib.process import dying_with_us, must


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


def started(text: str, *words: object, **more: str) -> subprocess.Popen[str]:
    """A program that does this with what schedlib.cache has; both outputs are one pipe."""
    head = "import os, sys, tempfile; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
    argv = [sys.executable, "-c", f"{head}from schedlib.cache import *\n{text}", str(Path(__file__).parents[1])]
    argv += map(str, words)
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | more)


def test_second_run_waits_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with module.lock(path):
        other = started("with lock(Path(sys.argv[2])): print('got it', flush=True)", path)
        assert other.stdout is not None
        assert "waiting for `schedline" in other.stdout.readline()
    assert "waited" in other.stdout.readline()
    assert other.stdout.readline() == "got it\n"
    assert other.wait(timeout=60) == 0


def test_the_same_state_is_shared_and_another_one_waits(tmp_path: Path) -> None:
    reached: list[str] = []
    path = tmp_path / "src.lock"

    def hold(state: str) -> AbstractContextManager[None]:
        return module.shared_lock(path, state, lambda: reached.append(state))

    with hold("a"), hold("a"):
        pass
    for _ in range(2):
        with hold("b"):
            pass
    assert reached == ["a", "b"]
    text = (
        "with shared_lock(Path(sys.argv[2]), sys.argv[3], lambda: print('prepared', flush=True)):\n"
        "    print('got it', flush=True)\n"
    )
    with hold("b"):
        assert started(text, path, "b").communicate(timeout=60)[0] == "got it\n"
    with hold("b"):
        other = started(text, path, "c")
        assert other.stdout is not None
        # It named itself.
        assert f"(pid {os.getpid()}, " in other.stdout.readline()
    assert other.communicate(timeout=60)[0].endswith("prepared\ngot it\n")


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


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SCHEDLINE_CACHE", str(tmp_path / "file"))
    with pytest.raises(SchedlineError, match="SCHEDLINE_CACHE"):
        module.cache_dir()
    monkeypatch.delenv("SCHEDLINE_CACHE")
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
    text = (
        "with temporary_files():\n"
        "    tempfile.mkdtemp(); os.system('mktemp >/dev/null'); os.kill(os.getpid(), int(sys.argv[2]))\n"
    )
    for signal, left in ((9, 1), (0, 0)):
        env = {"TMPDIR": str(tmp_path / "tmp"), "SCHEDLINE_CACHE": str(tmp_path / "cache")}
        started(text, signal, **env).communicate(timeout=60)
        assert list((tmp_path / "tmp").iterdir()) == []
        assert len(list((tmp_path / "cache/scratch").iterdir())) == left


@pytest.mark.parametrize("start", ["process.run", "environment._run"])
def test_no_child_outlives_a_killed_command(start: str, tmp_path: Path) -> None:
    """git reset went on for 68 s in the work tree that the next command took, and pip for 14 s in its libraries."""
    text = (
        f"from schedlib import environment, process; {start}(['sh', '-c', 'echo $$ > $0; exec sleep 99', sys.argv[2]])"
    )
    killed = started(text, tmp_path / "pid")
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
    killed.kill()
    child = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    while time.monotonic() < deadline and killed.poll() is None:
        time.sleep(0.01)
    time.sleep(1)
    assert not child.exists() or b"sleep" not in child.read_bytes()


def test_another_setpriv_and_a_missing_program_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """busybox has a setpriv without --pdeathsig: each build failed with its usage."""
    (tmp_path / "setpriv").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "setpriv").chmod(0o755)
    with pytest.raises(SchedlineError, match="the program nothing-like-it is not installed"):
        must(["nothing-like-it"])
    assert len(dying_with_us(["true"])) > 1
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert dying_with_us(["true"]) == ["true"]


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


def test_what_is_old_goes_but_not_what_another_tree_needs(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    listed = {tuple(line.split()[-2:]) for line in capsys.readouterr().out.splitlines()}
    today = date.today().isoformat()
    rows = {("2020-09-13", "builds/7.3-uml"), ("2020-09-13", "trees/7.3")}
    assert listed >= rows | {(today, "builds/7.3-uml-new"), (today, "trees/kdir-1")}
    assert main(["cache", "--prune", "30"]) == 0
    out = capsys.readouterr().out
    assert "trees/7.3: another tree needs it" in out and "builds/7.3-uml: removed" in out
    assert {each.name for each in (full / "builds").iterdir()} == {"7.3-uml-new", "7.3-uml-new.lock", "7.3-uml.lock"}
    assert (full / "trees/7.3.src.state").exists()
    (full / "trees/kdir-1/src/.git/objects/info/alternates").unlink()
    assert main(["cache", "--prune", "30"]) == 0
    assert not (full / "trees/7.3").exists() and not (full / "trees/7.3.src.state").exists()


def test_what_is_used_stays(full: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with module.lock(full / "builds/7.3-uml.lock"):
        assert main(["cache", "--remove"]) == 2
    assert "builds/7.3-uml: in use" in capsys.readouterr().out
    assert (full / "builds/7.3-uml/file").exists() and not (full / "trees/7.3").exists()
    assert main(["cache", "--remove"]) == 0
    assert not full.exists()
    assert main(["cache"]) == 0


@pytest.mark.parametrize("words", [["--prune", "-1"], ["--prune", "1", "--remove"]])
def test_contradictions(words: list[str], full: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["cache", *words])


def test_an_answer_that_may_be_another_the_next_time_is_not_kept(tmp_path: Path) -> None:
    """A mutant that a busy machine had hidden was called a survivor on an idle one, too."""
    answers = iter(({"good": 0}, {"good": 1}, {"good": 2}))
    made = [module.cached(tmp_path, ("x",), lambda: next(answers), lambda each: each["good"] > 0) for _ in range(3)]
    assert [each["good"] for each in made] == [0, 1, 1]
