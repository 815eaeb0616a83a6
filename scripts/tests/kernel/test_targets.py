# SPDX-License-Identifier: GPL-2.0
"""What a guest is started with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlib import doctor
from schedlib.guest import kvm
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS, Programs, Target, command_line

QEMU = [target for target in TARGETS.values() if target.name.startswith("qemu")]


def words(target: Target, *arguments: str) -> str:
    """The command line as one text."""
    return " ".join(command_line(target, Path("image"), 64, arguments, "tcg"))


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_guest_prints_to_a_console_that_its_kernel_has_and_ends_by_itself(target: Target) -> None:
    said = words(target)
    driver = {"ttyS0": "CONFIG_SERIAL_8250_CONSOLE", "ttyAMA0": "CONFIG_SERIAL_AMBA_PL011_CONSOLE"}
    assert load([target.name]).values[driver[target.console]] == "y"
    assert f"console={target.console} " in said
    assert {"-no-reboot", "kunit_shutdown=reboot"} <= set(said.split())
    assert "-smp 64" in said


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_small_guest_has_the_cpus_that_fake_topologies_are_made_of(target: Target) -> None:
    said = " ".join(command_line(target, Path("image"), 8, (), "tcg"))
    assert "maxcpus=8" in said.split()
    assert re.search(r"(-smp |ncpus=)64\b", said)


def test_arm64_has_an_interrupt_controller_for_more_than_8_cpus() -> None:
    assert words(TARGETS["qemu-arm64"]).startswith("qemu-system-aarch64 -machine virt,gic-version=max ")


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_every_program_of_a_target_is_known_to_doctor(target: Target) -> None:
    known = {need.name for need in doctor.NEEDS if target.name in need.jobs}
    assert target.emulator[0] in known
    assert not target.compiler or f"{target.compiler}gcc" in known


def test_every_target_runs_the_same_suites() -> None:
    suites = [
        {name for name in load([target.name]).values if name.startswith("CONFIG_SCHED_") and "KUNIT" in name}
        for target in TARGETS.values()
    ]
    assert all(each == suites[0] for each in suites)


def test_kvm_is_not_tried_for_another_machines_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: True)
    monkeypatch.setattr(kvm, "machine", lambda: "x86_64")
    monkeypatch.setattr(kvm, "run_guest", lambda *_: pytest.fail("a guest was started"))
    assert kvm.accelerator(tmp_path, TARGETS["qemu-arm64"], Path("image")) == "tcg"


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_disk_of_a_guest_is_one_that_its_kernel_has(target: Target) -> None:
    programs = Programs(Path("archive"), disk=Path("/runs,quick/disk"))
    said = command_line(target, Path("image"), 8, (), "tcg", None, programs)
    assert said[said.index("-drive") + 1].startswith("file=/runs,,quick/disk,if=none,id=disk,format=raw")
    driver = {"virtio-blk-pci": "CONFIG_VIRTIO_PCI", "virtio-blk-device": "CONFIG_VIRTIO_MMIO"}
    values = load([target.name, "selftests"]).values
    assert values[driver[said[said.index("-device") + 1].partition(",")[0]]] == values["CONFIG_VIRTIO_BLK"] == "y"
    assert "-drive" not in command_line(target, Path("image"), 8, (), "tcg", None, Programs(Path("archive")))
