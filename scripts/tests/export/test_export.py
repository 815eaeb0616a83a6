# SPDX-License-Identifier: GPL-2.0
"""The exported series goes through git am and leaves the tree as a check builds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import git, read_words
from schedlib import doctor
from schedlib.contracts import c_tables
from schedlib.errors import SchedlineError
from schedlib.export import export_verb
from schedlib.export.export_job import DOCUMENT, export, export_tree, selftest_files
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.tree.compose import compose, kunit_files
from schedlib.tree.kernel_tree import open_kdir
from schedlib.verdict import Verdict


def test_series_applies_to_a_fresh_clone(kernel: Path, cache: Path, tmp_path: Path) -> None:
    (kernel / "Kbuild").write_text("# modified, not committed\n")
    tree = open_kdir(cache, kernel)
    patches = export(tree, tmp_path / "series", (), ())
    git(tmp_path, "clone", "-q", str(kernel), str(tmp_path / "clone"))
    git(tmp_path / "clone", "am", "-q", *map(str, patches))
    tests = sorted(path.name for path in (tmp_path / "clone/kernel/sched/tests").iterdir())
    made = (c_tables.HEADER, c_tables.RULES, c_tables.FIELDS)
    assert tests == sorted([*kunit_files(in_tree=True), *made])
    assert not any(name.startswith("wrap_") or name.endswith(".sh") for name in tests)
    included = {
        word
        for name in tests
        for word in re.findall(
            r'^#include "(?!\.\./)(.+)"$', (tmp_path / "clone/kernel/sched/tests" / name).read_text(), re.M
        )
    }
    assert included <= set(tests)
    for file, test in (("fair", "sched_cluster_kunit.c"), ("topology", "sched_topology_kunit.c")):
        tail = f'#ifdef CONFIG_SCHED_CLUSTER_KUNIT_TEST\n#include "tests/{test}"\n#endif\n'
        assert (tmp_path / f"clone/kernel/sched/{file}.c").read_text().endswith(tail)
    assert (tmp_path / "clone" / DOCUMENT).is_file()
    assert f"F:\t{DOCUMENT}\nF:\tkernel/sched/\n" in (tmp_path / "clone/MAINTAINERS").read_text()
    assert "    sched-kunit\n    sched-debug\n" in (tmp_path / "clone/Documentation/scheduler/index.rst").read_text()
    assert git(tmp_path / "clone", "log", "-1", "--format=%an") == "Tester\n"
    assert "# modified" not in (tmp_path / "clone/Kbuild").read_text()


def test_tests_are_those_of_a_check(kernel: Path, cache: Path, tmp_path: Path) -> None:
    tree = open_kdir(cache, kernel)
    commit = compose(tree).tests
    patches = export(tree, tmp_path / "series", (), ())
    git(kernel, "am", "-q", str(patches[0]))
    names = git(tree.src, "diff", "--name-only", git(kernel, "rev-parse", "HEAD").strip(), commit).split()
    wrappers = ("wrap_arch.h", "wrap_build_utility.c", "wrap_fair.c")
    ours = ("probe.sh", "sched_cluster_absent.c", "sched_kunit_compat.h", *wrappers)
    wrapped = ["Makefile", "fair.c", *(f"tests/{name}" for name in ours), "topology.c"]
    assert names == [f"kernel/sched/{name}" for name in wrapped]


def test_exporting_again_over_an_earlier_series_changes_nothing(kernel: Path, cache: Path, tmp_path: Path) -> None:
    patches = export(open_kdir(cache, kernel), tmp_path / "series", (), ())
    git(kernel, "am", "-q", *map(str, patches))
    composition = compose(open_kdir(cache, kernel))
    assert git(kernel, "rev-parse", "HEAD^{tree}") == git(
        open_kdir(cache, kernel).src, "rev-parse", f"{composition.commit}^{{tree}}"
    )


def test_cover_letter_and_base(kernel: Path, cache: Path, tmp_path: Path) -> None:
    patches = export(open_kdir(cache, kernel), tmp_path / "series", (), ())
    cover = (tmp_path / "series/0000-cover-letter.txt").read_text()
    assert "***" not in cover
    assert "kunit.py run" in cover
    assert any(f"base-commit: {git(kernel, 'rev-parse', 'HEAD').strip()}" in path.read_text() for path in patches) or (
        f"base-commit: {git(kernel, 'rev-parse', 'HEAD').strip()}" in cover
    )


def test_directory_with_files_is_refused(kernel: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    (tmp_path / "series/0001-old.patch").touch()
    with pytest.raises(SchedlineError, match="not an empty directory"):
        export(open_kdir(cache, kernel), tmp_path / "series", (), ())


def test_directory_with_files_is_refused_before_the_tree_is_read(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/0001-old.patch").touch()
    for out in ("old", "old/0001-old.patch", "old/0001-old.patch/below"):
        with pytest.raises(SystemExit) as error:
            read_words(export_verb, "export", "-o", str(tmp_path / out))
        assert error.value.code == 2
    assert read_words(export_verb, "export", "-o", str(tmp_path / "new")).out == tmp_path / "new"
    assert not (tmp_path / "new").exists()


def test_series_in_the_cache_is_made_anew(
    kernel: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second export of a tree was rejected, because the first one was in its place."""
    monkeypatch.setattr(doctor, "require", lambda _: None)
    (kernel / "new").touch()
    said = []
    for _ in range(2):
        assert export_tree(TreeOptions(kernel), ChangeOptions(), None) is Verdict.PASS
        said.append(capsys.readouterr())
    assert said[0].out == said[1].out
    assert f"next: git am -s {cache}/exports/" in said[0].out
    assert "1 uncommitted files are not part of the series" in said[0].err
    patch = Path(said[0].out.splitlines()[0])
    assert patch.name.startswith("0001-") and patch.is_file()


def test_author_is_the_users(kernel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(kernel, "config", "--unset", "user.name")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(SchedlineError, match="no author"):
        export(open_kdir(cache, kernel), tmp_path / "series", (), ())


def test_selftests_go_where_the_tree_has_their_library(kernel: Path, cache: Path, tmp_path: Path) -> None:
    top = kernel / "tools/testing/selftests"
    (top / "sched").mkdir(parents=True)
    (top / "lib.mk").touch()
    lost = "TEST_GEN_FILES := cs_prctl_test\nTEST_PROGS := cs_prctl_test\n\ninclude ../lib.mk\n"
    (top / "sched/Makefile").write_text(lost)
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "selftests")
    patches = export(open_kdir(cache, kernel), tmp_path / "series", (), ())
    assert patches[0].name == "0001-selftests-sched-Let-lib.mk-build-and-install-cs_prct.patch"
    git(kernel, "am", "-q", *map(str, patches))
    assert (top / "sched/Makefile").read_text() == "TEST_GEN_PROGS := cs_prctl_test\n\ninclude ../lib.mk\n"
    there = {str(path.relative_to(top / "sched_latency")) for path in (top / "sched_latency").rglob("*")}
    assert there == {*selftest_files(), "limits"}
    assert {"Makefile", ".gitignore", "config", "settings", "rt_wakeup.c"} <= set(selftest_files())
    assert len(export(open_kdir(cache, kernel), tmp_path / "again", (), ())) < len(patches)


def test_tree_without_selftests_gets_none(kernel: Path, cache: Path, tmp_path: Path) -> None:
    git(kernel, "am", "-q", *map(str, export(open_kdir(cache, kernel), tmp_path / "series", (), ())))
    assert not (kernel / "tools").exists()
