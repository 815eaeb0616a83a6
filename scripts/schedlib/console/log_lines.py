# SPDX-License-Identifier: GPL-2.0
"""The kernel's side of a console log: clean lines, the signs of life and the signs of trouble.

Nothing here raises, whatever the bytes are, and the cost of a line does not depend on the lines around it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

LONGEST_LINE = 16384
"""What lies beyond is cut: no message of a kernel is that long, and a pattern must not walk through 50 MB."""


class Line(NamedTuple):
    """One message, without what the transport put around it."""

    number: int
    end: int
    """How many bytes of the log end with this line."""
    stamp: float | None
    """The kernel's own clock, in seconds, if the message shows it."""
    text: str
    cut: str = ""
    """Why the message may go on elsewhere: 'printk' ran into it, or 'end' of the log without a newline."""


_STAMP = r"\[ *(\d{1,9}\.\d{6})\](?:\[ *[TC]\d{1,9}\])? ?"
# In this order: the host's clock (LAVA, ts), a syslog level, dmesg -x, the kernel's clock and caller.
_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? )?"
    rf"(?:<\d{{1,3}}>)?(?:[a-z]{{2,8}} {{0,3}}:[a-z]{{2,8}} {{0,3}}: )?(?:{_STAMP})?"
)
_STAMP_INSIDE = re.compile(r"(?<=.)" + _STAMP)
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
_MAYBE_PREFIXED = frozenset("[<0123456789abcdefghijklmnopqrstuvwxyz")


def lines(log: bytes) -> Iterator[Line]:
    """Every message of a log; the number is that of an editor, also where one line holds two messages."""
    dirty = any(byte in log for byte in (b"\x1b", b"\0", b"\r"))
    end = 0
    for number, raw in enumerate(io.BytesIO(log), 1):
        end += len(raw)
        cut = "" if raw[-1:] == b"\n" else "end"
        if len(raw) > LONGEST_LINE:
            raw = raw[:LONGEST_LINE]
        if dirty:
            raw = _ANSI.sub(b"", raw).replace(b"\0", b"")
        text = raw.decode(errors="replace").rstrip("\r\n")
        if text.startswith('- {"dt": '):
            text = _lava(text)
        stamp = None
        if text[:1] in _MAYBE_PREFIXED and (found := _PREFIX.match(text)):
            stamp = float(found[1]) if found[1] else None
            text = text[found.end() :]
        if (dirty and "\r" in text) or (text.find("[", 1) > 0 and _STAMP_INSIDE.search(text)):
            yield from _pieces(Line(number, end, stamp, text, cut))
        else:
            yield Line(number, end, stamp, text, cut)


def _pieces(line: Line) -> Iterator[Line]:
    """The messages of a line that holds several: CR is where a terminal begins anew, a stamp is where printk cut in."""
    for text in line.text.split("\r"):
        start, stamp = 0, line.stamp
        # A `#` line may quote dmesg.
        for inside in () if text.lstrip(" ").startswith("#") else _STAMP_INSIDE.finditer(text):
            yield line._replace(text=text[start : inside.start()], stamp=stamp, cut="printk")
            start, stamp = inside.end(), float(inside[1])
        yield line._replace(text=text[start:], stamp=stamp)


def _lava(text: str) -> str:
    """The target's line in a record of LAVA's logs.yaml; what the dispatcher itself says is no console."""
    try:
        record = json.loads(text[2:])
    except (ValueError, RecursionError):
        return text
    if isinstance(record, dict) and record.get("lvl") == "target" and isinstance(record.get("msg"), str):
        said = str(record["msg"]).encode(errors="replace").decode()  # JSON can hold half a surrogate pair
        return said.rstrip("\r\n").replace("\n", " ")
    return ""


class Sign(NamedTuple):
    """Something that the kernel said about itself."""

    kind: str
    line: int
    text: str


# What a report begins with: the kernel's formats at the start of a message, after an optional `subsystem: `. After
# `WARNING: ` only those of __warn() (7.x, then 6.x) and lockdep count; other text is a remark (mitigations, firmware).
_HEADLINES = (
    r"(?P<panic>Kernel panic - not syncing)",
    r"(?:kernel )?BUG(?:: | at | [\w:-]+ \(.*\): )",
    r"\[ (?:BUG|INFO): ",
    r"WARNING: (?:\S+:\d+ )?at ",
    r"WARNING: CPU: \d+ PID: \d+ at ",
    r"WARNING: (?:possible |inconsistent lock|suspicious RCU|chain_key |Nested lock |bad (?:unlock|contention))",
    r"WARNING: (?:held lock freed|lock held when|.*(?:lock order detected|still has locks held))",
    r"INFO: (?:possible |inconsistent lock|suspicious RCU|trying to register non-static key)",
    r"INFO: (?:task \S.* blocked|.*detected (?:\w+ )?stall)",
    r"Watchdog detected hard LOCKUP|.*kthread starved for",
    r"(?:UBSAN|KASAN|KCSAN|KMSAN|KFENCE): ",
    r"general protection fault|double fault|divide error|invalid opcode|stack segment: |int3: |PANIC: ",
    r"Unable to handle kernel |Internal error: |Bad mode in |Kernel mode fault at ",
    r"bad: scheduling from the idle thread|list_(?:add|del) corruption|DEBUG_LOCKS_WARN_ON",
    r"\d+ new suspected memory leaks",
)
_HEADLINE = re.compile(r"(?:[\w.-]{1,40}: ){0,2}(?:" + "|".join(_HEADLINES) + ")")
# What a report goes on with. Alone it is a report whose headline was lost; after a headline it is part of it.
_TRAIL = re.compile(
    r"-{4,}\[ cut here \]|-+\[ end (?P<panic>Kernel panic|trace)|Call [Tt]race:|stack backtrace:|Modules linked in:|"
    r"RIP: 00|CPU: \d+ (?:UID: \d+ )?PID: \d+ Comm: |Hardware name: |Code: [0-9a-f]{2} |<TASK>$|"
    r"(?:Internal error: )?Oops(?:: | - )"
)
# The same, unmistakable anywhere in a line: a console without time stamps glues messages to what a program wrote.
_GLUED = re.compile(
    r"Kernel panic - not syncing|---\[ end trace|-----\[ cut here|"
    r"BUG: (?:K[A-Z]+: |kernel NULL|unable to handle|scheduling while|sleeping function|soft lockup|spinlock|failure )|"
    r"WARNING: (?:CPU: \d+ PID: \d+ at|\S+:\d+ at \S+\+0x|possible circular)"
)
# One of these words is in every line that the patterns above can match: most lines need no more than this search.
_WORDS = re.compile(
    r"BUG|WARNING|INFO|panic|PANIC|SAN: |KFENCE|race|cut here|linked in|CPU: |RIP: |Oops|rror: |fault|divide e|opcode|"
    r"segment: |int3|Unable|Bad mode|bad: |corruption|LOCKUP|LOCKS|leaks|starved|TASK|Code: |Hardware"
)
_LIFE = re.compile(
    r"(?P<banner>Linux version \d)|(?P<start>Kernel command line: )|(?P<shutdown>reboot: )|"
    r"(?P<kunit>kunit executor: |kunit: (?:disabled|test interrupted))"
)


def sign(line: Line) -> Sign | None:
    """What a line says about the kernel: banner, start, shutdown, kunit, panic, splat, or trail (of either)."""
    text = line.text
    if text[:1] in ("L", "K", "r", "k") and (found := _LIFE.match(text)):
        return Sign(str(found.lastgroup), line.number, text)
    if not _WORDS.search(text) or text.lstrip(" ").startswith("#"):
        return None
    text = text.strip()
    if found := _TRAIL.match(text):
        return Sign("panic" if found["panic"] == "Kernel panic" else "trail", line.number, text)
    if found := _HEADLINE.match(text):
        return Sign("panic" if found["panic"] else "splat", line.number, text)
    if found := _GLUED.search(text.partition(" # ")[0]):
        return Sign("panic" if found[0].startswith("Kernel panic") else "splat", line.number, text)
    return None


_REPORT_LINES = 150
"""A stack trace further from its headline than this belongs to another report."""
_LEAD_LINES = 20
"""Registers or `cut here` may come before the headline, but not further before it than this."""


def reports(signs: Iterable[Sign]) -> tuple[Sign, ...]:
    """One sign for each panic and each splat, named by its headline if that is there."""
    found: list[Sign] = []
    last = -_REPORT_LINES
    headless = False
    for each in signs:
        near = each.line - last < _REPORT_LINES
        if each.kind == "trail":
            if not near:
                found.append(each._replace(kind="splat"))
                headless = True
            last = each.line
        elif each.kind in ("panic", "splat"):
            if headless and each.line - found[-1].line <= _LEAD_LINES:
                found[-1] = each
            elif not (near and each.kind == found[-1].kind == "panic"):
                found.append(each)
            headless = False
            last = each.line
    return tuple(found)
