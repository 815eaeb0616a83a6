# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline gate` and of the verbs below it, and checks of them. Needs the standard library alone."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from schedlib.names import gate_names, one_of, split_list, unknown, workload_suites
from schedlib.options import BASIC, a_path, existing_directory, flag, new_directory, new_file, option, positive
from schedlib.paths import CONFIGS

GATES = CONFIGS / "gates"

MOST_BOOTS = 500
"""Of one kernel. With more, their ids are probably not the kernel's."""

LIBRARIES = (*BASIC, "gate")
PAGE_LIBRARIES = (*BASIC, "report")
HISTORY_LIBRARY = "history"

BUDGET = 3.0
DETECT = 15.0
"""In percent: how much worse a metric of an imported run may become, and what a PASS excludes."""

Unit = Literal["run", "boot"]

COLUMNS = ("tool", "metric", "value", "unit", "direction", "boot", "run", "started", "-")
UNSAID_UNIT = "--unit run if all files of a directory are from one boot, --unit boot if each file is a boot of its own"

_KEXEC = "if [ -d /run/systemd/system ]; then systemctl kexec; else sync; kexec -e; fi"
_REBOOT = "if [ -d /run/systemd/system ]; then systemctl reboot; else reboot; fi"

LAVA = "lava"
"""The way of boots that are jobs of LAVA. Such a plan has no service: `schedline fleet jobs` takes it."""

BOOT_COMMANDS = {
    "kexec": "kexec -l {image} {initrd} --reuse-cmdline && " + _KEXEC,
    "bootctl": "bootctl set-oneshot {glob} && " + _REBOOT,
    LAVA: "echo {label} is booted by LAVA: schedline fleet jobs; false",
}
"""How a kernel is booted once, by the word after --boot. All leave the default of the boot loader as it is."""

PLAN_FILE = "plan.json"
"""The plan of a campaign, in its directory."""
UNFINISHED = '{"schema": "gate-unfinished-1", "status": "ERROR"}\n'
UNFINISHED_AFTER_FAIL = '{"schema": "gate-unfinished-1", "status": "ERROR", "failed_before": true}\n'
"""What stands where the result of a gate belongs until it has one."""


def is_unfinished(file: Path, *marks: str) -> bool:
    """Whether one of the marks stands in a file; without marks either. Of a large file only the size is looked at."""
    marks = marks or (UNFINISHED, UNFINISHED_AFTER_FAIL)
    return file.is_file() and file.stat().st_size in map(len, marks) and file.read_text(errors="replace") in marks


PROGRESS_FILE = "progress.json"
"""How far it is, beside it."""
CUT = "cut"
"""The runs of boots that were cut, beside it, in a directory for each boot."""

LOSSES = 3
"""After so many lost boots of one kernel in a row a campaign stops, unless the user says otherwise."""


def gates_path(named: str) -> Path:
    """The path of a gates file, given its path or its name in configs/gates."""
    return GATES / f"{named}.toml" if "/" not in named and not named.endswith(".toml") else Path(named)


def gates_file(text: str) -> str:
    """An argparse type: a gates file by its path or by its name in configs/gates."""
    path = gates_path(text)
    if path.parent == GATES and path.stem not in gate_names():
        raise argparse.ArgumentTypeError(unknown("gates file", path.stem, gate_names()))
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text}: no such file. Known by name: {', '.join(gate_names())}")
    return text


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no change in percent, above 0 and at most 1000")
    return value


def _columns(text: str) -> tuple[str, ...]:
    known = one_of("column", lambda: COLUMNS)
    found = tuple(known(word.strip()) for word in text.split(","))
    named = [word for word in found if word != "-"]
    if len(set(named)) < len(named):
        raise argparse.ArgumentTypeError(f"{text}: a column is named twice")
    if lacking := sorted({"metric", "value"} - set(named)):
        raise argparse.ArgumentTypeError(f"{text}: no column is named {lacking[0]}")
    return found


@dataclass(frozen=True)
class ReadingOptions:
    """How files of other tools are read. Without a unit they are rejected; without columns, CSV files are not read."""

    unit: Unit | None = option(
        "--unit run|boot",
        "files of other tools: what one file is, a run (all of a directory are from one boot) or a boot",
        one_of("unit", lambda: ("run", "boot")),
    )
    columns: tuple[str, ...] = option(
        "--columns NAME,...",
        f"CSV files: what each column is, in order; of {', '.join(COLUMNS)} (- is not read)",
        _columns,
        default=(),
    )


@dataclass(frozen=True)
class GateOptions:
    """The options of a gate. gates: None for `default`."""

    base: Path = option("BASE", "runs of the kernel without the change", a_path, nargs="?")
    candidate: Path = option("CANDIDATE", "runs of the kernel with it", a_path, nargs="?")
    gates: str | None = option(
        "--gates NAME|FILE", "gates file, or its name in configs/gates (default: default)", gates_file
    )
    placebo: Path | None = option(
        "--placebo DIR",
        "runs of the placebo kernel, to see how much of a change comes from the layout",
        a_path,
    )
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    trust: bool = flag("--trust", "judge runs that do not tell their machine or settings")
    incomplete: str = option(
        "--incomplete REASON",
        "why some boots have no runs of a tool, if it is not that they crashed; the result says so",
        default="",
    )
    budget: float | None = option(
        "--budget PERCENT", f"files of other tools: how much worse a metric may become (default: {BUDGET:g})", _percent
    )
    detect: float | None = option(
        "--detect PERCENT", f"files of other tools: the change that a PASS excludes (default: {DETECT:g})", _percent
    )
    json: Path | None = option("--json FILE", "write the result here too (schema gate-4)", new_file)
    html: Path | None = option("--html FILE", "write the page here", new_file)
    fleet: Path = option(
        "--fleet DIR",
        "compare on many machines: DIR has a directory for each, with base/ and candidate/ in it (schema fleet-gate-2)",
        a_path,
    )

    def command(self) -> str:
        """The shell command that makes the same files again."""
        return shlex.join(["schedline", "gate", *(word for _, word in given(self))])


def given(options: Any) -> Iterator[tuple[str, str]]:
    """The words of a command line with these options, each with the name of its field."""
    for each in fields(options):
        value = getattr(options, each.name)
        if is_dataclass(value):
            yield from given(value)
        elif value and each.metadata:
            one = ",".join(value) if isinstance(value, tuple) else value
            said = [] if one is True else [f"{one:g}" if isinstance(one, float) else str(one)]
            yield from ((each.name, word) for word in (*each.metadata["flags"], *said))


@dataclass(frozen=True)
class HistoryOptions:
    """The options of `gate history`."""

    directory: Path = option("DIR", "where gate --json wrote its results", existing_directory)
    json: Path | None = option("--json FILE", "write the result here too (schema gate-history-3)", new_file)


@dataclass(frozen=True)
class NamedKernel:
    """A kernel as the user named it. version, image, initrd: empty if not given."""

    label: str
    version: str
    image: str = ""
    initrd: str = ""


def _boots(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,3})(?:\.\.(\d{1,3}))?", text)
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most <= MOST_BOOTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of boots; write 10, or 6..20")
    return least, most


def _kernels(text: str) -> tuple[NamedKernel, ...]:
    found = []
    for each in split_list(text):
        label, _, named = each.partition("=")
        parts = named.split(":")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", label) or not parts[0] or len(parts) > 3:
            raise argparse.ArgumentTypeError(
                f"{each!r} is no kernel; write LABEL=VERSION or LABEL=VERSION:IMAGE:INITRD"
            )
        found.append(NamedKernel(label, "", parts[0]) if "/" in parts[0] else NamedKernel(label, *parts))
    if len({each.label for each in found}) < len(found):
        raise argparse.ArgumentTypeError("two kernels have the same label")
    if not 2 <= len(found) <= 3:
        raise argparse.ArgumentTypeError(f"{len(found)} kernels: give base and candidate, and perhaps a placebo")
    return tuple(found)


@dataclass(frozen=True)
class BootPlanOptions:
    """The options of `gate plan`: a plan to write, or with `directory` one that is there.

    boots: the least and the most of each kernel; None for those of the gates file.
    """

    directory: Path | None = option("DIR", "a plan that is there", existing_directory, nargs="?")
    boots: tuple[int, int] | None = option(
        "--boots N[..M]", "boots of each kernel; N..M: look between them (default: as the gates file)", _boots
    )
    kernels: tuple[NamedKernel, ...] = option(
        "--kernels LABEL=KERNEL,...", "the kernels: base, candidate, and perhaps a placebo", _kernels, default=()
    )
    out: Path = option("--out DIR", "directory for the plan, its service and the runs", new_directory)
    boot: str = option(
        "--boot",
        f"how a kernel is booted once: {', '.join(BOOT_COMMANDS)} (default: {next(iter(BOOT_COMMANDS))})",
        choices=tuple(BOOT_COMMANDS),
        default=next(iter(BOOT_COMMANDS)),
    )
    next_command: str | None = option(
        "--next-command COMMAND", "boots a kernel once; may have {label}, {version}, {image}, {initrd}"
    )
    gates: str = option(
        "--gates NAME|FILE", "gates file of the looks (default: default)", gates_file, default="default"
    )
    suite: str | None = option(
        "--suite NAME",
        lambda: f"(default: the suite of the gates file): {', '.join(workload_suites())}",
        one_of("suite", workload_suites),
    )
    only: tuple[str, ...] = option("--only ROW,...", "run only these rows of the suite", split_list, default=())
    runs: int = option(
        "--runs N", "runs of each row in each boot (default: 1; docs/gate.md advises 5)", positive, default=1
    )
    seed: int | None = option("--seed N", "seed of the order (default: a new one each time)", int)
    pairs: bool = flag("--pairs", "draw the order of each pair of boots, and judge within pairs; for short boots")
    losses: int = option(
        "--losses N",
        f"stop after so many lost boots of a kernel in a row (default: {LOSSES})",
        positive,
        default=LOSSES,
    )
    status: bool = flag("--status", "print how far the plan in DIR is")
    step: bool = flag("--step", "do what is to be done in this boot; it reboots the machine")
