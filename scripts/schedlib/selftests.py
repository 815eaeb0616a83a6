# SPDX-License-Identifier: GPL-2.0
"""built kernel -> initramfs: the programs of selftests/, for a guest that has nothing else."""

from __future__ import annotations

import re
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

PLACE = "tools/testing/selftests"
"""Where a kernel tree has its selftests."""

_FLAG = re.compile(r"-[A-Za-z][^\s$]*")
_DIRECTORIES = ("proc", "sys", COLLECTION)


def flags(makefile: str) -> list[str]:
    """What CFLAGS adds, but for the headers of the kernel's build."""
    found = re.search(r"^CFLAGS \+= (.*)$", makefile, re.M)
    return _FLAG.findall(found.group(1)) if found else []


def compile_program(tree: Tree, source: Path, binary: Path, *more: str, compiler: str = "gcc") -> None:
    """Compile a program as the collection's Makefile does, with the tree's kselftest.h.

    Args:
        more: flags.

    Raises:
        SchedlineError: it does not compile.
    """
    # Any directory beside ours will do: the programs include ../kselftest.h.
    headers = ["-iquote", str(tree.src / PLACE / "sched")]
    words = [*flags((SELFTESTS / COLLECTION / "Makefile").read_text()), *more, *headers]
    must([compiler, *words, "-o", str(binary), str(source)], next_step="schedline doctor")


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
    with step(f"compiling {len(programs)} programs for {target.name}"):
        for name, source in programs.items():
            binary = directory / source.stem
            compile_program(tree, source, binary, "-Werror", "-static", compiler=f"{target.compiler}gcc")
            rows.append(f"file /{name} {binary} 755 0 0")
    write_atomic(directory / "list", "\n".join(rows) + "\n")
    archive = directory / "initramfs.cpio"
    packed = must([kernel.build / "usr/gen_init_cpio", directory / "list"], next_step="build the kernel again")
    write_atomic(archive, packed.encode(errors="surrogateescape"))
    return archive
