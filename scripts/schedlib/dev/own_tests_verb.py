# SPDX-License-Identifier: GPL-2.0
"""`schedline dev test` and `schedline dev quick`: this project's own tests."""

from __future__ import annotations

from dataclasses import dataclass

from schedlib.options import Verbs, add_verb
from schedlib.verdict import Verdict

_LIBRARIES = ("requirements-test.txt",)


@dataclass(frozen=True)
class OwnTestsOptions:
    """Which tests run.

    Attributes:
        k: a pytest -k expression; None for all.
        seed: of the random order; None draws one.
        long: also run tests that build a kernel that no other test uses.
    """

    k: str | None
    seed: int | None
    long: bool = False


def add_parser(verbs: Verbs) -> None:
    """Add `schedline dev test` and `schedline dev quick`."""
    everything = add_verb(
        verbs,
        "test",
        "everything: style, types, shell scripts, kernel code, all tests",
        first=["schedline dev test           before a commit", "schedline dev test -k judge  the tests that match"],
        text="Tests that boot a kernel use the builds of `schedline check`.",
        read=lambda arguments: OwnTestsOptions(arguments.k, arguments.seed, arguments.long),
        job=_test,
        libraries=_LIBRARIES,
    )
    about = "also the tests that build a kernel only for themselves"
    everything.add_argument("--long", action="store_true", help=about)
    quick = add_verb(
        verbs,
        "quick",
        "style, types and the tests that need only Python and git, in parallel",
        first=["schedline dev quick           after each edit", "schedline dev quick -k judge  the tests that match"],
        text="No kernel, guest, browser, compiler or network is needed. The order is random; the seed is printed.",
        read=lambda arguments: OwnTestsOptions(arguments.k, arguments.seed),
        job=_quick,
        libraries=_LIBRARIES,
    )
    for parser in (everything, quick):
        parser.add_argument("-k", "--k", metavar="EXPRESSION", help="only the tests that match (as pytest -k)")
        parser.add_argument("--seed", type=int, metavar="N", help="of the random order, to repeat one that failed")


def _test(options: OwnTestsOptions) -> Verdict:
    from schedlib.dev.own_tests import test

    return test(options.k, options.seed, long=options.long)


def _quick(options: OwnTestsOptions) -> Verdict:
    from schedlib.dev.own_tests import quick

    return quick(options.k, options.seed)
