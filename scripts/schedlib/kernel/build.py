# SPDX-License-Identifier: GPL-2.0
"""tree -> patched tree -> built kernel: planned, then built out of tree.

A build is incremental. It is skipped when the stamp of an earlier one still matches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib import doctor
from schedlib.cache import lock, read_json, write_json
from schedlib.errors import DoesNotBuild
from schedlib.kernel.kconfig import Configuration, configure, is_configured, load
from schedlib.kernel.targets import Target
from schedlib.options import ChangeOptions
from schedlib.process import clean_environment, dying_with_us, version_of
from schedlib.progress import step
from schedlib.tree.compose import Composition, compose, lost_by, refuse_conflicts, refuse_lost_members, with_tests
from schedlib.tree.kernel_tree import Tree, checked_out
from schedlib.tree.suites import KunitSuite, left_out, suite_table

_REPRODUCIBLE = {
    "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
    "KBUILD_BUILD_USER": "schedline",
    "KBUILD_BUILD_HOST": "schedline",
    "KBUILD_BUILD_VERSION": "1",
}
"""Together with -fdebug-prefix-map this makes equal sources give equal images."""

_KEPT = (".config", "vmlinux", "usr/gen_init_cpio")
"""Files of a build directory that are read after the build; those that do not exist are skipped."""


@dataclass(frozen=True)
class Kernel:
    """A built kernel: what is booted, the build directory, and the first line of the compiler's --version."""

    image: Path
    build: Path
    compiler: str

    def kept(self, place: Path) -> Kernel:
        """Copy the kernel to an empty directory, for a guest that still runs after the build directory is unlocked."""
        image = self.image.relative_to(self.build)
        for name in (image, *_KEPT):
            if (self.build / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.build / name, place / name)
        return replace(self, image=place / image, build=place)


@dataclass(frozen=True)
class KernelPlan:
    """What to build: `commit`, which is the composition's own unless something was added on top.

    Attributes:
        left_out: suites that cannot be built.
        lost: rules that cannot be judged, and why; no rules where it is a suite that does not compile.
    """

    tree: Tree
    target: Target
    composition: Composition
    configuration: Configuration
    commit: str
    left_out: tuple[KunitSuite, ...] = ()
    lost: tuple[tuple[frozenset[str], str], ...] = ()

    def describe(self) -> str:
        """The tree with the state of each change, for people."""
        dirty = f" (dirty: {self.tree.dirty} files)" if self.tree.dirty else ""
        changes = ", ".join(f"{row.id} {row.state.value}" for row in self.composition.states)
        return f"{self.tree.origin}{dirty} [{changes}]"


def plan_kernel(
    tree: Tree,
    target: Target,
    fragments: Sequence[str] = (),
    *,
    changes: ChangeOptions | None = None,
    expect: Collection[str] | None = None,
    base: str | None = None,
    in_part: bool = False,
) -> KernelPlan:
    """Compose a tree, see compose(), and choose its configuration: the target's, and more fragments on top.

    `in_part`: the caller tells KernelPlan.lost. Else a member that the tree has lost is an error.

    Raises SchedlineError: a tool is missing, an id is unknown, a change does not apply, or a suite that has to judge an
    expected change cannot be built.
    """
    changes = changes or ChangeOptions()
    composition = compose(tree, with_=changes.with_, without=changes.without, expect=expect, base=base)
    refuse_conflicts(composition)
    return composed_kernel(tree, target, composition, fragments, in_part=in_part)


def composed_kernel(
    tree: Tree, target: Target, composition: Composition, fragments: Sequence[str] = (), *, in_part: bool = False
) -> KernelPlan:
    """Choose the configuration for a tree that is composed already; SchedlineError as plan_kernel()."""
    doctor.require(["build", target.name])
    lost = []
    if in_part:
        lost = [(ids, f"{each.observed}; {each.next_step}") for ids, each in lost_by(tree, composition.commit)]
    else:
        refuse_lost_members(tree, composition.commit)
    lacking = left_out(tree, composition.expected)
    configuration = load([target.name, *fragments]).without([suite.option for suite in lacking])
    return KernelPlan(tree, target, composition, configuration, composition.commit, lacking, tuple(lost))


def without_broken(plan: KernelPlan, error: DoesNotBuild) -> KernelPlan:
    """A plan without the suite that does not compile, as the tree lacks something that it tests; or raises the error.

    One that is a unit of its own goes with all that its option builds.
    """
    found = re.search(r"kernel/sched/tests/(\w+\.c):\d+:.*", error.observed)
    left = [suite for suite in suite_table().values() if suite not in plan.left_out]
    its = next((suite for suite in left if found and suite.source == found[1]), None)
    if not found or not its:
        raise error
    if its.included_by:
        gone = [its]
        commit = with_tests(plan.tree, plan.commit, [its.name, *(suite.name for suite in plan.left_out)])
        plan = replace(plan, commit=commit)
    else:
        gone = [suite for suite in left if suite.option == its.option]
        plan = replace(plan, configuration=plan.configuration.without([its.option]))
    names = ", ".join(suite.name for suite in gone)
    lost = (frozenset[str](), f"{names}: {found[0]}")
    return replace(plan, left_out=(*plan.left_out, *gone), lost=(*plan.lost, lost))


def prepare_kernel(cache: Path, plan: KernelPlan, place: Path, home: Configuration | None = None) -> Kernel:
    """Build a plan as built(), and copy what is needed afterwards, so that no build has to wait for a guest.

    `place`: an empty directory for the copy; the caller removes it, see cache.scratch().
    """
    with built(cache, plan.tree, plan.commit, plan.target, plan.configuration, home) as kernel:
        return kernel.kept(place)


def build_directory(cache: Path, tree: Tree, target: Target, configuration: Configuration) -> Path:
    """The directory for builds of a tree in one configuration."""
    return cache / "builds" / f"{tree.name}-{target.name}-{configuration.digest()}"


@contextmanager
def built(
    cache: Path,
    tree: Tree,
    commit: str,
    target: Target,
    configuration: Configuration,
    home: Configuration | None = None,
) -> Iterator[Kernel]:
    """Build a commit for a target, and lock the build directory until the context ends.

    Do not wait for a guest while the lock is held; boot a copy (Kernel.kept()).

    `home`: the configuration whose build directory to use, if not that of `configuration`: of configurations that
    differ in few options, each compiles only what these options affect.

    Raises DoesNotBuild: it does not compile or link. Raises SchedlineError: Kconfig dropped a line.
    """
    directory = build_directory(cache, tree, target, home or configuration)
    with lock(directory.with_name(f"{directory.name}.lock")):
        kernel = Kernel(directory / target.image, directory, compiler_version(target.compiler))
        stamp = {"commit": commit, "configuration": configuration.text(), "compiler": kernel.compiler}
        record = directory / "stamp.json"
        if read_json(record) != stamp | {"image": _identity(kernel.image)}:
            record.unlink(missing_ok=True)
            with checked_out(tree, commit):
                _build(tree, directory, target, configuration)
            write_json(record, stamp | {"image": _identity(kernel.image)})
        yield kernel


def _build(tree: Tree, directory: Path, target: Target, configuration: Configuration) -> None:
    variables = [f"CROSS_COMPILE={target.compiler}"]
    if not is_configured(directory, configuration):
        with step(f"configuring {'+'.join(configuration.names)}"):
            configure(tree.src, directory, target.arch, configuration, variables)
    with step(f"building {target.goal} for {target.name} with {os.cpu_count()} jobs"):
        make_as_configured(tree, directory, target.arch, configuration, variables, [target.goal])


def compiler_version(prefix: str) -> str:
    """The first line of `gcc --version`, of the compiler with this prefix."""
    return version_of(f"{prefix}gcc")


def _identity(image: Path) -> list[int]:
    with suppress(OSError):
        return [image.stat().st_size, image.stat().st_mtime_ns]
    return []


def make_as_configured(
    tree: Tree, directory: Path, arch: str, wanted: Configuration, variables: Sequence[str], goals: Sequence[str]
) -> None:
    """Configure the directory if that is needed, and run make.

    If Kconfig files have changed, make runs Kconfig again, which may drop lines. Then configure and make once more.

    Raises Dropped: this tree cannot have the configuration. Raises SchedlineError: Kconfig or make failed.
    """
    words = [*variables]
    if all(wanted.values.get(name) == "y" for name in ("CONFIG_DEBUG_INFO_BTF", "CONFIG_SCHED_LAYOUT_KUNIT_TEST")):
        # Only the layout suite reads the BTF. Debug information of that suite alone is faster to build.
        words += [f"KCFLAGS={_flags(tree.src, directory)} -g0", "CFLAGS_sched_layout_kunit.o=-g"]
    words += goals  # they may have variables of their own, and the last one holds
    for _ in range(2):
        if not is_configured(directory, wanted):
            configure(tree.src, directory, arch, wanted, variables)
        make(tree.src, directory, arch, words)
        if is_configured(directory, wanted):
            return


def _flags(src: Path, directory: Path) -> str:
    # Without directory names in the debug information the build-id and c2c's counts do not depend on the directory.
    # Nobody asks where a variable lives.
    return f"-fdebug-prefix-map={directory}=. -fdebug-prefix-map={src}=. -fno-var-tracking"


def make(src: Path, directory: Path, arch: str, goals: Sequence[str]) -> None:
    """Run make, with its output in <directory>/build.log; DoesNotBuild, with the first error, if it fails."""
    log, flags = directory / "build.log", _flags(src, directory)
    # An empty LOCALVERSION keeps git's state out of the release string, which many files include.
    argv = ["make", f"-j{os.cpu_count() or 1}", f"ARCH={arch}", f"O={directory}", "LOCALVERSION=", *goals]
    with log.open("wb") as file:
        process = subprocess.Popen(
            dying_with_us(argv),
            cwd=src,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=clean_environment(_REPRODUCIBLE | {"KCFLAGS": flags, "KAFLAGS": flags}),
            start_new_session=True,
        )
        try:
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, 15)
            process.wait()
            raise
    if status:
        said = first_error(log.read_text(errors="replace"))
        raise DoesNotBuild(f"the kernel does not build:\n    {said}", f"see {log}")


def first_error(text: str) -> str:
    """The first error in a build log and the three lines after it, or what was said before make stopped.

    The last lines of the log if there is neither.
    """
    lines = text.splitlines()
    error = re.compile(r": (?:fatal )?error: |undefined reference|No space left|^ERROR: |: Error: ")
    first = next((number for number, line in enumerate(lines) if error.search(line)), None)
    if first is None:
        first = next((max(number - 1, 0) for number, line in enumerate(lines) if "*** [" in line), None)
    return "\n    ".join(lines[-5:] if first is None else lines[first : first + 4])
