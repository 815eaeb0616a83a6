# SPDX-License-Identifier: GPL-2.0
"""`schedline check`: its options, and the files of each variant of cpupri-split."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlib.check.check_verb import CheckOptions
from schedlib.kernel.kconfig import load
from schedlib.main import parser
from schedlib.names import cpupri_variants


def parsed(*words: str) -> CheckOptions:
    arguments = parser().parse_args(["check", *words])
    options = arguments.read(arguments)
    assert isinstance(options, CheckOptions)
    return options


def test_all_variants() -> None:
    known = ("arrays", "llc", "llc-bytes", "llc-rto", "node", "node-rto", "sbm")
    assert parsed("--cpupri", "all").cpupri == cpupri_variants() == known
    assert parsed("--cpupri", "llc,node").cpupri == ("llc", "node")
    assert parsed().cpupri == ()


@pytest.mark.parametrize("words", ["--cpupri=global", "--cpupri=", "--cpupri=llc,l2", "--sanitize=valgrind"])
def test_unknown_variant_or_sanitizer(words: str) -> None:
    with pytest.raises(SystemExit):
        parsed(words)


def test_options_of_a_variant(tmp_path: Path) -> None:
    options = parsed("--cpupri", "llc", "--with", "fix-share-id", "--config", "offstack", "--json", "all.json")
    one = options.variant("llc", tmp_path)
    assert one.changes.with_ == ("fix-share-id", "cpupri-split")
    assert one.config == ("offstack", "cpupri-llc")
    assert one.cpupri == ()
    assert (one.json, one.out) == (Path("all-llc.json"), tmp_path / "llc")
    assert options.changes.with_ == ("fix-share-id",)


def test_each_variant_has_a_fragment() -> None:
    wanted = [load([f"cpupri-{name}"]).values for name in cpupri_variants()]
    assert len({tuple(values) for values in wanted}) == len(cpupri_variants())


def test_the_command_of_a_run_is_one_that_parses(kernel: Path) -> None:
    given = "--with rd-lines --expect rq-order --kernel-arg a.b=1 --base v7"
    options = parsed("--kdir", str(kernel), *given.split())
    again = parsed(*options.command("uml").split()[2:])
    for name in ("tree", "changes", "expect", "base"):
        assert getattr(again, name) == getattr(options, name)
    assert (again.on, again.kernel_args) == ("uml", ("a.b=1",))
