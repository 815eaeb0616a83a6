# SPDX-License-Identifier: GPL-2.0
"""Which changes a built kernel has: by layout, member or symbol, and never present without evidence."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import layout_command
import pytest
import toys
from toys import toy

from conftest import SCHED_H, git
from schedlib.errors import SchedlineError
from schedlib.layout import status_verb
from schedlib.layout.rule_judge import Layout
from schedlib.layout.status import of_kernel, of_tree, symbols_of
from schedlib.paths import PROJECT
from schedlib.tree import changes, compose
from schedlib.tree.kernel_tree import open_kdir
from schedlib.tree.source import Found, Presence, of_directory, of_source, readable, source_signs
from schedlib.verdict import Verdict

DATA = frozenset({"runqueues", "init_task"})


@pytest.fixture(autouse=True)
def nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the libraries of the Python that runs the tests."""
    monkeypatch.setattr(status_verb, "activate", lambda _: None)


def found(where: Layout, symbols: frozenset[str] | None = DATA) -> dict[str, Found]:
    """The finding for every change, by its id."""
    return {row.change: row for row in of_kernel(toys.real_rules(), where, symbols)}


def presence(where: Layout, symbols: frozenset[str] | None = DATA) -> dict[str, str]:
    """The presence of every change, by its id."""
    return {name: row.presence.value for name, row in found(where, symbols).items()}


def test_toy_kernel() -> None:
    there = dict.fromkeys(("rq-order", "rd-lines", "cpupri-lines"), "present")
    assert presence(toy()) == there | {"cpupri-split": "n/a", "rq-readers": "absent", "cluster-scan": "absent"}


@pytest.mark.parametrize(
    ("older", "change"), [("OLD_RQ", "rq-order"), ("OLD_RD", "rd-lines"), ("TOGETHER", "cpupri-lines")]
)
def test_change_by_layout(older: str, change: str) -> None:
    assert presence(toy()) | {change: "absent"} == presence(toy(older))
    evidence = found(toy(older))[change].evidence
    assert evidence and all(text.startswith("unmet: struct ") for text in evidence)
    assert all(text.startswith("met: struct ") for text in found(toy())[change].evidence)


def test_part_of_a_change() -> None:
    where = toy("OLD_RQ")
    rq, places = where.structures["rq"], {"nr_running": 0, "__lock": 512}
    members = tuple(replace(each, offset=places.get(each.name, each.offset)) for each in rq.members)
    half = replace(where, structures={**where.structures, "rq": replace(rq, members=members)})
    row = found(half)["rq-order"]
    assert row.presence is Presence.PARTIAL
    assert [text.partition(":")[0] for text in row.evidence] == ["met", "unmet", "unmet"]


def test_change_that_cannot_be_told() -> None:
    row = found(toy("-CONFIG_SMP"))["cpupri-lines"]
    assert (row.presence, set(row.evidence)) == (Presence.NA, {"n/a: needs CONFIG_SMP"})
    row = found(toys.unaligned(toy()))["cpupri-lines"]
    assert row.presence is Presence.PRESENT
    assert "n/a: the alignment of a type is not recorded there" in row.evidence
    unknown = replace(toy(), holds=toy().holds - {"CONFIG_SMP"}, unknown=frozenset({"CONFIG_SMP"}))
    assert found(unknown)["cpupri-lines"].presence is Presence.NA


def test_split_masks_show_where_they_are_chosen() -> None:
    assert found(toy("CONFIG_SCHED_CPUPRI_SPLIT"))["cpupri-split"].presence is Presence.PRESENT
    assert found(toy())["cpupri-split"] == Found("cpupri-split", Presence.NA, ("n/a: needs CONFIG_SCHED_CPUPRI_SPLIT",))


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
    assert row.presence is expected
    assert len(row.evidence) == 1 and evidence in row.evidence[0]


def test_change_by_source(kernel: Path) -> None:
    before = {row.change: row for row in of_directory(kernel)}
    assert {row.presence for row in before.values()} == {Presence.ABSENT}
    header = kernel / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace("*pd;", "*pd ____cacheline_aligned;"))
    after = {row.change: row for row in of_directory(kernel)}
    assert after["rd-lines"].presence is Presence.PARTIAL
    assert after["rd-lines"].evidence == (
        "kernel/sched/sched.h has `*pd ____cacheline_aligned`",
        "kernel/sched/sched.h has no `overloaded ____cacheline_aligned` in `struct root_domain`",
    )
    assert after["rq-order"].presence is Presence.ABSENT
    assert after["cluster-scan"].evidence
    assert all("kernel/sched/fair.c has no `" in text for text in after["cluster-scan"].evidence)


@pytest.mark.parametrize("change", source_signs())
def test_signs_are_told_as_source_and_not_as_patterns(change: str) -> None:
    signs = source_signs()[change]
    for pattern in signs.patterns:
        assert re.search(pattern, readable(pattern)), pattern
        assert "\\" not in readable(pattern)
    name = signs.place().removeprefix("struct ").removesuffix("()")
    assert re.fullmatch(r"\w+", name) and name in signs.start
    absent = dict.fromkeys((signs.file,), "struct other {\n};\n").get
    (row,) = (row for row in of_source(absent) if row.change == change)
    assert len(row.evidence) == len(signs.patterns)
    assert all(f"in `{signs.place()}`" in text for text in row.evidence)


def test_what_a_series_lacks_is_applied_by_a_check(kernel: Path, cache: Path) -> None:
    """`status` reported absent where `check` reports applied."""
    header = kernel / "kernel/sched/sched.h"
    header.write_text(header.read_text().replace("*pd;", "*pd ____cacheline_aligned;"))
    tree = open_kdir(cache, kernel)
    rows = {row.change: row.evidence[-1] for row in of_tree(replace(tree, name="7.3", is_user=False))}
    how = "the source lacks it; `schedline check --series 7.3"
    assert rows["cpupri-lines"] == f"{how}` applies patches/7.3/cpupri-lines.patch"
    assert rows["cpupri-split"] == f"{how} --with cpupri-split` applies patches/7.3/cpupri-split.patch"
    for text in (rows["rd-lines"], rows["cluster-scan"], *(row.evidence[-1] for row in of_tree(tree))):
        assert "schedline check" not in text


@pytest.fixture
def patches(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A patch set for the small tree: rd-lines applies, and the optional cpupri-split does not."""
    directory = tmp_path / "patches"
    (directory / "7.3").mkdir(parents=True)
    (directory / "7.3/series").write_text("rd-lines\ncpupri-split optional\n")
    (kernel / "kernel/sched/sched.h").write_text(SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;"))
    git(kernel, "commit", "-q", "-a", "-m", "sched/rt: Move pd")
    (directory / "7.3/rd-lines.patch").write_text(git(kernel, "format-patch", "--stdout", "-1"))
    git(kernel, "reset", "-q", "--hard", "HEAD^")
    monkeypatch.setattr(changes, "PATCHES", directory)
    monkeypatch.setattr(compose, "PATCHES", directory)
    return directory


@pytest.mark.parametrize(
    ("source", "words", "verdict", "said"),
    [
        (SCHED_H, [], Verdict.PASS, ["rd-lines: applied", "cpupri-split: absent"]),
        (SCHED_H, ["--without", "rd-lines"], Verdict.PASS, ["rd-lines: left out"]),
        (SCHED_H, ["--with", "cpupri-split"], Verdict.ERROR, ["rd-lines: absent", "cpupri-split: conflict"]),
        (
            "/* one\n * two\n */\n" + SCHED_H,
            [],
            Verdict.PASS,
            ["rd-lines: applied", "    kernel/sched/sched.h: hunk #1 at line 9, offset 3 lines"],
        ),
        (SCHED_H.replace("*pd;", "*pd ____cacheline_aligned;"), [], Verdict.PASS, ["rd-lines: upstream"]),
        (
            SCHED_H.replace("*pd;", "*domain;"),
            [],
            Verdict.ERROR,
            ["rd-lines: conflict", "    kernel/sched/sched.h: hunk #1 rejected", "--without rd-lines"],
        ),
    ],
)
def test_how_the_carried_changes_apply(
    source: str,
    words: list[str],
    verdict: Verdict,
    said: list[str],
    kernel: Path,
    cache: Path,
    patches: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    header = kernel / "kernel/sched/sched.h"
    header.write_text(source)
    assert layout_command.run("status", "--kdir", str(kernel), "--apply", *words) is verdict
    out = capsys.readouterr().out
    assert all(text in out for text in said), out
    assert header.read_text() == source


@pytest.mark.parametrize("kind", ["git", "plain"])
def test_a_directory_is_read_without_a_tree_a_program_or_a_library(kind: str, kernel: Path, tmp_path: Path) -> None:
    """The first `status --kdir` of a plain directory took 113 s: it installed libraries and imported the whole tree."""
    if kind == "plain":
        shutil.rmtree(kernel / ".git")
    program = (
        f"import sys; sys.path[:0] = [{str(PROJECT / 'scripts')!r}, {str(Path(__file__).parent)!r}]; "
        "import layout_command; print(layout_command.run('status', '--kdir', sys.argv[1]))"
    )
    env = {"SCHEDLINE_CACHE": str(tmp_path / "none"), "PATH": "/nonexistent"}
    # -S hides the libraries of this Python.
    argv = [sys.executable, "-S", "-c", program, str(kernel)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{kernel}\nrq-order: absent\n")
    assert done.stdout.endswith("Verdict.PASS\n")
    assert not (tmp_path / "none").exists()


def test_answer_is_written(kernel: Path, cache: Path, tmp_path: Path) -> None:
    assert layout_command.run("status", "--kdir", str(kernel), "--json", str(tmp_path / "x.json")) is Verdict.PASS
    document = json.loads((tmp_path / "x.json").read_text())
    assert (document["schema"], document["kernel"]) == ("status-1", str(kernel))
    assert {row["id"] for row in document["changes"]} == set(source_signs())
    assert not (cache / "trees").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--running", "--kdir", "."],
        ["--vmlinux", "/bin/sh", "--series", "7.3"],
        ["--running", "--apply"],
        ["--kdir", ".", "--with", "rd-lines"],
        ["--kdir", ".", "--apply", "--json", "x.json"],
    ],
)
def test_options_that_contradict_each_other(words: list[str]) -> None:
    with pytest.raises(SchedlineError):
        layout_command.read("status", *words)


def vmlinux(directory: Path) -> Path:
    """An object with two symbols."""
    source = directory / "v.c"
    source.write_text("int runqueues;\nstatic int sd_share_id = 1;\nint *user(void) { return &sd_share_id; }\n")
    assert toys.gcc(source, directory / "vmlinux").returncode == 0
    return directory / "vmlinux"


def test_symbols(tmp_path: Path) -> None:
    names = symbols_of(vmlinux(tmp_path))
    assert names is not None
    assert {"runqueues", "sd_share_id", "user"} <= names
    assert "" not in names
    assert found(toy(), names)["cluster-scan"].presence is Presence.PRESENT


def test_symbols_that_cannot_be_had(tmp_path: Path) -> None:
    toys.needs("strip")
    path = vmlinux(tmp_path)
    subprocess.run(["strip", "-s", str(path)], check=True)
    assert symbols_of(path) is None
    assert symbols_of(tmp_path) is None
    assert symbols_of(tmp_path / "missing") is None
    for data in (b"", b"\x7fELF", b"\x9f\xeb\x01\x00", b"text\n"):
        (tmp_path / "x").write_bytes(data)
        assert symbols_of(tmp_path / "x") is None
