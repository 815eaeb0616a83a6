# SPDX-License-Identifier: GPL-2.0
"""patched tree -> built kernel: out of tree, kept warm, skipped when the stamp of an earlier build still holds."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.cache import read_json, write_json
from schedlib.errors import SchedlineError
from schedlib.kernel.kconfig import Configuration, configure, is_configured
from schedlib.kernel.targets import Target
from schedlib.process import clean_environment, dying_with_us, run
from schedlib.progress import step
from schedlib.tree.kernel_tree import Tree, sync

_REPRODUCIBLE = {
    "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
    "KBUILD_BUILD_USER": "schedline",
    "KBUILD_BUILD_HOST": "schedline",
    "KBUILD_BUILD_VERSION": "1",
}
"""With _prefix_maps(), equal sources give equal images."""


def _prefix_maps(*directories: Path) -> dict[str, str]:
    """Options that keep the names of directories out of the debug information, and by that out of the build-id: c2c
    counted two builds of one source as differently as two quanta, because they lay in two places."""
    words = " ".join(f"-fdebug-prefix-map={directory}=." for directory in directories)
    return {"KCFLAGS": words, "KAFLAGS": words}


@dataclass(frozen=True)
class Kernel:
    """A built kernel.

    Attributes:
        image: what the target runs.
        build: the build directory.
        seconds: wall time of make; 0.0 when the build was up to date.
        compiler: first line of `gcc --version`.
    """

    image: Path
    build: Path
    seconds: float
    compiler: str


def build_directory(cache: Path, tree: Tree, target: Target, configuration: Configuration) -> Path:
    """Where a tree's build of one configuration is kept."""
    return cache / "builds" / f"{tree.name}-{target.name}-{configuration.digest()}"


def build(cache: Path, tree: Tree, commit: str, target: Target, configuration: Configuration) -> Kernel:
    """Sync the tree to a commit and make the target's image; one make, nothing when the stamp matches.

    Raises:
        SchedlineError: Kconfig dropped a line, or the kernel does not build (with the compiler's first error).
    """
    directory = build_directory(cache, tree, target, configuration)
    image = directory / target.image
    compiler = compiler_version(target.compiler)
    variables = [f"CROSS_COMPILE={target.compiler}"]
    stamp = {"commit": commit, "configuration": configuration.text(), "compiler": compiler}
    written = read_json(directory / "stamp.json")
    if written and written == stamp | {"image": _identity(image)}:
        return Kernel(image, directory, 0.0, compiler)
    (directory / "stamp.json").unlink(missing_ok=True)
    sync(tree, commit)
    if not is_configured(directory, configuration):
        with step(f"configuring {'+'.join(configuration.names)}"):
            configure(tree, directory, target.arch, configuration, variables)
    start = time.monotonic()
    with step(f"building {target.image_target} for {target.name} with {os.cpu_count()} jobs"):
        make_as_configured(tree, directory, target.arch, configuration, variables, [target.image_target])
    write_json(directory / "stamp.json", stamp | {"image": _identity(image)})
    return Kernel(image, directory, time.monotonic() - start, compiler)


def compiler_version(prefix: str) -> str:
    """The first line of `gcc --version`, of the compiler with this prefix."""
    return run([f"{prefix}gcc", "--version"]).stdout.decode(errors="replace").split("\n")[0]


def _identity(image: Path) -> list[int]:
    try:
        status = image.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def make_as_configured(
    tree: Tree, directory: Path, arch: str, wanted: Configuration, variables: Sequence[str], goals: Sequence[str]
) -> None:
    """Configure the directory where that is needed, and make. If Kconfig files have changed, make asks them anew and
    may leave lines out: then once more from the beginning.

    Raises:
        Dropped: this tree cannot have the configuration.
        SchedlineError: Kconfig or make failed.
    """
    for _ in range(2):
        if not is_configured(directory, wanted):
            configure(tree, directory, arch, wanted, variables)
        make(tree.src, directory, arch, [*variables, *goals])
        if is_configured(directory, wanted):
            return


def make(src: Path, directory: Path, arch: str, goals: Sequence[str]) -> None:
    """Run make in a kernel tree; its output goes to <directory>/build.log.

    Raises:
        SchedlineError: it failed; the message has the first error of compiler or linker.
    """
    log = directory / "build.log"
    # An empty LOCALVERSION keeps git's state out of the release string, which would rebuild what includes it.
    argv = ["make", f"-j{os.cpu_count() or 1}", f"ARCH={arch}", f"O={directory}", "LOCALVERSION=", *goals]
    with log.open("wb") as file:
        process = subprocess.Popen(
            dying_with_us(argv),
            cwd=src,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=clean_environment(_REPRODUCIBLE | _prefix_maps(directory, src)),
            start_new_session=True,
        )
        try:
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, 15)
            process.wait()
            raise
    if status:
        raise SchedlineError(
            f"the kernel does not build:\n    {first_error(log.read_text(errors='replace'))}",
            f"see {log}",
        )


def first_error(text: str) -> str:
    """The first error in a build log with the lines that explain it; its last lines when none is recognised."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if re.search(r"(?:: (?:fatal )?error: |undefined reference|No space left|^ERROR: |: Error: )", line):
            return "\n    ".join(lines[number : number + 4])
    return "\n    ".join(lines[-5:])
