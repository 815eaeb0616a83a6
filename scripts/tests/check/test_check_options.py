# SPDX-License-Identifier: GPL-2.0
"""`schedline check --cpupri`: one kernel for each variant, with files of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from schedlib.check.check_verb import CPUPRI_VARIANTS, add_parser, split
from schedlib.kernel.kconfig import load


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["check", *words])


def test_all_variants() -> None:
    assert parsed("--cpupri", "all").cpupri == CPUPRI_VARIANTS
    assert parsed("--cpupri", "llc,node").cpupri == ("llc", "node")
    assert parsed().cpupri == ()


@pytest.mark.parametrize("text", ["global", "", "llc,l2"])
def test_unknown_variant(text: str) -> None:
    with pytest.raises(SystemExit):
        parsed("--cpupri", text)


def test_options_of_a_variant(tmp_path: Path) -> None:
    arguments = parsed("--cpupri", "llc", "--with", "fix-share-id", "--config", "offstack", "--json", "all.json")
    one = split(arguments, "llc", tmp_path)
    assert one.with_ == ("fix-share-id", "cpupri-split")
    assert one.config == ("offstack", "cpupri-llc")
    assert (one.json, one.out) == (Path("all-llc.json"), tmp_path / "llc")
    assert arguments.with_ == ("fix-share-id",)


def test_each_variant_has_a_fragment() -> None:
    wanted = [load([f"cpupri-{name}"]).values for name in CPUPRI_VARIANTS]
    assert len({tuple(values) for values in wanted}) == len(CPUPRI_VARIANTS)
