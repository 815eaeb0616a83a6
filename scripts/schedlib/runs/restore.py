# SPDX-License-Identifier: GPL-2.0
"""Restores settings of the machine that a tool may change: after each run, or at the next start after a crash.

Nothing here changes a setting on its own, in particular not RT throttling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from schedlib.cache import read_json, write_json
from schedlib.kernel.machine import boot_id
from schedlib.progress import say

_KERNEL = "proc/sys/kernel"
_WATCHED = (
    f"{_KERNEL}/sched_rt_runtime_us",
    f"{_KERNEL}/sched_rt_period_us",
    f"{_KERNEL}/numa_balancing",
    f"{_KERNEL}/perf_event_paranoid",
    "proc/sys/vm/overcommit_memory",
    "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "sys/kernel/debug/sched/features",
)


def settings(root: Path = Path("/")) -> dict[str, str]:
    """The settings that can be read now."""
    found = {}
    for pattern in _WATCHED:
        for path in sorted(root.glob(pattern)):
            with suppress(OSError):
                found[str(path)] = path.read_text().strip()
    return found


def _put_back(path: str, value: str, now: str) -> None:
    """Write the old value; the scheduler's features are written one at a time."""
    words = [value]
    if path.endswith("/features"):
        words = [word for word in value.split() if word not in now.split()]
    for word in words:
        Path(path).write_text(word)


def put_back(before: Mapping[str, str]) -> list[str]:
    """Restore the settings that have changed. Returns a line for each."""
    lines = []
    for path, value in before.items():
        try:
            now = Path(path).read_text().strip()
        except OSError:
            # It disappeared with its CPU.
            continue
        if now == value:
            continue
        changed = f"{path} was changed from {value} to {now}"
        try:
            _put_back(path, value, now)
            lines.append(f"{changed}: it is {value} again")
        except OSError as error:
            lines.append(f"{changed}, and cannot be put back: {error.strerror}; as root: echo {value} > {path}")
    return lines


def replay(journal: Path) -> list[str]:
    """After a crash, restore what the dead runner would have restored. Settings of an earlier boot are already gone."""
    found = read_json(journal) or {}
    lines = put_back(found.get("settings", {})) if found.get("boot_id") == boot_id() else []
    journal.unlink(missing_ok=True)
    return lines


@contextmanager
def kept_settings(journal: Path) -> Iterator[None]:
    """Record the settings before a tool runs; afterwards restore those that it changed, and report them."""
    before = settings()
    write_json(journal, {"boot_id": boot_id(), "settings": before})
    try:
        yield
    finally:
        for line in put_back(before):
            say(line)
        journal.unlink(missing_ok=True)
