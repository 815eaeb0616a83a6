# SPDX-License-Identifier: GPL-2.0
"""A typing error in a data file is an error that names file, line, key and the nearest valid name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from schedlib import names
from schedlib.c2c.memory_map import slab_types
from schedlib.c2c.show_job import Shown
from schedlib.c2c.traffic_diff import load_metrics
from schedlib.console.known_races import explained
from schedlib.dev.generated_mutants import MutantData, equivalents
from schedlib.doctor import compilers
from schedlib.errors import SchedlineError
from schedlib.fleet.fleet_jobs import read_device
from schedlib.formats.contract_file import read_contract
from schedlib.formats.data_file import line_of, read_toml
from schedlib.formats.strict import Amount, Strict, Word, Wrong, check_patterns
from schedlib.gate.rules import load_gate
from schedlib.kernel.topology import Topology
from schedlib.layout.compile import LayoutData
from schedlib.layout.variables import VariableContracts
from schedlib.names import arch_names, change_ids, workload_rows
from schedlib.paths import CONFIGS
from schedlib.runs.workload_suites import Suite
from schedlib.suggest.suggest_job import fixed_members
from schedlib.tree.changes import Change
from schedlib.tree.debian import Series
from schedlib.tree.source import source_signs
from schedlib.tree.suites import Feature, KunitSuite


class Fruit(Enum):
    APPLE = "apple"
    PEAR = "pear"


class Row(Strict, frozen=True):
    name: Word
    weight: Amount = 1.0
    fruit: Fruit = Fruit.APPLE
    side: Literal["left", "right"] = "left"
    words: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1)] = ("a",)
    pattern: str = ""

    def __post_init__(self) -> None:
        check_patterns(self.pattern)
        if self.weight == 13:
            raise Wrong("weighs 13, which is unlucky", "write 12")


class Basket(Strict, frozen=True):
    about: str
    rows: dict[str, Row] = msgspec.field(default_factory=dict)
    list: tuple[Row, ...] = ()


GOOD = """\
about = "x"

[rows.one]
weight = 3
words = [
  "a",
  "b",
]

[rows.two]   # more
side = "right"

[[list]]
name = "l1"

[[list]]
name = "l2"
fruit = "pear"
"""


def read(directory: Path, text: str) -> Basket:
    (directory / "basket.toml").write_text(text)
    return read_toml(directory / "basket.toml", Basket, keys="name", below=("rows",))


def test_a_table_gets_its_name(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert [row.name for row in (*found.rows.values(), *found.list)] == ["one", "two", "l1", "l2"]
    assert found.list[1].fruit is Fruit.PEAR


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("about", "abuot", "1: abuot is unknown\n  next: did you mean about? known are: about, list, rows"),
        ('about = "x"\n', "", "1: the file lacks about"),
        (
            "weight = 3",
            "wieght = 3",
            "4: rows.one.wieght is unknown\n  next: did you mean weight? known are: fruit, pa",
        ),
        ("weight = 3", 'weight = "3"', "4: rows.one.weight is '3'\n  next: write a number"),
        ("weight = 3", "weight = true", "4: rows.one.weight is 'True'\n  next: write a number"),
        ("weight = 3", "weight = -1", "4: rows.one.weight is '-1'\n  next: write a number >= 0"),
        ("weight = 3", "weight = nan", "4: rows.one.weight is 'nan'\n  next: write a number >= 0"),
        ("weight = 3", "weight = inf", "4: rows.one.weight is 'inf'\n  next: write a number <= "),
        ("weight = 3", "weight = 13", "3: rows.one weighs 13, which is unlucky\n  next: write 12"),
        ("weight = 3", "name = 'one'", "4: rows.one.name is unknown\n  next: leave it out: the name is one"),
        ("weight = 3", "pattern = '('", "3: rows.one has '(', which is no regular expression: missing )"),
        ('  "b",', "  5,", "5: rows.one.words is '5'\n  next: write text"),
        ('"right"', '"rigth"', "11: rows.two.side is 'rigth'\n  next: did you mean right? known are: left, right"),
        ('"pear"', '"bear"', "18: list.fruit is 'bear'\n  next: did you mean pear? known are: apple, pear"),
        ('"l2"', '""', "17: list.name is ''\n  next: write text of length >= 1"),
        ('name = "l2"\n', "", "16: list lacks name\n  next: add name = ..."),
        ("[rows.two]", "[row.two]", "10: row is unknown\n  next: did you mean rows?"),
        ("[[list]]", "[list]", "toml is no TOML: "),
        ("[rows.one]", "[rows.one", "at line 3, column 10"),
        ("[rows.two]", "[rows]\ntwo = 3\n[z]", "11: rows.two is '3'\n  next: write a table"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(SchedlineError, match=re.escape(said)) as error:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert str(tmp_path / "basket.toml") in str(error.value)


ODD = '''\
a.b = 1
"a b" = {c = 1, d = [2, 3]}
text = """
x = 1
[y]
"""
[[t]]
x = [ # [z]
  1,

  2, ]
# x = 3

[t.u]
x = "#"
[[t]]
u.x = \'\'\'
u = 1\'\'\'
'''


def test_lines_of_all_that_toml_has() -> None:
    expected = {
        ("a",): 1,
        ("a", "b"): 1,
        ("a b", "d"): 2,
        ("text",): 3,
        ("t",): 7,
        ("t", 0, "x"): 8,
        ("t", 0, "x", 1): 8,
        ("t", 0, "u"): 14,
        ("t", 0, "u", "x"): 15,
        ("t", 1): 16,
        ("t", 1, "u", "x"): 17,
        ("t", 1, "nothing"): 16,
        ("nothing",): 1,
    }
    for text in (ODD, ODD.replace("\n", "\r\n"), ODD.rstrip("\n")):
        assert {place: line_of(text, place) for place in expected} == expected


def test_a_file_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    with (tmp_path / "big.toml").open("wb") as file:
        file.truncate(3 << 30)
    (tmp_path / "deep.toml").write_text("x = " + "[" * 100_000)
    (tmp_path / "bytes.toml").write_bytes(b"x = '\xff'")
    for name, said in (
        ("pipe", "no regular file"),
        ("zero", "no regular file"),
        ("big", "more than"),
        ("deep", "is no TOML"),
        ("bytes", "is no TOML"),
        ("nothing", "No such file"),
    ):
        with pytest.raises(SchedlineError, match=said):
            read_toml(tmp_path / f"{name}.toml", Basket)


READERS: dict[str, Callable[[Path], object]] = {
    "changes.toml": lambda path: read_toml(path, dict[str, Change], keys="id"),
    "features.toml": lambda path: read_toml(path, dict[str, Feature]),
    "shown.toml": lambda path: read_toml(path, dict[str, Shown]),
    "suites.toml": lambda path: read_toml(path, dict[str, KunitSuite], keys="name"),
    "series.toml": lambda path: read_toml(path, dict[str, Series], keys="name"),
    "layout.toml": lambda path: read_toml(path, LayoutData, keys="name", below=("arch", "group")),
    "known-races.toml": lambda path: explained((), path),
    "topologies": lambda path: read_toml(path, Topology, stem="name"),
    "workloads": lambda path: read_toml(path, Suite, stem="name", keys="name", below=("rows",)),
    "contracts": read_contract,
    "contracts/variables.toml": lambda path: read_toml(path, VariableContracts),
    "gates": lambda path: load_gate(str(path)),
    "gates/c2c.toml": load_metrics,
    "slab-types.toml": slab_types,
    "fixed-members.toml": fixed_members,
    "fleet": read_device,
    "generated-mutants.toml": lambda path: read_toml(path, MutantData),
    "equivalent-mutants.toml": equivalents,
}
"""The reader of each file or folder in configs/."""


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.toml")), ids=lambda path: path.stem)
def test_each_key_of_each_file_can_be_mistyped(path: Path, tmp_path: Path) -> None:
    name = str(path.relative_to(CONFIGS))
    read = READERS.get(name) or READERS[name.split("/")[0]]
    read(path)
    lines = path.read_text().splitlines()
    keys = {found[1]: number for number, line in enumerate(lines) if (found := re.match(r"(\w+) = ", line))}
    for key, number in keys.items():
        wrong = [*lines[:number], lines[number].replace(key, key[:-1] + "_", 1), *lines[number + 1 :]]
        (tmp_path / path.name).write_text("\n".join(wrong))
        with pytest.raises(SchedlineError, match=f"(?s){path.name}:{number + 1}: .*{key[:-1]}_ is unknown.* {key}"):
            read(tmp_path / path.name)


@pytest.mark.parametrize(
    ("file", "old", "new", "read"),
    [
        ("changes.toml", "patterns", "paterns", source_signs),
        ("changes.toml", "[rq-order]", "[rq-order", change_ids),
        ("layout.toml", "compiler =", "compilr =", compilers),
        ("layout.toml", "[arch.", "[arhc.", arch_names),
        ("workloads/rt.toml", "about = ", "include = 5\nabout = ", lambda: workload_rows("rt")),
    ],
)
def test_what_is_read_without_a_library_is_no_traceback_either(
    file: str, old: str, new: str, read: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text((CONFIGS / file).read_text().replace(old, new))
    monkeypatch.setattr(names, "CONFIGS", tmp_path)
    with pytest.raises(SchedlineError, match=f"{file} is damaged"):
        read()


def test_the_name_that_a_file_gives_is_not_a_key_of_it(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "other"\nabout = "x"\n')
    with pytest.raises(SchedlineError, match=r"mine\.toml:1: name is unknown"):
        read_toml(tmp_path / "mine.toml", Suite, stem="name", keys="name", below=("rows",))
