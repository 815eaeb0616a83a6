# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline dev mutants` and `schedline dev test-tree`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from schedlib.options import TreeOptions

ATTACK = "attack"
"""For --on: new members and moves in every contracted structure, compiled and judged by the contracts."""

EMULATED = "c2c"
"""For --on: count the cache-line traffic of mutants whose Traffic header says what has to rise."""


@dataclass(frozen=True)
class MutantsOptions:
    """Which mutants are tried, and where; see --help."""

    tree: TreeOptions
    on: str | None
    from_: Path | None
    only: str | None
    json: Path | None


_TESTS = "--kunitconfig=kernel/sched/tests"
_UML = "--kernel_args=seccomp=on"


@dataclass(frozen=True)
class KunitRun:
    """One run of kunit.py.

    Attributes:
        words: its arguments.
        timeout: in seconds.
        build: its build directory, which runs of one configuration share.
        without: the suites that it does not build.
    """

    words: tuple[str, ...]
    timeout: float
    build: str
    without: tuple[str, ...] = ()


KUNIT_RUNS = {
    "uml": KunitRun((_TESTS, _UML, "--kernel_args=ncpus=64", "--kernel_args=maxcpus=8"), 1200, "uml"),
    # What a CI boots: the tests that need more possible CPUs are skipped.
    "uml-8": KunitRun((_TESTS, _UML, "--kernel_args=ncpus=8"), 1200, "uml"),
    "uml-2": KunitRun((_TESTS, _UML, "--kernel_args=ncpus=2"), 1200, "uml"),
    "qemu": KunitRun((_TESTS, "--arch=x86_64", "--qemu_args=-smp 8"), 2400, "qemu"),
    # These rebuild sched domains, so their options have no `default KUNIT_ALL_TESTS`.
    "alltests": KunitRun(
        ("--alltests",), 5400, "alltests", ("sched_topology", "sched_root_domain", "sched_cluster", "sched_wakeup")
    ),
}


@dataclass(frozen=True)
class PlainTreeOptions:
    """The tree, and which of KUNIT_RUNS to skip."""

    tree: TreeOptions
    skip: tuple[str, ...]
