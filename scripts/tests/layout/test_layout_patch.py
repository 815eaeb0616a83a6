# SPDX-License-Identifier: GPL-2.0
"""A patch is judged by the layouts without and with it; checkpatch, b4 and SARIF get the same findings."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import toys
from toys import clause, layout, rules_of, structure, toy

from conftest import SCHED_H, git
from schedlib.contracts.contract_rules import Rules, our_rules
from schedlib.errors import SchedlineError
from schedlib.formats.contract_file import ClauseKind
from schedlib.layout.kernel_versions import steps
from schedlib.layout.members import Member, Structure, Type
from schedlib.layout.patch_findings import Finding, PatchLook, lost_members, redefined
from schedlib.layout.patch_job import as_b4, render
from schedlib.layout.patch_text import added_lines, as_applied, require_diff, touches_layout, why_untouched
from schedlib.layout.rule_judge import Layout
from schedlib.main import main
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
HEADER = "kernel/sched/sched.h"


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
        (b"+++ b/fs/x.c\n@@ -9,3 +9,4 @@\n \tint a;\n+\tint b;\n", True),
        (b"+++ b/fs/x.c\n@@ -9,3 +9,4 @@ int f(void)\n \tint a;\n+\tint b;\n", False),
        (b"+++ b/fs/x.c\n@@ -9,3 +9,4 @@ static struct {\n \tint a;\n+\tint b;\n", True),
        # diff -u gives no heading, and git where there is nothing above.
        (b"--- a/x.c\n+++ b/x.c\n@@ -10,2 +10,3 @@\n \tint a;\n+\tint b;\n \tint c;\n", True),
        (b"--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,3 @@\n \tint a;\n+\tint b;\n \tint c;\n", False),
        (b"diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -10,2 +10,3 @@\n \tint a;\n+\tint b;\n \tint c;\n", False),
        (b"--- a/fs/x.c\n+++ b/fs/x.c\n@@ -3,3 +3,4 @@ struct eventpoll {\n \tint a;\n+\tint b;\n", True),
        (b"+++ b/fs/x.c\n@@ -3,3 +3,4 @@ static int f(struct eventpoll *ep)\n \tint a;\n+\tint b;\n", False),
        (b"+++ b/Documentation/Kconfig/index.rst\n", False),
        (b"+++ b/a.html\n", False),
        (b"--- a/kernel/bounds.c\n+++ b/kernel/bounds.c\n@@ -9,1 +9,2 @@ int main(void)\n \ta();\n+\tb();\n", True),
        (b"--- a/a.c\n+++ b/a.c\n@@ -9,1 +9,2 @@ int f(void)\n \ta();\n+#undef CONFIG_A\n", True),
        (b'--- "a/x\\303\\244.h"\n+++ "b/x\\303\\244.h"\n@@ -1 +1,2 @@\n a\n+b\n', True),
        (b" +++ b/kernel/sched/sched.h\n", False),
        (b"--- a/kernel/smp.c\n+++ b/kernel/smp.c\n@@ -9 +9 @@ f\n-int nr_cpu_ids __x;\n+int nr_cpu_ids;\n", True),
        (b"--- a/kernel/smp.c\n+++ b/kernel/smp.c\n@@ -9 +9 @@ f\n-\tnr_cpu_ids++;\n+\tnr_cpu_ids--;\n", False),
        (b"--- a/mm/a.c\n+++ b/mm/a.c\n@@ -9 +9 @@ f\n-#if BITS == 32\n+#if BITS == 64\n", True),
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


@pytest.mark.parametrize(("above", "line"), [(0, 101), (70, 171), (-60, 41)])
def test_lines_where_a_hunk_applied(above: int, line: int) -> None:
    """A patch that applied elsewhere was told with the lines that it names."""
    head = b"--- a/x.h\n+++ b/x.h\n"
    patch = head + b"@@ -100,3 +100,4 @@ struct a {\n \tint a;\n-\tint b;\n+\tint c;\n+\tint d;\n \tint e;\n-- \n2.47\n"
    text = "\n" * (99 + above) + "\tint a;\n\tint c;\n\tint d;\n\tint e;\n\tint c;\n"
    rows = list(added_lines(as_applied(patch, {"x.h": text})))
    assert rows == [("x.h", line, "\tint c;"), ("x.h", line + 1, "\tint d;")]
    assert as_applied(patch, {}) == patch == as_applied(patch, {"x.h": "other\n"})


def findings(rules: Rules, patch: bytes, before: Layout, after: Layout, quiet: bool = False) -> list[Finding]:
    """The findings for a patch."""
    return PatchLook(rules, patch, before, after, {}).findings(quiet)


def found(before: Layout, after: Layout, patch: bytes = PATCH) -> list[Finding]:
    """The findings for a patch by the project's rules, without notes."""
    return [each for each in findings(toys.real_rules(), patch, before, after) if not each.note]


@pytest.mark.parametrize("names", [(), ("OLD_RQ",), ("STRANGER",)])
def test_patch_that_breaks_nothing_is_silent(names: tuple[str, ...]) -> None:
    """A rule that was broken before is not its fault."""
    assert found(toy(*names), toy(*names)) == []


def test_broken_rule_is_an_error_at_the_new_member() -> None:
    (finding,) = (row for row in found(toy(), toy("STRANGER")) if row.error)
    assert (finding.file, finding.line) == ("kernel/sched/sched.h", 102)
    head, what, why = finding.text.splitlines()
    said = "stranger on line 0, kept for nr_running, nr_numa_running and 6 more (struct rq, toy+STRANGER)"
    assert head == f"rq-order.Q2: {said}"
    kept = "struct rq: no other member is on the lines of these: nr_running nr_numa_running ... idle"
    assert what == f"    rq-order.Q2: {kept}"
    assert why == f"        why: {toys.real_rules().rule('rq-order.Q2').reason}"
    assert finding.text.endswith(toys.real_rules().rule("rq-order.Q2").reason)
    assert str(finding).startswith("kernel/sched/sched.h:102: ERROR: rq-order.Q2: ")


def test_each_broken_rule_is_told() -> None:
    errors = [row for row in found(toy(), toy("WIDE")) if row.error]
    assert [row.rules for row in errors] == [("rq-order.Q1", "rq-order.Q2")]
    assert {(row.file, row.line) for row in errors} == {("kernel/sched/sched.h", 101)}


def test_rule_that_was_broken_before_may_hold_again() -> None:
    assert [row for row in found(toy("WIDE"), toy()) if row.error] == []


def test_what_joins_a_line_whose_rule_fails_already_is_told() -> None:
    """In a tree with a new name the rule of its line fails, and a stranger there passed in silence."""

    def with_new_name(layout: Layout) -> Layout:
        rq = layout.structures["rq"]
        rows = (replace(each, name="nr_queued") if each.name == "nr_running" else each for each in rq.members)
        return replace(layout, structures={**layout.structures, "rq": replace(rq, members=tuple(rows))})

    before, after = with_new_name(toy()), with_new_name(toy("STRANGER"))
    assert [*PatchLook(toys.real_rules(), PATCH, before, before, {}).worse()] == []
    (told,) = PatchLook(toys.real_rules(), PATCH, before, after, {}).worse()
    assert (told.error, told.rule, told.line) == (False, "rq-order.Q2", 102)
    assert told.text.startswith("not judged: rq-order.Q2 fails without the patch, too: nr_queued on line 0")
    assert "With it: stranger on line 0" in told.text
    assert told.text.endswith("Here is no nr_running: for a new name write `old|new`")


def test_rule_that_can_no_longer_be_judged_is_an_error() -> None:
    errors = [row for row in found(toy(), toy("-HAVE_RT_PUSH_IPI")) if row.error]
    assert [row.rules for row in errors] == [("rd-lines.R5", "rd-lines.R7", "rd-lines.R9")]
    lost = ": no root_domain.rto_lock rto_loop rto_cpu rto_loop_next rto_loop_start in this configuration"
    assert f"can no longer be judged{lost}" in " ".join(row.text for row in errors)


def test_less_room_is_a_warning() -> None:
    (finding,) = (row for row in found(toy("STRANGER"), toy("STRANGER", "NARROW")) if not row.error)
    assert finding.text.startswith(
        "rq-order.Q1: less room on line 0 of struct rq on toy+STRANGER+NARROW: "
        "20 bytes of it were unused, now 4; idle, the last member, ended 24 bytes before its end, now 8\n"
    )
    assert ": WARNING: " in str(finding)


@pytest.mark.tools
def test_warning_says_what_to_do() -> None:
    """`room among its members 62 -> 62 bytes, unused 62 -> 58 bytes` was not understood."""
    before, after = (
        layout(structure("rq", 64, ("a", 0, 1), ("b", 1, 1), *more)) for more in ((), (("stranger", 2, 4),))
    )
    finding, note = findings(rules_of(clause(ClauseKind.ON_LINE, "a b", 0)), PATCH, before, after)
    assert note.note
    assert finding.text == (
        "x.R1: less room on line 0 of struct rq on toy: 62 bytes of it were unused, now 58\n"
        "    if what it adds is not used together with a, b, move it to another line (pahole -C rq shows the holes); "
        "otherwise there is nothing to do"
    )


def warning(after: Layout) -> str:
    """The warning about the first line of struct rq, when it has less room but the rule still holds."""
    (text,) = (row.text for row in found(toy(), after) if row.text.startswith("rq-order.Q1: less room"))
    return text


def test_full_line_is_told() -> None:
    full = "now 0. The next pointer put before that member breaks the rule\n"
    assert full in warning(toy("NARROWER"))
    assert full.replace("now 0", "now 8") not in warning(toy("NARROW"))


@pytest.mark.tools
def test_error_has_no_warning_beside_it() -> None:
    kept, room = clause(ClauseKind.ON_LINE, "a b", 1), clause(ClauseKind.HEADROOM, "b", 8)
    before, after = (layout(structure("rq", 256, ("a", 64, 8), ("b", place, 8))) for place in (80, 116))
    for clauses, errors in (((kept,), [False]), ((kept, room), [True])):
        assert [row.error for row in findings(rules_of(*clauses), PATCH, before, after) if not row.note] == errors


def changed(*members: Member, size: int = 256) -> Layout:
    """struct rq with some members."""
    return layout(Structure(Type("rq", size, 64), members))


A, B, C = Member("a", "int", 0, 4), Member("b", "u64", 64, 8), Member("c", "u64", 128, 8)
NAMED = replace(
    rules_of(clause(ClauseKind.APART, "a b"), clause(ClauseKind.ALONE, "b")),
    members=tuple(("rq", (name,), frozenset({"x"})) for name in "ab"),
)


def test_a_structure_whose_rules_hold_gets_a_note() -> None:
    """It was silent when members moved in mm_struct or root_domain and no rule broke."""
    (note,) = findings(
        NAMED, b"", changed(A, B, C), changed(A, B, replace(C, offset=200), replace(C, name="new", offset=8))
    )
    assert str(note) == (
        "-:0: NOTE: struct rq: 256 bytes on 4 lines as before, on toy\n"
        "    new on line 0: new, beside a\n"
        "    on another line: c"
    )
    assert findings(NAMED, b"", changed(A, B, C), changed(A, B, C)) == []


def test_quiet_tells_only_lines_that_changed_hands() -> None:
    before, within = changed(A, B, C), changed(A, B, replace(C, offset=136))
    assert [row.note for row in findings(NAMED, b"", before, within)] == [True]
    assert findings(NAMED, b"", before, within, quiet=True) == []
    assert findings(NAMED, b"", before, changed(A, B, replace(C, offset=192)), quiet=True) != []


def test_a_note_has_at_most_six_lines() -> None:
    members = [Member(f"m{at}", "int", 64 * at, 4) for at in range(20)]
    later = [replace(each, offset=each.offset + 64) for each in members[:19]]
    fresh = [Member(f"new{at}", "int", 68 + 64 * at, 4) for at in range(3)]
    patch = b"--- a/x.h\n+++ b/x.h\n@@ -1 +1,0 @@\n-int m19;\n"
    before = changed(*members, C, size=2048)
    after = changed(*later, *fresh, replace(C, name="other"), size=2048)
    (note,) = findings(rules_of(clause(ClauseKind.ALIGNED, "none")), patch, before, after)
    assert [line.partition(":")[0].strip() for line in str(note).splitlines()[1:]] == [
        "new on line 1",
        "new on line 2",
        "on another line",
        "with another name",
        "gone",
    ]


def test_an_alignment_that_is_dropped_and_not_needed_here_is_told() -> None:
    """A patch that took the attribute from rq's clock passed where the member began a line by luck."""
    patch = b"--- a/x.h\n+++ b/x.h\n@@ -3 +3 @@\n-u64 b ____cacheline_aligned;\n+u64 b;\n"
    (row,) = findings(NAMED, patch, changed(A, replace(B, align=64)), changed(A, B))
    said = "b lost its alignment, and begins line 1 only because of what lies before it (struct rq, toy)"
    assert str(row) == f"x.h:3: WARNING: x.R1: {said}"
    (row,) = findings(NAMED, patch, changed(A, B, replace(C, align=64)), changed(A, B, C))
    assert row.note and "c lost its alignment" in row.text
    pad = replace(B, name="_pad_", size=0, align=64)
    for less in (changed(A, B), changed(A, B, replace(pad, align=1))):
        rows = findings(NAMED, patch.replace(b"+u64 b", b"-_pad_;\n+u64 b"), changed(A, B, pad), less)
        assert [str(row) for row in rows] == [f"x.h:3: WARNING: x.R1: {said}"]


def test_members_that_no_line_removes_are_told() -> None:
    """An #undef before an #ifdef took members away in silence."""
    undef = b"--- a/x.h\n+++ b/x.h\n@@ -1,0 +2 @@\n+#undef CONFIG_X\n"
    (row,) = findings(NAMED, undef, changed(A, B, C), changed(A, B))
    assert (row.error, row.note) == (False, False)
    assert str(row).startswith("x.h:2: WARNING: struct rq has no c any more on toy, and no removed line says so: ")
    removed = b"--- a/x.h\n+++ b/x.h\n@@ -2 +1,0 @@\n-u64 c;\n"
    (row,) = findings(NAMED, removed, changed(A, B, C), changed(A, B))
    assert row.note and "gone: c" in row.text
    (row,) = redefined(undef)
    assert str(row).startswith("x.h:2: WARNING: #undef CONFIG_X: structures without a contract that depend on it were ")
    assert list(redefined(removed)) == []


def test_a_member_of_a_contract_that_is_removed_is_an_error() -> None:
    removed = b"--- a/x.h\n+++ b/x.h\n@@ -2 +1,0 @@\n-int a;\n"
    row, *_ = (each for each in findings(NAMED, removed, changed(A, B), changed(B)) if "contract" in each.text)
    assert row.error and row.text.startswith("x.R1: a is gone, and its contract names it")
    elsewhere = removed.replace(b"+1,0 @@\n-int a;\n", b"+1 @@\n-int a;\n@@ -9,0 +9 @@\n+int a;\n")
    row, *_ = (each for each in findings(NAMED, elsewhere, changed(A, B), changed(B)) if "contract" in each.text)
    assert not row.error and not row.note and row.text.startswith("x.R1: a is gone, and its contract names it")


def test_a_structure_that_the_source_does_not_have_loses_no_member() -> None:
    """cpupri_leaf has a member of the name rto_count, too, and comes with a change that most trees lack."""
    named = replace(NAMED, members=(("leaf", ("a",), frozenset({"x"})),), files={"leaf": "x.h"})
    old, new = "struct rq {\n\tint a;\n};\n", "struct rq {\n};\n"
    assert not [*lost_members(named, {"x.h": old}.get, {"x.h": new}.get)]
    leaf = "struct leaf *leaf;\n"
    assert [*lost_members(named, {"x.h": leaf + old}.get, {"x.h": leaf + new}.get)]


def test_a_new_name_is_told_as_one() -> None:
    """It was told as an intruder on the line of the member's own."""
    patch = b"--- a/x.h\n+++ b/x.h\n@@ -2 +2 @@\n-u64 b;\n+u64 other;\n"
    (row,) = findings(NAMED, patch, changed(A, B), changed(A, replace(B, name="other")))
    assert str(row).startswith(
        "x.h:2: ERROR: x.R1: b is other now, and its contract names the old one (struct rq, toy)\n"
    )
    both = replace(NAMED, members=(("rq", ("b", "other"), frozenset({"x"})),))
    (row,) = findings(both, patch, changed(A, B), changed(A, replace(B, name="other")))
    assert row.note and "with another name: b is other" in row.text
    (row,) = findings(NAMED, patch.replace(b"b;", b"c;"), changed(A, B, C), changed(A, B, replace(C, name="other")))
    assert row.note and "with another name: c is other" in row.text


def test_what_one_line_breaks_is_one_error_that_begins_with_it() -> None:
    """One removed attribute gave seven ERRORs, with the useful part last."""
    (row,) = (each for each in found(toy(), toy("OLD_RD")) if each.error)
    first, *below = row.text.splitlines()
    shown, more = ", ".join(row.rules[:3]), len(row.rules) - 3
    assert more >= 6
    assert first.startswith(f"{shown} and {more} more: rd-lines is not in this tree any more; ")
    assert len(first) < 320 and first.endswith(" more (struct root_domain, toy+OLD_RD)")
    assert len(below) >= 9 and all(line.startswith(("    rd-lines.R", "        why: ")) for line in below)


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


def diff_of(repository: Path, member: str) -> bytes:
    """The diff of one more member, after which the work tree is reset to the last commit."""
    (repository / HEADER).write_text(SCHED_H.replace("nr_running;", f"nr_running, {member};"))
    text = git(repository, "diff").encode()
    git(repository, "checkout", "-q", ".")
    return text


def test_steps(kernel: Path, cache: Path) -> None:
    """A patch that the tree has is found at its end, and in its history."""
    patch = diff_of(kernel, "more")
    tree = open_kdir(cache, kernel)
    before, after = steps(tree, compose(tree), patch)
    assert before == compose(tree).commit and "more" in (tree.read(HEADER, after) or "")

    (kernel / HEADER).write_text(SCHED_H.replace("nr_running;", "nr_running, more;"))
    git(kernel, "commit", "-q", "-a", "-m", "more")
    tree = open_kdir(cache, kernel)
    before, after = steps(tree, compose(tree), patch)
    assert after == compose(tree).commit and "more" not in (tree.read(HEADER, before) or "")

    (kernel / HEADER).write_text(SCHED_H.replace("nr_running;", "nr_running, most;"))
    git(kernel, "commit", "-q", "-a", "-m", "most")
    tree = open_kdir(cache, kernel)
    found = [git(kernel, "rev-parse", revision).strip() for revision in ("HEAD^^", "HEAD^")]
    assert list(steps(tree, compose(tree), patch)) == found


def test_steps_do_not_leave_a_change_behind(kernel: Path, cache: Path) -> None:
    """A patch that fits only the tree without a change is not judged there: the rules of the change would be n/a."""
    patch = diff_of(kernel, "more")
    tree = open_kdir(cache, kernel)
    assert steps(tree, compose(tree), patch)
    changed = apply_diff(tree, tree.base, diff_of(kernel, "____cacheline_aligned other"), "a change\n")
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


ERROR = Finding("kernel/sched/sched.h", 1180, True, "rq-order.Q2", "rq-order.Q2: struct rq: is broken")
WARNING = Finding("kernel/sched/sched.h", 0, False, "rq-order.Q1", "rq-order.Q1 still holds")


def test_text_is_checkpatchs() -> None:
    lines = render(our_rules().rules, [ERROR, WARNING], "text").splitlines()
    assert lines[0] == "kernel/sched/sched.h:1180: ERROR: rq-order.Q2: struct rq: is broken"
    assert lines[1].startswith("kernel/sched/sched.h:0: WARNING: ")
    assert render(our_rules().rules, [], "text") == ""


def test_b4() -> None:
    (row,) = json.loads(render(our_rules().rules, [ERROR, WARNING], "b4"))
    assert (row["tool"], row["status"], row["summary"]) == ("schedline", "fail", "breaks rq-order.Q2")
    assert [each["status"] for each in json.loads(row["details"])] == ["fail", "warn"]
    assert json.loads(as_b4([WARNING]))[0]["status"] == "warn"
    assert json.loads(render(our_rules().rules, [], "b4")) == []


def test_sarif() -> None:
    document = json.loads(render(our_rules().rules, [ERROR, WARNING], "sarif"))
    (run,) = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in our_rules().rules]
    error, warning = run["results"]
    assert (error["ruleId"], error["level"]) == ("rq-order.Q2", "error")
    assert run["tool"]["driver"]["rules"][error["ruleIndex"]]["id"] == "rq-order.Q2"
    assert error["locations"][0]["physicalLocation"]["region"] == {"startLine": 1180}
    assert error["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "kernel/sched/sched.h"
    # SARIF counts lines from 1.
    assert (warning["level"], warning["locations"][0]["physicalLocation"]["region"]) == ("warning", {"startLine": 1})
    assert json.loads(render(our_rules().rules, [], "sarif"))["runs"][0]["results"] == []


@pytest.mark.parametrize(("form", "empty"), [("b4", []), ("text", None)])
def test_a_patch_that_touches_no_header(
    form: str, empty: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = b"--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1 @@\n-a\n+b\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch)))
    assert main(["layout", "--patch", "-", "--format", form]) == 0
    said = capsys.readouterr().out
    assert (json.loads(said) if said else None) == empty


@pytest.mark.tools
def test_a_patch_that_does_not_apply_is_told_to_b4(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = toys.toy_tree(tmp_path / "linux")
    patch = b"--- a/kernel/sched/sched.h\n+++ b/kernel/sched/sched.h\n@@ -1 +1 @@\n-never there\n+b\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch)))
    before = git(tree, "status", "--porcelain")
    with pytest.raises(Exception, match="does not apply"):
        main(["layout", "--kdir", str(tree), "--patch", "-", "--format", "b4"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "warn" and "does not apply" in row["summary"] and row["details"].startswith("next: ")
    assert git(tree, "status", "--porcelain") == before
