# SPDX-License-Identifier: GPL-2.0
"""LAVA's log of a job: one record a line, in the flow style of YAML, as logs.yaml, lava-run and lavacli have it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from schedlib.guest import home

LavaRecord: TypeAlias = tuple[datetime, str, str | dict[str, Any]]
"""When, the level (`target` is the device's console), and a text or the parts of a result."""

Console: TypeAlias = list[tuple[datetime, str]]
"""The lines of the device in one boot of a job, each with the time at which LAVA saw it.

A boot goes from its boot action to the next deploy action.
"""


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
    boots: tuple[Console, ...]
    ended: bool
    trouble: tuple[str, str]
    key: str


_DEEPEST = 1000
"""A record has few levels; with 100,000 of them libyaml overflows its stack."""
_OPENING = re.compile(r"[\[{]|[-?:] ")


def records(text: str) -> Iterator[LavaRecord]:
    """All records of a log that are whole. The last line of a log that was cut off is none."""
    for line in text.split("\n"):
        record = line.removeprefix("- ")
        try:
            # A record with many brackets, which a text may hold, has to be JSON. The loader of YAML makes tables, lists
            # and texts, and nothing else: S506 does not know it.
            deep = len(record) > _DEEPEST and len(_OPENING.findall(record)) > _DEEPEST
            found = json.loads(record) if deep else yaml.load(record, Loader=yaml.CBaseLoader)  # noqa: S506
            if isinstance(found, dict) and isinstance(found.get("dt"), str) and isinstance(found["msg"], str | dict):
                at = datetime.fromisoformat(found["dt"])
                at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
                yield at, _text(found, "lvl"), found["msg"]
        except (yaml.YAMLError, ValueError, KeyError, RecursionError, OverflowError):
            continue


_START = re.compile(r"start: (\d+) ([a-z0-9-]+) ")
_KEY = re.compile(r"schedline\.job=([0-9a-f]{12}/[\w.-]+)")


def _text(said: dict[str, Any], name: str) -> str:
    """One part of a result. Aliases of YAML can stand for more than memory holds, so only a text is printed."""
    part = said.get(name)
    return part if isinstance(part, str) else ""


def read_log(text: str) -> LavaLog:
    boots: list[Console] = []
    here: Console | None = None
    ended, trouble, key = False, ("", ""), ""
    begun = datetime.fromtimestamp(0, UTC)
    for number, (at, level, said) in enumerate(records(text)):
        begun = begun if number else at
        if isinstance(said, dict):
            if level == "results" and said.get("definition") == "lava" and said.get("case") == "job":
                ended = True
                if said.get("result") != "pass":
                    trouble = _text(said, "error_type"), _text(said, "error_msg")
            continue
        if not key and (found := _KEY.search(said)):
            key = found[1]
        if level == "target":
            if here is not None:
                here += [(at, line) for line in said.rstrip("\r\n").split("\n")]
        elif found := _START.match(said):
            action = found[2]
            if "deploy" in action or action == "finalize":
                here = None
            elif here is None:
                here = []
                boots.append(here)
    return LavaLog(begun, tuple(boots), ended, trouble, key)


# Files that came home on a console, as selftests/send_console.sh prints them: archives with size and checksum.

_SENT = re.compile(r"# sent (\d{1,4}): (\d{1,9}) bytes, sha256 ([0-9a-f]{64})$")
_SENT_LINE = re.compile(r"# sent (\d{1,4})= ([A-Za-z0-9+/=]{1,100})$")
_SENT_ALL = re.compile(r"# sent (\d{1,4}): end$")


def disk_from(console: Iterable[str], path: Path, slots: int) -> tuple[str, ...]:
    """Write what was sent to a disk, as a guest with a disk would have, see home; returns why each slot is empty.

    An archive of which any byte is missing or wrong is left out as a whole. The first whole one of a slot counts.
    """
    home.empty_disk(path, slots)
    why = ["it was not sent"] * slots
    begun: dict[int, tuple[int, str, list[str]]] = {}
    for line in console:
        if found := _SENT.search(line):
            slot = int(found[1])
            begun[slot] = int(found[2]), found[3], []
            if slot < slots and why[slot]:
                why[slot] = "its transfer was cut off"
        elif (found := _SENT_LINE.search(line)) and int(found[1]) in begun:
            begun[int(found[1])][2].append(found[2])
        elif (found := _SENT_ALL.search(line)) and int(found[1]) in begun:
            slot = int(found[1])
            size, checksum, lines = begun.pop(slot)
            if slot < slots and why[slot]:
                content = _content(lines, size)
                if size > home.LARGEST_ARCHIVE:
                    why[slot] = f"it has {size} bytes, which are too many"
                elif len(content) != size or hashlib.sha256(content).hexdigest() != checksum:
                    why[slot] = "its transfer was damaged: the checksum differs"
                else:
                    home.put(path, slot, content)
                    why[slot] = ""
    return tuple(why)


def _content(parts: list[str], size: int) -> bytes:
    try:
        unpacked = zlib.decompressobj(31)
        packed = base64.b64decode("".join(parts), validate=True)
        return unpacked.decompress(packed, size + 1) if size <= home.LARGEST_ARCHIVE else b""
    except (binascii.Error, zlib.error, ValueError):
        return b""
