# SPDX-License-Identifier: GPL-2.0
"""The exported series goes through git am, one suite or program per patch, and has only what fits the tree."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import toys

from conftest import git, read_words, write_files
from golden import Golden
from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.contracts import c_tables
from schedlib.errors import SchedlineError
from schedlib.export import export_verb
from schedlib.export.export_job import (
    DOCUMENT,
    ExportedSeries,
    export,
    export_tree,
    holds,
    told,
)
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import KUNIT
from schedlib.tree import changes
from schedlib.tree.changes import change_table
from schedlib.tree.compose import TESTS_DIRECTORY, compose, kunit_files
from schedlib.tree.kernel_tree import cached_series, open_kdir
from schedlib.tree.selftest_programs import DIRECTORY, TEXT_OF_LIBRARY, experiments, files_of, message, program_sources
from schedlib.tree.source import HOOK
from schedlib.tree.suites import feature_table, suite_table
from schedlib.verdict import Verdict

UNIFDEF = "scripts/unifdef.c"
LAYOUT = ("rq-order", "rd-lines")
"""The changes of the tree `laid_out`."""


@pytest.fixture(scope="session")
def unifdef() -> str:
    """The source of a kernel's unifdef, which every kernel has."""
    tree = cached_series(cache_dir(), "7.3")
    text = tree.read(UNIFDEF) if tree else None
    if text is None or not shutil.which("gcc"):
        pytest.skip("needs a kernel tree in the cache, and gcc: schedline fetch")
    return text


@pytest.fixture
def kernel(unifdef: str, kernel: Path) -> Path:
    """The small tree, with unifdef."""
    write_files(kernel, {UNIFDEF: unifdef})
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "unifdef")
    return kernel


FIX = """\
static void detach_destroy_domains(const struct cpumask *cpu_map)
{
	bool had_cluster = static_branch_unlikely(&sched_cluster_active);
}
"""
SCAN = """\
static int select_idle_cpu(struct task_struct *p)
{
	if (static_branch_unlikely(&sched_cluster_active))
		for_each_cpu(cpu, sched_group_span(sg))
			;
}
"""


@pytest.fixture
def laid_out(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with all structures, rq-order, rd-lines and the cluster scan; a patch adds fix-cluster-key."""
    modern = (kernel / "kernel/sched/sched.h").read_text().split("struct cfs_rq")[1]
    fair = (kernel / "kernel/sched/fair.c").read_text() + SCAN
    header = f"{toys.SCHED_H}\nstruct cfs_rq{modern}"
    write_files(kernel, {"kernel/sched/sched.h": header, "kernel/sched/fair.c": fair})
    git(kernel, "commit", "-q", "-a", "-m", "structures")
    patches = tmp_path / "patches"
    topology = kernel / "kernel/sched/topology.c"
    before = topology.read_text()
    topology.write_text(FIX + before)
    git(kernel, "commit", "-q", "-a", "-m", "sched/topology: Fix the key")
    fix = git(kernel, "format-patch", "--stdout", "-1")
    write_files(patches, {"7.3/series": "fix-cluster-key optional\n", "7.3/fix-cluster-key.patch": fix})
    git(kernel, "reset", "-q", "--hard", "HEAD^")
    monkeypatch.setattr(changes, "PATCHES", patches)
    return kernel


def steps(repository: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """For each commit of the series: its subject, and the files of the tests."""
    for commit in git(repository, "rev-list", "--reverse", "base..HEAD").split():
        names = git(repository, "ls-tree", "-r", "--name-only", commit, f"{TESTS_DIRECTORY}/").split()
        files = {Path(name).name: git(repository, "show", f"{commit}:{name}") for name in names}
        yield git(repository, "show", "-s", "--format=%s", commit).strip(), files


def exported(kernel: Path, out: Path, *with_: str, without: tuple[str, ...] = ()) -> ExportedSeries:
    return export(open_kdir(cache_dir(), kernel), out, with_, without)


def applied(kernel: Path, out: Path) -> list[tuple[str, Mapping[str, str]]]:
    """Export the series of a tree, apply it there, and return its steps."""
    git(kernel, "tag", "base")
    git(kernel, "am", "-q", *map(str, exported(kernel, out).patches))
    return list(steps(kernel))


@pytest.mark.tools
def test_series_applies_to_a_fresh_clone(laid_out: Path, cache: Path, tmp_path: Path) -> None:
    (laid_out / "Kbuild").write_text("# modified, not committed\n")
    series = exported(laid_out, tmp_path / "series")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(laid_out), str(clone))
    git(clone, "am", "-q", *map(str, series.patches))
    for file, suite in (("fair.c", "cluster"), ("topology.c", "topology"), ("rt.c", "rt")):
        found = HOOK.findall((clone / "kernel/sched" / file).read_text())
        assert [re.findall(r'"tests/(.+)"', each) for each in found] == [[f"sched_{suite}_kunit.c"]]
    assert (clone / DOCUMENT).is_file()
    assert f"F:\t{DOCUMENT}\nF:\tkernel/sched/\n" in (clone / "MAINTAINERS").read_text()
    assert "    sched-kunit\n    sched-debug\n" in (clone / "Documentation/scheduler/index.rst").read_text()
    assert git(clone, "log", "-1", "--format=%an") == "Tester\n"
    assert "# modified" not in (clone / "Kbuild").read_text()


@pytest.mark.tools
def test_each_patch_adds_one_suite_and_leaves_a_whole_tree(laid_out: Path, cache: Path, tmp_path: Path) -> None:
    before: Mapping[str, str] = {}
    made = {c_tables.TABLE}
    added: list[set[str]] = []
    for subject, files in applied(laid_out, tmp_path / "series"):
        if files == before:
            assert "Documentation" in subject or subject == "sched/topology: Fix the key"
            continue
        objects = re.findall(r"(\w+)\.o", "".join(re.findall(r"^obj-.*", files["Makefile"], re.M)))
        assert {f"{name}.c" for name in objects} <= set(files), subject
        included = {name for text in files.values() for name in re.findall(r'^#include "([^/"]+)"$', text, re.M)}
        assert included <= set(files), subject
        options = set(re.findall(r"^config (\w+)", files["Kconfig"], re.M))
        assert set(re.findall(r"\b(SCHED_\w+_KUNIT_TEST)\b", "".join(files.values()))) <= options, subject
        assert set(re.findall(r"CONFIG_(SCHED_\w+_KUNIT_TEST)=y", files[".kunitconfig"])) == options, subject
        added.append(set(files) - set(before))
        before = files
    sources = [suite.source for suite in suite_table().values() if not suite.ours]
    assert [sorted(names & set(sources)) for names in added] == [[source] for source in sources]
    ours = {"sched_kunit_expect.h", "sched_kunit_compat.h"}
    ours |= {suite.source for suite in suite_table().values() if suite.ours}
    assert set(before) == (set(kunit_files()) | made) - ours


@pytest.mark.tools
def test_nothing_shows_what_was_left_out_and_a_fix_comes_first(laid_out: Path, cache: Path, tmp_path: Path) -> None:
    """A maintainer takes the fix alone."""
    (change, none), *suites, (_, files) = applied(laid_out, tmp_path / "series")
    assert (change, none) == ("sched/topology: Fix the key", {})
    assert "KUNIT_CASE(cluster_key_survives_other_partitions)" in files["sched_topology_kunit.c"]
    assert len({title for title, _ in suites}) == len(suites)
    assert "begins with these fixes:\n\n  - " in (tmp_path / "series/0000-cover-letter.txt").read_text()
    text, table = "".join(files.values()), files[c_tables.TABLE]
    assert not re.search(r"SCHED_KUNIT_|CPUPRI_SPLIT|CPUPRI_SBM|CPUPRI_GLOBAL|\n\n\n", text)
    assert not re.search(r"\bexpect\b.*charp|is_expected|presence|known defect", text)
    assert set(re.findall(r"struct layout_rule (\w+)_rules", table)) == {name.replace("-", "_") for name in LAYOUT}
    assert "layout_changes" not in table and "cpupri_lines" not in files["sched_layout_kunit.c"]
    assert set(re.findall(r"sizeof\(struct (\w+)\)", table)) == {"rq", "root_domain"}
    with pytest.raises(SchedlineError, match="has everything that the series would add"):
        exported(laid_out, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.tools
def test_what_is_left_out_is_said(laid_out: Path, cache: Path, tmp_path: Path) -> None:
    series = exported(laid_out, tmp_path / "series")
    assert series.changes == {*LAYOUT, "cluster-scan", "fix-cluster-key"}
    assert series.left_out == tuple(
        f"left out: the tests of {name}, which is not in this tree (no patch of it is carried)"
        for name in ("cpupri-lines", "cpupri-split", "rq-readers", "fix-share-id")
    )
    less = exported(laid_out, tmp_path / "less", without=("fix-cluster-key",))
    assert less.changes == {*LAYOUT, "cluster-scan"}
    said = "left out: the tests of fix-cluster-key, which is not in this tree (--with fix-cluster-key adds both)"
    assert said in less.left_out


@pytest.mark.tools
def test_patches_have_the_dates_of_their_sources(
    laid_out: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were all of the year 2000."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    ours: list[str] = []
    of_others: list[str] = []
    for patch in exported(laid_out, tmp_path / "series").patches:
        date = re.search(r"^Date: (.+)", patch.read_text(), re.M)
        assert date
        (of_others if "Fix-the-key" in patch.name else ours).append(date[1])
    assert set(ours) == {"Tue, 14 Nov 2023 22:13:20 +0000"}
    assert len(of_others) == 1 and "14 Nov 2023" not in of_others[0]
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    again = exported(laid_out, tmp_path / "again").patches
    assert not any(re.search(r"^Date: .* 20(00|23) ", patch.read_text(), re.M) for patch in again)


@pytest.mark.tools
def test_tests_are_those_of_a_check_where_nothing_is_marked(laid_out: Path, cache: Path, tmp_path: Path) -> None:
    tree = open_kdir(cache, laid_out)
    commit = compose(tree, with_=("fix-cluster-key",)).commit
    *_, (_, files) = applied(laid_out, tmp_path / "series")
    marked = {name for name, path in kunit_files().items() if re.search(r"SCHED_KUNIT_|_SPLIT\b", path.read_text())}
    differ = {name for name, text in files.items() if tree.read(f"{TESTS_DIRECTORY}/{name}", commit) != text}
    # Only our own builds have these.
    objects = r"\bsched_cpupri_private\.o\b"
    assert differ <= marked | {c_tables.TABLE, "Makefile"}
    ours = (tree.read(f"{TESTS_DIRECTORY}/Makefile", commit) or "").split("\n\n")
    assert [part for part in ours if part.strip() not in files["Makefile"]] == [
        part for part in ours if re.search(objects, part)
    ]
    for file in ("fair.c", "topology.c", "rt.c", "sched.h", "Makefile"):
        checked = tree.read(f"kernel/sched/{file}", commit) or ""
        for suite in suite_table().values():
            if suite.ours:
                checked = checked.replace(f'#include "tests/{suite.source}"\n', "")
        assert checked == (laid_out / "kernel/sched" / file).read_text()


@pytest.mark.tools
def test_tree_with_an_earlier_series_gets_the_hooks_of_today(laid_out: Path, cache: Path) -> None:
    topology = laid_out / "kernel/sched/topology.c"
    bare = topology.read_text()
    old = '\n#ifdef CONFIG_SCHED_CLUSTER_KUNIT_TEST\n#include "tests/sched_topology_kunit.c"\n#endif\n'
    topology.write_text(bare + old)
    tree = open_kdir(cache, laid_out)
    found = tree.read("kernel/sched/topology.c", compose(tree).commit) or ""
    assert "CONFIG_SCHED_CLUSTER" not in found
    assert HOOK.sub("", found) == bare


def test_tree_without_unifdef_is_refused(committed: Path, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(SchedlineError, match=r"no scripts/unifdef\.c"):
        exported(committed, tmp_path / "series")


def test_every_patch_has_a_message_that_fits_a_mail() -> None:
    kunit = {path.stem for path in (KUNIT / "commit-messages").iterdir()}
    suites = {name for name, suite in suite_table().items() if not suite.ours}
    fixes = {name for name in change_table() if name.startswith("fix-")}
    assert kunit == {*suites, "documentation", *change_table()} - fixes - {"cluster-scan"}
    texts = [told(path, holds(None, None)) for path in (KUNIT / "commit-messages").iterdir()]
    for text in (*texts, *map(message, program_sources()), TEXT_OF_LIBRARY.read_text()):
        subject, empty, *rest = text.splitlines()
        assert len(subject) <= 75 and empty == "" and rest, text
        assert all(len(line) <= 75 for line in rest), text


def test_marks_are_those_of_the_changes() -> None:
    known = {f"NO_{name.upper().replace('-', '_')}" for name in change_table()} | {"EXPORTED", "NO_SIGNS"}
    known |= {f"LACKS_{name}" for name in feature_table()}
    for name, path in kunit_files().items():
        text = path.read_text()
        assert set(re.findall(r"SCHED_KUNIT_((?:NO_|LACKS_)\w+|EXPORTED\b)", text)) <= known, name


@pytest.mark.tools
def test_series_of_a_tree_without_the_changes(kernel: Path, cache: Path, tmp_path: Path) -> None:
    series = exported(kernel, tmp_path / "series")
    left_out = [line.split(",")[0] for line in series.left_out if ", which tests only " in line]
    assert left_out == ["left out: sched_layout", "left out: sched_cluster"]
    names = " ".join(path.name for path in series.patches)
    assert "cache-lines" not in names and "idle-CPU" not in names
    cover, sender = ((tmp_path / "series" / name).read_text() for name in ("0000-cover-letter.txt", "SENDER"))
    assert "***" not in cover and "sender" not in cover.lower() and "kunit.py run" in cover
    assert "git am -s" in sender and "Assisted-by" not in sender  # the small tree has no Documentation/process/
    base = f"base-commit: {git(kernel, 'rev-parse', 'HEAD').strip()}"
    assert any(base in path.read_text() for path in (tmp_path / "series").iterdir())
    # Nor has it selftests.
    git(kernel, "am", "-q", *map(str, series.patches))
    assert not (kernel / "tools").exists()


def test_directory_with_files_is_refused_before_the_tree_is_read(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/0001-old.patch").touch()
    for out in ("old", "old/0001-old.patch", "old/0001-old.patch/below"):
        with pytest.raises(SystemExit) as error:
            read_words(export_verb, "export", "-o", str(tmp_path / out))
        assert error.value.code == 2
    assert read_words(export_verb, "export", "-o", str(tmp_path / "new")).out == tmp_path / "new"
    assert not (tmp_path / "new").exists()


@pytest.mark.tools
def test_series_in_the_cache_is_made_anew(
    kernel: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """The second export of a tree was rejected, because the first one was in its place."""
    monkeypatch.setattr(doctor, "require", lambda _: None)
    (kernel / "new").touch()
    said = []
    for _ in range(2):
        assert export_tree(TreeOptions(kernel), ChangeOptions(), None) is Verdict.PASS
        said.append(capsys.readouterr())
    assert said[0].out == said[1].out
    patch = Path(said[0].out.splitlines()[0])
    assert patch.is_file()
    text = (said[0].out + said[0].err).replace(str(patch.parent), "EXPORTS")
    golden("export.txt", re.sub(r"\b[0-9a-f]{12}\b", "COMMIT", text))


@pytest.mark.tools
def test_author_is_the_users(kernel: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(kernel, "config", "--unset", "user.name")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(SchedlineError, match="no author"):
        exported(kernel, tmp_path / "series")


@pytest.mark.tools
def test_selftests_go_where_the_tree_has_their_library(kernel: Path, cache: Path, tmp_path: Path) -> None:
    top = kernel / "tools/testing/selftests"
    write_files(top, {"lib.mk": "", "Makefile": "TARGETS += sched_ext\nTARGETS += seccomp\n"})
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "selftests")
    series = exported(kernel, tmp_path / "series")
    git(kernel, "am", "-q", *map(str, series.patches))
    there = {str(path.relative_to(top / "sched_latency")) for path in (top / "sched_latency").rglob("*")}
    assert (top / "Makefile").read_text() == "TARGETS += sched_ext\nTARGETS += sched_latency\nTARGETS += seccomp\n"
    every = files_of(program_sources())
    assert there == set(every)
    names = "Makefile .gitignore config settings rt_wakeup.c sched_latency.c sched_latency.h"
    assert set(names.split()) <= there
    subjects = git(kernel, "log", "--reverse", "--format=%s", "--grep=^selftests/sched_latency:").splitlines()
    library = TEXT_OF_LIBRARY.read_text().splitlines()[0]
    assert subjects == [library, *(f"selftests/sched_latency: Add {name}" for name in program_sources())]
    with pytest.raises(SchedlineError, match="has everything"):
        exported(kernel, tmp_path / "again")


def test_programs_come_one_by_one_and_those_that_only_measure_last() -> None:
    programs = [*program_sources()]
    assert programs[-1:] == [*experiments()]
    assert {f"{name}.c" for name in (*programs, "sched_latency")} == {path.name for path in DIRECTORY.glob("*.c")}
    for number in range(1, len(programs) + 1):
        files = files_of(programs[:number])
        assert re.findall(r"^TEST_GEN_PROGS\w* \S+ (\w+)$", files["Makefile"].decode(), re.M) == programs[:number]
        assert b"wildcard" not in files["Makefile"]
        assert {f"{name}.c" for name in (*programs[:number], "sched_latency")} == {
            name for name in files if name.endswith(".c")
        }
