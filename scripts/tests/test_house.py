# SPDX-License-Identifier: GPL-2.0
"""The structure of the package: imports go one way, names are unique, and some formats belong to one module alone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import schedlib

PACKAGE = Path(schedlib.__file__).parent

FLOW = ("contracts", "tree", "kernel", "guest", "console")
"""Each folder may import those before it, and formats."""

FORMATS = "formats"
"""The form of documents. Every folder may import it, and it imports none of them."""

JOBS = ("check", "layout", "c2c", "suggest", "runs", "gate", "fleet", "export", "premerge", "dev")
"""Each may import all of FLOW, and another job only for the reason in JOBS_USE."""

JOBS_USE = {
    ("check", "layout"): "a kernel's verdict on a layout rule is held against its object, and a mutant may break one",
    ("c2c", "layout"): "one reader of debug information knows where fields lie",
    ("suggest", "c2c"): "the accesses of traces are played again, and a kernel with the suggestion is counted",
    ("suggest", "layout"): "the promises of contracts have to hold",
    ("runs", "layout"): "a placebo has to have the candidate's sizes",
    ("gate", "runs"): "files of other tools are read by the parsers that read the tools' outputs",
    ("fleet", "gate"): "a plan of boots becomes jobs",
    ("fleet", "runs"): "a job makes the runs of a suite",
    ("dev", "premerge"): "the schema of its document is printed",
    ("premerge", "check"): "the suites run on base and head, and the mutants of what the series touches",
    ("premerge", "layout"): "the rules are judged on base and head",
    ("premerge", "c2c"): "the traffic of base and head is compared",
    ("premerge", "gate"): "runs of a real machine are judged",
    ("premerge", "runs"): "revisions are named as those of the kernels that are to run",
    ("dev", "check"): "the benchmark and the mutants boot what a check boots",
    ("dev", "layout"): "the benchmark times it",
    ("dev", "c2c"): "its cost is measured, and mutants may raise the traffic",
    ("dev", "runs"): "its workloads' cost is measured",
    ("dev", "export"): "the exported series is tried in a plain tree",
    ("dev", "gate"): "its false alarms and its power are measured",
}

MOST_AT_THE_TOP = 14

ONE_PLACE = {
    r"<svg xmlns": "formats/svg.py",
    r'"\|---"': "formats/tables.py",
    r'"testsuites?"': "formats/junit.py",
    r'b"GNU"|NT_GNU_BUILD_ID|Build ID:': "kernel/machine.py",
    r"random/boot_id": "kernel/machine.py",
    r"model name": "kernel/machine.py",
    r'"-nodefaults"|"-append"|"-initrd"': "guest/command_line.py",
}
"""Text that only one module may write or read."""


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the package, by its name inside it: `layout.emit`, or `cache` at the top."""
    found = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in found}


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """The package's modules that each module imports, also inside functions."""
    return {name: frozenset(imported(path)) for name, path in modules().items()}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "schedlib":
            for alias in node.names:
                full = f"{node.module}.{alias.name}".partition(".")[2]
                yield full if full in modules() else full.rpartition(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.startswith("schedlib."))


def folder(module: str) -> str:
    return module.partition(".")[0] if "." in module else ""


def is_verb(module: str) -> bool:
    return module.endswith("_verb")


def edges() -> Iterator[tuple[str, str]]:
    """Imports between modules, except those of main.py and of verbs, which may import everything."""
    for module, others in imports().items():
        if module != "main" and not is_verb(module):
            yield from ((module, other) for other in others)


def test_the_house_is_looked_at() -> None:
    assert len(modules()) > 100
    assert {folder(module) for module in modules()} == {"", *FLOW, FORMATS, *JOBS}
    assert "kernel.build" in imports()["guest.selftests"]


def test_module_names_are_unique() -> None:
    names = Counter(module.rpartition(".")[2] for module in modules())
    assert [name for name, count in names.items() if count > 1] == []


def test_public_class_names_are_unique() -> None:
    found: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_every_parser_is_in_a_verb() -> None:
    parsers = {
        module for module, path in modules().items() if re.search(r"^def add_parsers?\(", path.read_text(), re.M)
    }
    assert parsers == {module for module in modules() if is_verb(module)}


def test_data_flows_one_way() -> None:
    back = []
    for module, other in edges():
        one, two = folder(module), folder(other)
        if two in ("", one) or (two == FORMATS and one):
            continue
        allowed = FLOW[: FLOW.index(one)] if one in FLOW else FLOW if one in JOBS else ()
        if two not in allowed and (one, two) not in JOBS_USE:
            back.append(f"{module} imports {other}")
    assert back == []


def test_no_job_may_use_another_in_vain() -> None:
    used = {(folder(module), folder(other)) for module, others in imports().items() for other in others}
    assert set(JOBS_USE) - used == set()


def test_no_imports_form_a_cycle() -> None:
    graph, ended = dict(imports()), set[str]()

    def cycle(module: str, path: tuple[str, ...]) -> tuple[str, ...]:
        if module in path:
            return (*path[path.index(module) :], module)
        if module in ended:
            return ()
        found = next(filter(None, (cycle(each, (*path, module)) for each in sorted(graph.get(module, ())))), ())
        ended.add(module)
        return found

    assert next(filter(None, (cycle(module, ()) for module in graph)), ()) == ()


def test_the_top_has_room_for_few() -> None:
    assert len([module for module in modules() if not folder(module)]) <= MOST_AT_THE_TOP


@pytest.mark.parametrize(("pattern", "place"), ONE_PLACE.items(), ids=ONE_PLACE.values())
def test_one_module_alone_knows_it(pattern: str, place: str) -> None:
    found = [str(path.relative_to(PACKAGE)) for path in modules().values() if re.search(pattern, path.read_text())]
    assert found == [place]


def test_no_tests_draw_from_one_generator() -> None:
    """What one draws would depend on those before it, and the order is drawn by lot."""
    shared = [
        f"{path.name}:{each.lineno}"
        for path in Path(__file__).parent.rglob("*.py")
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.Assign | ast.AnnAssign) and re.search(r"default_rng|Random\(", ast.unparse(each))
    ]
    assert not shared
