# SPDX-License-Identifier: GPL-2.0
"""c2c must start its guests with the recorded commands: the counts in docs and caches were made with these."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from schedlib.c2c import plugin_guest
from schedlib.c2c.plugin_guest import Measurement, parameters_of
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import flat, load_topology

RECORDED = json.loads(Path(__file__).with_name("qemu_commands.json").read_text())


@pytest.mark.parametrize("row", RECORDED["guests"], ids=lambda row: f"{row['on']}-{row['shape']}-{row['quantum']}")
def test_a_guest_is_started_with_the_recorded_words(row: dict[str, Any]) -> None:
    shape = flat(row["shape"]) if isinstance(row["shape"], int) else load_topology(row["shape"])
    parameters = parameters_of(shape, on=row["on"], line=row["line"], rounds=row["rounds"])
    asked = Measurement(parameters, shape, (row["quantum"],), user_space=row["programs"])
    library = row["plugin"] and Path(row["plugin"])
    image, archive, plan, out = (
        Path(name) for name in ("/build/image", "/out/initramfs.cpio", "/out/plan", "/out/raw")
    )
    words = plugin_guest.argv(asked, row["quantum"], image, archive, library, plan, out)
    assert words == shlex.split(row["argv"])


@pytest.mark.parametrize("name", RECORDED["modes"])
def test_what_is_the_same_for_all_settings_is_in_the_fingerprint_as_recorded(name: str) -> None:
    assert plugin_guest.mode(TARGETS[name]) == RECORDED["modes"][name]


def argv(**others: Any) -> str:
    """A guest's command on two CPUs."""
    there, asked = Path("/there"), Measurement(parameters_of(flat(2), **others), flat(2), (97,))
    return " ".join(plugin_guest.argv(asked, 97, there, there, None, there, there))


def test_another_clock_is_asked_for_and_told() -> None:
    for shift in (0, 1):
        assert f"-icount shift={shift},sleep=off" in argv(shift=shift)
        assert f"shift={shift}," in plugin_guest.mode(TARGETS["qemu-x86_64"], shift)


def test_a_later_qemu_is_started_without_the_words_that_it_no_longer_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TARGETS["qemu-x86_64"]
    fake = tmp_path / target.emulator[0]
    for version, there, gone in (("7.2.22", "-no-hpet", "hpet=off"), ("10.0.2", "hpet=off", "-no-hpet")):
        fake.write_text(f'#!/bin/sh\necho "QEMU emulator version {version}"\n')
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        assert there in argv()
        assert gone not in argv()
        # What the fingerprint of a result says is what was done.
        assert there in plugin_guest.mode(target)
