# SPDX-License-Identifier: GPL-2.0
"""A patch is judged by the layouts without and with it. A broken rule is reported at the line that broke it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import toys
from toys import clause, layout, rules_of, structure, toy

from conftest import SCHED_H, git
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.patch_check import Finding, findings, steps
from schedlib.layout.patch_text import added_lines, require_diff, touches_layout, why_untouched
from schedlib.layout.rule_judge import Layout
from schedlib.tree.compose import compose
from schedlib.tree.kernel_tree import apply_diff, open_kdir

MAIL = """\
From: Somebody <somebody@example.org>
Subject: [PATCH] sched: add a member

+++ b/not/yet.h is not the beginning of a file
---
 kernel/sched/fair.c  | 1 +
 kernel/sched/sched.h | 3 ++-

diff --git a/kernel/sched/fair.c b/kernel/sched/fair.c
--- a/kernel/sched/fair.c
+++ b/kernel/sched/fair.c
@@ -10,2 +10,3 @@ static void f(void)
 {
+	rq->stranger = rq->wide[0];
 }
diff --git a/kernel/sched/sched.h b/kernel/sched/sched.h
--- a/kernel/sched/sched.h
+++ b/kernel/sched/sched.h
@@ -100,4 +100,5 @@ struct rq {
\x20	void *curr;
-	int gone;
+	u64 wide[4];
+	u32 stranger;
\x20	void *idle;
\\ No newline at end of file
--
2.47.3
"""
PATCH = MAIL.encode()


@pytest.mark.parametrize(
    ("text", "touches"),
    [
        (b"+++ b/kernel/sched/sched.h\n", True),
        (b"+++ b/kernel/sched/sched.h\r\n", True),
        (b"+++ b/kernel/sched/sched.h\t2026-01-01 00:00:00.000000000 +0000\n", True),
        (b"--- a/kernel/sched/sched.h\n+++ /dev/null\n", True),
        (b"--- /dev/null\n+++ b/kernel/sched/new.h\n", True),
        (b"+++ b/init/Kconfig\n", True),
        (b"+++ b/lib/Kconfig.debug\n", True),
        (b"--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n", False),
        (b"+++ b/scripts/kconfig/conf.c\n", False),
        (b"+++ b/Documentation/Kconfig/index.rst\n", False),
        (b"+++ b/a.html\n", False),
        (b" +++ b/kernel/sched/sched.h\n", False),
        (b"+#include <linux/sched.h>\n", False),
        (b"", False),
        (PATCH, True),
    ],
)
def test_touches_layout(text: bytes, touches: bool) -> None:
    assert touches_layout(text) is touches


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PATCH, ""),
        (b" \n", "the patch is empty"),
        (b"--- a/x.c\n+++ b/x.c\n", "it changes no header, no Kconfig and no structure of a .c file, only x.c"),
        (
            b"".join(b"--- a/%d.c\n+++ b/%d.c\n" % (number, number) for number in range(5)),
            "it changes no header, no Kconfig and no structure of a .c file, only 0.c, 1.c, 2.c and 2 more",
        ),
        (
            b"diff --git a/x.h b/y.h\nrename from x.h\nrename to y.h\n",
            "it changes no header, no Kconfig and no structure of a .c file",
        ),
    ],
)
def test_why_a_patch_is_not_looked_at(text: bytes, reason: str) -> None:
    assert why_untouched(text) == reason


def test_added_lines() -> None:
    rows = [row for row in added_lines(PATCH) if row[0].startswith("kernel/")]
    assert rows == [
        ("kernel/sched/fair.c", 11, "\trq->stranger = rq->wide[0];"),
        ("kernel/sched/sched.h", 101, "\tu64 wide[4];"),
        ("kernel/sched/sched.h", 102, "\tu32 stranger;"),
    ]


def test_added_lines_of_several_hunks() -> None:
    text = "+++ b/x.h\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -8,0 +9,2 @@\n+d\n+e\n"
    assert list(added_lines(text.encode())) == [("x.h", 1, "b"), ("x.h", 9, "d"), ("x.h", 10, "e")]
    assert list(added_lines(text.replace("+b", " b").replace("+d\n+e", "-d").encode())) == []


def found(before: Layout, after: Layout, patch: bytes = PATCH) -> list[Finding]:
    """The findings for a patch."""
    return list(findings(toys.real_rules(), patch, before, after))


def test_patch_that_breaks_nothing_is_silent() -> None:
    assert found(toy(), toy()) == []
    assert found(toy("OLD_RQ"), toy("OLD_RQ")) == []


def test_broken_rule_is_an_error_at_the_new_member() -> None:
    (finding,) = (row for row in found(toy(), toy("STRANGER")) if row.error)
    assert (finding.file, finding.line) == ("kernel/sched/sched.h", 102)
    assert finding.text.startswith("rq-order.Q2: struct rq: no other member is on the lines of these: ")
    assert ": is broken on toy+STRANGER: nr_running: offset 0, size 4, line 0;" in finding.text
    assert "; there now: stranger. " in finding.text
    assert finding.text.endswith(toys.real_rules().rule("rq-order.Q2").reason)
    assert str(finding).startswith("kernel/sched/sched.h:102: ERROR: rq-order.Q2: ")


def test_each_broken_rule_is_told() -> None:
    errors = [row for row in found(toy(), toy("WIDE")) if row.error]
    assert {row.text.partition(":")[0] for row in errors} == {"rq-order.Q1", "rq-order.Q2"}
    assert {(row.file, row.line) for row in errors} == {("kernel/sched/sched.h", 101)}


def test_rule_that_was_broken_before_is_not_the_patchs_fault() -> None:
    assert found(toy("STRANGER"), toy("STRANGER")) == []
    assert [row for row in found(toy("WIDE"), toy()) if row.error] == []


def test_change_that_is_taken_back_is_an_error() -> None:
    errors = [row for row in found(toy(), toy("OLD_RD")) if row.error]
    assert {row.text.partition(":")[0] for row in errors} == {f"rd-lines.R{number}" for number in range(1, 10)}


def test_rule_that_can_no_longer_be_judged_is_an_error() -> None:
    errors = [row for row in found(toy(), toy("-HAVE_RT_PUSH_IPI")) if row.error]
    assert {row.text.partition(":")[0] for row in errors} == {"rd-lines.R5", "rd-lines.R7", "rd-lines.R9"}
    lost = "(no root_domain.rto_lock rto_loop rto_cpu rto_loop_next rto_loop_start in this configuration)"
    assert f"can no longer be judged {lost}" in " ".join(row.text for row in errors)


def test_less_room_is_a_warning() -> None:
    (finding,) = (row for row in found(toy("STRANGER"), toy("STRANGER", "NARROW")) if not row.error)
    assert finding.text.startswith(
        "rq-order.Q1 still holds on toy+STRANGER+NARROW, but the patch takes room on cache line 0 of struct rq: "
        "20 bytes of it were unused, now 4; idle, the last of its members, ended 24 bytes before its end, now 8. "
    )
    assert ": WARNING: " in str(finding)


@pytest.mark.tools
def test_warning_says_what_to_do() -> None:
    """`room among its members 62 -> 62 bytes, unused 62 -> 58 bytes` was not understood."""
    before, after = (
        layout(structure("rq", 64, ("a", 0, 1), ("b", 1, 1), *more)) for more in ((), (("stranger", 2, 4),))
    )
    (finding,) = findings(rules_of(clause(ClauseKind.ON_LINE, "a b", 0)), PATCH, before, after)
    assert finding.text == (
        "x.R1 still holds on toy, but the patch takes room on cache line 0 of struct rq: 62 bytes of it were unused, "
        "now 58. If what it adds is not used together with a b, move it to another line (pahole -C rq shows the "
        "holes); otherwise there is nothing to do"
    )


def warning(after: Layout) -> str:
    """The warning about the first line of struct rq, when it has less room but the rule still holds."""
    (text,) = (row.text for row in found(toy(), after) if row.text.startswith("rq-order.Q1 still holds"))
    return text


def test_full_line_is_told() -> None:
    full = "now 0. The next pointer put before that member breaks the rule. "
    assert full in warning(toy("NARROWER"))
    assert full.replace("now 0", "now 8") not in warning(toy("NARROW"))


@pytest.mark.tools
def test_error_has_no_warning_beside_it() -> None:
    kept, room = clause(ClauseKind.ON_LINE, "a b", 1), clause(ClauseKind.HEADROOM, "b", 8)
    before, after = (layout(structure("rq", 256, ("a", 64, 8), ("b", place, 8))) for place in (80, 116))
    for clauses, errors in (((kept,), [False]), ((kept, room), [True])):
        assert [row.error for row in findings(rules_of(*clauses), PATCH, before, after)] == errors


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        (b"+++ b/kernel/sched/other.h\n@@ -1 +7 @@\n+u32 something;\n", ("kernel/sched/other.h", 7)),
        (b"+++ b/init/Kconfig\n@@ -1 +3 @@\n+bool\n", ("init/Kconfig", 3)),
        (
            b"--- a/kernel/sched/sched.h\n+++ b/kernel/sched/sched.h\n@@ -9,2 +9 @@\n-int x;\n",
            ("kernel/sched/sched.h", 9),
        ),
        (b"", ("-", 0)),
    ],
)
def test_place_when_no_added_line_names_a_member(patch: bytes, place: tuple[str, int]) -> None:
    (finding,) = (row for row in found(toy(), toy("STRANGER"), patch) if row.error)
    assert (finding.file, finding.line) == place


def diff_of(repository: Path) -> bytes:
    """The diff of the work tree, which is then reset to the last commit."""
    text = git(repository, "diff").encode()
    git(repository, "checkout", "-q", ".")
    return text


def test_steps(kernel: Path, cache: Path) -> None:
    header = kernel / "kernel/sched/sched.h"
    header.write_text(SCHED_H.replace("nr_running;", "nr_running, more;"))
    patch = diff_of(kernel)
    tree = open_kdir(cache, kernel)
    apart = steps(tree, compose(tree), patch)
    assert apart.before == compose(tree).commit
    assert "more" in (tree.read("kernel/sched/sched.h", apart.after) or "")

    reverse = header.read_text()
    header.write_text(reverse.replace("nr_running;", "nr_running, more;"))
    git(kernel, "commit", "-q", "-a", "-m", "more")
    tree = open_kdir(cache, kernel)
    had = steps(tree, compose(tree), patch)
    assert had.after == compose(tree).commit
    assert "more" not in (tree.read("kernel/sched/sched.h", had.before) or "")


def test_steps_find_a_patch_in_the_history(kernel: Path, cache: Path) -> None:
    header = kernel / "kernel/sched/sched.h"
    header.write_text(SCHED_H.replace("nr_running;", "nr_running, more;"))
    patch = git(kernel, "diff").encode()
    git(kernel, "commit", "-q", "-a", "-m", "more")
    header.write_text(header.read_text().replace("more;", "most;"))
    git(kernel, "commit", "-q", "-a", "-m", "most")
    tree = open_kdir(cache, kernel)
    found = steps(tree, compose(tree), patch)
    assert found.after == git(kernel, "rev-parse", "HEAD^").strip()
    assert found.before == git(kernel, "rev-parse", "HEAD^^").strip()


def test_steps_do_not_leave_a_change_behind(kernel: Path, cache: Path) -> None:
    """A patch that fits only the tree without a change is not judged there: the rules of the change would be n/a."""
    header = kernel / "kernel/sched/sched.h"
    header.write_text(SCHED_H.replace("*pd;", "*pd, *more;"))
    patch = diff_of(kernel)
    tree = open_kdir(cache, kernel)
    assert steps(tree, compose(tree), patch)
    header.write_text(SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;"))
    changed = apply_diff(tree, tree.base, diff_of(kernel), "a change\n")
    assert changed
    with pytest.raises(SchedlineError, match=r"does not apply .* with the changes"):
        steps(tree, replace(compose(tree), commit=changed), patch)


def test_steps_of_what_does_not_belong(kernel: Path, cache: Path) -> None:
    tree = open_kdir(cache, kernel)
    with pytest.raises(SchedlineError, match="does not apply"):
        steps(tree, compose(tree), PATCH)


@pytest.mark.parametrize("text", [b"hello\n", b"From: a\nSubject: [PATCH 0/3] cover\n\nno diff here\n"])
def test_text_without_a_diff_is_refused(text: bytes) -> None:
    with pytest.raises(SchedlineError, match="no diff"):
        require_diff(text)


def test_a_diff_is_not_refused() -> None:
    require_diff(b"--- a/x.h\n+++ b/x.h\n@@ -1 +1 @@\n-a\n+b\n")
