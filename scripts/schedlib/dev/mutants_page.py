# SPDX-License-Identifier: GPL-2.0
"""The table of `schedline dev mutants --generated`, and docs/results/mutants.md, which is made of recorded runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schedlib.formats.generated_mutants_document import GeneratedMutant, GeneratedMutantsDocument

_ABOUT = (
    "Operators change one place of a function under test at a time: they drop or negate a part of a condition, drop a",
    "statement or a barrier, change a constant, an operator, the order of arguments or what is returned. A test has to",
    "fail; others are a crash, a hang or a warning. The same object code does not count, nor what",
    "`configs/equivalent-mutants.toml` lists with a reason.",
)
_NO_EFFECT = ("same code", "equivalent")


def score(ends: Iterable[tuple[str, str]]) -> Iterator[tuple[str, int, int, int, int, int, int]]:
    """For each function: how many count, die by assertion, by others, survive, have no effect, were not tried."""
    by_function: dict[str, list[str]] = {}
    for name, end in ends:
        by_function.setdefault(name, []).append(end)
    for name, found in by_function.items():
        none = sum(end in _NO_EFFECT for end in found)
        assertions, survived = found.count("assertion"), found.count("survived")
        untried = found.count("not tried")
        count = len(found) - none - untried
        yield name, count, assertions, count - assertions - survived, survived, none, untried


def share(count: int, survived: int, untried: int) -> str:
    """The share of mutants that were killed; none if some were not tried, because those are not like the others."""
    return f"{(count - survived) / count:.0%}" if count and not untried else "-"


def page(runs: Sequence[GeneratedMutantsDocument], measured: str) -> Iterator[str]:
    """The lines of docs/results/mutants.md. `measured`: date and conditions, as a paragraph."""
    mutants = [each for run in runs for each in run.mutants]
    drawn = {each.function: run.sample for run in runs for each in run.mutants}
    files = {each.function: each.file for each in mutants}
    yield from (
        "# Mutants that nobody picked",
        "",
        "```sh",
        "schedline dev mutants --generated",
        "```",
        "",
        *_ABOUT,
        "",
        "## Score",
        "",
        measured,
        "",
        "| file | function | drawn | count | by assertion | by others | survived | no effect | not tried | score |",
        "|---|---|---|---|---|---|---|---|---|---|",
    )
    rows = list(score((each.function, each.end) for each in mutants))
    for file in dict.fromkeys(files.values()):
        mine = [row for row in rows if files[row[0]] == file]
        for name, *numbers in mine:
            yield _row(file, name, str(drawn[name] or "all"), numbers)
        yield _row(file, "sum", "", [sum(int(row[column]) for row in mine) for column in (1, 2, 3, 4, 5, 6)])
    yield from _lists(runs, [each for each in mutants if each.end == "survived"])


def _row(file: str, name: str, drawn: str, numbers: Sequence[int]) -> str:
    cells = (f"`{file}`", f"`{name}`", drawn, *map(str, numbers), share(numbers[0], numbers[3], numbers[5]))
    return f"| {' | '.join(cells)} |"


def _lists(runs: Sequence[GeneratedMutantsDocument], survivors: Sequence[GeneratedMutant]) -> Iterator[str]:
    """Survivors and statements that no guest executed, by name."""
    yield from (
        "",
        "## Survivors",
        "",
        "Each is a situation that no test makes, or an equivalent that nobody has judged yet.",
        "",
    )
    for each in survivors:
        yield f"- `{each.function}`, line {each.line}: `{each.old}` becomes `{each.new}`"
    yield from (
        "",
        "## Never executed",
        "",
        "Statements that no guest of these runs executed. No mutant of them can die.",
        "",
    )
    for line in dict.fromkeys(each for run in runs for each in run.unreached):
        yield f"- `{line}`"
