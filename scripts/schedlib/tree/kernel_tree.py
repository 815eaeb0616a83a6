# SPDX-License-Identifier: GPL-2.0
"""Kernel trees in the cache: each is a git work tree of our own, whatever its source was.

A user's tree is only read. A git tree lends its objects (alternates, as `git clone --shared` does), so nothing of its
history is copied; modified and untracked files are committed on top of its HEAD. Debian's package, a tarball and a
plain directory become one commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from schedlib.cache import lock, read_json, shared_lock, write_json
from schedlib.errors import SchedlineError
from schedlib.git import blob, git, try_git
from schedlib.options import DEFAULT_SERIES, TreeOptions
from schedlib.process import run
from schedlib.progress import say, step
from schedlib.tree import debian
from schedlib.tree.source import require_kernel

NEEDED_FREE = 6 << 30
"""Free bytes needed to unpack a kernel, store its git objects and build it once, with some margin."""

_COMPRESSIONS = {b"\xfd7zXZ": "-J", b"\x1f\x8b": "-z", b"BZh": "-j"}

_US = {"NAME": "schedline", "EMAIL": "schedline@localhost", "DATE": "2000-01-01T00:00:00Z"}
_IDENTITY = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _US.items()}
"""Fixed, so that equal content gives an equal commit id. Builds are stamped with that id."""


@dataclass(frozen=True)
class Tree:
    """A kernel tree that may be composed, synced and built.

    Attributes:
        name: of the directory below trees/ in the cache.
        directory: holds `src` (the git work tree) and the manifest; its locks are beside it.
        base: commit that equals the tree as its owner has it, uncommitted changes included.
        head: commit that the owner's tree has checked out; equals `base` when nothing is modified.
        origin: for people: package and version, or the path.
        is_user: True for a tree given with --kdir.
        dirty: number of modified and untracked files that `base` adds to `head`.
    """

    name: str
    directory: Path
    base: str
    head: str
    origin: str
    is_user: bool
    dirty: int = 0

    @property
    def src(self) -> Path:
        """The work tree that is built."""
        return self.directory / "src"

    def read(self, path: str, commit: str | None = None) -> str | None:
        """A file's text in a commit (default: base); None when the commit has no such file."""
        return _text(self.src, commit or self.base, path)


@lru_cache(maxsize=64)
def _text(src: Path, commit: str, path: str) -> str | None:
    content = blob(src, f"{commit}:{path}")
    return None if content is None else content.decode(errors="replace")


def at(tree: Tree, commit: str) -> Tree:
    """The same tree, as if its owner had checked this commit out."""
    return replace(tree, base=commit, head=commit, dirty=0)


def commit_tree(src: Path, tree: str, parent: str | None, message: str, author: dict[str, str] | None = None) -> str:
    """A commit of a tree object; equal input gives an equal id."""
    parents = ["-p", parent] if parent else []
    return git(src, "commit-tree", tree, *parents, env=_IDENTITY | (author or {}), stdin=message.encode())


def sender(tree: Tree) -> dict[str, str]:
    """The user's name and address in git's configuration, as the author of commits; empty if it lacks one of them."""
    place = Path(tree.origin) if tree.is_user and Path(tree.origin).is_dir() else tree.src
    found = [try_git(place, "config", key).stdout.decode().strip() for key in ("user.name", "user.email")]
    if not all(found):
        return {}
    who = dict(zip(("NAME", "EMAIL"), found, strict=True))
    return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}


def _new_repository(src: Path) -> None:
    src.mkdir(parents=True, exist_ok=True)
    git(src, "init", "--quiet", "--initial-branch=schedline")


_OUTPUT = ("*.o", "*.a", "*.ko", "*.cmd", "*.mod", "*.mod.c", "*.symvers", "*.order", "vmlinux*")
_BUILT = (*_OUTPUT, ".config*", "include/config", "include/generated", "arch/*/include/generated", ".git")
"""What a build leaves in a plain directory. .gitignore cannot be used for this: Debian's excludes the whole tree."""


def _import_directory(src: Path, work_tree: Path, excluded: Sequence[str] = ()) -> str:
    """Commit a plain directory, which may lie outside of the repository; unchanged files are not read again."""
    index = src / ".git/import.index"
    env = {"GIT_INDEX_FILE": str(index), "GIT_DIR": str(src / ".git"), "GIT_WORK_TREE": str(work_tree)}
    # With this threshold git writes one pack instead of 95000 loose objects: half the space.
    one_pack = ("-c", "core.bigFileThreshold=1", "-c", "pack.compression=1")
    git(work_tree, *one_pack, "add", "--all", "--force", ".", *(f":(exclude){name}" for name in excluded), env=env)
    return commit_tree(src, git(src, "write-tree", env={"GIT_INDEX_FILE": str(index)}), None, "base\n")


def _fresh(directory: Path) -> Path:
    """Delete `directory`; an empty one beside it, which is renamed into its place when it is complete."""
    half = directory.with_name(directory.name + ".half")
    # Wait until nobody builds the tree that is to be deleted.
    with lock(_work_tree_lock(directory)):
        _work_tree_lock(directory).with_suffix(".state").unlink(missing_ok=True)
        for stale in (half, directory):
            if stale.exists():
                shutil.rmtree(stale)
    half.mkdir(parents=True)
    if (free := shutil.disk_usage(half).free) < NEEDED_FREE:
        observed = f"{half.parent} has {free >> 20} MiB free; a kernel tree and its build need {NEEDED_FREE >> 20} MiB"
        raise SchedlineError(observed, "make room, or put the cache elsewhere: SCHEDLINE_CACHE=/path/with/space")
    return half


def _compression(archive: Path) -> list[str]:
    """The option of tar for a compressed archive. GNU's finds out by itself, that of busybox does not."""
    with archive.open("rb") as file:
        first = file.read(6)
    return [option for magic, option in _COMPRESSIONS.items() if first.startswith(magic)]


def _unpack(half: Path, file: Path, what: str, inner: str = "") -> None:
    """Unpack a tarball, or the one at `inner` in a Debian package, to `half/src`."""
    target, package = half / "unpacked", half / "package"
    target.mkdir()
    archive = package / inner if inner else file
    commands: list[list[str | Path]] = [["dpkg-deb", "-x", file, package]] if inner else []
    commands.append(["tar", "-x", "-C", target, "-f", archive])
    with step(f"unpacking {what}"):
        for argv in commands:
            # Where there is a package, the archive comes out of it.
            how = _compression(archive) if archive.is_file() else []
            done = run([*argv, *how], env={"XZ_DEFAULTS": "-T0"})
            if done.returncode:
                # tar's last line says only "Error is not recoverable".
                errors = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
                shutil.rmtree(half)
                observed = f"{what} cannot be unpacked:\n    " + "\n    ".join(errors or ["it is damaged"])
                raise SchedlineError(observed, "check the file and the free space (df -h), then run the command again")
    shutil.rmtree(package, ignore_errors=True)
    tops = list(target.iterdir())
    if len(tops) != 1 or not (tops[0] / "Kbuild").is_file():
        shutil.rmtree(half)
        raise SchedlineError(f"{what} holds no kernel tree", "give a kernel source tree or its tarball")
    tops[0].rename(half / "src")
    target.rmdir()


def _whole(directory: Path, identity: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest, when the tree is complete and is still the one that `identity` describes."""
    manifest = read_json(directory / "manifest.json")
    return manifest if manifest and identity.items() <= manifest.items() else None


def _in_place(half: Path, directory: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    write_json(half / "manifest.json", manifest)
    half.rename(directory)
    return manifest


def _adopt(half: Path, directory: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """Commit what was unpacked in half/src and move the tree into place; returns the manifest, which has the commit."""
    src = half / "src"
    with step("recording the tree in git"):
        _new_repository(src)
        base = _import_directory(src, src)
        (src / ".git/import.index").replace(src / ".git/index")
        git(src, "reset", "--quiet", "--soft", base)
    return _in_place(half, directory, identity | {"base": base})


def open_tree(cache: Path, chosen: TreeOptions) -> Tree:
    """The tree that the options name: a user's, or a series; see open_kdir() and fetch_series()."""
    return open_kdir(cache, chosen.kdir) if chosen.kdir else fetch_series(cache, chosen.series or DEFAULT_SERIES)


def _opening(directory: Path) -> AbstractContextManager[None]:
    """Not held during a build."""
    return lock(directory.with_name(f"{directory.name}.open.lock"))


def _work_tree_lock(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.src.lock")


def fetch_series(cache: Path, name: str, *, again: bool = False, keyring: Path = debian.KEYRING) -> Tree:
    """Debian's source of a series, downloaded and unpacked once; with `again` the archive is asked for a newer version.

    Raises SchedlineError: as debian.download(), or it cannot be unpacked.
    """
    series = debian.series_table()[name]
    directory = cache / "trees" / name
    with _opening(directory):
        manifest = _whole(directory, {"package": series.package})
        if manifest is None or again:
            with step(f"fetching {series.package} from {' or '.join(series.suites)}"):
                file, package = debian.download(series, cache / "apt" / name, keyring)
            manifest = _whole(directory, {key: package[key] for key in ("package", "version", "sha256")})
            if manifest is None:
                half = _fresh(directory)
                what = f"{series.package} {package['version']}"
                _unpack(half, file, what, f"usr/src/{series.package}.tar.xz")
                manifest = _adopt(half, directory, package)
            file.unlink(missing_ok=True)
    if manifest["version"] != series.tested:
        say(f"note: {series.package} {manifest['version']}; the version last tested here is {series.tested}")
    return _series_tree(directory, manifest)


def _series_tree(directory: Path, manifest: dict[str, Any]) -> Tree:
    base, origin = str(manifest["base"]), f"{manifest['package']} {manifest['version']}"
    return Tree(directory.name, directory, base, base, origin, is_user=False)


def cached_series(cache: Path, name: str) -> Tree | None:
    """Debian's source of a series from the cache, which need not be the newest version. Nothing is downloaded."""
    directory = cache / "trees" / name
    manifest = _whole(directory, {})
    return _series_tree(directory, manifest) if manifest else None


def open_kdir(cache: Path, kdir: Path) -> Tree:
    """A user's tree: a git tree, a plain directory or a tarball. It is never written to, `.git` included.

    Raises SchedlineError: it is not a kernel tree, is too old for KUnit, or cannot be read.
    """
    path = kdir.expanduser().resolve()
    if path.is_dir():
        require_kernel(path, lambda name: (path / name).exists())
        directory = cache / "trees" / f"kdir-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
        with _opening(directory):
            top = try_git(path, "rev-parse", "--show-toplevel")
            is_git = not top.returncode and Path(os.fsdecode(top.stdout).rstrip("\n")).resolve() == path
            tree = (_open_git if is_git else _open_plain)(directory, path)
    else:
        tree = _open_tarball(cache, path)
    require_kernel(path, lambda name: tree.read(name) is not None or name.endswith("/"))
    return tree


def _open_tarball(cache: Path, path: Path) -> Tree:
    # Python's tarfile does not know zstd; tar does.
    if not path.is_file() or (path.suffix != ".zst" and not tarfile.is_tarfile(path)):
        advice = "give a kernel source tree or its tarball: --kdir PATH"
        raise SchedlineError(f"{path} is neither a directory nor a tarball", advice)
    digest = debian.sha256_of(path)
    directory = cache / "trees" / f"tar-{digest[:12]}"
    with _opening(directory):
        manifest = _whole(directory, {"sha256": digest})
        if manifest is None:
            half = _fresh(directory)
            _unpack(half, path, str(path))
            manifest = _adopt(half, directory, {"sha256": digest})
    base = str(manifest["base"])
    return Tree(directory.name, directory, base, base, str(path), is_user=True)


def _open_plain(directory: Path, path: Path) -> Tree:
    identity = {"path": str(path), "kind": "plain"}
    if _whole(directory, identity) is None:
        half = _fresh(directory)
        _new_repository(half / "src")
        _in_place(half, directory, identity)
    with step(f"reading {path}"):
        base = _import_directory(directory / "src", path, _BUILT)
    return Tree(directory.name, directory, base, base, str(path), is_user=True)


def _open_git(directory: Path, path: Path) -> Tree:
    objects = Path(git(path, "rev-parse", "--path-format=absolute", "--git-path", "objects"))
    identity = {"path": str(path), "kind": "git", "objects": str(objects)}
    if _whole(directory, identity) is None:
        half = _fresh(directory)
        _new_repository(half / "src")
        # Borrow the objects of Debian's trees, too. The carried patches were made against these trees, so a
        # three-way merge finds its base there.
        lenders = [objects, *sorted(directory.parent.glob("[0-9]*/src/.git/objects"))]
        (half / "src/.git/objects/info/alternates").write_text("".join(f"{lender}\n" for lender in lenders))
        _in_place(half, directory, identity)
    src = directory / "src"
    commit = try_git(path, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").stdout.decode().strip()
    if not commit:
        raise SchedlineError(f"{path} has no readable commit", "commit the kernel first, or give a tarball of it")
    shallow = Path(git(path, "rev-parse", "--path-format=absolute", "--git-path", "shallow"))
    if shallow.is_file():
        shutil.copyfile(shallow, src / ".git/shallow")
    status = git(path, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
    changed = [entry[3:] for entry in status.split("\0") if entry and not entry.endswith("/")]
    base = _overlay(src, commit, path, changed) if changed else commit
    return Tree(directory.name, directory, base, commit, str(path), is_user=True, dirty=len(changed))


def _overlay(src: Path, commit: str, path: Path, changed: Iterable[str]) -> str:
    """A commit on top of `commit` with the listed files as they are on disk; files absent on disk are removed."""
    rows: list[str] = []
    for name in changed:
        file = path / name
        if file.is_symlink():
            rows.append(file_row(src, name, os.fsencode(file.readlink()), "120000"))
        elif file.is_file():
            rows.append(file_row(src, name, file.read_bytes(), "100755" if os.access(file, os.X_OK) else "100644"))
        else:
            rows.append(f"0 {'0' * 40}\t{name}")
    return commit_tree(src, edit_tree(src, commit, rows), commit, "uncommitted changes of the tree\n")


def file_row(src: Path, name: str, data: bytes, mode: str = "100644") -> str:
    """A row for edit_tree(): the file `name` with this content."""
    return f"{mode} {git(src, 'hash-object', '-w', '--stdin', stdin=data)}\t{name}"


def put_files(
    tree: Tree, commit: str, files: Mapping[str, bytes], message: str, author: dict[str, str] | None = None
) -> str:
    """Commit files on top of a commit; the same commit when it has all of them with this content."""
    rows = git(tree.src, "ls-tree", "-z", commit, "--", *files).split("\0")
    there = {name: words.split()[2] for words, _, name in (row.partition("\t") for row in rows if row)}
    blobs = {name: b"blob %d\0" % len(data) + data for name, data in files.items()}
    ids = {name: hashlib.sha1(blob, usedforsecurity=False).hexdigest() for name, blob in blobs.items()}
    new = {name: data for name, data in files.items() if there.get(name) != ids[name]}
    if not new:
        return commit
    made = [file_row(tree.src, name, data) for name, data in new.items()]
    return commit_tree(tree.src, edit_tree(tree.src, commit, made), commit, message, author)


class _Index:
    """An index file that holds a commit."""

    def __init__(self, src: Path, commit: str) -> None:
        directory = tempfile.mkdtemp(prefix="schedline-")
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        self.file = Path(directory, "index")
        git(src, "read-tree", commit, env={"GIT_INDEX_FILE": str(self.file)})


_index = lru_cache(maxsize=2)(_Index)
"""The indexes of the last two commits: to read a kernel's tree takes longer than all else that is done with it."""


@contextmanager
def _scratch_index(src: Path, commit: str) -> Iterator[dict[str, str]]:
    """A temporary index that holds a commit, as environment variables for git: so no command needs a lock."""
    kept = _index(src, commit)
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        yield {"GIT_INDEX_FILE": str(shutil.copy(kept.file, Path(scratch, "index")))}


def edit_tree(src: Path, commit: str, rows: Iterable[str]) -> str:
    """The tree object of a commit with files replaced; rows are `mode blob TAB path` (`git update-index`)."""
    data = "".join(f"{row}\0" for row in rows).encode(errors="surrogateescape")
    with _scratch_index(src, commit) as index:
        git(src, "update-index", "-z", "--index-info", env=index, stdin=data)
        return git(src, "write-tree", env=index)


def apply_diff(
    tree: Tree, parent: str, diff: bytes, message: str, *options: str, author: dict[str, str] | None = None
) -> str | None:
    """A commit with a diff on top of `parent`, made by `git apply` without a work tree; None when it does not apply."""
    made, _ = applied_tree(tree.src, parent, diff, *options)
    return commit_tree(tree.src, made, parent, message, author) if made else None


def applied_tree(src: Path, parent: str, diff: bytes, *options: str) -> tuple[str | None, str]:
    """The tree object of a commit or tree with a diff, None when it does not apply; and what git said."""
    # Wrong line counts are tolerated (--recount), but only as a second try: git then guesses where the last hunk ends.
    # Git puts lines that are added without context (-U0) at the end of the file, unless it is told to count.
    if not re.search(rb"^ ", diff, re.M):
        options = (*options, "--unidiff-zero")
    for counted in ((), ("--recount",)):
        with _scratch_index(src, parent) as index:
            done = try_git(src, "apply", "--cached", *options, *counted, "-", env=index, stdin=diff)
            if not done.returncode:
                return git(src, "write-tree", env=index), ""
    return None, done.stderr.decode(errors="replace")


def checked_out(tree: Tree, commit: str) -> AbstractContextManager[None]:
    """A lock, shared by those who need the same commit, that keeps a commit checked out in the work tree.

    Files that do not differ keep their modification times, so a later build is incremental.
    """

    def prepare() -> None:
        for name in ("index.lock", "HEAD.lock"):
            # A command that was killed left this file: nobody else can check out while the lock is held.
            (tree.src / ".git" / name).unlink(missing_ok=True)
        git(tree.src, "update-ref", "refs/schedline/built", commit)
        git(tree.src, "reset", "--quiet", "--hard", commit)

    def intact() -> bool:
        return git(tree.src, "status", "--porcelain", "--untracked-files=no") == ""

    return shared_lock(_work_tree_lock(tree.directory), commit, prepare, intact)


def last_checked_out(tree: Tree) -> str:
    """The commit that the work tree shows, or is to show soon; empty if that is not known."""
    with suppress(OSError):
        return _work_tree_lock(tree.directory).with_suffix(".state").read_text()
    return ""
