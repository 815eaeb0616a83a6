# SPDX-License-Identifier: GPL-2.0
"""Changes are recognised, applied and taken back, and a conflict is named down to the hunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import SCHED_H, check_out, git
from schedlib.errors import SchedlineError
from schedlib.tree import changes, compose
from schedlib.tree.changes import State, present_changes
from schedlib.tree.compose import Composition, refuse_conflicts
from schedlib.tree.kernel_tree import Tree, open_kdir
from schedlib.tree.source import HOOK

RD_LINES = SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;")


def header(kernel: Path) -> Path:
    return kernel / "kernel/sched/sched.h"


def commit(kernel: Path, text: str, *words: str) -> None:
    """Commit another text of the header."""
    header(kernel).write_text(text)
    git(kernel, "commit", "-q", "-a", "-m", *words)


def states(composition: Composition) -> dict[str, State]:
    """The state of each change."""
    return {row.id: row.state for row in composition.states}


def test_user_tree_gets_the_tests_alone(kernel: Path, cache: Path, patches: Path) -> None:
    composition = compose.compose(open_kdir(cache, kernel))
    assert set(states(composition).values()) == {State.ABSENT}
    assert composition.expected == frozenset()
    assert composition.commit == composition.tests


def test_with_applies_and_keeps_author_and_subject(kernel: Path, cache: Path, patches: Path) -> None:
    tree = open_kdir(cache, kernel)
    composition = compose.compose(tree, with_=["rd-lines"])
    check_out(tree, composition.commit)
    assert states(composition)["rd-lines"] is State.APPLIED
    assert composition.expected == {"rd-lines"}
    assert HOOK.sub("", (tree.src / "kernel/sched/sched.h").read_text()) == RD_LINES
    assert (tree.src / "kernel/sched/tests/Makefile").is_file()
    # The tests are fitted once more: with the change rules apply whose members this small tree lacks.
    assert "Author|sched/rt: Move pd" in git(tree.src, "log", "-2", "--format=%an|%s").splitlines()


def test_a_mail_that_names_no_author_is_the_senders(kernel: Path, cache: Path, patches: Path) -> None:
    mail = patches / "7.3/rd-lines.patch"
    mail.write_text(mail.read_text().replace("From: Author <author@example.org>\n", ""))
    tree = open_kdir(cache, kernel)
    sender = {"GIT_AUTHOR_NAME": "Sender", "GIT_AUTHOR_EMAIL": "sender@example.org"}
    by = []
    for who in (None, sender):
        commit, _ = changes.apply_changes(tree, tree.base, ["rd-lines"], (), who)
        by.append(git(tree.src, "log", "-1", "--format=%an <%ae>", commit).strip())
    assert by == ["schedline <schedline@localhost>", "Sender <sender@example.org>"]


def test_composition_is_taken_from_the_cache(kernel: Path, cache: Path, patches: Path) -> None:
    tree = open_kdir(cache, kernel)
    first = compose.compose(tree, with_=["rd-lines"])
    assert compose.compose(tree, with_=["rd-lines"]) == first
    patch = patches / "7.3/rd-lines.patch"
    patch.write_text(patch.read_text().replace("Move pd", "Again"))
    assert compose.compose(tree, with_=["rd-lines"]).commit != first.commit


def test_change_that_is_there_is_upstream(kernel: Path, cache: Path, patches: Path) -> None:
    header(kernel).write_text(RD_LINES)
    composition = compose.compose(open_kdir(cache, kernel), with_=["rd-lines"])
    assert states(composition)["rd-lines"] is State.UPSTREAM


def test_without_takes_back_what_is_upstream(kernel: Path, cache: Path, patches: Path) -> None:
    commit(kernel, RD_LINES, "upstream")
    commit(kernel, SCHED_H, "sched/rt: Take it back")
    (patches / "7.3/revert/rd-lines.patch").write_text(git(kernel, "format-patch", "--stdout", "-1"))
    git(kernel, "reset", "-q", "--hard", "HEAD^")
    tree = open_kdir(cache, kernel)
    composition = compose.compose(tree, without=["rd-lines"], expect=["rd-lines"])
    assert states(composition)["rd-lines"] is State.REVERTED
    assert present_changes(tree, composition.commit) == frozenset()
    assert composition.expected == {"rd-lines"}


def test_without_and_no_revert_is_a_conflict(kernel: Path, cache: Path, patches: Path) -> None:
    header(kernel).write_text(RD_LINES)
    with pytest.raises(SchedlineError, match=r"revert/rd-lines\.patch"):
        refuse_conflicts(compose.compose(open_kdir(cache, kernel), without=["rd-lines"]))


def test_conflict_names_file_and_hunk(kernel: Path, cache: Path, patches: Path) -> None:
    header(kernel).write_text(SCHED_H.replace("*pd;", "*performance_domain;"))
    composition = compose.compose(open_kdir(cache, kernel), with_=["rd-lines"])
    assert states(composition)["rd-lines"] is State.CONFLICT
    with pytest.raises(SchedlineError, match=r"kernel/sched/sched\.h: hunk #1 rejected"):
        refuse_conflicts(composition)


def test_nearer_series_without_the_patch_is_passed_over(kernel: Path, cache: Path, patches: Path) -> None:
    (patches / "7.3").rename(patches / "6.12")
    (patches / "7.3").mkdir()
    (patches / "7.3/series").write_text("cluster-scan\n")
    tree = open_kdir(cache, kernel)
    assert states(compose.compose(tree, with_=["rd-lines"]))["rd-lines"] is State.APPLIED
    header(kernel).write_text(SCHED_H.replace("*pd;", "*performance_domain;"))
    with pytest.raises(SchedlineError, match="hunk #1 rejected"):
        refuse_conflicts(compose.compose(open_kdir(cache, kernel), with_=["rd-lines"]))


def test_drift_is_reported(kernel: Path, cache: Path, patches: Path) -> None:
    header(kernel).write_text("/* one\n * two\n */\n" + SCHED_H)
    composition = compose.compose(open_kdir(cache, kernel), with_=["rd-lines"])
    row = next(row for row in composition.states if row.id == "rd-lines")
    assert row.state is State.APPLIED
    assert row.hunk_offsets == ("kernel/sched/sched.h: hunk #1 at line 9, offset 3 lines",)


def test_base_revision_decides_what_is_expected(kernel: Path, cache: Path, patches: Path) -> None:
    commit(kernel, RD_LINES, "has it")
    git(kernel, "tag", "has-it")
    header(kernel).write_text(SCHED_H)
    tree: Tree = open_kdir(cache, kernel)
    assert compose.compose(tree).expected == frozenset()
    assert compose.compose(tree, base="has-it").expected == {"rd-lines"}
    assert compose.compose(tree, base="has-it", expect=[]).expected == frozenset()
    with pytest.raises(SchedlineError, match="no revision 'nowhere'"):
        compose.compose(tree, base="nowhere")
    # The upstream branch is the default.
    git(kernel, "branch", "-q", "maintainer", "has-it")
    git(kernel, "branch", "-q", "--set-upstream-to=maintainer")
    assert compose.compose(tree).expected == {"rd-lines"}


def test_unknown_change_is_refused(kernel: Path, cache: Path) -> None:
    with pytest.raises(SchedlineError, match="no change 'rd-line'"):
        compose.compose(open_kdir(cache, kernel), with_=["rd-line"])


def test_tree_without_the_kconfig_anchor_is_refused(kernel: Path, cache: Path, patches: Path) -> None:
    (kernel / "lib/Kconfig.debug").write_text("# nothing\n")
    with pytest.raises(SchedlineError, match="RUNTIME_TESTING_MENU"):
        compose.compose(open_kdir(cache, kernel))
