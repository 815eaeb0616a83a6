# SPDX-License-Identifier: GPL-2.0
"""The workloads are compiled on the machine that is to be measured, with what it has. Nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import git
from schedlib import doctor
from schedlib.cache import write_json
from schedlib.errors import SchedlineError
from schedlib.options import DEFAULT_SERIES
from schedlib.runs.programs import compiled
from schedlib.tree import debian

COMPILER = """\
#!/bin/sh
[ "$1" = --version ] && echo "gcc 99" && exit
while [ "$1" != -iquote ]; do shift; done
cat "$2/kselftest.h" > "$4"
"""


@pytest.fixture(autouse=True)
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that copies a header, on a machine without a network."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gcc").write_text(COMPILER)
    (tmp_path / "bin/gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(doctor, "require", lambda _: None)
    monkeypatch.setattr(debian, "download", lambda *_, **__: pytest.fail("it downloads a kernel"))


def test_missing_header_is_named_and_not_downloaded(cache: Path) -> None:
    """170 MB of kernel were downloaded silently for one header."""
    with pytest.raises(SchedlineError, match=r"the programs include the kernel's kselftest\.h") as error:
        compiled(cache, ["sleep_storm"])
    assert error.value.next_step.startswith("schedline run --pack FILE on another machine")
    assert not (cache / "trees").exists()


def test_any_kernel_of_the_series_will_do(kernel: Path, cache: Path) -> None:
    header = kernel / "tools/testing/selftests/kselftest.h"
    header.parent.mkdir(parents=True)
    header.write_text("/* of the kernel */\n")
    git(kernel, "add", "-A")
    git(kernel, "commit", "-q", "-m", "header")
    tree = cache / "trees" / DEFAULT_SERIES
    tree.mkdir(parents=True)
    kernel.rename(tree / "src")
    base = git(tree / "src", "rev-parse", "HEAD").strip()
    write_json(tree / "manifest.json", {"package": "linux-source-of-old", "version": "1", "base": base})
    place = compiled(cache, ["sleep_storm", "rt_wakeup"])
    assert {path.name for path in place.iterdir()} == {"sleep_storm", "rt_wakeup"}
    assert (place / "rt_wakeup").read_text() == "/* of the kernel */\n"
    # Existing programs are not compiled again.
    (tree / "manifest.json").unlink()
    assert compiled(cache, ["rt_wakeup"]) == place


def test_a_machine_that_measures_need_not_build_kernels() -> None:
    needed = {need.name for need in doctor.NEEDS if need.jobs & set(doctor.JOBS["run"].needs)}
    assert {"gcc", "git", "the C library's headers", "cyclictest"} <= needed
    assert not needed & {"flex", "bison", "bc", "make", "apt-get"}
