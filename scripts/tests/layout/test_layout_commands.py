# SPDX-License-Identifier: GPL-2.0
"""`schedline layout` and the verbs below it, from the command line to the output, on a toy kernel."""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import toys
from layout_command import document, heard, read, refusal, run, said

from conftest import git
from golden import Golden
from schedlib.contracts.c_tables import TABLE
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import columns, kernel_versions
from schedlib.layout.layout_job import advice, key
from schedlib.layout.layout_options import (
    ExplainOptions,
    LayoutDiffOptions,
    LayoutOperand,
    LayoutOptions,
    find_rule,
)
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import Layout, judge_column
from schedlib.names import rule_ids
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import PROJECT
from schedlib.progress import say
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

HEADER = "kernel/sched/sched.h"
HARMLESS = (HEADER, "u32 nr_running;", "u32 nr_running; /* tasks */")
HARMFUL = (HEADER, "void *idle;", "void *idle; u32 stranger;")
RENAMED = (HEADER, "u32 nr_running;", "u32 nr_queued;")
NO_HEADER = ("kernel/sched/build_policy.c", "/* policy */", "/* x */")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy kernel with everything that is needed to compile it."""
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "a 'toy'")


@pytest.fixture
def other(tree: Path, cache: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(tree, cache / "other")


def patch(tree: Path, place: Path, change: tuple[str, str, str]) -> tuple[str, ...]:
    """The words that judge a patch to a toy kernel. The work tree stays unchanged."""
    return ("layout", "--kdir", str(tree), "--patch", toys.patch_of(tree, place, *change))


@pytest.mark.parametrize(
    ("name", "change", "words", "verdict"),
    [
        ("matrix", HARMFUL, "layout --kdir OTHER --arch x86_64 --config numa,proxy", Verdict.FAIL),
        # One renamed member, and nothing was judged; the text did not say which change to look for.
        ("lost", RENAMED, "layout --kdir OTHER --expect rq-order", Verdict.ERROR),
        ("patch", HARMFUL, "layout --kdir TREE --patch PATCH --verbose", Verdict.FAIL),
        ("explain", HARMFUL, "layout explain Q1 --kdir OTHER", Verdict.PASS),
        ("diff", HARMFUL, "layout diff TREE OTHER", Verdict.PASS),
        ("status", HARMFUL, "status --kdir OTHER", Verdict.PASS),
    ],
)
def test_the_text(
    name: str, change: tuple[str, str, str], words: str, verdict: Verdict, tree: Path, other: Path, golden: Golden
) -> None:
    toys.edit(other, *change)
    (other.parent / "x.patch").write_text(git(other, "diff"))
    places = {"TREE": str(tree), "OTHER": str(other), "PATCH": str(other.parent / "x.patch")}
    found, text = said(*(places.get(word, word) for word in words.split()))
    for place, path in places.items():
        text = text.replace(f"'{path}'", place).replace(path, place)
    golden(f"{name}.txt", text)
    assert found is verdict


EMPTY = "the path is empty: is a shell variable unset?"
"""`--kdir ''` meant the current directory."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("layout --kdir {}", EMPTY),
        ("layout --vmlinux {}", EMPTY),
        ("layout --patch {}", EMPTY),
        ("layout --json {}", EMPTY),
        ("layout diff {} 7.3", EMPTY),
        ("layout explain Q1 --kdir {}", EMPTY),
        ("layout emit --out {}", EMPTY),
        ("status --kdir {}", EMPTY),
        ("status --vmlinux {}", EMPTY),
        ("status --json {}", EMPTY),
        ("layout --arch vax", "no architecture 'vax'"),
        ("layout --config numa+nuna", "Did you mean numa?"),
        ("layout --require Q99", "no rule 'Q99'"),
        ("layout --patch /nonexistent", "no such file"),
        ("layout --patch /", "Is a directory"),
        ("layout --struct a;b", "--struct"),
        ("layout diff 7.3 9.9", "9.9: no such file or directory, and it is no series (7.3, 7.2, 6.12, 6.1)"),
        ("layout drift 7.3 8.1", "8.1: no such file or directory, and it is no series (7.3, 7.2, 6.12, 6.1)"),
        ("layout diff 7.3 7.3+rd-line", "Did you mean rd-lines?"),
        ("layout explain futex-hash-bucket.G0", "Did you mean futex-hash-bucket.G1?"),
        # `layout --kdir PATH explain Q1` explained the rule on Debian's kernel, and ignored PATH.
        ("layout --kdir / explain Q1", "schedline layout explain --kdir ..."),
        ("layout --running explain Q1", "schedline layout explain --running ..."),
        ("layout --with rd-lines explain Q1", "schedline layout explain --with ..."),
        ("layout contract check root_domian --profile .", "Did you mean root_domain?"),
        ("layout contract check pipe_inode_info --profile .", "contract init pipe_inode_info writes a first one"),
        ("layout contract check rq", "--profile"),
        ("layout contract check missing/rq.toml --profile .", "missing/rq.toml"),
    ],
)
def test_words_are_checked_first(words: str, message: str) -> None:
    assert message in refusal(*(word.replace("{}", "") for word in words.split()))


@pytest.mark.parametrize(
    "words",
    [
        "layout --running --kdir .",
        "layout --running --arch arm64",
        "layout --vmlinux /bin/sh --with rd-lines",
        "layout --vmlinux /bin/sh --base v7.3",
        "layout --patch /dev/null --json x.json",
        "layout --patch /dev/null --expect rd-lines",
        "layout --patch /dev/null --running",
        f"layout --patch {__file__}",
        "layout --verbose",
        "layout --struct poll --contracts .",
        "layout --variables --running",
        "layout --variables --arch arm64",
        "layout --variables --expect rd-lines",
        "layout --variables --staged --kdir /",
        "layout diff 7.3 6.12 --arch all",
        "layout diff 7.3 6.12 --config numa,proxy",
        "status --running --kdir .",
        "status --vmlinux /bin/sh --series 7.3",
        "status --running --apply",
        "status --kdir . --with rd-lines",
        "status --kdir . --apply --json x.json",
    ],
)
def test_options_that_contradict_each_other(words: str) -> None:
    with pytest.raises(SchedlineError):
        read(*words.split())


def test_what_is_asked_for() -> None:
    wanted = read("layout", "--arch", "all", "--config", "all", "--require", "R1,rq-order.Q2", "--expect", "rd-lines")
    assert isinstance(wanted, LayoutOptions)
    assert set(wanted.columns.arch) >= {"x86_64", "arm64"}
    assert (wanted.columns.config, wanted.require) == (("all",), ("rd-lines.R1", "rq-order.Q2"))
    assert (wanted.expect, wanted.built, wanted.source()) == (("rd-lines",), False, [])
    wanted = read("layout", "diff", "6.12+rd-lines", "running", "--config", "numa+proxy")
    assert isinstance(wanted, LayoutDiffOptions)
    assert wanted.before == LayoutOperand("6.12+rd-lines", series="6.12", changes=("rd-lines",))
    assert wanted.after == LayoutOperand("running")
    explained = read("layout", "explain", "Q1", "--kdir", "/")
    assert isinstance(explained, ExplainOptions) and explained.tree == TreeOptions(Path("/"))


def test_patch_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"--- a/x.h\n+++ b/x.h\n")))
    wanted = read("layout", "--kdir", "/", "--patch", "-")
    assert isinstance(wanted, LayoutOptions) and wanted.patch == b"--- a/x.h\n+++ b/x.h\n"


def test_rules_are_those_of_the_tables() -> None:
    ids, shown = [rule.id for rule in toys.real_rules().rules], " ".join(key(toys.real_rules()))
    assert list(rule_ids()) == ids and all(rule.rpartition(".")[2] in shown for rule in ids)
    assert find_rule("rq-order.Q1", ids) == "rq-order.Q1"
    assert all(find_rule(rule.rpartition(".")[2], ids) == rule for rule in ids)


@pytest.mark.parametrize(
    ("text", "message"),
    [("Q1", "'Q1' names 2 rules: a.Q1, b.Q1"), ("c", "'c' names 2 rules: c.Q2, c.Q3"), ("c.Q4", "Did you mean c.Q")],
)
def test_rule_that_is_not_told_apart_lists_the_candidates(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        find_rule(text, ["a.Q1", "b.Q1", "c.Q2", "c.Q3"])


@pytest.mark.parametrize(
    ("require", "verdict"),
    [("", Verdict.PASS), ("Q1", Verdict.PASS), ("Q1,L1,L2", Verdict.ERROR)],
    ids=["none", "there", "n/a"],
)
def test_a_rule_may_be_required_by_its_short_name(require: str, verdict: Verdict, tree: Path, cache: Path) -> None:
    found = document(cache / "x.json", "layout", "--kdir", str(tree), *(["--require", require] if require else []))
    assert found["status"] == verdict.name


def test_a_new_name_leaves_the_other_rules_judged(tree: Path, other: Path, tmp_path: Path) -> None:
    toys.edit(other, *RENAMED)
    # What is left of a rule is not explained, nor asserted.
    for words in (["explain", "Q1"], ["emit"]):
        with pytest.raises(SchedlineError, match=r"this tree has no rq\.nr_running in any"):
            run("layout", *words, "--kdir", str(other))
    # Nor does the kernel judge it. The sign, by which it knows the change, stays.
    kernel, composition = columns.composed_tree(TreeOptions(other, None), ChangeOptions())
    table = kernel.read(f"{TESTS_DIRECTORY}/{TABLE}", composition.commit) or ""
    rules = dict(re.findall(r'RULE\("([\w.-]+)",\s*".*",\s*(\{ \}|KEEP)', table))
    assert (rules["rq-order.Q1"], rules["rq-order.Q4"]) == ("{ }", "KEEP")
    assert re.search(r'"rq-order", CLAUSES\(KEEP', table)
    git(other, "commit", "--quiet", "--all", "--message", "A new name")
    verdict, text = said(*patch(other, tmp_path, (HEADER, "u32 nr_queued;", "u32 nr_queued; u32 stranger;")))
    assert verdict is Verdict.INCONCLUSIVE and "WARNING: not judged: rq-order.Q2 fails without the patch, too" in text


def test_inconclusive_has_a_next_step() -> None:
    """`layout --running` on a distribution's kernel printed n/a 25 times, and did not say what to do."""
    old = judge_column(toys.real_rules(), "old", toys.toy("OLD_RQ", "OLD_RD", "TOGETHER"), frozenset())
    assert "next: schedline status --running says which" in advice(Verdict.INCONCLUSIVE, [old], (), ["--running"])
    assert "next: schedline status --vmlinux 'a b'" in advice(Verdict.INCONCLUSIVE, [old], (), ["--vmlinux", "a b"])
    assert "next: choose another --arch" in advice(Verdict.INCONCLUSIVE, [], (), [])
    assert advice(Verdict.PASS, [old], (), []) == advice(Verdict.FAIL, [old], (), []) == ""


def test_kernel_that_somebody_else_built(tree: Path, cache: Path) -> None:
    vmlinux = cache / "vmlinux"
    shutil.copy(toys.types_object("OLD_RQ", "OLD_RD", "TOGETHER"), vmlinux)
    (cache / ".config").write_text("CONFIG_SMP=y\nCONFIG_X86_L1_CACHE_SHIFT=6\n")
    verdict, text = said("layout", "--vmlinux", str(vmlinux))
    assert verdict is Verdict.INCONCLUSIVE and f"next: schedline status --vmlinux {vmlinux}" in text
    assert run("layout", "--vmlinux", str(vmlinux), "--expect", "rq-order") is Verdict.FAIL


def test_the_assertions_are_printed(tree: Path, cache: Path) -> None:
    verdict, text = said("layout", "emit", "--kdir", str(tree))
    assert verdict is Verdict.PASS and 'REQUIRE("rq-order.Q1", ' in text


def test_trees_are_compared(tree: Path, other: Path, cache: Path) -> None:
    toys.edit(other, *HARMFUL)
    found = document(cache / "x.json", "layout", "diff", str(tree), str(other))
    assert found["rules"] == [{"id": "rq-order.Q2", "before": "pass", "after": "fail"}]


def test_b4_gets_no_progress_that_it_takes_for_failures(
    tree: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`b4 am --check` counts each line on stderr as a failed check. Without a hook nothing was said for a minute."""
    words = patch(tree, tmp_path, HARMLESS)
    assert heard(*words, "--quiet") == (Verdict.PASS, "", "")
    assert list((cache / "layout").iterdir())
    compiling = f"compiling {tree} in schedline's own configurations: a minute, unless the cache has them\n"
    assert heard(*words) == (Verdict.PASS, "", compiling)
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert heard(*words) == (Verdict.PASS, "", "")
    say("said afterwards")
    assert capsys.readouterr().err == "said afterwards\n"


def test_patch_says_what_it_does_when_it_takes_long(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`git show | schedline layout --patch -` was silent while it compiled, or read a tree from a slow disk."""

    def slowly(cache: Path, chosen: TreeOptions) -> Tree:
        time.sleep(0.2)
        return open_tree(cache, chosen)

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = patch(tree, tmp_path, HARMLESS)
    monkeypatch.setattr(kernel_versions, "PATIENCE", 60.0)
    assert run(*words) is Verdict.PASS
    told = capsys.readouterr()
    assert told.out == "" and "compiling types for x86_64+numa+proxy" in told.err and "reading" not in told.err
    monkeypatch.setattr(kernel_versions, "PATIENCE", 0.05)
    monkeypatch.setattr(columns, "open_tree", slowly)
    assert run(*words) is Verdict.PASS
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(f"reading {tree} ... ") and "compiling" not in told.err


def test_verbose_says_what_was_looked_at(tree: Path, cache: Path, tmp_path: Path) -> None:
    named = ("--verbose", "--arch", "x86_64", "--config", "numa,proxy")
    configurations = "4 configurations (x86_64+numa, x86_64+proxy, x86_64+packs+numa, x86_64+packs+proxy)"
    lines = "0 of 0 changed lines inside of structures"
    looked = f"looked at 5 structures (none changed) on {configurations}, at {lines}: nothing broken\n"
    assert said(*patch(tree, tmp_path, HARMLESS), *named) == (Verdict.PASS, looked)
    reason = "it changes no header, no Kconfig and no structure of a .c file, only kernel/sched/build_policy.c"
    nothing = f"nothing to look at: {reason}\n"
    assert said(*patch(tree, tmp_path, NO_HEADER), "--verbose") == (Verdict.PASS, nothing)


def test_patch_that_the_tree_has_already(other: Path, tmp_path: Path) -> None:
    """`git show | schedline layout --kdir . --patch -`. Like the tests, the patch appends to kernel/sched/Makefile."""
    for name, line in {HEADER: "struct later { u32 more; };\n", "kernel/sched/Makefile": "obj-y += x.o\n"}.items():
        (other / name).write_text((other / name).read_text() + line)
    (tmp_path / "x.patch").write_text(git(other, "diff"))
    words = ["layout", "--kdir", str(other), "--verbose", "--patch", str(tmp_path / "x.patch")]
    commit = ("commit", "-q", "--allow-empty", "-a", "-m", "more")
    for done in (commit, commit, ("reset", "-q", "--hard", "HEAD~2")):
        verdict, text = said(*words)
        assert verdict is Verdict.PASS and text.endswith(": nothing broken\n"), done
        git(other, *done)
    assert run(*words) is Verdict.PASS


def test_patch_that_touches_no_layout_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n")
    program = (
        f"import sys; sys.path[:0] = [{str(PROJECT / 'scripts')!r}, {str(PROJECT / 'scripts/tests')!r}]; "
        "from one_verb import main_of; from schedlib.layout import layout_verb; "
        "print(main_of(layout_verb)(['layout', '--kdir', '/', '--patch', sys.argv[1]])); "
        "print([name for name in sys.modules if name.startswith(('elftools', 'schedlib.kernel', 'schedlib.tree'))])"
    )
    env = {"SCHEDLINE_CACHE": str(tmp_path / "none"), "PATH": "/nonexistent"}
    argv = [sys.executable, "-S", "-c", program, str(tmp_path / "x.patch")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "0\n[]\n")
    assert not (tmp_path / "none").exists()


def test_patch_on_an_architecture_without_the_configuration(
    tree: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropped(*words: Any) -> Layout:
        if "packs" not in words[3].name:
            raise Dropped("no such kernel", "")
        return pack_layout(*words)

    monkeypatch.setattr(kernel_versions, "pack_layout", dropped)
    verdict, _, errors = heard(*patch(tree, tmp_path, HARMFUL))
    assert verdict is Verdict.INCONCLUSIVE
    assert "the scheduler's structures were not looked at\n  next: " in errors


def test_the_users_tree_stays_as_it_is(tree: Path, cache: Path, tmp_path: Path) -> None:
    words = patch(tree, tmp_path, HARMLESS)
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    assert run("layout", "--kdir", str(tree)) is run(*words) is Verdict.PASS
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


def test_first_commit_is_no_patch(other: Path, tmp_path: Path) -> None:
    """It adds the whole kernel, as does the last one of a shallow clone. To search it took minutes."""
    toys.edit(other, *HARMLESS)
    git(other, "commit", "-qam", "second")
    (tmp_path / "first.patch").write_text(git(other, "show", "HEAD~1"))
    with pytest.raises(SchedlineError, match=r"the patch does not apply to .*, and is not among its last 100 commits"):
        run("layout", "--kdir", str(other), "--patch", str(tmp_path / "first.patch"))
