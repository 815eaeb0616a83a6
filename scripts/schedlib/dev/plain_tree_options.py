# SPDX-License-Identifier: GPL-2.0
"""What `schedline dev test-tree` is asked for."""

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
"""Words for kunit.py, and seconds, of each run."""


@dataclass(frozen=True)
class PlainTreeOptions:
    """Which tree, and which of KUNIT_RUNS are left out."""

    tree: TreeOptions
    skip: tuple[str, ...]
