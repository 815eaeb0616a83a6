# SPDX-License-Identifier: GPL-2.0
"""The words that several verbs share, and what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, lock
from schedlib.errors import SchedlineError
from schedlib.progress import say
from schedlib.tree.kernel_tree import Tree, fetch_series, open_kdir

DEFAULT_SERIES = "7.3"


def ids(text: str) -> tuple[str, ...]:
    """A comma separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def add_tree_options(parser: argparse.ArgumentParser) -> None:
    """--kdir, --series."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--kdir",
        type=Path,
        metavar="PATH",
        help="your kernel tree (git, plain directory or tarball); it is only read, never written to",
    )
    which.add_argument("--series", metavar="NAME", help=f"a kernel that Debian packages (default: {DEFAULT_SERIES})")


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """--with, --without."""
    parser.add_argument(
        "--with",
        dest="with_",
        type=ids,
        default=(),
        metavar="ID,...",
        help="apply these carried changes (a series gets all of them anyway)",
    )
    parser.add_argument(
        "--without",
        type=ids,
        default=(),
        metavar="ID,...",
        help="leave these changes out, by a revert where they are upstream",
    )


@contextmanager
def opened_tree(arguments: argparse.Namespace) -> Iterator[tuple[Path, Tree]]:
    """The cache and the tree that the options name, locked until the end.

    Raises:
        SchedlineError: no such tree, or it cannot be fetched.
    """
    with opened(arguments.kdir, arguments.series) as both:
        yield both


@contextmanager
def opened(kdir: Path | None, series: str | None) -> Iterator[tuple[Path, Tree]]:
    """The cache and a user's tree or else a series, locked until the end.

    Raises:
        SchedlineError: no such tree, or it cannot be fetched.
    """
    cache = cache_dir()
    with lock(cache / "trees" / "lock", say):
        if kdir is not None:
            if not str(kdir):
                raise SchedlineError("--kdir is empty", "give the path of a kernel tree")
            doctor.ensure(["build"])
            yield cache, open_kdir(cache, kdir)
        else:
            doctor.ensure(["build", "fetch"])
            yield cache, fetch_series(cache, series or DEFAULT_SERIES)
