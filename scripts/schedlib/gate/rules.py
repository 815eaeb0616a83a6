# SPDX-License-Identifier: GPL-2.0
"""configs/gates/*.toml -> what is compared, registered before anything is measured."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from schedlib.errors import SchedlineError
from schedlib.paths import CONFIGS

GATES = CONFIGS / "gates"

LEAST_BOOTS = 5
"""Of a batch: with fewer, no test of ours can fail anything."""

MOST_BOOTS = 500


class Method(Enum):
    """How two sets of boots are compared."""

    RANK = "rank"  # Mann-Whitney over boots
    MEAN = "mean"  # permutation of the boots' means
    RATE = "rate"  # permutation of the boots' rates: exceedances in a million samples
    EQUAL = "equal"  # one value, the same in every run


@dataclass(frozen=True)
class Rule:
    """One gating metric.

    Attributes:
        direction: what is better: lower or higher; neither for Method.EQUAL alone.
        budget: how much worse it may become, in percent of the base's median, or in the unit when `absolute`.
        detect: PASS is said only when a change so much worse is excluded; in the same unit as the budget.
        absolute: budget and detect are in the metric's unit; in exceedances of a million for Method.RATE.
        because: why it is a gating metric.
    """

    tool: str
    name: str
    direction: str
    method: Method
    budget: float
    detect: float
    absolute: bool
    because: str

    @property
    def key(self) -> tuple[str, str]:
        """Tool and name, which a run knows it by."""
        return self.tool, self.name


@dataclass(frozen=True)
class Cited:
    """A figure of a mail. quote: the mail's words."""

    id: str
    patch: str
    mail: str
    quote: str
    tool: str
    name: str

    @property
    def key(self) -> tuple[str, str]:
        """Tool and name, which a run knows it by."""
        return self.tool, self.name


@dataclass(frozen=True)
class Claim(Cited):
    """What a mail says that a change brought.

    Attributes:
        change: percent of the base's value, signed as in the mail.
        judged: False for what is only shown, a maximum above all.
    """

    direction: str
    change: float
    judged: bool


@dataclass(frozen=True)
class Level(Cited):
    """A figure that a mail gives for one kernel alone, not for base against candidate."""

    value: float


@dataclass(frozen=True)
class Gate:
    """A gates file.

    Attributes:
        alpha: chance that kernels which do not differ fail the whole gate, at most.
        boots: of each kernel in a batch, at least.
        compared: fingerprint entries that may differ between the two sides.
        interleaved: boots of both kernels have to alternate.
    """

    name: str
    alpha: float
    boots: int
    compared: frozenset[str]
    interleaved: bool
    rules: tuple[Rule, ...]
    claims: tuple[Claim, ...]
    levels: tuple[Level, ...]


_GATE_KEYS = {"alpha", "boots", "compared", "order"}
_MAXIMUM = re.compile(r"(^|[._])(max|maximum|worst|peak)([._]|$)")


def gates_path(named: str) -> Path:
    """Where a gates file is, by its path or by its name in configs/gates."""
    return GATES / f"{named}.toml" if "/" not in named and not named.endswith(".toml") else Path(named)


def load_gate(named: str) -> Gate:
    """Read a gates file by its path or by its name in configs/gates.

    Raises:
        SchedlineError: no such file, or something in it is missing, unknown or no gate.
    """
    path = gates_path(named)
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        known = ", ".join(sorted(each.stem for each in GATES.glob("*.toml")))
        raise SchedlineError(
            f"the gates file {path} cannot be read: {error.strerror}", f"name a file, or one of: {known}"
        ) from error
    except ValueError as error:
        raise SchedlineError(f"the gates file {path} is no TOML: {error}", f"correct {path}") from error
    return _Reader(path).gate(content)


def _names(row: type[Rule | Cited]) -> set[str]:
    return {each.name for each in fields(row)}


class _Reader:
    """One gates file: every complaint names it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _no(self, observed: str, next_step: str) -> SchedlineError:
        return SchedlineError(f"{self.path}: {observed}", next_step)

    def gate(self, content: Mapping[str, Any]) -> Gate:
        """The whole file."""
        self._known(content, {"gate", "metric", "claim", "level"}, "the file")
        head = self._table(content.get("gate", {}), "[gate]")
        self._known(head, _GATE_KEYS, "[gate]")
        gate = Gate(
            self.path.stem,
            self._number(head, "alpha", "[gate]", 0.01, (1e-6, 0.05)),
            int(self._number(head, "boots", "[gate]", 10, (LEAST_BOOTS, MOST_BOOTS))),
            frozenset(self._words(head.get("compared", ["kernel", "build_id"]))),
            self._choice(head, "order", "[gate]", ("interleaved", "any"), "interleaved") == "interleaved",
            tuple(self._rule(each) for each in self._tables(content, "metric")),
            tuple(self._claim(each) for each in self._tables(content, "claim")),
            tuple(self._level(each) for each in self._tables(content, "level")),
        )
        if not gate.rules and not gate.claims:
            raise self._no("it has no [[metric]] and no [[claim]]: it would pass everything", "add a [[metric]]")
        keys = [rule.key for rule in gate.rules]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise self._no(f"{' '.join(min(twice))} is there twice", "keep one")
        return gate

    def _rule(self, table: Mapping[str, Any]) -> Rule:
        tool, name = self._text(table, "tool", "a [[metric]]"), self._text(table, "name", "a [[metric]]")
        where = f"{tool} {name}"
        self._known(table, _names(Rule), where)
        if _MAXIMUM.search(name):
            raise self._no(
                f"{where} is a maximum, which differs by half between runs of one kernel: a gate on it is a coin toss",
                'gate on a quantile, or on samples over a bound with method = "rate"',
            )
        method = Method(self._choice(table, "method", where, tuple(each.value for each in Method)))
        equal = method is Method.EQUAL
        allowed = ("lower", "higher", "neither") if equal else ("lower", "higher")
        direction = self._choice(table, "direction", where, allowed)
        if not equal and "budget" not in table:
            raise self._no(
                f"{where} has no budget: nobody said how much worse it may become",
                "add budget = 3 (percent), or absolute = true and a budget in the metric's unit",
            )
        absolute = table.get("absolute", method is Method.RATE)
        if not isinstance(absolute, bool):
            raise self._no(f"{where}: absolute is {absolute!r}", "write absolute = true")
        if method is Method.RATE and not absolute:
            raise self._no(f"{where}: a share of what is often 0 is no budget", "drop absolute = false")
        budget = self._number(table, "budget", where, 0.0, (0.0, 1e15))
        detect = self._number(table, "detect", where, 3 * budget, (0.0, 1e15))
        if detect < budget or (not equal and detect == 0):
            raise self._no(
                f"{where}: detect = {detect:g} has to be above 0 and no less than the budget",
                "write the change that a PASS has to exclude",
            )
        return Rule(tool, name, direction, method, budget, detect, absolute, str(table.get("because", "")))

    def _claim(self, table: Mapping[str, Any]) -> Claim:
        where = f"claim {self._text(table, 'id', 'a [[claim]]')}"
        self._known(table, _names(Claim), where)
        direction = self._choice(table, "direction", where, ("lower", "higher"))
        judged = bool(table.get("judged", True))
        name = self._text(table, "name", where)
        if judged and _MAXIMUM.search(name):
            raise self._no(f"{where}: a maximum is never judged", "add judged = false")
        change = self._number(table, "change", where, None, (-100.0, 1e6))
        return Claim(*self._cited(table, where), direction, change, judged)

    def _level(self, table: Mapping[str, Any]) -> Level:
        where = f"level {self._text(table, 'id', 'a [[level]]')}"
        self._known(table, _names(Level), where)
        return Level(*self._cited(table, where), self._number(table, "value", where, None, (0.0, 1e15)))

    def _cited(self, table: Mapping[str, Any], where: str) -> tuple[str, str, str, str, str, str]:
        """The fields of Cited, in their order."""
        text = partial(self._text, table, where=where)
        return text("id"), text("patch"), text("mail"), text("quote"), text("tool"), text("name")

    def _tables(self, content: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        found = content.get(name, [])
        if not isinstance(found, list):
            raise self._no(f"{name} is no array of tables", f"write [[{name}]]")
        return [self._table(each, f"[[{name}]]") for each in found]

    def _table(self, found: object, where: str) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self._no(f"{where} is no table", f"write {where}")
        return found

    def _known(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        if strange := sorted(set(table) - known):
            raise self._no(f"{where}: unknown {', '.join(strange)}", f"known are: {', '.join(sorted(known))}")

    def _words(self, found: object) -> list[str]:
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._no("compared is no list of texts", 'write compared = ["kernel", "build_id"]')
        return found

    def _text(self, table: Mapping[str, Any], name: str, where: str) -> str:
        found = table.get(name)
        if not isinstance(found, str) or not found:
            raise self._no(f"{where} has no {name}", f'add {name} = "..."')
        return found

    def _choice(
        self, table: Mapping[str, Any], name: str, where: str, known: tuple[str, ...], default: str | None = None
    ) -> str:
        found = table.get(name, default)
        if found not in known:
            what = f"has no {name}" if found is None else f"{name} is {found!r}"
            raise self._no(f"{where} {what}", f"{name} is one of: {', '.join(known)}")
        return str(found)

    def _number(
        self, table: Mapping[str, Any], name: str, where: str, default: float | None, within: tuple[float, float]
    ) -> float:
        found = table.get(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
            raise self._no(f"{where}: {name} is {found!r}, no number", f"write a number from {within[0]:g}")
        if not within[0] <= found <= within[1]:
            raise self._no(f"{where}: {name} is {found:g}", f"write a number from {within[0]:g} to {within[1]:g}")
        return float(found)
