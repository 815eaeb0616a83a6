# SPDX-License-Identifier: GPL-2.0
"""built kernel -> initramfs: the programs of selftests/, for a guest that has nothing else."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path, PurePosixPath

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.kernel.build import Kernel
from schedlib.kernel.targets import Target
from schedlib.paths import COLLECTION, KSELFTESTS, SELFTESTS
from schedlib.process import must
from schedlib.progress import step
from schedlib.tree.kernel_tree import Tree
from schedlib.tree.selftest_programs import DIRECTORY, LIBRARY, program_sources

FRAGMENT = "selftests"
"""The fragment of configs/kernel/ that the kernel needs for them."""

_FLAG = re.compile(r"-[A-Za-z][^\s$]*")
_DIRECTORIES = ("/proc", "/sys")


def flags(makefile: str) -> list[str]:
    """The compiler options that a Makefile adds to CFLAGS, except $(KHDR_INCLUDES)."""
    found = re.search(r"^CFLAGS \+= (.*)$", makefile, re.M)
    return _FLAG.findall(found.group(1)) if found else []


def compile_program(tree: Tree, source: Path, binary: Path, *more: str, compiler: str = "gcc") -> None:
    """Compile a program as the collection's Makefile does, with its library, more flags and the tree's kselftest.h.

    SchedlineError if it does not compile, or the tree has no such header.
    """
    name = f"{KSELFTESTS}/kselftest.h"
    header = tree.read(name)
    if header is None:
        raise SchedlineError(f"{tree.origin} has no {name}", "use a kernel tree that has its selftests")
    # Take the header from git, because the work tree shows the commit that was built last.
    with tempfile.TemporaryDirectory(prefix="schedline-") as scratch:
        Path(scratch, "kselftest.h").write_text(header)
        words = [*flags((DIRECTORY / "Makefile").read_text()), *more, "-iquote", scratch]
        library = [str(LIBRARY)] if f'#include "{LIBRARY.stem}.h"' in source.read_text() else []
        must([compiler, *words, "-o", str(binary), str(source), *library, "-lm"], next_step="schedline doctor")


def compile_all(tree: Tree, programs: Mapping[str, Path], directory: Path, target: Target) -> dict[str, Path]:
    """Link programs statically; the path of each here, by its path in the guest."""
    directory.mkdir(exist_ok=True)
    found = {}
    with step(f"compiling {len(programs)} programs for {target.name}"):
        for name, source in programs.items():
            found[name] = directory / source.stem
            compile_program(tree, source, found[name], "-Werror", "-static", compiler=f"{target.compiler}gcc")
    return found


def own_programs() -> dict[str, Path]:
    """The source of each workload, by its path in a guest."""
    return {f"/{COLLECTION}/{name}": path for name, path in program_sources().items()}


def pack(kernel: Kernel, files: Mapping[str, Path], directories: Collection[str], archive: Path) -> None:
    """Pack files and all their parent directories, with the kernel's own gen_init_cpio."""
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"/"}
    rows = [f"dir {name} 755 0 0" for name in sorted(parents | set(directories))]
    rows += [f"file {name} {path} 755 0 0" for name, path in files.items()]
    listed = archive.with_suffix(".list")
    write_atomic(listed, "\n".join(rows) + "\n")
    packed = must([kernel.build / "usr/gen_init_cpio", listed], next_step="build the kernel again")
    write_atomic(archive, packed.encode(errors="surrogateescape"))


def initramfs(kernel: Kernel, tree: Tree, target: Target, programs: Collection[str]) -> Path:
    """An initramfs with these workloads, and an /init that runs each of them."""
    directory = kernel.build / FRAGMENT
    chosen = {path: source for path, source in own_programs().items() if source.stem in programs}
    wanted = {"/init": SELFTESTS / "guest_init.c", **chosen}
    archive = directory / "initramfs.cpio"
    pack(kernel, compile_all(tree, wanted, directory, target), _DIRECTORIES, archive)
    return archive
