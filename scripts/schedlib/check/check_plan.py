# SPDX-License-Identifier: GPL-2.0
"""What a check boots, and the tests that each guest has to run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from schedlib.check.check_options import CheckOptions
from schedlib.console.expected import expected_tests
from schedlib.errors import SchedlineError
from schedlib.guest.command_line import refuse_impossible
from schedlib.kernel.targets import Target
from schedlib.kernel.topology import Topology, load_topology
from schedlib.tree.changes import change_table
from schedlib.tree.left_out import LeftOut


@dataclass(frozen=True)
class CheckPlan:
    """The guests to boot: target, CPU counts, expected changes, kernel parameters, and the suites that are left out."""

    target: Target
    classes: tuple[int, ...]
    expected: frozenset[str]
    arguments: tuple[str, ...]
    only: str | None
    timeout: float
    topology: Topology | None = None
    left_out: tuple[LeftOut, ...] = ()
    selftests: bool = False
    sanitizer: str | None = None

    def tests(self, cpus: int) -> tuple[str, ...]:
        """The tests that a guest with this number of CPUs has to run: the KUnit suites, or the selftests instead."""
        return expected_tests(cpus, self.only, [suite.name for suite in self.left_out], selftests=self.selftests)

    def parameters(self) -> tuple[str, ...]:
        """The parameters for the guest kernel."""
        only = (f"kunit.filter_glob={self.only}",) if self.only else ()
        shape = self.topology.arguments if self.topology else ()
        return (*expect_arguments(self.expected), *only, *shape, *self.arguments)


def expect_arguments(expected: Collection[str]) -> tuple[str, ...]:
    """The kernel parameters that tell each suite which of the changes that it judges are expected."""
    by_suite: dict[str, list[str]] = {}
    for name, change in sorted(change_table().items()):
        if change.suite and name in expected:
            by_suite.setdefault(change.suite, []).append(name)
    return tuple(f"{suite}_kunit.expect={','.join(names)}" for suite, names in by_suite.items())


def make_plan(
    target: Target, options: CheckOptions, expected: frozenset[str], left_out: tuple[LeftOut, ...] = ()
) -> CheckPlan:
    """The plan that the options ask for.

    Raises:
        SchedlineError: there is no such topology, the emulator does not support it, or the target cannot run selftests.
    """
    if options.selftests and not target.emulator:
        raise SchedlineError(f"--selftests: a guest on {target.name} can only run KUnit", "use --on qemu-arm64")
    topology = load_topology(options.topology) if options.topology else None
    if topology:
        refuse_impossible(target, topology)
    return CheckPlan(
        target,
        (topology.cpus,) if topology else options.cpus or target.classes,
        expected,
        options.kernel_args,
        options.only,
        options.timeout or target.timeout,
        topology,
        left_out,
        options.selftests,
        options.sanitize,
    )
