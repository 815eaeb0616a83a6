# SPDX-License-Identifier: GPL-2.0
"""A user's tree is read, whatever its form, and never written."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from conftest import FILES, check_out, git, snapshot, write_files
from schedlib.errors import SchedlineError
from schedlib.tree.kernel_tree import Tree, open_kdir


def opened(cache: Path, path: Path) -> Tree:
    """The tree, checked out."""
    tree = open_kdir(cache, path)
    check_out(tree, tree.base)
    return tree


def without(missing: str) -> dict[str, str]:
    """The files of a tree that lacks one."""
    return {f"tree/{name}": text for name, text in FILES.items() if name != missing}


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


def test_what_changes_and_what_does_not(kernel: Path, cache: Path) -> None:
    """Equal content gives the same commit, and unchanged files keep their times."""
    tree = opened(cache, kernel)
    time = (tree.src / "kernel/sched/Makefile").stat().st_mtime_ns
    (kernel / "Kbuild").write_text("# changed\n")
    first = opened(cache, kernel)
    assert first == open_kdir(cache, kernel) and first.base != first.head
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
    # A tree that is half made is not trusted.
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
def test_tarball(tmp_path: Path, cache: Path, fake: Callable[[str, str], Path]) -> None:
    """Of busybox's tar, which does not look how an archive is compressed."""
    tar = shutil.which("tar")
    fake("tar", f'case "$*" in *-J*) exec {tar} "$@" ;; esac; echo tar: invalid tar magic >&2; exit 1')
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


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        # The error was only tar's last line, which does not say what is wrong.
        ({"file.txt": "no kernel\n"}, "file.txt", "neither a directory nor a tarball"),
        ({}, "nothing", "neither a directory nor a tarball"),
        (without("Kbuild"), "tree", "no kernel tree"),
        (without("kernel/sched/sched.h"), "tree", "no kernel tree"),
        (without("lib/kunit/test.c"), "tree", "too old"),
    ],
    ids=["file", "nothing", "Kbuild", "sched.h", "kunit"],
)
def test_what_is_no_kernel_is_refused(
    files: dict[str, str], path: str, message: str, tmp_path: Path, cache: Path
) -> None:
    write_files(tmp_path, files)
    with pytest.raises(SchedlineError, match=message):
        open_kdir(cache, tmp_path / path)
    assert not (cache / "trees").exists()


def test_an_empty_repository(tmp_path: Path, cache: Path) -> None:
    write_files(tmp_path / "tree", FILES)
    git(tmp_path, "init", "-q", str(tmp_path / "tree"))
    with pytest.raises(SchedlineError, match="no readable commit"):
        open_kdir(cache, tmp_path / "tree")
