# SPDX-License-Identifier: GPL-2.0
"""Printing the verdict of an earlier check with the same inputs again, without building or booting anything."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

from schedlib.cache import read_json, write_atomic, write_json
from schedlib.check.check_boots import CheckPlan
from schedlib.check.check_options import CheckOptions
from schedlib.kernel.build import KernelPlan, compiler_version
from schedlib.kernel.machine import machine_text
from schedlib.paths import CONFIGS, KUNIT, PATCHES, SELFTESTS
from schedlib.process import version_of
from schedlib.progress import say, tell
from schedlib.verdict import Verdict

REPEATED = (Verdict.PASS, Verdict.FAIL)
"""The other verdicts depend on the machine or on what is missing, so the next check may reach a different one."""


def state(options: CheckOptions, kernel: KernelPlan, plan: CheckPlan) -> str:
    """A digest of all inputs of a check.

    These are sources, configuration, compiler, emulator, machine, options and every file of schedline itself.
    """
    emulator = kernel.target.emulator
    parts = [
        kernel.commit,
        kernel.configuration.text(),
        compiler_version(kernel.target.compiler),
        version_of(emulator[0]) if emulator else "",
        machine_text(),
        platform.release(),
        sys.version,
        str(os.access("/dev/kvm", os.R_OK | os.W_OK)),
        repr(replace(options, json=None, out=None, again=False)),
        repr(replace(plan, expected=frozenset())),
        *sorted(plan.expected),
    ]
    for directory in (Path(__file__).parents[1], CONFIGS, KUNIT, PATCHES, SELFTESTS):
        for file in sorted(directory.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                parts.append(f"{file} {hashlib.sha256(file.read_bytes()).hexdigest()}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _record(cache: Path, digest: str) -> Path:
    return cache / "verdicts" / f"{digest}.json"


def remember(cache: Path, digest: str, verdict: Verdict, out: Path, lines: tuple[str, ...]) -> None:
    """Record the output of a check, if the same check would reach the same verdict again."""
    if verdict in REPEATED:
        results = hashlib.sha256((out / "results.json").read_bytes()).hexdigest()
        write_json(
            _record(cache, digest), {"verdict": verdict.name, "out": str(out), "results": results, "lines": lines}
        )


def repeat(cache: Path, digest: str, also: Path | None) -> Verdict | None:
    """Print a recorded verdict again, and write its results to `also`, too.

    None if there is none, or its results were removed or changed.
    """
    record = read_json(_record(cache, digest))
    if record is None:
        return None
    file = Path(record["out"], "results.json")
    try:
        content = file.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != record["results"]:
        return None
    if also:
        write_atomic(also, content)
    say("nothing has changed since an earlier check, so its verdict is repeated (--again boots anyway)")
    for line in record["lines"]:
        tell(line)
    return Verdict[record["verdict"]]
