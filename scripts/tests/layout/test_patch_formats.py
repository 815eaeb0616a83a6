# SPDX-License-Identifier: GPL-2.0
"""Findings in the forms of checkpatch, b4 and SARIF say the same."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import toys

from schedlib.contracts.contract_rules import our_rules
from schedlib.layout.patch_check import as_b4, render
from schedlib.layout.patch_findings import Finding
from schedlib.layout.patch_text import touches_layout
from schedlib.main import main

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


@pytest.mark.parametrize(
    ("heads", "at", "touches"), [("", "10", True), ("", "1", False), ("diff --git a/x.c b/x.c\n", "10", False)]
)
def test_a_hunk_without_a_heading_may_be_inside_of_a_structure(heads: str, at: str, touches: bool) -> None:
    """diff -u gives none; git does, where there is something above."""
    patch = f"{heads}--- a/x.c\n+++ b/x.c\n@@ -{at},2 +{at},3 @@\n \tint a;\n+\tint b;\n \tint c;\n"
    assert touches_layout(patch.encode()) == touches


@pytest.mark.tools
def test_a_patch_that_does_not_apply_is_told_to_b4(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = toys.toy_tree(tmp_path / "linux")
    patch = b"--- a/kernel/sched/sched.h\n+++ b/kernel/sched/sched.h\n@@ -1 +1 @@\n-never there\n+b\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch)))
    before = subprocess.run(["git", "-C", str(tree), "status", "--porcelain"], capture_output=True, check=True).stdout
    with pytest.raises(Exception, match="does not apply"):
        main(["layout", "--kdir", str(tree), "--patch", "-", "--format", "b4"])
    (row,) = json.loads(capsys.readouterr().out)
    assert row["status"] == "warn"
    assert "does not apply" in row["summary"]
    assert row["details"].startswith("next: ")
    after = subprocess.run(["git", "-C", str(tree), "status", "--porcelain"], capture_output=True, check=True).stdout
    assert before == after
