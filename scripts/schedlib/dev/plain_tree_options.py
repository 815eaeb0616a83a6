# SPDX-License-Identifier: GPL-2.0
"""The options of `schedline dev test-tree`."""

from __future__ import annotations

from dataclasses import dataclass

from schedlib.options import TreeOptions

_TESTS = "--kunitconfig=kernel/sched/tests"
_UML = ("--kernel_args=ncpus=64", "--kernel_args=maxcpus=8", "--kernel_args=seccomp=on")

KUNIT_RUNS: dict[str, tuple[tuple[str, ...], float]] = {
    "uml": ((_TESTS, *_UML), 1200),
    "qemu": ((_TESTS, "--arch=x86_64", "--qemu_args=-smp 8"), 2400),
    "alltests": (("--alltests",), 5400),
}
"""For each run: arguments for kunit.py, and the time limit in seconds."""


@dataclass(frozen=True)
class PlainTreeOptions:
    """The tree, and which of KUNIT_RUNS to skip."""

    tree: TreeOptions
    skip: tuple[str, ...]
