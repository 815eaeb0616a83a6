# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline run` and `schedline kernels`."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, field
from pathlib import Path

from schedlib import names
from schedlib.names import one_of, words, workload_suites
from schedlib.options import (
    CHANGES,
    ChangeOptions,
    TreeOptions,
    cpu_count,
    existing_path,
    flag,
    fragments,
    new_directory,
    new_file,
    new_path,
    option,
    positive,
    seconds,
)

PLAN = "plan"
"""The file that marks a directory with runs. Without .json, because readers take each .json file for a run."""

GUESTS = ("qemu-x86_64", "qemu-arm64")
"""The targets whose guests have a disk, through which results are returned."""


def _pythons(text: str) -> tuple[str, ...]:
    for version in words(text):
        if not re.fullmatch(r"3\.\d{1,3}", version) or int(version[2:]) < 11:
            raise argparse.ArgumentTypeError(
                f"{version!r} is no version of Python that schedline runs on: 3.11 or later"
            )
    return words(text)


@dataclass(frozen=True)
class GuestOptions:
    """The guest of --in-guest."""

    on: str | None = option(
        "--on TARGET", f"{' or '.join(GUESTS)} (default: {GUESTS[0]})", one_of("guest", lambda: GUESTS)
    )
    timeout: float | None = option("--timeout SECONDS", "end the guest after this time", seconds)
    cpus: int | None = option("--cpus N", "CPUs of the guest (default: 8)", cpu_count, group="shape")
    topology: str | None = option(
        "--topology NAME",
        "boot the guest with the shape in configs/topologies/NAME.toml",
        one_of("topology", names.topology_names),
        group="shape",
    )
    config: tuple[str, ...] = option(
        "--config FRAGMENT,...", "fragments of configs/kernel/, or paths, added in this order", fragments, default=()
    )


@dataclass(frozen=True)
class RunOptions:
    """A suite, and where its runs go.

    Attributes:
        suite, runs, seed: None for those of the plan in `out`; without a plan, one run of each row in a new order.
        tree, changes: the kernel of a guest.
        guest: None for this machine.
    """

    suite: str | None = option(
        "--suite NAME",
        lambda: f"the workloads to run: {', '.join(workload_suites())}",
        one_of("suite", workload_suites),
    )
    runs: int | None = option("--runs N", "how often to run each workload (default: 1)", positive)
    out: Path | None = option(
        "--out DIR",
        "directory for the runs; each boot has its own below it (default: a new one in the cache)",
        new_directory,
    )
    seed: int | None = option("--seed N", "seed of the random order (default: a new one each time)", int)
    report: Path | None = option("--report DIR", "sum up the run files in DIR; run nothing", existing_path)
    json: Path | None = option("--json FILE", "write the summary as JSON (schema runs-1)", new_path)
    lava: Path | None = option("--lava FILE", "write verdicts and figures in the format of send-to-lava.sh", new_path)
    only: tuple[str, ...] = option("--only ROW,...", "run only these rows of the suite", words, default=())
    listing: bool = flag("--list", "print the rows, their commands and durations; run nothing")
    tree: TreeOptions = field(default_factory=TreeOptions)
    changes: ChangeOptions = field(default_factory=ChangeOptions)
    guest: GuestOptions | None = None


@dataclass(frozen=True)
class PackOptions:
    """A bundle for a machine that is to be measured. tree: whose kselftest.h the programs include."""

    file: Path = option("--pack FILE", "write the bundle (.tar.gz); run nothing", new_file)
    pythons: tuple[str, ...] = option(
        "--python X.Y,...", "versions of Python there (default: this one); others are downloaded", _pythons, default=()
    )
    looks: bool = flag("--looks", "pack also what `schedline gate` needs, so that a plan of boots can stop early")
    tree: TreeOptions | None = None


@dataclass(frozen=True)
class KernelsOptions:
    """The two or three kernels to build. placebo: True for the carried one."""

    config: Path = option("--config FILE", "the .config of all kernels", existing_path, required=True)
    tree: TreeOptions = field(default_factory=TreeOptions)
    base: str | None = option("--base REV", "revision of your tree without the change")
    head: str | None = option("--head REV", "revision of your tree with the change")
    changes: tuple[str, ...] = option(
        "--change ID,...", "instead of revisions: build without and with these carried changes", CHANGES, default=()
    )
    with_: tuple[str, ...] = option("--with ID,...", "changes that all kernels get", CHANGES, default=())
    placebo: Path | bool = option(
        "--placebo FILE",
        "build a third kernel, with the carried placebo of the change or with this patch",
        existing_path,
        default=False,
        nargs="?",
        const=True,
    )
    package: str = option("--package", "deb (default) or tar", default="deb", choices=("deb", "tar"))
    out: Path = option(
        "--out DIR", "directory for the packages (default: ./kernels)", new_directory, default=Path("kernels")
    )
