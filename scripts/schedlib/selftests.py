# SPDX-License-Identifier: GPL-2.0
"""built kernel -> initramfs: the programs of selftests/, for a guest that has nothing else."""

from __future__ import annotations

from pathlib import Path

from schedlib.build import Kernel
from schedlib.cache import write_atomic
from schedlib.command import must
from schedlib.paths import SELFTESTS
from schedlib.progress import step
from schedlib.targets import Target
from schedlib.trees import Tree

FRAGMENT = "selftests"
"""What the kernel has to have, in configs/kernel/."""

COLLECTION = "sched_latency"

# What the directory's Makefile has, and what a guest without libraries needs.
_FLAGS = ("-O2", "-Wall", "-Wextra", "-pthread", "-Werror", "-static")
_DIRECTORIES = ("proc", "sys", COLLECTION)


def initramfs(kernel: Kernel, tree: Tree, target: Target) -> Path:
    """Compile the programs without shared libraries, and pack them with the kernel's own gen_init_cpio.

    Raises:
        SchedlineError: a program does not compile.
    """
    directory = kernel.build / FRAGMENT
    directory.mkdir(exist_ok=True)
    rows = [f"dir /{name} 755 0 0" for name in _DIRECTORIES]
    programs = {"init": SELFTESTS / "guest_init.c"}
    programs |= {f"{COLLECTION}/{path.stem}": path for path in sorted((SELFTESTS / COLLECTION).glob("*.c"))}
    # Any directory beside ours will do: the programs include ../kselftest.h.
    headers = tree.src / "tools/testing/selftests/sched"
    with step(f"compiling {len(programs)} programs for {target.name}"):
        for name, source in programs.items():
            binary = directory / source.stem
            words = [*_FLAGS, "-iquote", str(headers), "-o", str(binary), str(source)]
            must([f"{target.compiler}gcc", *words], next_step="schedline doctor")
            rows.append(f"file /{name} {binary} 755 0 0")
    write_atomic(directory / "list", "\n".join(rows) + "\n")
    archive = directory / "initramfs.cpio"
    packed = must([kernel.build / "usr/gen_init_cpio", directory / "list"], next_step="build the kernel again")
    write_atomic(archive, packed.encode(errors="surrogateescape"))
    return archive
