# SPDX-License-Identifier: GPL-2.0
"""LAVA's log of a job: one record a line, in the flow style of YAML, as logs.yaml, lava-run and the API have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:!!\w+\s+)?(?P<token>[{}\[\],:]|"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s{}\[\],:"'][^{}\[\],:]*)""", re.S
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.S)
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"}
_ESCAPES |= {"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}
_DEEPEST = 20


@dataclass(frozen=True)
class LavaRecord:
    """A record. level: `target` is the device's console. said: a text, or the parts of a result."""

    at: datetime
    level: str
    said: str | dict[str, Any]


@dataclass
class LavaBoot:
    """The records of one boot of a job: those from its boot action to the next deploy action.

    Attributes:
        console: the device's lines, each with the time at which LAVA saw it.
        failures: what LAVA's actions say went wrong.
    """

    console: list[tuple[datetime, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def log(self) -> bytes:
        """The console, for judge()."""
        return "".join(f"{line}\n" for _, line in self.console).encode(errors="replace")


@dataclass(frozen=True)
class LavaLog:
    """A job.

    Attributes:
        begun: when; it tells one attempt at a job from another.
        boots: those that were begun.
        ended: whether the log has the last record, which gives LAVA's verdict.
        trouble: what LAVA says went wrong with the job itself: its error_type and its message.
        key: the campaign and the job that the kernel's command line names; empty if no record has it.
    """

    begun: datetime
    boots: tuple[LavaBoot, ...]
    ended: bool
    trouble: tuple[str, str]
    key: str


def records(text: str) -> Iterator[LavaRecord]:
    """All records of a log that are whole. The last line of a log that was cut off is none."""
    for line in text.split("\n"):
        try:
            found = _flow(line.removeprefix("- ").strip())
        except (ValueError, IndexError):
            continue
        if isinstance(found, dict) and isinstance(found.get("dt"), str) and isinstance(found.get("msg"), str | dict):
            try:
                at = datetime.fromisoformat(found["dt"])
            except ValueError:
                continue
            yield LavaRecord(at if at.tzinfo else at.replace(tzinfo=UTC), str(found.get("lvl")), found["msg"])


def _flow(text: str) -> Any:
    """A value in YAML's flow style. ValueError, IndexError: it is none."""
    if not text.startswith("{"):
        raise ValueError(text)
    tokens: list[str] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if not found:
            raise ValueError(text[place:])
        tokens.append(found["token"])
        place = found.end()
    tokens.reverse()
    value = _value(tokens, 0)
    if tokens:
        raise ValueError("more behind it")
    return value


def _value(tokens: list[str], depth: int) -> Any:
    token = tokens.pop()
    if depth > _DEEPEST:
        raise ValueError("nested too deep")
    if token == "{":
        table: dict[str, Any] = {}
        while tokens[-1] != "}":
            key = _scalar(tokens.pop())
            _expect(tokens, ":")
            table[key] = _value(tokens, depth + 1)
            if tokens[-1] != "}":
                _expect(tokens, ",")
        tokens.pop()
        return table
    if token == "[":
        listed: list[Any] = []
        while tokens[-1] != "]":
            listed.append(_value(tokens, depth + 1))
            if tokens[-1] != "]":
                _expect(tokens, ",")
        tokens.pop()
        return listed
    return _scalar(token)


def _expect(tokens: list[str], wanted: str) -> None:
    if tokens.pop() != wanted:
        raise ValueError(f"no {wanted}")


def _scalar(token: str) -> str:
    if token in "{}[],:":
        raise ValueError(token)
    if token.startswith('"'):
        return _ESCAPE.sub(_unescaped, token[1:-1])
    return token[1:-1].replace("''", "'") if token.startswith("'") else token.strip()


def _unescaped(found: re.Match[str]) -> str:
    word = found[1]
    if len(word) > 1:
        return chr(min(int(word[1:], 16), 0x10FFFF))
    return _ESCAPES.get(word, word)


_START = re.compile(r"start: (\d+) ([a-z0-9-]+) ")
_KEY = re.compile(r"schedline\.job=([0-9a-f]{12}/[\w.-]+)")


def read_log(text: str) -> LavaLog:
    """Read a log."""
    boots: list[LavaBoot] = []
    here: LavaBoot | None = None
    ended, trouble, key = False, ("", ""), ""
    begun = datetime.fromtimestamp(0, UTC)
    for number, record in enumerate(records(text)):
        begun = begun if number else record.at
        if isinstance(record.said, dict):
            if record.level == "results" and record.said.get("definition") == "lava":
                said = record.said
                if said.get("case") == "job":
                    ended = True
                    if said.get("result") != "pass":
                        trouble = str(said.get("error_type", "")), str(said.get("error_msg", ""))
                elif said.get("result") == "fail" and here:
                    here.failures.append(str(said.get("case", "")))
            continue
        if not key and (found := _KEY.search(record.said)):
            key = found[1]
        if record.level == "target":
            if here:
                here.console += [(record.at, line) for line in record.said.rstrip("\r\n").split("\n")]
        elif found := _START.match(record.said):
            action = found[2]
            if "deploy" in action or action == "finalize":
                here = None
            elif here is None:
                here = LavaBoot()
                boots.append(here)
    return LavaLog(begun, tuple(boots), ended, trouble, key)
