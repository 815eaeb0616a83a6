# SPDX-License-Identifier: GPL-2.0
"""Fragments are merged in order, and no requested line is lost silently."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import check_out, git
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Configuration, configure, is_configured, load
from schedlib.layout.compile import Arch, Column, key_of
from schedlib.paths import CONFIGS
from schedlib.tree.kernel_tree import open_kdir

# A stand-in for Kconfig: it accepts every line except CONFIG_B, whose dependency is not met.
MAKEFILE = """\
VERSION = 7
PATCHLEVEL = 3
allnoconfig:
\tgrep -v '^CONFIG_B=' $(KCONFIG_ALLCONFIG) > $(O)/.config
"""


def fragment(directory: Path, name: str, text: str) -> str:
    """Write a fragment and return its path."""
    (directory / name).write_text(text)
    return str(directory / name)


def test_later_fragments_win(tmp_path: Path) -> None:
    first = fragment(tmp_path, "a", "# comment\nCONFIG_A=y\nCONFIG_N=64\n")
    second = fragment(tmp_path, "b", "# CONFIG_A is not set\n\nCONFIG_C=y\n")
    assert load([first, second]).values == {"CONFIG_A": "n", "CONFIG_N": "64", "CONFIG_C": "y"}
    assert load([first, second]).digest() != load([second, first]).digest()


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONFIGS / "kernel").glob("*.config")))
def test_every_fragment_of_the_project_can_be_read(name: str) -> None:
    assert load([name]).values


def test_what_is_no_fragment(tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=r"(?s)no fragment 'umll'.*uml"):
        load(["umll"])
    with pytest.raises(SchedlineError, match="no Kconfig assignment"):
        load([fragment(tmp_path, "bad", "CONFIG_A=y; rm -rf /\nset -x\n")])


@pytest.mark.tools
def test_dropped_line_is_an_error_with_its_dependency(kernel: Path, cache: Path, tmp_path: Path) -> None:
    (kernel / "Makefile").write_text(MAKEFILE)
    (kernel / "init").mkdir()
    (kernel / "init/Kconfig").write_text('config A\n\tbool\n\nconfig B\n\tbool "b"\n\tdepends on A && MISSING\n')
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "kconfig")
    tree = open_kdir(cache, kernel)
    check_out(tree, tree.base)
    configure(tree.src, tmp_path / "good", "um", Configuration(("x",), {"CONFIG_A": "y"}))
    with pytest.raises(SchedlineError, match=r"CONFIG_B=y.*depends on A && MISSING \(A=y, MISSING=n\)"):
        configure(tree.src, tmp_path / "bad", "um", Configuration(("x",), {"CONFIG_A": "y", "CONFIG_B": "y"}))
    assert (tmp_path / "good" / "schedline.config").read_text() == "CONFIG_A=y\n"
    # It may be dropped where the symbol that it is there for does not exist, and only there.
    words = "CONFIG_A=y\nCONFIG_B=y # where CONFIG_{} exists\n"
    newer = load([fragment(tmp_path, "newer", words.format("NEWER"))])
    configure(tree.src, tmp_path / "newer.build", "um", newer)
    with pytest.raises(SchedlineError, match="CONFIG_B=y"):
        configure(tree.src, tmp_path / "worse", "um", load([fragment(tmp_path, "older", words.format("A"))]))


@pytest.mark.tools
def test_an_answer_is_not_that_of_another_question(kernel: Path, cache: Path, tmp_path: Path) -> None:
    """`# where it exists` asks something else: neither a build directory nor the cache may answer it from before."""
    (kernel / "Makefile").write_text(MAKEFILE)
    git(kernel, "commit", "-q", "-a", "-m", "makefile")
    tree = open_kdir(cache, kernel)
    check_out(tree, tree.base)
    lax = load([fragment(tmp_path, "lax", "CONFIG_A=y\nCONFIG_B=y # where it exists\n")])
    strict = load([fragment(tmp_path, "strict", "CONFIG_A=y\nCONFIG_B=y\n")])
    assert lax.text() == strict.text()
    configure(tree.src, tmp_path / "build", "um", lax)
    assert is_configured(tmp_path / "build", lax)
    assert not is_configured(tmp_path / "build", strict)
    one, other = (Column(Arch("um", "um", "", "gcc", (str(tmp_path / name),))) for name in ("lax", "strict"))
    assert key_of("tree", one, "gcc") != key_of("tree", other, "gcc")
