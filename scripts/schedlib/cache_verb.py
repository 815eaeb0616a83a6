# SPDX-License-Identifier: GPL-2.0
"""`schedline cache`: what is kept, how large it is and when it was used; removes what is old, or all of it."""

from __future__ import annotations

import argparse
import fcntl
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import cache_path
from schedlib.environment import places
from schedlib.options import Verbs, add_verb, option
from schedlib.verdict import Verdict

_SPLIT = ("builds", "trees", "python", "test-user")
"""Directories whose entries are used, and removed, one by one."""


def _days(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days")
    return int(text)


@dataclass(frozen=True)
class CacheOptions:
    """What to do: remove all (`remove`), or what was not used for so many days (`prune`); else only list."""

    prune: int | None = option("--prune DAYS", "remove what was not used for so many days", _days, group="what")
    remove: bool = option("--remove", "remove all of it", default=False, action="store_true", group="what")


def add_parser(verbs: Verbs) -> None:
    add_verb(
        verbs,
        "cache",
        "what is kept on this machine, how large it is, when it was used; removes it",
        first=[
            "schedline cache              everything that is kept",
            "schedline cache --prune 30   remove what was not used for 30 days",
            "schedline cache --remove     remove all of it",
        ],
        text="""
        All that schedline keeps is in one directory: $SCHEDLINE_CACHE, else $XDG_CACHE_HOME/schedline, else
        ~/.cache/schedline. Results that a verb wrote to a place of yours and packages of the distribution are not
        in it. What another schedline is using stays. Everything that is removed is made again when it is needed.""",
        options=CacheOptions,
        job=_cache,
        libraries=(),
        download=False,
    )


def _cache(options: CacheOptions) -> Verdict:
    base = cache_path()
    found = sorted(_entries(base), key=lambda each: -each[1]) if base.is_dir() else []
    current = places()
    gone = busy = 0
    for path, size, used, locks in found:
        told = f"{size / 1e6:9.0f} MB  used {time.strftime('%Y-%m-%d', time.localtime(used))}  {path.relative_to(base)}"
        old = options.prune is not None and used < time.time() - options.prune * 86400
        if not (options.remove or (old and path not in current)):
            print(told)
        elif not options.remove and _lends(path, base):
            print(f"{told}: another tree needs it")
        elif _remove(path, locks):
            print(f"{told}: removed")
            gone += size
        else:
            print(f"{told}: in use")
            busy += 1
    print(f"{base}: {sum(size for _, size, *_ in found) / 1e9 - gone / 1e9:.1f} GB kept, {gone / 1e9:.1f} GB removed")
    if options.remove and not busy:
        shutil.rmtree(base, ignore_errors=True)
        print("nothing else of schedline lies on this machine, but for what you had written elsewhere")
    return Verdict.ERROR if busy else Verdict.PASS


def _entries(base: Path) -> Iterator[tuple[Path, int, float, list[Path]]]:
    """Each entry of the cache, its size in bytes, when it was used last, and the locks that its users hold."""
    for top in sorted(base.iterdir()):
        for path in sorted(top.iterdir()) if top.name in _SPLIT else [top]:
            if path.suffix in (".lock", ".state"):
                continue
            locks = [each for each in path.parent.glob("*.lock") if each.name.startswith(f"{path.name}.")]
            # A lock is written whenever its entry is used; a virtual environment and results have none.
            dated = [each.stat().st_mtime for each in locks]
            dated = dated or [each.lstat().st_mtime for each in (path, *(path.iterdir() if path.is_dir() else ()))]
            # Bytes on the disk; a file with two links counts once.
            found = [each.lstat() for each in (path, *path.rglob("*"))]
            sizes = {(each.st_dev, each.st_ino): each.st_blocks * 512 for each in found}
            yield path, sum(sizes.values()), max(dated), locks


def _lends(path: Path, base: Path) -> bool:
    """Whether another tree reads its git objects from this one."""
    others = base.glob("*/*/src/.git/objects/info/alternates"), base.glob("*/*/.git/objects/info/alternates")
    return any(f"{path}/" in each.read_text() for some in others for each in some if not each.is_relative_to(path))


def _remove(path: Path, locks: Sequence[Path]) -> bool:
    """Remove an entry unless somebody holds one of its locks."""
    with ExitStack() as held:
        for each in locks:
            file = held.enter_context(each.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        # The record goes first: what is half removed is not trusted later.
        for each in locks:
            each.with_suffix(".state").unlink(missing_ok=True)
        half = path.rename(path.with_name(f".{path.name}.removed"))
        if half.is_dir() and not half.is_symlink():
            shutil.rmtree(half)
        else:
            half.unlink()
    return True
