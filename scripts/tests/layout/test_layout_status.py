# SPDX-License-Identifier: GPL-2.0
"""Which changes a built kernel has: by layout, member or symbol, and never present without evidence."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import toys
from layout_command import document, said
from toys import toy

from conftest import SCHED_H
from schedlib.layout import status_verb
from schedlib.layout.rule_judge import Layout
from schedlib.layout.status import of_kernel, of_tree, symbols_of
from schedlib.paths import PROJECT
from schedlib.tree.kernel_tree import open_kdir
from schedlib.tree.source import Found, Presence, of_directory, of_source, readable, source_signs
from schedlib.verdict import Verdict

DATA = frozenset({"runqueues", "init_task"})
HEADER = "kernel/sched/sched.h"
MOVED = ("*pd;", "*pd ____cacheline_aligned;")


@pytest.fixture(autouse=True)
def nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the libraries of the Python that runs the tests."""
    monkeypatch.setattr(status_verb, "activate", lambda _: None)


def found(where: Layout, symbols: frozenset[str] | None = DATA) -> dict[str, Found]:
    """The finding for every change, by its id."""
    return {row.change: row for row in of_kernel(toys.real_rules(), where, symbols)}


def presence(where: Layout) -> dict[str, str]:
    """The presence of every change, by its id."""
    return {name: row.presence.value for name, row in found(where).items()}


@pytest.mark.parametrize(
    ("older", "change"), [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines"), ("TOGETHER", "cpupri-lines")]
)
def test_change_by_layout(older: str, change: str) -> None:
    there = dict.fromkeys(("rq-order", "rd-lines", "cpupri-lines"), "present")
    there |= {"cpupri-split": "n/a", "rq-readers": "absent", "cluster-scan": "absent"}
    assert (presence(toy()), presence(toy(older))) == (there, there | {change: "absent"})
    for where, word in ((toy(older), "unmet"), (toy(), "met")):
        evidence = found(where)[change].evidence
        assert evidence and all(text.startswith(f"{word}: struct ") for text in evidence)


def half() -> Layout:
    where = toy("OLD_RQ")
    rq, places = where.structures["rq"], {"nr_running": 0, "__lock": 512}
    members = tuple(replace(each, offset=places.get(each.name, each.offset)) for each in rq.members)
    return replace(where, structures={**where.structures, "rq": replace(rq, members=members)})


ALIGNMENT = "n/a: the alignment of a type is not recorded there"


@pytest.mark.parametrize(
    ("where", "change", "expected", "evidence"),
    [
        (half(), "rq-order", Presence.PARTIAL, {"met", "unmet"}),
        (toy("-CONFIG_SMP"), "cpupri-lines", Presence.NA, {"n/a: needs CONFIG_SMP"}),
        (toys.unaligned(toy()), "cpupri-lines", Presence.PRESENT, {"met", ALIGNMENT}),
        (
            replace(toy(), holds=toy().holds - {"CONFIG_SMP"}, unknown=frozenset({"CONFIG_SMP"})),
            "cpupri-lines",
            Presence.NA,
            {"n/a: whether it has CONFIG_SMP is not known without its configuration"},
        ),
        (toy("CONFIG_SCHED_CPUPRI_SPLIT"), "cpupri-split", Presence.PRESENT, {"met"}),
        (toy(), "cpupri-split", Presence.NA, {"n/a: needs CONFIG_SCHED_CPUPRI_SPLIT"}),
    ],
    ids=["half", "without SMP", "BTF", "no configuration", "chosen", "not chosen"],
)
def test_what_a_layout_tells(where: Layout, change: str, expected: Presence, evidence: set[str]) -> None:
    row = found(where)[change]
    assert row.presence is expected
    assert {text if text.startswith("n/a") else text.partition(":")[0] for text in row.evidence} == evidence


@pytest.mark.parametrize(
    ("symbols", "expected", "evidence"),
    [
        (DATA | {"sd_share_id"}, Presence.PRESENT, "the symbol sd_share_id is there"),
        (DATA, Presence.ABSENT, "there is no symbol sd_share_id"),
        (frozenset({"schedule"}), Presence.NA, "listed neither"),
        (frozenset({"sd_share_id"}), Presence.PRESENT, "is there"),
        (frozenset(), Presence.NA, "listed neither"),
        (None, Presence.NA, "listed neither"),
    ],
)
def test_change_by_symbol(symbols: frozenset[str] | None, expected: Presence, evidence: str) -> None:
    row = found(toy(), symbols)["cluster-scan"]
    assert row.presence is expected and len(row.evidence) == 1 and evidence in row.evidence[0]


def test_change_by_source(kernel: Path) -> None:
    assert {row.presence for row in of_directory(kernel)} == {Presence.ABSENT}
    toys.edit(kernel, HEADER, *MOVED)
    after = {row.change: row for row in of_directory(kernel)}
    assert after["rd-lines"].presence is Presence.PARTIAL
    assert after["rd-lines"].evidence == (
        "kernel/sched/sched.h has `*pd ____cacheline_aligned`",
        "kernel/sched/sched.h has no `overloaded ____cacheline_aligned` in `struct root_domain`",
    )
    assert {row.presence for name, row in after.items() if name != "rd-lines"} == {Presence.ABSENT}


@pytest.mark.parametrize("change", source_signs())
def test_signs_are_told_as_source_and_not_as_patterns(change: str) -> None:
    signs = source_signs()[change]
    for pattern in signs.patterns:
        assert re.search(pattern, readable(pattern)) and "\\" not in readable(pattern), pattern
    name = signs.place().removeprefix("struct ").removesuffix("()")
    assert re.fullmatch(r"\w+", name) and name in signs.start
    absent = dict.fromkeys((signs.file,), "struct other {\n};\n").get
    (row,) = (row for row in of_source(absent) if row.change == change)
    assert len(row.evidence) == len(signs.patterns)
    assert all(f"in `{signs.place()}`" in text for text in row.evidence)


def test_what_a_series_lacks_is_applied_by_a_check(kernel: Path, cache: Path) -> None:
    """`status` reported absent where `check` reports applied."""
    toys.edit(kernel, HEADER, *MOVED)
    tree = open_kdir(cache, kernel)
    rows = {row.change: row.evidence[-1] for row in of_tree(replace(tree, name="7.3", is_user=False))}
    how = "the source lacks it; `schedline check --series 7.3"
    assert rows["cpupri-lines"] == f"{how}` applies patches/7.3/cpupri-lines.patch"
    assert rows["cpupri-split"] == f"{how} --with cpupri-split` applies patches/7.3/cpupri-split.patch"
    for text in (rows["rd-lines"], rows["cluster-scan"], *(row.evidence[-1] for row in of_tree(tree))):
        assert "schedline check" not in text


OFFSET = ("rd-lines: applied", "    kernel/sched/sched.h: hunk #1 at line 9, offset 3 lines")
REJECTED = ("rd-lines: conflict", "    kernel/sched/sched.h: hunk #1 rejected", "--without rd-lines")


@pytest.mark.parametrize(
    ("source", "words", "verdict", "told"),
    [
        (SCHED_H, "", Verdict.PASS, ["rd-lines: applied", "cpupri-split: absent"]),
        (SCHED_H, "--without rd-lines", Verdict.PASS, ["rd-lines: left out"]),
        (SCHED_H, "--with cpupri-split", Verdict.ERROR, ["rd-lines: absent", "cpupri-split: conflict"]),
        ("/* one\n * two\n */\n" + SCHED_H, "", Verdict.PASS, OFFSET),
        (SCHED_H.replace(*MOVED), "", Verdict.PASS, ["rd-lines: upstream"]),
        (SCHED_H.replace("*pd;", "*domain;"), "", Verdict.ERROR, REJECTED),
    ],
    ids=["applied", "left out", "conflict", "offset", "upstream", "rejected"],
)
@pytest.mark.usefixtures("cache", "patches")
def test_how_the_carried_changes_apply(
    source: str, words: str, verdict: Verdict, told: list[str], kernel: Path
) -> None:
    (kernel / HEADER).write_text(source)
    found, text = said("status", "--kdir", str(kernel), "--apply", *words.split())
    assert found is verdict and all(each in text for each in told), text
    assert (kernel / HEADER).read_text() == source


@pytest.mark.parametrize("kind", ["git", "plain"])
def test_a_directory_is_read_without_a_tree_a_program_or_a_library(kind: str, kernel: Path, tmp_path: Path) -> None:
    """The first `status --kdir` of a plain directory took 113 s: it installed libraries and imported the whole tree."""
    if kind == "plain":
        shutil.rmtree(kernel / ".git")
    program = (
        f"import sys; sys.path[:0] = [{str(PROJECT / 'scripts')!r}, {str(PROJECT / 'scripts/tests')!r}]; "
        "from one_verb import main_of; from schedlib.layout import status_verb; "
        "print(main_of(status_verb)(['status', '--kdir', sys.argv[1]]))"
    )
    env = {"SCHEDLINE_CACHE": str(tmp_path / "none"), "PATH": "/nonexistent"}
    # -S hides the libraries of this Python.
    argv = [sys.executable, "-S", "-c", program, str(kernel)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{kernel}\nrq-order: absent\n") and done.stdout.endswith("\n0\n")
    assert not (tmp_path / "none").exists()


def test_answer_is_written(kernel: Path, cache: Path, tmp_path: Path) -> None:
    found = document(tmp_path / "x.json", "status", "--kdir", str(kernel))
    assert (found["schema"], found["kernel"]) == ("status-1", str(kernel))
    assert {row["id"] for row in found["changes"]} == set(source_signs())
    assert not (cache / "trees").exists()


def test_symbols(tmp_path: Path) -> None:
    toys.needs("strip")
    (tmp_path / "v.c").write_text(
        "int runqueues;\nstatic int sd_share_id = 1;\nint *user(void) { return &sd_share_id; }\n"
    )
    vmlinux = tmp_path / "vmlinux"
    assert toys.gcc(tmp_path / "v.c", vmlinux).returncode == 0
    names = symbols_of(vmlinux)
    assert names is not None and {"runqueues", "sd_share_id", "user"} <= names and "" not in names
    assert found(toy(), names)["cluster-scan"].presence is Presence.PRESENT
    subprocess.run(["strip", "-s", str(vmlinux)], check=True)
    for number, data in enumerate((b"", b"\x7fELF", b"\x9f\xeb\x01\x00", b"text\n")):
        (tmp_path / str(number)).write_bytes(data)
    for place in ("vmlinux", "", "missing", *map(str, range(4))):
        assert symbols_of(tmp_path / place) is None, place
