# SPDX-License-Identifier: GPL-2.0
"""How each mutant of `schedline dev mutants --generated` ended, and the table of docs/results/mutants.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Literal

import msgspec

from schedlib.console.expected import load_expected
from schedlib.formats.document import Document
from schedlib.formats.strict import Positive, Strict, Whole, Word
from schedlib.formats.tables import markdown
from schedlib.names import change_ids
from schedlib.paths import KUNIT


class End(Enum):
    ASSERTION = "assertion"
    CRASH = "crash"
    HANG = "hang"
    WARNING = "warning"
    SURVIVED = "survived"
    SAME_CODE = "same code"
    EQUIVALENT = "equivalent"
    NOT_TRIED = "not tried"


class GeneratedMutant(Strict, frozen=True):
    """A mutant. `on`: the configuration whose guest noticed it; `failed`: the tests that did, or what the log said."""

    file: Word
    function: Word
    line: Positive
    operator: Word
    old: str
    new: str
    end: End
    on: str
    failed: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What the list of equivalent mutants knows it by."""
        return self.function, self.old, self.new

    def __str__(self) -> str:
        where = f"{self.file}:{self.line} {self.function}: {self.old} => {self.new}"
        return f"{where} [{self.end.value}{': ' if self.failed else ''}{', '.join(self.failed[:3])}]"


class GeneratedMutantsDocument(Document, frozen=True, kw_only=True):
    """schedline dev mutants --generated. `wrong`: what is wrong with the list of equivalent mutants."""

    schema: Literal["generated-mutants-1"]
    tree: str
    sample: Positive | None
    seed: Whole
    mutants: tuple[GeneratedMutant, ...]
    unreached: tuple[str, ...]
    wrong: tuple[str, ...]


def recorded(run: GeneratedMutantsDocument) -> str:
    """The document as a file, with one mutant in each line."""
    whole = msgspec.to_builtins(run)
    rows = ",\n".join(json.dumps(each, sort_keys=True, ensure_ascii=False) for each in whole.pop("mutants"))
    head = json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).removesuffix("\n}")
    return f'{head},\n "mutants": [\n{rows}\n ]\n}}\n'


_NO_EFFECT = (End.SAME_CODE, End.EQUIVALENT)


@cache
def _only_ours() -> frozenset[str]:
    """The tests that the exported series does not have."""
    tests = KUNIT / "tests.txt"
    return frozenset(load_expected(tests, None)) - frozenset(load_expected(tests, None, change_ids()))


def _end(mutant: GeneratedMutant) -> End:
    """How a mutant ends in a tree with the exported series."""
    is_ours = mutant.end is End.ASSERTION and mutant.failed and _only_ours().issuperset(mutant.failed)
    return End.SURVIVED if is_ours else mutant.end


def score(
    mutants: Iterable[GeneratedMutant], *, exported: bool = True
) -> Iterator[tuple[str, int, int, int, int, int, int]]:
    """For each function: how many count, die by assertion, by others, survive, have no effect, were not tried.

    exported: tests that the exported series does not have are left out.
    """
    by_function: dict[str, list[End]] = {}
    for each in mutants:
        by_function.setdefault(each.function, []).append(_end(each) if exported else each.end)
    for name, found in by_function.items():
        none = sum(end in _NO_EFFECT for end in found)
        assertions, survived = found.count(End.ASSERTION), found.count(End.SURVIVED)
        untried = found.count(End.NOT_TRIED)
        count = len(found) - none - untried
        yield name, count, assertions, count - assertions - survived, survived, none, untried


def share(count: int, survived: int, untried: int) -> str:
    """The share of mutants that were killed; none if some were not tried, because those are not like the others."""
    return f"{(count - survived) / count:.0%}" if count and not untried else "-"


def score_table(
    runs: Sequence[GeneratedMutantsDocument], ours: Mapping[str, GeneratedMutantsDocument]
) -> Iterator[str]:
    """The sums of all and of each file, functions with mutants that survived or were not tried, and what never ran.

    ours: runs of suites that are not exported, by the name of the suite; they are not in the sum of all.
    """
    mutants = [each for run in runs for each in run.mutants]
    files = {each.function: each.file for each in mutants}
    heads = ("function", "count", "by assertion", "by others", "survived", "no effect", "not tried", "score")
    rows = list(score(mutants))
    cells = [_row("all", [sum(int(row[column]) for row in rows) for column in range(1, 7)])]
    for file in dict.fromkeys(files.values()):
        mine = [row for row in rows if files[row[0]] == file]
        sums = [sum(int(row[column]) for row in mine) for column in range(1, 7)]
        cells.append(_row(f"**{file.rpartition('/')[2]}**", sums))
        cells += [_row(f"`{name}`", numbers) for name, *numbers in mine if numbers[3] or numbers[5]]
    for suite, run in ours.items():
        mine = list(score(run.mutants, exported=False))
        cells.append(_row(f"**{suite}**", [sum(int(row[column]) for row in mine) for column in range(1, 7)]))
    kept = [at for at, head in enumerate(heads) if head != "not tried" or any(row[at] for row in cells)]
    yield from markdown([heads[at] for at in kept], [[row[at] for at in kept] for row in cells])
    unreached = dict.fromkeys(each for run in (*runs, *ours.values()) for each in run.unreached)
    yield from ("", f"Statements that no guest executed, so that no mutant of them can die: {len(unreached)}.")


def _row(name: str, numbers: Sequence[int]) -> Sequence[object]:
    return name, *numbers, share(numbers[0], numbers[3], numbers[5])
