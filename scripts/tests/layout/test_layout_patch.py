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
from golden import Golden
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


@pytest.mark.parametrize(
    ("before", "after", "errors"),
    [
        # A rule that was broken before is not the patch's fault, and may hold again.
        ("", "", []),
        ("OLD_RQ", "OLD_RQ", []),
        ("STRANGER", "STRANGER", []),
        ("WIDE", "", []),
        ("STRANGER", "STRANGER NARROW", []),
        ("", "STRANGER", [("rq-order.Q2", 102)]),
        ("", "WIDE", [("rq-order.Q1 rq-order.Q2", 101)]),
        ("", "-HAVE_RT_PUSH_IPI", [("rd-lines.R5 rd-lines.R7 rd-lines.R9", 101)]),
    ],
)
def test_what_breaks(before: str, after: str, errors: list[tuple[str, int]]) -> None:
    rows = found(toy(*before.split()), toy(*after.split()))
    assert [(" ".join(row.rules), row.line) for row in rows if row.error] == errors
    assert bool(rows) is (before != after)


def test_the_text(golden: Golden) -> None:
    """What one line breaks is one error that begins with it: one removed attribute gave seven, the useful part last.

    And what is less room, or no room at all, on a line.
    """
    pairs = (("STRANGER", "STRANGER NARROW"), ("", "NARROWER"), ("", "WIDE"), ("", "-HAVE_RT_PUSH_IPI"), ("", "OLD_RD"))
    rows = [row for old, new in pairs for row in found(toy(*old.split()), toy(*new.split()))]
    golden("findings.txt", render(our_rules().rules, rows, "text") + "\n")
    assert render(our_rules().rules, [], "text") == ""


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
ABC = changed(A, B, C)
NAMED = replace(
    rules_of(clause(ClauseKind.APART, "a b"), clause(ClauseKind.ALONE, "b")),
    members=tuple(("rq", (name,), frozenset({"x"})) for name in "ab"),
)


def line(number: int, *rows: str, was: int = 1, now: int = 1) -> bytes:
    """A patch of one place."""
    return "\n".join(["--- a/x.h", "+++ b/x.h", f"@@ -{number},{was} +{number},{now} @@", *rows, ""]).encode()


ALIGNED, OTHER, PAD = replace(B, align=64), replace(B, name="other"), replace(B, name="_pad_", size=0, align=64)
UNALIGN = line(3, "-u64 b ____cacheline_aligned;", "+u64 b;")
NO_PAD = line(3, "-u64 b ____cacheline_aligned;", "-_pad_;", was=2, now=0)
UNDEF, NO_C = line(2, "+#undef CONFIG_X", was=0), line(2, "-u64 c;", now=0)
NO_A, ELSEWHERE = line(2, "-int a;", now=0), line(2, "-int a;", now=0) + b"@@ -9,0 +9 @@\n+int a;\n"
RENAME_B, RENAME_C = line(2, "-u64 b;", "+u64 other;"), line(2, "-u64 c;", "+u64 other;")
BOTH_NAMES = replace(NAMED, members=(("rq", ("b", "other"), frozenset({"x"})),))
PAIR = rules_of(clause(ClauseKind.ON_LINE, "a b", 0))
ROOM, LESS = (changed(A, replace(B, offset=4), *more, size=64) for more in ((), (replace(C, offset=12),)))
MANY = [Member(f"m{at}", "int", 64 * at, 4) for at in range(20)]
LATER = [replace(each, offset=each.offset + 64) for each in MANY[:19]]
FRESH = [Member(f"new{at}", "int", 68 + 64 * at, 4) for at in range(3)]

TOLD: tuple[tuple[str, Rules, bytes, Layout, Layout], ...] = (
    # It was silent when members moved in mm_struct or root_domain and no rule broke.
    ("moved, and new", NAMED, b"", ABC, changed(A, B, replace(C, offset=200), replace(C, name="new", offset=8))),
    ("as it was", NAMED, b"", ABC, ABC),
    (
        "at most six lines",
        rules_of(clause(ClauseKind.ALIGNED, "none")),
        line(1, "-int m19;", now=0),
        changed(*MANY, C, size=2048),
        changed(*LATER, *FRESH, replace(C, name="other"), size=2048),
    ),
    # `room among its members 62 -> 62 bytes, unused 62 -> 58 bytes` was not understood.
    ("less room", PAIR, b"", ROOM, LESS),
    # A patch that took the attribute from rq's clock passed where the member began a line by luck.
    ("alignment dropped", NAMED, UNALIGN, changed(A, ALIGNED), changed(A, B)),
    ("alignment dropped, no contract", NAMED, UNALIGN, changed(A, B, replace(C, align=64)), ABC),
    ("padding dropped", NAMED, NO_PAD, changed(A, B, PAD), changed(A, B)),
    ("padding not aligned", NAMED, NO_PAD, changed(A, B, PAD), changed(A, B, replace(PAD, align=1))),
    # An #undef before an #ifdef took members away in silence.
    ("no line removes it", NAMED, UNDEF, ABC, changed(A, B)),
    ("a line removes it", NAMED, NO_C, ABC, changed(A, B)),
    ("a contract names it", NAMED, NO_A, changed(A, B), changed(B)),
    ("a contract names it, and it goes elsewhere", NAMED, ELSEWHERE, changed(A, B), changed(B)),
    # It was told as an intruder on the line of the member's own.
    ("new name", NAMED, RENAME_B, changed(A, B), changed(A, OTHER)),
    ("new name that the contract has", BOTH_NAMES, RENAME_B, changed(A, B), changed(A, OTHER)),
    ("new name, no contract", NAMED, RENAME_C, ABC, changed(A, B, replace(C, name="other"))),
)


def test_what_is_told_of_members(golden: Golden) -> None:
    rows = [row for what, *given in TOLD for row in (f"# {what}", *findings(*given), "")]  # type: ignore[arg-type]
    golden("members.txt", "\n".join(map(str, [*rows, *redefined(UNDEF), ""])))
    assert list(redefined(NO_C)) == []


def test_quiet_tells_only_lines_that_changed_hands() -> None:
    within = changed(A, B, replace(C, offset=136))
    assert [row.note for row in findings(NAMED, b"", ABC, within)] == [True]
    assert findings(NAMED, b"", ABC, within, quiet=True) == []
    assert findings(NAMED, b"", ABC, changed(A, B, replace(C, offset=192)), quiet=True) != []


def test_a_structure_that_the_source_does_not_have_loses_no_member() -> None:
    """cpupri_leaf has a member of the name rto_count, too, and comes with a change that most trees lack."""
    named = replace(NAMED, members=(("leaf", ("a",), frozenset({"x"})),), files={"leaf": "x.h"})
    old, new = "struct rq {\n\tint a;\n};\n", "struct rq {\n};\n"
    assert not [*lost_members(named, {"x.h": old}.get, {"x.h": new}.get)]
    leaf = "struct leaf *leaf;\n"
    assert [*lost_members(named, {"x.h": leaf + old}.get, {"x.h": leaf + new}.get)]


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        (b"+++ b/kernel/sched/other.h\n@@ -1 +7 @@\n+u32 something;\n", ("kernel/sched/other.h", 7)),
        (b"+++ b/init/Kconfig\n@@ -1 +3 @@\n+bool\n", ("init/Kconfig", 3)),
        (b"--- a/x.h\n+++ b/x.h\n@@ -9,2 +9 @@\n-int x;\n", ("x.h", 9)),
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
    for member in ("more", "most"):
        (kernel / HEADER).write_text(SCHED_H.replace("nr_running;", f"nr_running, {member};"))
        git(kernel, "commit", "-q", "-a", "-m", member)
        tree = open_kdir(cache, kernel)
        before, after = steps(tree, compose(tree), patch)
        if member == "more":
            assert after == compose(tree).commit and "more" not in (tree.read(HEADER, before) or "")
    assert [before, after] == git(kernel, "rev-parse", "HEAD^^", "HEAD^").split()


def test_steps_of_a_tree_that_has_gone_on(kernel: Path, cache: Path) -> None:
    """In no commit of its own the patch changed nothing once more, and the tree was compared with itself."""
    text = SCHED_H.replace("struct rq {\n", "struct rq {\n\tint one;\n\tint two;\n\tint three;\n")
    (kernel / HEADER).write_text(text)
    git(kernel, "commit", "-q", "-a", "-m", "lines")
    (kernel / HEADER).write_text(text.replace("three;", "three, more;"))
    patch = git(kernel, "diff").encode()
    git(kernel, "commit", "-q", "-a", "-m", "more", "--allow-empty")
    (kernel / HEADER).write_text(text.replace("three;", "three, more;").replace("int one", "long one"))
    git(kernel, "commit", "-q", "-a", "--amend", "-m", "both")
    tree = open_kdir(cache, kernel)
    before, after = steps(tree, compose(tree), patch)
    assert "more" not in (tree.read(HEADER, before) or "") and "more" in (tree.read(HEADER, after) or "")


def test_steps_do_not_leave_a_change_behind(kernel: Path, cache: Path) -> None:
    """A patch that fits only the tree without a change is not judged there: the rules of the change would be n/a."""
    patch = diff_of(kernel, "more")
    tree = open_kdir(cache, kernel)
    assert steps(tree, compose(tree), patch)
    changed = apply_diff(tree, tree.base, diff_of(kernel, "____cacheline_aligned other"), "a change\n")
    assert changed
    with pytest.raises(SchedlineError, match=r"does not apply .* with the changes"):
        steps(tree, replace(compose(tree), commit=changed), patch)
    with pytest.raises(SchedlineError, match="does not apply"):
        steps(tree, compose(tree), PATCH)


@pytest.mark.parametrize("text", [b"hello\n", b"From: a\nSubject: [PATCH 0/3] cover\n\nno diff here\n"])
def test_text_without_a_diff_is_refused(text: bytes) -> None:
    with pytest.raises(SchedlineError, match="no diff"):
        require_diff(text)


ERROR = Finding("kernel/sched/sched.h", 1180, True, "rq-order.Q2", "rq-order.Q2: struct rq: is broken")
WARNING = Finding("kernel/sched/sched.h", 0, False, "rq-order.Q1", "rq-order.Q1 still holds")


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


def given(monkeypatch: pytest.MonkeyPatch, patch: bytes) -> None:
    """Let a patch be on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch)))


@pytest.mark.parametrize(("form", "empty"), [("b4", []), ("text", None)])
def test_a_patch_that_touches_no_header(
    form: str, empty: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, b"--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1 @@\n-a\n+b\n")
    assert main(["layout", "--patch", "-", "--format", form]) == 0
    said = capsys.readouterr().out
    assert (json.loads(said) if said else None) == empty


@pytest.mark.tools
def test_a_patch_that_does_not_apply_is_told_to_b4(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = toys.toy_tree(tmp_path / "linux")
    given(monkeypatch, f"--- a/{HEADER}\n+++ b/{HEADER}\n@@ -1 +1 @@\n-never there\n+b\n".encode())
    before = git(tree, "status", "--porcelain")
    with pytest.raises(Exception, match="does not apply"):
        main(["layout", "--kdir", str(tree), "--patch", "-", "--format", "b4"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "warn" and "does not apply" in row["summary"] and "next: " in row["details"]
    assert git(tree, "status", "--porcelain") == before
