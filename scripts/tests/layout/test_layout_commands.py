# SPDX-License-Identifier: GPL-2.0
"""`schedline layout` and the verbs below it, from the command line to the output, on a toy kernel."""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import toys
from layout_command import read, run

from conftest import git
from schedlib.contracts.c_tables import TABLE
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Dropped
from schedlib.layout import columns, kernel_versions
from schedlib.layout.layout_job import advice, judge_column, key
from schedlib.layout.layout_options import (
    ExplainOptions,
    LayoutDiffOptions,
    LayoutOperand,
    LayoutOptions,
    find_rule,
)
from schedlib.layout.pack_units import pack_layout
from schedlib.layout.rule_judge import Layout
from schedlib.names import rule_ids
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.paths import PROJECT
from schedlib.progress import say
from schedlib.tree.compose import TESTS_DIRECTORY
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict

pytestmark = pytest.mark.tools

HARMLESS = ("u32 nr_running;", "u32 nr_running; /* tasks */")
HARMFUL = ("void *idle;", "void *idle; u32 stranger;")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy kernel with everything that is needed to compile it."""
    return toys.toy_tree(tmp_path_factory.mktemp("kernels") / "a 'toy'")


def patch(tree: Path, place: Path, change: tuple[str, str], name: str = "kernel/sched/sched.h") -> tuple[str, ...]:
    """The words that judge a patch to a toy kernel. The work tree stays unchanged."""
    text = (tree / name).read_text()
    assert text.count(change[0]) == 1
    (tree / name).write_text(text.replace(*change))
    (place / "x.patch").write_text(git(tree, "diff"))
    (tree / name).write_text(text)
    return ("layout", "--kdir", str(tree), "--patch", str(place / "x.patch"))


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
        ("layout diff 7.3 9.9", "9.9: no such file or directory, and it is no series (7.3, 7.2, 6.12, 6.1)"),
        ("layout diff 7.3 7.3+rd-line", "Did you mean rd-lines?"),
        # `layout --kdir PATH explain Q1` explained the rule on Debian's kernel, and ignored PATH.
        ("layout --kdir / explain Q1", "schedline layout explain --kdir ..."),
        ("layout --running explain Q1", "schedline layout explain --running ..."),
        ("layout --with rd-lines explain Q1", "schedline layout explain --with ..."),
    ],
)
def test_words_are_checked_first(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        read(*(word.replace("{}", "") for word in words.split()))
    assert error.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "--running --kdir .",
        "--running --arch arm64",
        "--vmlinux /bin/sh --with rd-lines",
        "--vmlinux /bin/sh --base v7.3",
        "--patch /dev/null --json x.json",
        "--patch /dev/null --expect rd-lines",
        "--patch /dev/null --running",
        f"--patch {__file__}",
        "--verbose",
        "diff 7.3 6.12 --arch all",
        "diff 7.3 6.12 --config numa,proxy",
    ],
)
def test_options_that_contradict_each_other(words: str) -> None:
    with pytest.raises(SchedlineError):
        read("layout", *words.split())


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
    assert isinstance(wanted, LayoutOptions)
    assert wanted.patch == b"--- a/x.h\n+++ b/x.h\n"


def test_rules_are_those_of_the_tables() -> None:
    assert list(rule_ids()) == [rule.id for rule in toys.real_rules().rules]
    assert find_rule("rq-order.Q1", rule_ids()) == "rq-order.Q1"
    assert all(find_rule(rule.rpartition(".")[2], rule_ids()) == rule for rule in rule_ids())


@pytest.mark.parametrize(
    ("text", "message"),
    [("Q1", "'Q1' names 2 rules: a.Q1, b.Q1"), ("c", "'c' names 2 rules: c.Q2, c.Q3"), ("c.Q4", "Did you mean c.Q")],
)
def test_rule_that_is_not_told_apart_lists_the_candidates(text: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        find_rule(text, ["a.Q1", "b.Q1", "c.Q2", "c.Q3"])


def test_matrix_has_a_key(tree: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(key(toys.real_rules()))
    assert lines[1] == "R1 R2 R3 R4 R5 R6 R7 R8 R9: rd-lines, fields of struct root_domain rearranged"
    assert {name for line in lines[:-1] for name in line.partition(":")[0].split()} == {
        rule.rpartition(".")[2] for rule in rule_ids()
    }
    assert run("layout", "--kdir", str(tree), "--json", str(cache / "x.json")) is Verdict.PASS
    out = capsys.readouterr().out
    assert "\n".join(lines) in out
    assert out.endswith("verdict: PASS\n")
    assert json.loads((cache / "x.json").read_text())["status"] == "PASS"
    # A rule that is required, by its short name.
    assert run("layout", "--kdir", str(tree), "--require", "Q1,L1,L2") is Verdict.ERROR
    assert "--require: cpupri-split.L1, cpupri-split.L2 is n/a everywhere" in capsys.readouterr().out
    assert run("layout", "--kdir", str(tree), "--require", "Q1") is Verdict.PASS


def test_a_new_name_leaves_the_other_rules_judged(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One renamed member, and nothing was judged; the text did not say which change to look for."""
    other = shutil.copytree(tree, tmp_path / "other")
    header = other / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace("u32 nr_running;", "u32 nr_queued;"))
    assert run("layout", "--kdir", str(other), "--expect", "rq-order") is Verdict.ERROR
    said = capsys.readouterr().out
    lost = r"not judged: rq-order.Q1, rq-order.Q2.*: this tree has no rq.nr_running in any configuration; .*\n"
    commit = r"  next: git log -Snr_running -- kernel/sched/sched.h shows the commit; write in .*rq.toml:59, 134, .*"
    assert re.search(lost + commit + r'"nr_running\|NEW"\nverdict: ERROR', said), said
    assert re.search(r"^x86_64 .* pass", said, re.M), said
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
    patched = patch(other, tmp_path, ("u32 nr_queued;", "u32 nr_queued; u32 stranger;"))
    assert run(*patched) is Verdict.INCONCLUSIVE
    assert "WARNING: not judged: rq-order.Q2 fails without the patch, too: nr_queued" in capsys.readouterr().out


def test_inconclusive_has_a_next_step() -> None:
    """`layout --running` on a distribution's kernel printed n/a 25 times, and did not say what to do."""
    old = judge_column(toys.real_rules(), "old", toys.toy("OLD_RQ", "OLD_RD", "TOGETHER"), frozenset())
    assert "next: schedline status --running says which" in advice(Verdict.INCONCLUSIVE, [old], (), ["--running"])
    assert "next: schedline status --vmlinux 'a b'" in advice(Verdict.INCONCLUSIVE, [old], (), ["--vmlinux", "a b"])
    assert "next: choose another --arch" in advice(Verdict.INCONCLUSIVE, [], (), [])
    assert advice(Verdict.PASS, [old], (), []) == advice(Verdict.FAIL, [old], (), []) == ""


def test_kernel_that_somebody_else_built(tree: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux = cache / "vmlinux"
    shutil.copy(toys.types_object("OLD_RQ", "OLD_RD", "TOGETHER"), vmlinux)
    (cache / ".config").write_text("CONFIG_SMP=y\nCONFIG_X86_L1_CACHE_SHIFT=6\n")
    assert run("layout", "--vmlinux", str(vmlinux)) is Verdict.INCONCLUSIVE
    assert f"next: schedline status --vmlinux {vmlinux}" in capsys.readouterr().out
    assert run("layout", "--vmlinux", str(vmlinux), "--expect", "rq-order") is Verdict.FAIL


@pytest.mark.parametrize("words", [["explain", "Q1"], ["emit"]])
def test_questions(words: list[str], tree: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("layout", *words, "--kdir", str(tree)) is Verdict.PASS
    assert "rq-order.Q1" in capsys.readouterr().out


def test_trees_are_compared(tree: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = cache / "other"
    shutil.copytree(tree, other)
    header = other / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace(*HARMFUL))
    assert run("layout", "diff", str(tree), str(other), "--json", str(cache / "x.json")) is Verdict.PASS
    assert "rq-order.Q2: pass -> fail" in capsys.readouterr().out.replace("  ", " ")
    assert json.loads((cache / "x.json").read_text())["rules"] == [
        {"id": "rq-order.Q2", "before": "pass", "after": "fail"}
    ]


def test_b4_gets_no_progress_that_it_takes_for_failures(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`b4 am --check` counts each line on stderr as a failed check. Without a hook nothing was said for a minute."""
    words = patch(tree, tmp_path, HARMLESS)
    assert run(*words, "--quiet") is Verdict.PASS
    assert capsys.readouterr() == ("", "")
    assert list((cache / "layout").iterdir())
    said = f"compiling {tree} in schedline's own configurations: a minute, unless the cache has them\n"
    assert run(*words) is Verdict.PASS
    assert capsys.readouterr() == ("", said)
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert run(*words) is Verdict.PASS
    assert capsys.readouterr() == ("", "")
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
    said = capsys.readouterr()
    assert said.out == "" and "compiling types for x86_64+numa+proxy" in said.err and "reading" not in said.err
    monkeypatch.setattr(kernel_versions, "PATIENCE", 0.05)
    monkeypatch.setattr(columns, "open_tree", slowly)
    assert run(*words) is Verdict.PASS
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"reading {tree} ... ") and "compiling" not in said.err


def test_verbose_says_what_was_looked_at(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = patch(tree, tmp_path, HARMLESS)
    assert run(*words, "--verbose", "--arch", "x86_64", "--config", "numa,proxy") is Verdict.PASS
    structures = "5 structures (none changed)"
    columns = "4 configurations (x86_64+numa, x86_64+proxy, x86_64+packs+numa, x86_64+packs+proxy)"
    lines = "0 of 0 changed lines inside of structures"
    assert capsys.readouterr().out == f"looked at {structures} on {columns}, at {lines}: nothing broken\n"
    assert run(*patch(tree, tmp_path, HARMFUL), "--verbose") is Verdict.FAIL
    *errors, last = capsys.readouterr().out.splitlines()
    assert any("ERROR: rq-order.Q2: " in line for line in errors)
    changed = structures.replace("none changed", "changed: rq")
    assert last.startswith(f"looked at {changed} on 2 configurations (x86_64+numa+proxy, x86_64+packs), at ")
    assert " inside of structures: 1 error, 1 warning" in last
    words = patch(tree, tmp_path, ("/* policy */", "/* x */"), "kernel/sched/build_policy.c")
    assert run(*words, "--verbose") is Verdict.PASS
    reason = "it changes no header, no Kconfig and no structure of a .c file, only kernel/sched/build_policy.c"
    assert capsys.readouterr().out == f"nothing to look at: {reason}\n"


def test_patch_that_the_tree_has_already(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`git show | schedline layout --kdir . --patch -`. Like the tests, the patch appends to kernel/sched/Makefile."""
    other = cache / "other"
    shutil.copytree(tree, other)
    lines = {"kernel/sched/sched.h": "struct later { u32 more; };\n", "kernel/sched/Makefile": "obj-y += x.o\n"}
    for name, line in lines.items():
        (other / name).write_text((other / name).read_text() + line)
    (tmp_path / "x.patch").write_text(git(other, "diff"))
    words = ["layout", "--kdir", str(other), "--verbose", "--patch", str(tmp_path / "x.patch")]
    for state in ("uncommitted", "committed"):
        assert run(*words) is Verdict.PASS, state
        git(other, "commit", "-q", "--allow-empty", "-a", "-m", "more")
    git(other, "reset", "-q", "--hard", "HEAD~2")
    assert run(*words) is Verdict.PASS
    assert capsys.readouterr().out.count(": nothing broken\n") == 3


def test_patch_that_touches_no_layout_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.patch").write_text("--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n")
    program = (
        f"import sys; sys.path[:0] = [{str(PROJECT / 'scripts')!r}, {str(Path(__file__).parent)!r}]; "
        "import layout_command; print(layout_command.run('layout', '--kdir', '/', '--patch', sys.argv[1])); "
        "print([name for name in sys.modules if name.startswith(('elftools', 'schedlib.kernel', 'schedlib.tree'))])"
    )
    env = {"SCHEDLINE_CACHE": str(tmp_path / "none"), "PATH": "/nonexistent"}
    argv = [sys.executable, "-S", "-c", program, str(tmp_path / "x.patch")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Verdict.PASS\n[]\n"
    assert not (tmp_path / "none").exists()


def test_patch_on_an_architecture_without_the_configuration(
    tree: Path, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropped(*words: Any) -> Layout:
        if "packs" not in words[3].name:
            raise Dropped("no such kernel", "")
        return pack_layout(*words)

    monkeypatch.setattr(kernel_versions, "pack_layout", dropped)
    words = patch(tree, tmp_path, HARMFUL)
    assert run(*words) is Verdict.INCONCLUSIVE
    assert "the scheduler's structures were not looked at\n  next: " in capsys.readouterr().err


def test_the_users_tree_stays_as_it_is(tree: Path, cache: Path, tmp_path: Path) -> None:
    words = patch(tree, tmp_path, HARMLESS)
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    assert run("layout", "--kdir", str(tree)) is Verdict.PASS
    assert run(*words) is Verdict.PASS
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


@pytest.mark.parametrize("words", [["layout"], ["layout", "diff"], ["layout", "explain"], ["status"]])
def test_help_begins_with_two_commands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read(*words, "--help")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("usage", "  "))]
    assert lines[0].startswith(f"usage: schedline {' '.join(words)} ")
    assert all(f"schedline {' '.join(words)}" in line for line in lines[1:3])


def test_first_commit_is_no_patch(tree: Path, cache: Path, tmp_path: Path) -> None:
    """It adds the whole kernel, as does the last one of a shallow clone. To search it took minutes."""
    clone = tmp_path / "linux"
    git(tmp_path, "clone", "-q", str(tree), str(clone))
    header = clone / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace(*HARMLESS))
    git(clone, "commit", "-qam", "second")
    (tmp_path / "first.patch").write_text(git(clone, "show", "HEAD~1"))
    with pytest.raises(SchedlineError, match=r"the patch does not apply to .*, and is not among its last 100 commits"):
        run("layout", "--kdir", str(clone), "--patch", str(tmp_path / "first.patch"))
