# SPDX-License-Identifier: GPL-2.0
"""The verbs `fetch` and `apply`."""

from __future__ import annotations

import argparse

from schedlib import doctor, options
from schedlib.cache import cache_dir, lock
from schedlib.progress import say
from schedlib.tree.changes import State
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import fetch_series
from schedlib.verdict import Verdict


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline fetch` and `schedline apply`."""
    fetch = subparsers.add_parser(
        "fetch",
        help="a kernel source from Debian into the cache",
        description="Downloads Debian's kernel source through an apt configuration of its own: the machine's sources\n"
        "stay as they are, root is not needed, the archive's signature is checked.",
        epilog="examples:\n  schedline fetch\n  schedline fetch --series 6.12 --again",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    fetch.add_argument("--series", default=options.DEFAULT_SERIES, metavar="NAME", help="7.3 (default), 6.12 or 6.1")
    fetch.add_argument("--again", action="store_true", help="look for a newer version")
    fetch.set_defaults(run=_fetch)
    apply = subparsers.add_parser(
        "apply",
        help="which changes a tree has, and how the carried ones apply to it",
        description="Applies the carried changes as `git am -3` would, to a copy, and reports each:\n"
        "applied, upstream, reverted, left out, absent or conflict, with every hunk that drifted.",
        epilog="examples:\n  schedline apply --series 6.12\n  schedline apply --kdir ~/linux --with rd-lines",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_tree_options(apply)
    options.add_change_options(apply)
    apply.set_defaults(run=_apply)


def _fetch(arguments: argparse.Namespace) -> int:
    cache = cache_dir()
    doctor.ensure(["fetch"])
    with lock(cache / "trees" / "lock", say):
        tree = fetch_series(cache, arguments.series, again=arguments.again)
    print(f"{tree.origin}: {tree.src}")
    return Verdict.PASS.exit_code


def _apply(arguments: argparse.Namespace) -> int:
    with options.opened_tree(arguments) as (_, tree):
        composition = compose(tree, with_=arguments.with_, without=arguments.without)
    print(f"tree: {tree.origin}" + (f" (dirty: {tree.dirty} files)" if tree.dirty else ""))
    for row in composition.states:
        print(f"{row.id}: {row.state.value}")
        for line in row.drift:
            print(f"    {line}")
    print(f"result: commit {composition.commit} in {tree.src}")
    failed = any(row.state is State.CONFLICT for row in composition.states)
    return (Verdict.ERROR if failed else Verdict.PASS).exit_code
