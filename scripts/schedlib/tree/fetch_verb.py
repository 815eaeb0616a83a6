# SPDX-License-Identifier: GPL-2.0
"""`schedline fetch`: a kernel source from Debian, in the cache."""

from __future__ import annotations

from dataclasses import dataclass

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.names import one_of, series_names
from schedlib.options import DEFAULT_SERIES, Verbs, add_verb, flag, option
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class FetchOptions:
    """Which series, and whether to look for a newer version of it."""

    series: str = option(
        "--series NAME",
        lambda: f"{', '.join(series_names())} (default: {DEFAULT_SERIES})",
        one_of("series", series_names),
        default=DEFAULT_SERIES,
    )
    again: bool = flag("--again", "look for a newer version")


def add_parser(verbs: Verbs) -> None:
    """Add `schedline fetch`."""
    add_verb(
        verbs,
        "fetch",
        "a kernel source from Debian into the cache",
        first=[
            f"schedline fetch                 Debian's {DEFAULT_SERIES}",
            "schedline fetch --series 6.12   another one",
        ],
        text="""
        The source is downloaded through an apt configuration of its own. The machine's apt sources stay as they are,
        root is not needed, and the archive's signature is checked.""",
        examples=["schedline fetch --series 6.12 --again   look for a newer version"],
        options=FetchOptions,
        job=_fetch,
    )


def _fetch(options: FetchOptions) -> Verdict:
    from schedlib.tree.kernel_tree import fetch_series

    doctor.require(["fetch"])
    tree = fetch_series(cache_dir(), options.series, again=options.again)
    print(f"{tree.origin}: {tree.src}")
    return Verdict.PASS
