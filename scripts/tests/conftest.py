# SPDX-License-Identifier: GPL-2.0
"""A small kernel tree and a private cache, for tests that need no kernel."""

from __future__ import annotations

import gc
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from suite_place import Place as SuitePlace
from workload_runs import WORKLOADS, Place, compile_program

from golden import Golden
from one_verb import parsed
from schedlib.cache import cache_dir
from schedlib.kernel.build import Kernel, built
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.targets import Target
from schedlib.tree import changes, compose
from schedlib.tree.kernel_tree import Tree, checked_out, fetch_series
from schedlib.tree.selftest_programs import DIRECTORY

# A script that starts the tests in the background ignores it, and so would all that they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ("replayed",)
"""Modules of tests with fixtures that several files need."""

_TREE = Path(__file__).parent / "tiny-linux"
FILES = {str(path.relative_to(_TREE)): path.read_text() for path in sorted(_TREE.rglob("*")) if path.is_file()}
"""A tree with what is looked for in a kernel's."""

SCHED_H = FILES["kernel/sched/sched.h"]

gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write golden texts anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.path.parent / "golden", request.config.getoption("--golden"))


def pytest_collection_finish() -> None:
    """Collect garbage only now, and never look at modules and tests, which stay to the end: a tenth of all CPU time."""
    gc.freeze()
    gc.enable()


def git(repository: Path, *words: str) -> str:
    """Run git as a user would."""
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgSign=false"]
    argv = ["git", *identity, "-C", str(repository), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def write_files(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def write_program(path: Path, text: str) -> Path:
    """A shell script that stands in for a program."""
    write_files(path.parent, {path.name: f"#!/bin/sh\n{text}\n"})
    path.chmod(0o755)
    return path


def snapshot(*directories: Path) -> set[tuple[Path, int, int, bytes]]:
    """Every file with mode, mtime and content, `.git` included."""
    found = (path for directory in directories for path in directory.rglob("*"))
    files = [(path, path.lstat(), path.read_bytes() if path.is_file() else b"") for path in found]
    return {(path, status.st_mode, status.st_mtime_ns, content) for path, status, content in files}


def build(cache: Path, tree: Tree, commit: str, target: Target, configuration: Configuration) -> Kernel:
    with built(cache, tree, commit, target, configuration) as made:
        return made


def check_out(tree: Tree, commit: str) -> None:
    with checked_out(tree, commit):
        pass


def read_words(module: Any, *words: str) -> Any:
    """The options that a verb's module makes of a command line. Nothing is run."""
    arguments = parsed(module, words)
    return arguments.read(arguments)


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("committed") / "linux"
    write_files(directory, FILES)
    git(directory, "init", "-q", "-b", "main", "--template=")
    git(directory, "config", "user.name", "Tester")
    git(directory, "config", "user.email", "tester@example.org")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "base")
    return directory


@pytest.fixture
def kernel(committed: Path, tmp_path: Path) -> Path:
    """A git tree that looks like a kernel's, with one commit."""
    return shutil.copytree(committed, tmp_path / "linux", symlinks=True)


@pytest.fixture
def patches(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A patch set for the small tree: rd-lines applies, and the optional cpupri-split does not."""
    directory = tmp_path / "patches"
    (directory / "7.3/revert").mkdir(parents=True)
    (directory / "7.3/series").write_text("# order\nrd-lines\ncpupri-split optional\n")
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;"))
    git(kernel, "commit", "-q", "-a", "-m", "sched/rt: Move pd", "--author", "Author <author@example.org>")
    (directory / "7.3/rd-lines.patch").write_text(git(kernel, "format-patch", "--stdout", "-1"))
    git(kernel, "reset", "-q", "--hard", "HEAD^")
    for module in (changes, compose):
        monkeypatch.setattr(module, "PATCHES", directory)
    return directory


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    directory.mkdir()
    monkeypatch.setenv("SCHEDLINE_CACHE", str(directory))
    return directory


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Puts a program of a name into PATH that is a shell script."""
    monkeypatch.setenv("PATH", str(tmp_path / "fakes"), prepend=":")
    return lambda name, text: write_program(tmp_path / "fakes" / name, text)


@pytest.fixture(scope="session")
def series() -> Tree:
    """Debian's 7.3, fetched if it is missing."""
    return fetch_series(cache_dir(), "7.3")


@pytest.fixture(scope="session")
def user_tree(series: Tree) -> Path:
    """See user_clone(). Of one test file alone: files run beside each other, and this fixture resets the tree."""
    return user_clone(series, "linux")


def user_clone(series: Tree, name: str) -> Path:
    """A user's git tree: unpatched, two files modified; it stays in the cache, so that its build stays warm."""
    directory = cache_dir() / "test-user" / name
    if not directory.is_dir():
        half = directory.with_name(f"{name}.half")
        subprocess.run(["rm", "-rf", str(half)], check=True)
        git(cache_dir(), "clone", "-q", "--shared", "--no-checkout", str(series.src), str(half))
        git(half, "checkout", "-q", "--detach", series.base)
        half.rename(directory)
    # A run that was killed may have left it.
    (directory / ".git/index.lock").unlink(missing_ok=True)
    git(directory, "checkout", "-q", "--force", "--detach", series.base)
    for modified in ("CREDITS", "README"):
        with (directory / modified).open("a") as file:
            file.write("modified\n")
    return directory


@pytest.fixture(scope="session")
def workloads(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("workloads")
    for tool in WORKLOADS:
        compile_program(series, DIRECTORY / f"{tool}.c", directory / tool)
    return directory


@pytest.fixture
def place(workloads: Path, tmp_path: Path) -> Place:
    """The workloads, which write nowhere else but below tmp_path."""
    return Place(workloads, tmp_path)


@pytest.fixture
def play(tmp_path: Path) -> SuitePlace:
    return SuitePlace(tmp_path)
