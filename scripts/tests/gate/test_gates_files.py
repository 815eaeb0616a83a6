# SPDX-License-Identifier: GPL-2.0
"""The gates files, and the suites that measure what they judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from campaigns import Campaign, metric, run
from test_run_tools import GOOD, output, read

from schedlib.errors import SchedlineError
from schedlib.gate.boots import read_side
from schedlib.gate.rules import load_gate
from schedlib.names import gate_names
from schedlib.runs.workload_suites import Suite, WorkloadRow, load_suite, suite_names
from schedlib.tree.selftest_programs import DIRECTORY


def test_every_gates_file_loads() -> None:
    assert "default" in gate_names()
    assert "c2c" not in gate_names()  # it is for the emulated counts: schedline c2c diff
    assert {gates for name in suite_names() for gates in load_suite(name).gates} == set(gate_names())
    for name in gate_names():
        load_gate(name)


def _names_in(program: str) -> set[str]:
    """The metrics that one of our workloads names, in its source and in the headers that it includes."""
    left, text = [f"{program}.c"], ""
    while left:
        found = (DIRECTORY / left.pop()).read_text()
        text += found
        left += [name for name in re.findall(r'#include "(\w+\.h)"', found) if (DIRECTORY / name).exists()]
    # The last string in each call is the metric's name.
    calls = [re.findall(r'"([a-z0-9_.]+)"', call) for call in re.findall(r"add_metric\(\w+,[^;]*;", text)]
    latencies = re.findall(r'add_samples\("([a-z0-9_.]+)"', text)
    return {
        *(words[-1] for words in calls if words),
        *(f"{name}.{quantile}" for name in latencies for quantile in ("p50", "p90", "p99", "p99_9", "max")),
        *re.findall(r'\.metric = "([a-z0-9_.]+)"', text),
    }


def _flags(words: Sequence[str]) -> list[str]:
    """The options of a command line, without their values."""
    return [re.match(r"--?[a-z-]+", word)[0] for word in words if re.match(r"--?[a-z]", word)]  # type: ignore[index]


def emitted(row: WorkloadRow) -> set[str]:
    """What a row measures: by our parser in outputs of the real tool with these options, or by our own source."""
    if row.program:
        return _names_in(row.program)
    recorded = [name for name, (tool, _) in GOOD.items() if tool == row.tool]
    recorded = [name for name in recorded if _flags(output(name).argv[1:]) == _flags(row.to_argv())]
    return {metric.name for name in recorded for metric in read(row.tool, name).metrics}


def keys_of(suite: Suite, place: Path) -> set[tuple[str, str]]:
    """The tools and metrics that the gate finds in one boot of a suite."""
    campaign = Campaign(place)
    for number, row in enumerate(suite.rows.values()):
        found = [metric(0.0, name=name, unit="x", kind="exact", direction="neither") for name in emitted(row)]
        content = run("base", "first", number, found, tool=row.tool or row.program)
        content["plan"] = {"suite": suite.name, "digest": "0", "row": row.name, "run": 1, "seed": 1}
        if found:
            campaign.save(place, content)
    return set(read_side(place, "base").about)


@pytest.mark.parametrize("gates", gate_names())
def test_each_gates_file_belongs_to_a_suite_that_measures_all_of_it(gates: str, tmp_path: Path) -> None:
    """A user who took the suite `rt` or `full` for the default gates got exit code 2 after all boots."""
    owners = [name for name in suite_names() if gates in load_suite(name).gates]
    assert len(owners) == 1
    gate = load_gate(gates)
    asked = {rule.key for rule in gate.rules}
    assert not asked - keys_of(load_suite(owners[0]), tmp_path)


@pytest.mark.parametrize(
    ("suite", "fits"), [("gate", True), ("rt", True), ("full", True), ("quick", True), ("wakeup", False)]
)
def test_which_suites_fit_the_default_gates(suite: str, fits: bool, tmp_path: Path) -> None:
    """`rt` lacked sleep_storm, and in `full` no tool was called rt_push_pull, since two rows run it."""
    keys = keys_of(load_suite(suite), tmp_path)
    assert fits == ({rule.key for rule in load_gate("default").rules} <= keys)
    if suite == "full":
        assert {tool for tool, _ in keys} >= {"rt_push_pull", "pinned-groups-mail", "sleep_storm", "storm-mail"}


@pytest.mark.parametrize(
    ("looks", "metrics", "enough"),
    [("[5]", 5, 7), ("[6]", 5, 7), ("[5, 6]", 5, 7), ("[7]", 5, None), ("[5]", 2, 6), ("[5]", 1, None)],
)
def test_looks_that_can_let_nothing_fail_are_refused(
    looks: str, metrics: int, enough: int | None, tmp_path: Path
) -> None:
    """With looks = [5] and five metrics, a candidate ten times slower was INCONCLUSIVE."""
    row = '[[metric]]\ntool = "t"\nname = "m{}"\ndirection = "lower"\nmethod = "rank"\nbudget = 3\n'
    path = tmp_path / "gates.toml"
    path.write_text(f"[gate]\nlooks = {looks}\n" + "".join(row.format(number) for number in range(metrics)))
    if enough is None:
        assert load_gate(str(path)).family == metrics
        return
    with pytest.raises(SchedlineError, match=f"(?s)let nothing FAIL: .*let the last look be {enough} or more"):
        load_gate(str(path))
