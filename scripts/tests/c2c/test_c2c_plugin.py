# SPDX-License-Identifier: GPL-2.0
"""Parts of the plugin without QEMU: what it says about pages of a guest's memory, and which calls of QEMU it uses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from schedlib.c2c.c2c_options import SOURCES

pytestmark = pytest.mark.tools

PLAN = "memory {} =ffff888000000000 =ffffc90000000000 64 8 48 52 245 242 248 8 80 32 36"
VARIABLE, FIXED = "ffffffff81000bb8", "=ffffea0000000000"
KINDS = """\
areas ffffea0000000000 ffff888000000000 ffffc90000000000
page ffff888000000000 slab kmalloc-64 ffff888000000000 64 64
again ffff888000001000
page ffff888000001000 table
page ffff888000002000 table
again ffff888000003000
page ffff888000003000 slab things ffff888000003000 128 128
page ffff888000004000 stack
page ffff888000005000 slab things ffff888000005000 128 128
page ffff888000006000 slab things ffff888000005000 128 128
"""


@pytest.mark.parametrize("place", [VARIABLE, FIXED])
def test_pages_are_described(tmp_path: Path, place: str) -> None:
    program, here = tmp_path / "guest", Path(__file__).with_name("fake_memory.c")
    words = ["gcc", "-Wall", "-Wextra", "-Werror", f"-I{SOURCES}", "-o", str(program), str(here)]
    subprocess.run([*words, str(SOURCES / "memory.c")], check=True)
    plan = PLAN.format(place)
    assert subprocess.run([program, plan], check=True, capture_output=True, text=True).stdout == KINDS


def told_by_stubs(place: Path, *has: str) -> list[str]:
    """What the plugin's calls do in a QEMU that has some symbols."""
    stubs = Path(__file__).with_name("qemu_stubs.c")
    words = ["gcc", "-O1", "-rdynamic", f"-I{SOURCES}", *(f"-D{name}" for name in has), "-o", str(place / "stubs")]
    subprocess.run([*words, str(stubs), str(SOURCES / "internals.c")], check=True)
    return subprocess.run([place / "stubs"], check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("has", "told"),
    [
        # QEMU 7.2. What CPU 0 does not map is read through CPU 1.
        (("CPU", "DEBUG"), ["version 1, complete", "code 0", "dddddddd", "dddddddd", "ended 1"]),
        # QEMU 10 reads with the official call, and through another CPU only what this CPU does not map.
        (("CPU", "DEBUG", "NEW"), ["version 4, complete", "code 0", "oooooooo", "dddddddd", "ended 1"]),
        # A QEMU that exports nothing but the API and what ends a turn.
        (("CPU", "NEW"), ["version 4, complete", "code 0", "oooooooo", "nothing", "ended 1"]),
        (("CPU",), ["version 1, cpu_memory_rw_debug"]),
        (("NEW",), ["version 4, qemu_get_cpu"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_the_calls_that_a_qemu_has(tmp_path: Path, has: tuple[str, ...], told: list[str]) -> None:
    assert told_by_stubs(tmp_path, *has) == told
