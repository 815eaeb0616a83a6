# SPDX-License-Identifier: GPL-2.0
"""A verdict that an earlier check of the same things reached: it is told again, and nothing is built or booted."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

from schedlib.cache import read_json, write_atomic, write_json
from schedlib.check.check_options import CheckOptions
from schedlib.check.check_plan import CheckPlan
from schedlib.formats.cover_letter import tell
from schedlib.kernel.build import compiler_version
from schedlib.kernel.machine import machine_text
from schedlib.kernel.prepare import KernelPlan
from schedlib.paths import CONFIGS, KUNIT, PATCHES, SELFTESTS
from schedlib.process import run
from schedlib.progress import say
from schedlib.verdict import Verdict

REPEATED = (Verdict.PASS, Verdict.FAIL)
"""The others are of the machine or of what is missing, so they may be others the next time."""


def state(options: CheckOptions, kernel: KernelPlan, plan: CheckPlan) -> str:
    """A digest of all that a check judges and judges by: sources, configuration, compiler, emulator, machine, options
    and every file of schedline itself."""
    emulator = kernel.target.emulator
    parts = [
        kernel.commit,
        kernel.configuration.text(),
        compiler_version(kernel.target.compiler),
        run([emulator[0], "--version"]).stdout.decode(errors="replace") if emulator else "",
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
    """Keep what a check told, if it would tell the same again."""
    if verdict in REPEATED:
        results = hashlib.sha256((out / "results.json").read_bytes()).hexdigest()
        write_json(
            _record(cache, digest),
            {"verdict": verdict.name, "out": str(out), "results": results, "lines": lines},
        )


def repeat(cache: Path, digest: str, also: Path | None) -> Verdict | None:
    """Tell a remembered verdict again; None where there is none, or its results are gone or were changed.

    Args:
        also: where the JSON results are to be written, too.
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
    say("nothing has changed since an earlier check: this is its verdict again (--again boots anyway)")
    for line in record["lines"]:
        tell(line)
    return Verdict[record["verdict"]]
