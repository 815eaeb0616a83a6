# SPDX-License-Identifier: GPL-2.0
"""The first process of a guest that runs a user's program, tried here: as the first process of namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from toy_kernel import script
from toy_results import measurement

from schedlib.c2c import plugin_guest
from schedlib.c2c.c2c_options import SOURCES, OwnProgram
from schedlib.cache import cache_dir
from schedlib.kernel.targets import TARGETS

pytestmark = pytest.mark.tools

TARGET = TARGETS["qemu-x86_64"]
APART = ("unshare", "--pid", "--mount", "--net", "--fork", "--kill-child")
DONE = "c2c: done, 1 operations"
Runner = Callable[[OwnProgram], str]

PROGRAM = r"""
#define _GNU_SOURCE
#include <math.h>
#include "guest.h"
int main(int argc, char **argv)
{
	printf("%d words, the last is %s, %g\n", argc, argv[argc - 1], cos(argc - argc));
	MARK_START();
	MARK_STOP();
	return 0;
}
"""


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    """Runs a program with the files that a guest has, and returns the console."""
    if os.geteuid() or subprocess.run([*APART, "true"], capture_output=True).returncode:
        pytest.skip("only root may make namespaces here")

    def console(own: OwnProgram) -> str:
        root = tmp_path / "root"
        asked = replace(measurement(2), program=own)
        files = plugin_guest.files_for(cache_dir(), asked, TARGET)
        (tmp_path / "command").write_bytes(plugin_guest.command(own))
        files[plugin_guest.COMMAND] = tmp_path / "command"
        for name in ("/dev", "/files"):
            (root / name.lstrip("/")).mkdir(parents=True)
        for name, path in files.items():
            at = root / name.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, at)
            at.chmod(0o755)
        words = ["timeout", "30", *APART, "chroot", str(root), "/init"]
        return subprocess.run(words, capture_output=True, text=True).stdout

    return console


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A dynamically linked program that needs two libraries."""
    (tmp_path / "mine.c").write_text(PROGRAM)
    words = ["gcc", f"-I{SOURCES}", "-Wl,--no-as-needed", "-o", str(tmp_path / "mine"), str(tmp_path / "mine.c"), "-lm"]
    subprocess.run(words, check=True)
    return tmp_path / "mine"


@pytest.mark.parametrize("marked", [False, True])
def test_a_program_with_libraries(run: Runner, program: Path, marked: bool) -> None:
    said = run(OwnProgram(program, arguments=("two words",), marked=marked)).splitlines()
    assert said[-2:] == ["program: 2 words, the last is two words, 1", DONE]


def test_a_script_has_its_files_and_the_programs_among_them(run: Runner, program: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    program.rename(files / "tool")
    (files / "data").write_text("some data\n")
    own = script(tmp_path, 'pwd\ncat "$1"\n./tool\nschedline-count start\nschedline-count stop')
    said = run(OwnProgram(own.file, arguments=("data",), files=files)).splitlines()
    assert said[-4:] == ["program: /files", "program: some data", "program: 1 words, the last is ./tool, 1", DONE]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # What a program prints is not taken for ours, and processes that are waited for are none too many.
        ("echo 'c2c: failed: a joke' >&2\nprintf 'no end'", "program: c2c: failed: a joke\nprogram: no end\n" + DONE),
        ("true & true | true\nwait", DONE),
        ("exit 3", "c2c: failed: the program exited with status 3"),
        ("./nothing", "c2c: failed: the program exited with status 127"),
        ("kill -11 $$", "c2c: failed: the program was killed by signal 11"),
        ("sleep 1000 &", "c2c: failed: the program ended, but processes that it started are left"),
        ("schedline-count begin", "c2c: failed: the program exited with status 2"),
    ],
)
def test_how_a_program_ends(run: Runner, tmp_path: Path, text: str, said: str) -> None:
    console = run(script(tmp_path, text)).replace("\r", "")
    assert said in console
    assert ("c2c: done" in console) == (DONE in said)
