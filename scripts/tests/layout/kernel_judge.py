# SPDX-License-Identifier: GPL-2.0
"""kunit/sched_layout_kunit.c as a program for user space, which judges toy structures by the BTF that pahole makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import toys

from conftest import write_files
from schedlib.contracts.c_tables import TABLE
from schedlib.contracts.contract_rules import Rules
from schedlib.paths import KUNIT

_PROGRAM = Path(__file__).parent / "kernel-judge"
"""What stands in for the kernel, and main()."""


ONE_CHANGE = (
    "ONE_CHANGE",
    "SCHED_KUNIT_EXPORTED",
    *(f"SCHED_KUNIT_NO_{name}" for name in ("RD_LINES", "CPUPRI_LINES", "CPUPRI_SPLIT", "RQ_READERS")),
)
"""Names for a table that has rules of rq-order alone, in the exported form."""


def program(
    directory: Path, rules: Rules, table: str, *names: str, line: int = 64, sched_h: str = toys.SCHED_H
) -> Path:
    """The kernel's test for one toy kernel, and types.o beside it.

    Args:
        table: what is made from the rules.
        names: of options and defects; see toys.defines(). NO_BTF: the kernel was built with BTF, and has none.
    """
    toys.needs("pahole")
    stubs = {f"include/linux/{name}.h": "" for name in ("bpf", "cleanup", "cpu", "moduleparam", "string")}
    code = {f"tests/{name}": (KUNIT / name).read_text() for name in ("sched_layout_kunit.c", "sched_kunit_expect.h")}
    code |= {f"tests/{TABLE}": table, "tests/types.c": toys.types_unit(rules)}
    toy = {"sched.h": sched_h, "cpudeadline.h": ""}
    write_files(directory, stubs | code | toy)
    shutil.copytree(_PROGRAM, directory, dirs_exist_ok=True)
    if not any(name.endswith("CONFIG_DEBUG_INFO_BTF") for name in names):
        names = (*names, "CONFIG_DEBUG_INFO_BTF")
    flags = [f"-I{directory / 'include'}", "-w", "-g", *toys.defines(*names, line=line)]
    types, btf = directory / "types.o", directory / "types.btf"
    done = toys.gcc(directory / "tests/types.c", types, *flags)
    assert done.returncode == 0, done.stderr.decode()
    subprocess.run(["pahole", f"--btf_encode_detached={btf}", str(types)], check=True, capture_output=True)
    done = toys.gcc(directory / "tests/main.c", directory / "main.o", f'-DBTF_FILE="{btf}"', *flags)
    assert done.returncode == 0, done.stderr.decode()
    linked = ["gcc", "-no-pie", "-o", str(directory / "judge"), str(directory / "main.o")]
    subprocess.run(linked, check=True, capture_output=True)
    return directory / "judge"


def judged(judge: Path, expected: tuple[str, ...] = ()) -> dict[str, tuple[str, str]]:
    """Outcome of each rule, and the text of its first failure or its skip."""
    argv = [str(judge), ",".join(expected)]
    rows = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    return {rule: (outcome, text) for rule, outcome, text in (row.split("\t") for row in rows)}
