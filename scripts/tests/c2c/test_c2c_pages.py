# SPDX-License-Identifier: GPL-2.0
"""What the plugin says about pages of a guest, held against a guest's memory that is made here."""

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
