# SPDX-License-Identifier: GPL-2.0
"""The cache directory: where it is, how two runs share it, how a file in it becomes trusted."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from schedlib.errors import SchedlineError


def cache_dir() -> Path:
    """$SCHEDLINE_CACHE, else $XDG_CACHE_HOME/schedline, else ~/.cache/schedline; created when absent.

    Raises:
        SchedlineError: the directory cannot be written.
    """
    chosen = os.environ.get("SCHEDLINE_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "schedline"
    try:
        make_writable(base)
    except OSError as error:
        raise SchedlineError(
            f"the cache {base} cannot be written: {error.strerror}",
            "name another directory: SCHEDLINE_CACHE=/path/with/space",
        ) from error
    return base.resolve()


def make_writable(directory: Path) -> None:
    """Create a directory, and see that files can be written in it, before anything is done in vain.

    Raises:
        OSError: they cannot.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
        pass


def write_atomic(path: Path, data: str | bytes) -> None:
    """Write all of a file or none of it: a reader never sees half, not even after kill -9."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        # What fails in writing, a full disk above all, names no file by itself.
        if isinstance(error, OSError) and not error.filename:
            error.filename = str(path)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a JSON document atomically."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None when there is none or it cannot be read as one."""
    with suppress(OSError, ValueError):
        value = json.loads(path.read_bytes())
        if isinstance(value, dict):
            return value
    return None


@contextmanager
def lock(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock; when another run has it, say so once and wait.

    The kernel drops the lock when its holder dies, so nothing is left behind by kill -9.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            say(f"waiting: another schedline (pid {file.read().strip() or '?'}) is using {path.parent}")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
