# SPDX-License-Identifier: GPL-2.0
"""The cache directory: where it is, how two commands share it, how a file in it becomes trusted."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from schedlib.errors import SchedlineError
from schedlib.paths import BUNDLE, PROJECT
from schedlib.progress import say


def cache_path() -> Path:
    """$SCHEDLINE_CACHE, else $XDG_CACHE_HOME/schedline, else ~/.cache/schedline; it need not exist.

    In a bundle the default is a directory of the bundle: a machine that is measured may have no home.
    """
    chosen = os.environ.get("SCHEDLINE_CACHE")
    if not chosen and BUNDLE.exists():
        return PROJECT / "cache"
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification says that a relative path is to be ignored.
    return Path(chosen) if chosen else (caches if caches.is_absolute() else Path.home() / ".cache") / "schedline"


def cache_dir() -> Path:
    """The cache directory, created when absent; SchedlineError if it cannot be written."""
    base = cache_path()
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            pass
    except OSError as error:
        observed = f"the cache {base} cannot be written: {error.strerror}"
        raise SchedlineError(observed, "name another directory: SCHEDLINE_CACHE=/path/with/space") from error
    return base.resolve()


def results_directory(cache: Path, wanted: Path | None) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    directory = (wanted or cache / "results" / f"{stamp}-{os.getpid()}").absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def scratch(cache: Path) -> Iterator[Path]:
    """A temporary directory in the cache. The next command removes what a killed one left behind."""
    place = cache / "scratch"
    place.mkdir(parents=True, exist_ok=True)
    for stale in place.iterdir():
        if not Path("/proc", stale.name.partition("-")[0]).exists():
            shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=place, prefix=f"{os.getpid()}-") as name:
        yield Path(name)


@contextmanager
def temporary_files() -> Iterator[None]:
    """Keep temporary files, also those of children, in the cache, so that kill -9 leaves none in /tmp."""
    try:
        cache = cache_dir()
    except SchedlineError:
        yield  # without a cache that can be written they are where they always are
        return
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    with scratch(cache) as place:
        tempfile.tempdir = os.environ["TMPDIR"] = str(place)
        try:
            yield
        finally:
            tempfile.tempdir = before[0]
            os.environ.pop("TMPDIR")
            os.environ.update({"TMPDIR": before[1]} if before[1] else {})


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write a file so that a reader never sees half of it, not even after kill -9.

    A file keeps its mode, and a symbolic link its place. Devices, pipes and our own output are written through.
    """
    raw = data.encode() if isinstance(data, str) else data
    if (sink := _sink(path)) is not None:
        with os.fdopen(sink, "wb") as file:
            file.write(raw)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        # The error of a failed write, such as a full disk, names no file.
        if isinstance(error, OSError) and not error.filename:
            error.filename = str(path)
        raise


def _sink(path: Path) -> int | None:
    try:
        there = path.stat()
    except OSError:
        return None
    for own in (1, 2):
        with suppress(OSError):
            if os.path.samestat(there, os.fstat(own)):
                return os.dup(own)
    return None if stat.S_ISREG(there.st_mode) else os.open(path, os.O_WRONLY)


def read_regular(path: Path | str, most: int) -> bytes:
    """Read a regular file in full; a device, which may have no end, and a pipe, which may block, are rejected.

    Raises OSError: it cannot be read, is no regular file, or has more bytes than `most`.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has {size} bytes, more than {most}", str(path))
        return file.read(size)


def open_regular(path: Path | str) -> BufferedReader:
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return file


LARGEST_TEXT = 256 << 20
"""Bytes of a log, a mail or a patch."""


def read_text(name: Path | str) -> bytes:
    """Read a file or a pipe to its end; `-` is standard input. Raises OSError: it is larger than LARGEST_TEXT."""
    with nullcontext(sys.stdin.buffer) if str(name) == "-" else Path(name).open("rb") as file:
        content = file.read(LARGEST_TEXT + 1)
    if len(content) > LARGEST_TEXT:
        raise OSError(errno.EFBIG, f"it has more than {LARGEST_TEXT} bytes", str(name))
    return content


def write_json(path: Path, value: Any) -> None:
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None when the file is missing or holds no JSON object."""
    with suppress(OSError, ValueError):
        value = json.loads(path.read_bytes())
        return value if isinstance(value, dict) else None
    return None


def digest_of(*parts: object) -> str:
    """A hash of all that a result depends on, to name its file in the cache. A set counts whatever its order is."""
    texts = (repr(sorted(each)) if isinstance(each, frozenset) else str(each) for each in parts)
    return hashlib.sha256("\0".join(texts).encode(errors="surrogateescape")).hexdigest()[:20]


def cached(
    place: Path,
    parts: Sequence[object],
    make: Callable[[], dict[str, Any]],
    keeps: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> dict[str, Any]:
    """A JSON object that depends on these parts alone: from its file in this directory, or made and kept there.

    `keeps`: whether one would be the same if it were made again.
    """
    file = place / f"{digest_of(*parts)}.json"
    if (found := read_json(file)) is None or not keeps(found):
        found = make()
        if keeps(found):
            write_json(file, found)
    return found


def contents_of(places: Iterable[Path]) -> Iterator[str]:
    """For digest_of(): the name and the hash of each file at and below some places, but for what Python compiled."""
    for place in places:
        for file in sorted([place, *place.rglob("*")]):
            if file.is_file() and file.suffix != ".pyc":
                yield f"{file.relative_to(place.parent)} {hashlib.sha256(file.read_bytes()).hexdigest()}"


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; when another command has it, say which one and wait.

    The kernel drops the lock when its holder dies, so nothing is left behind by kill -9.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        _acquire(file, fcntl.LOCK_EX)
        _sign(file)
        yield


@contextmanager
def shared_lock(
    path: Path, state: str, prepare: Callable[[], None], intact: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Hold a lock that all holders of the same state share; wait until the holders of another state are done.

    Args:
        path: the lock; the `.state` file beside it records the state that was reached last.
        state: what the holders need, such as the commit that a work tree shows.
        prepare: reaches the state; called under the exclusive lock, and only when the recorded state differs or is
            not intact. When it fails or is killed, the next holder prepares again.
        intact: whether the state that was reached is still unmodified.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    record = path.with_suffix(".state")
    with path.open("a+") as file:
        _acquire(file, fcntl.LOCK_SH)
        reached = _text(record) == state and intact()
        while not reached:
            _acquire(file, fcntl.LOCK_EX)
            _sign(file)
            if _text(record) != state or not intact():
                record.unlink(missing_ok=True)
                prepare()
                write_atomic(record, state)
            _acquire(file, fcntl.LOCK_SH)
            # Converting the lock is not atomic: another holder may have come in between.
            reached = _text(record) == state
        _sign(file)
        yield


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def _acquire(file: IO[str], kind: int) -> None:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another schedline"
        since = time.monotonic()
        say(f"waiting for {holder}, which uses {Path(file.name).with_suffix('')}")
        fcntl.flock(file, kind)
        say(f"waited {time.monotonic() - since:.0f} s")


def _sign(file: IO[str]) -> None:
    """Write the holder into a lock, for those that wait. Who may have to convert the lock must not sign before."""
    file.seek(0)
    file.truncate()
    file.write(f"`{shlex.join(['schedline', *sys.argv[1:]])}` (pid {os.getpid()}, since {time.strftime('%H:%M:%S')})\n")
    file.flush()
