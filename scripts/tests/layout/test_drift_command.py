# SPDX-License-Identifier: GPL-2.0
"""`schedline layout drift` on toy kernels: from the trees to the verdict and the document."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import toys
from layout_command import read, run
from test_packs import FILES, POLL, THING

from conftest import git, write_files
from schedlib.contracts.contract_rules import pack_rules
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.layout import pack_units
from schedlib.layout.columns import composed_tree, pack_columns
from schedlib.layout.drift import LayoutDriftDocument
from schedlib.layout.kernel_text import declaring_files, text_of_commit
from schedlib.options import ChangeOptions, TreeOptions
from schedlib.verdict import Verdict


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy kernel with a public and a private structure."""
    made = toys.toy_tree(tmp_path_factory.mktemp("kernels") / "old")
    write_files(made, FILES)
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "structures")
    return made


@pytest.fixture
def contracts(tmp_path: Path) -> Path:
    write_files(tmp_path / "mine", {"thing.toml": THING, "poll.toml": POLL})
    return tmp_path / "mine"


@pytest.fixture
def newer(base: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base, tmp_path / "new")


def edit(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert text.count(old) == 1
    (tree / file).write_text(text.replace(old, new))


def drift(base: Path, newer: Path, contracts: Path, *more: str) -> tuple[Verdict, dict[str, Any]]:
    """The verdict and the document of both trees, with the contracts of the scheduler and of a directory."""
    out = contracts.parent / "out.json"
    words = ["layout", "drift", str(base), str(newer), "--pack", "sched", "--contracts", str(contracts)]
    verdict = run(*words, "--json", str(out), *more)
    document.read(out, LayoutDriftDocument, "")
    return verdict, json.loads(out.read_text())


def rules(found: dict[str, Any], kind: str) -> set[str]:
    """The rules of the findings of a kind."""
    return {rule for each in found["findings"] if each["kind"] == kind for rule in each["rules"]}


def test_equal_kernels(
    base: Path, newer: Path, contracts: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict, found = drift(base, newer, contracts)
    assert (verdict, found["status"], found["findings"], found["moves"]) == (Verdict.PASS, "PASS", [], [])
    said = capsys.readouterr().out
    assert "nothing to look at in" in said and "poll" in said and said.endswith("verdict: PASS\n")
    assert {cell["contract"] for cell in found["cells"]} >= {"rq", "root_domain", "cpupri", "poll", "thing"}


def test_broken_rules(
    base: Path, newer: Path, contracts: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule of a pack, and a change of ours that went away: it is judged as part of the same unit."""
    edit(newer, "fs/private.c", "u32 lock;", "u32 lock; char big[64];")
    verdict, found = drift(base, newer, contracts)
    assert verdict is Verdict.FAIL
    [row] = [each for each in found["findings"] if each["kind"] == "broken"]
    assert (row["contract"], row["rules"], row["members"]) == ("poll", ["poll.G1"], ["list"])
    assert [each["member"] for each in found["moves"] if each["named"]] == ["list"]
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100 or "/" in max(said.splitlines(), key=len)
    assert re.search(r"poll +x86_64 +1 pass +FAIL G1|poll +1 pass +FAIL G1", said)
    edit(newer, "kernel/sched/sched.h", "#pragma once\n", "#pragma once\n#define OLD_RQ 1\n")
    verdict, found = drift(base, newer, contracts)
    assert verdict is Verdict.FAIL and {"rq-order.Q1", "rq-order.Q2", "poll.G1"} <= rules(found, "broken")
    # Mended, it is no failure: these rules come.
    verdict, found = drift(newer, base, contracts)
    assert verdict is Verdict.PASS and "rq-order.Q1" in rules(found, "came")


def test_built_kernels(base: Path, contracts: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def built(name: str, poll: str) -> str:
        place = contracts.parent / name
        place.mkdir()
        text = "#include <linux/types.h>\n" + toys.SCHED_H.replace('#include "cpudeadline.h"', "")
        text += FILES["include/linux/thing.h"] + poll
        (place / "x.c").write_text(text + "struct rq a; struct root_domain b; struct thing c; struct poll d;")
        assert toys.gcc(place / "x.c", place / "vmlinux", "-g", *toys.defines()).returncode == 0
        return str(place / "vmlinux")

    old = built("a", "struct poll { u32 lock; void *list; };")
    new = built("b", "struct poll { u32 lock, x[32]; void *list; };")
    words = ["--pack", "sched", "--contracts", str(contracts)]
    assert run("layout", "drift", old, new, *words) is Verdict.FAIL
    assert "poll.G1" in capsys.readouterr().out
    assert run("layout", "drift", old, str(base), *words) is Verdict.PASS
    capsys.readouterr()
    # None is of this architecture: nothing is compared, and that is no PASS.
    assert run("layout", "drift", old, new, *words, "--arch", "arm64") is Verdict.INCONCLUSIVE
    said = " ".join(capsys.readouterr().out.split())
    assert "it is of x86_64, which is not compared here" in said and "not compared: two kernels" in said


def test_a_structure_that_an_older_tree_declares_elsewhere(
    base: Path, newer: Path, contracts: Path, cache: Path
) -> None:
    """Contracts name the file of a new kernel."""
    (newer / "include/linux/thing.h").rename(newer / "include/linux/thing_types.h")
    text = (contracts / "thing.toml").read_text().replace("include/linux/thing.h", "include/linux/thing_types.h")
    (contracts / "thing.toml").write_text(text)
    git(newer, "add", "-A")
    git(newer, "commit", "-q", "-m", "moved")
    verdict, found = drift(base, newer, contracts)
    assert verdict is Verdict.PASS
    assert [cell["passed"] for cell in found["cells"] if cell["contract"] == "thing"] == [["thing.G1"]] * 2
    assert found["findings"] == []


def test_a_file_that_does_not_build_is_left_out(base: Path, newer: Path, contracts: Path, cache: Path) -> None:
    """One header of an old kernel that does not stand alone must not hide all others."""
    write_files(newer, {"include/linux/other.h": "struct other { struct lacking it; };\n"})
    write_files(contracts, {"other.toml": THING.replace("thing", "other").replace("read", "it")})
    git(newer, "add", "-A")
    git(newer, "commit", "-q", "-m", "other")
    packed = pack_rules((), (contracts,))
    tree, composition = composed_tree(TreeOptions(newer, None), ChangeOptions())
    [column] = pack_columns(["x86_64"], [])
    assert declaring_files(text_of_commit(tree, composition.commit), packed.files)["other"] == "include/linux/other.h"
    with pytest.raises(SchedlineError, match="does not build"):
        pack_units.pack_layout(cache, tree, composition.commit, column, packed)
    for _ in range(2):
        left_out: list[str] = []
        layout = pack_units.pack_layout(cache, tree, composition.commit, column, packed, left_out=left_out)
        assert set(layout.structures) == {"thing", "poll"}
        [said] = left_out
        assert said.startswith("include/linux/other.h: ") and "incomplete type" in said
    verdict, found = drift(base, newer, contracts)
    assert verdict is Verdict.PASS and any(
        "x86_64: include/linux/other.h" in note for note in found["kernels"][1]["notes"]
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("7.3", "7.3 alone cannot drift"),
        ("7.2 7.3 7.2", "7.2 is named twice"),
        ("empty .", "is no kernel tree"),
        ("text more --pack sched", "neither an ELF file nor BTF"),
    ],
)
def test_wrong_operands(words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_files(tmp_path, {"text": "no kernel", "more": "no kernel"})
    with pytest.raises(SchedlineError, match=message):
        run("layout", "drift", *words.split())


def test_an_operand_that_is_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        read("layout", "drift", "7.3", "8.1")
    assert "8.1: no such file or directory, and it is no series (7.3, 7.2, 6.12, 6.1)" in capsys.readouterr().err
