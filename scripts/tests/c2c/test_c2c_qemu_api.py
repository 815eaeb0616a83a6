# SPDX-License-Identifier: GPL-2.0
"""The plugin chooses its calls by what the QEMU that loads it has: held against stubs of both versions of the API."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from schedlib.c2c.c2c_options import SOURCES

pytestmark = pytest.mark.tools


def said(place: Path, *has: str) -> list[str]:
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
    assert said(tmp_path, *has) == told
