# SPDX-License-Identifier: GPL-2.0
"""A user's tree is read, whatever its form, and never written."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path
from typing import Literal

import pytest

from conftest import FILES, check_out, git, write_files
from schedlib.errors import SchedlineError
from schedlib.tree.kernel_tree import Tree, open_kdir


def snapshot(directory: Path) -> set[tuple[Path, int, int, bytes]]:
    """Every file with mode, mtime and content, `.git` included."""
    files = [(path, path.lstat(), path.read_bytes() if path.is_file() else b"") for path in directory.rglob("*")]
    return {(path, status.st_mode, status.st_mtime_ns, content) for path, status, content in files}


def opened(cache: Path, path: Path) -> Tree:
    """The tree, checked out."""
    tree = open_kdir(cache, path)
    check_out(tree, tree.base)
    return tree


def archived(tmp_path: Path, archive: Path, mode: Literal["w", "w:xz"]) -> Path:
    """A tarball of the small tree."""
    write_files(tmp_path / "linux-7.3", FILES)
    with tarfile.open(archive, mode) as file:
        file.add(tmp_path / "linux-7.3", "linux-7.3")
    return archive


def test_git_tree_is_read_with_modified_and_untracked_files(kernel: Path, cache: Path) -> None:
    (kernel / "kernel/sched/sched.h").write_text("struct rq {\n\tint changed;\n};\nstruct root_domain {\n};\n")
    (kernel / "kernel/sched/new file.c").write_text("/* new */\n")
    (kernel / "MAINTAINERS").unlink()
    (kernel / "link").symlink_to("Kbuild")
    (kernel / "ignored.o").write_text("object")
    before = snapshot(kernel)
    tree = opened(cache, kernel)
    assert snapshot(kernel) == before
    assert tree.dirty == 4
    assert "changed" in (tree.src / "kernel/sched/sched.h").read_text()
    assert (tree.src / "kernel/sched/new file.c").is_file()
    assert not (tree.src / "MAINTAINERS").exists()
    assert (tree.src / "link").readlink() == Path("Kbuild")
    assert not (tree.src / "ignored.o").exists()


def test_one_process_reads_all_files(kernel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel / "with space.c").write_text("/* here */\n")
    (kernel / "empty.c").touch()
    tree = open_kdir(cache, kernel)
    tree.read("Kbuild")
    with monkeypatch.context() as context:
        context.setattr(subprocess, "Popen", None)
        said = [tree.read(file) for file in ("Makefile", "with space.c", "empty.c")]
    assert said == [FILES["Makefile"], "/* here */\n", ""]
    # What is no file leaves nothing behind that the next answer would begin with.
    said = [tree.read(file) for file in ("kernel", "none.c", "no such.c", "a\nb", "MAINTAINERS")]
    assert said == [None, None, None, None, FILES["MAINTAINERS"]]


def test_equal_content_gives_the_same_commit(kernel: Path, cache: Path) -> None:
    (kernel / "Kbuild").write_text("# changed\n")
    first = open_kdir(cache, kernel)
    again = open_kdir(cache, kernel)
    assert first == again
    assert first.base != first.head


def test_unchanged_files_keep_their_times(kernel: Path, cache: Path) -> None:
    tree = opened(cache, kernel)
    time = (tree.src / "kernel/sched/Makefile").stat().st_mtime_ns
    (kernel / "Kbuild").write_text("# changed\n")
    opened(cache, kernel)
    assert (tree.src / "Kbuild").read_text() == "# changed\n"
    assert (tree.src / "kernel/sched/Makefile").stat().st_mtime_ns == time


def test_damage_in_the_cache_is_mended(kernel: Path, cache: Path) -> None:
    tree = opened(cache, kernel)
    (tree.src / "Kbuild").unlink()
    (tree.src / "Makefile").write_text("half")
    (tree.src / ".git/index.lock").touch()
    check_out(tree, tree.base)
    assert (tree.src / "Kbuild").read_text() == FILES["Kbuild"]
    assert (tree.src / "Makefile").read_text() == FILES["Makefile"]


def test_half_made_tree_is_not_trusted(kernel: Path, cache: Path) -> None:
    tree = open_kdir(cache, kernel)
    (tree.directory / "manifest.json").write_text('{"path":')
    assert (opened(cache, kernel).src / "Kbuild").is_file()


def test_linked_work_tree_and_new_commit(kernel: Path, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(kernel, "worktree", "add", "-q", str(other))
    assert open_kdir(cache, other).base == open_kdir(cache, kernel).base
    (other / "Kbuild").write_text("# second\n")
    git(other, "commit", "-q", "-a", "-m", "second")
    tree = opened(cache, other)
    assert (tree.src / "Kbuild").read_text() == "# second\n"
    assert tree.dirty == 0


def test_plain_directory(tmp_path: Path, cache: Path) -> None:
    directory = tmp_path / "plain"
    write_files(directory, FILES | {".gitignore": "/*\n", "init/main.o": "object", "include/config/auto.conf": "y"})
    before = snapshot(directory)
    tree = opened(cache, directory)
    assert snapshot(directory) == before
    assert not (tree.src / "init/main.o").exists()
    assert not (tree.src / "include/config").exists()
    (directory / "Kbuild").write_text("# changed\n")
    assert (opened(cache, directory).src / "Kbuild").read_text() == "# changed\n"


@pytest.mark.tools
def test_tarball(tmp_path: Path, cache: Path) -> None:
    archive = archived(tmp_path, tmp_path / "linux.tar.xz", "w:xz")
    tree = open_kdir(cache, archive)
    assert (tree.src / "Kbuild").is_file()
    assert open_kdir(cache, archive) == tree


def test_damaged_tarball_is_refused_and_leaves_nothing_trusted(tmp_path: Path, cache: Path) -> None:
    archive = archived(tmp_path, tmp_path / "linux.tar", "w")
    archive.write_bytes(archive.read_bytes()[:3000])
    for _ in range(2):
        with pytest.raises(SchedlineError, match=r"cannot be unpacked|holds no kernel tree"):
            open_kdir(cache, archive)
        assert not [path for path in (cache / "trees").iterdir() if path.is_dir()]


def test_what_is_no_tarball_is_told_so(tmp_path: Path, cache: Path) -> None:
    """The error was only tar's last line, which does not say what is wrong."""
    (tmp_path / "file.txt").write_text("no kernel\n")
    with pytest.raises(SchedlineError, match="neither a directory nor a tarball"):
        open_kdir(cache, tmp_path / "file.txt")
    assert not (cache / "trees").exists()


@pytest.mark.parametrize(
    ("missing", "message"),
    [("Kbuild", "no kernel tree"), ("kernel/sched/sched.h", "no kernel tree"), ("lib/kunit/test.c", "too old")],
)
def test_what_is_no_kernel_is_refused(tmp_path: Path, cache: Path, missing: str, message: str) -> None:
    write_files(tmp_path / "tree", {name: text for name, text in FILES.items() if name != missing})
    with pytest.raises(SchedlineError, match=message):
        open_kdir(cache, tmp_path / "tree")


def test_absent_path_and_empty_repository(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(SchedlineError, match="neither a directory nor a tarball"):
        open_kdir(cache, tmp_path / "nothing")
    write_files(tmp_path / "tree", FILES)
    git(tmp_path, "init", "-q", str(tmp_path / "tree"))
    with pytest.raises(SchedlineError, match="no readable commit"):
        open_kdir(cache, tmp_path / "tree")
