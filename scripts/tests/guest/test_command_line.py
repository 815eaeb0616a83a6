# SPDX-License-Identifier: GPL-2.0
"""The command line that starts a guest."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.guest.command_line import Programs, accelerator, command_line, refuse_impossible, shape_words
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS, Target
from schedlib.kernel.topology import flat, load_topology

QEMU = [target for target in TARGETS.values() if target.name.startswith("qemu")]


def words(target: Target, *arguments: str) -> str:
    """The command line as one string."""
    return " ".join(command_line(target, Path("image"), 64, arguments, "tcg"))


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_guest_prints_to_a_console_that_its_kernel_has_and_ends_by_itself(target: Target) -> None:
    said = words(target)
    driver = {"ttyS0": "CONFIG_SERIAL_8250_CONSOLE", "ttyAMA0": "CONFIG_SERIAL_AMBA_PL011_CONSOLE"}
    assert load([target.name]).values[driver[target.console]] == "y"
    assert f"console={target.console} " in said
    assert {"-no-reboot", "kunit_shutdown=reboot"} <= set(said.split())
    assert "-smp 64" in said


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_x86_does_not_panic_because_the_host_is_busy(target: Target) -> None:
    """Beside many compilers it did: "IO-APIC + timer doesn't work!"."""
    assert (" no_timer_check " in words(target)) == (target.arch == "x86_64")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_rcu_does_not_stall_because_the_host_is_busy(target: Target) -> None:
    """Beside other guests it did, 39 s into a boot of 64 emulated CPUs; the guest's own limit ends one that hangs."""
    assert "rcupdate.rcu_cpu_stall_timeout=300" in words(target)


def test_rcu_has_its_own_patience_where_cpus_are_real() -> None:
    said = " ".join(command_line(TARGETS["qemu-x86_64"], Path("image"), 64, (), "kvm"))
    assert "stall_timeout" not in said


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
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("schedlib.guest.command_line.run_guest", lambda *_: pytest.fail("a guest was started"))
    assert accelerator(tmp_path, TARGETS["qemu-arm64"], Path("image")) == "tcg"


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_disk_of_a_guest_is_one_that_its_kernel_has(target: Target) -> None:
    programs = Programs(Path("archive"), disk=Path("/runs,quick/disk"))
    said = command_line(target, Path("image"), 8, (), "tcg", None, programs)
    assert said[said.index("-drive") + 1].startswith("file=/runs,,quick/disk,if=none,id=disk,format=raw")
    driver = {"virtio-blk-pci": "CONFIG_VIRTIO_PCI", "virtio-blk-device": "CONFIG_VIRTIO_MMIO"}
    values = load([target.name, "selftests"]).values
    assert values[driver[said[said.index("-device") + 1].partition(",")[0]]] == values["CONFIG_VIRTIO_BLK"] == "y"
    assert "-drive" not in command_line(target, Path("image"), 8, (), "tcg", None, Programs(Path("archive")))


def test_nodes_split_cpus_and_memory() -> None:
    words = " ".join(shape_words(load_topology("kunpeng920"), "arm64"))
    assert "-smp 64,sockets=1,clusters=16,cores=4,threads=1" in words
    assert "-object memory-backend-ram,id=node1,size=256M -numa node,nodeid=1,cpus=32-63,memdev=node1" in words


def test_clusters_of_x86_are_modules_that_share_the_l2_cache() -> None:
    words = " ".join(shape_words(load_topology("jacobsville"), "x86_64"))
    assert "-smp 24,sockets=1,modules=6,cores=4,threads=1" in words
    assert "cache=l2,smp-cache.0.topology=module" in words
    assert "-cpu max,vendor=GenuineIntel,level=0x1e" in words
    assert "-numa" not in words


def test_x86_without_clusters_needs_no_new_qemu() -> None:
    assert shape_words(load_topology("smt2"), "x86_64") == ["-smp", "64,sockets=1,cores=32,threads=2"]


def test_guest_gets_the_shape_in_place_of_a_cpu_count() -> None:
    words = command_line(TARGETS["qemu-arm64"], Path("image"), 64, (), "tcg", load_topology("smt4"))
    assert [words[place + 1] for place, word in enumerate(words) if word == "-smp"] == [
        "64,sockets=1,clusters=1,cores=16,threads=4"
    ]


def test_kernel_splits_the_llc() -> None:
    llcs = load_topology("llcs")
    assert (llcs.cpus, llcs.arguments) == (16, ("split_llc=4",))
    with pytest.raises(SchedlineError, match="only a kernel for x86"):
        refuse_impossible(TARGETS["qemu-arm64"], llcs)


def test_nodes_without_memory() -> None:
    words = " ".join(shape_words(load_topology("memoryless"), "x86_64"))
    assert words.count("memory-backend-ram") == 2
    assert "size=256M -numa node,nodeid=1,cpus=4-7,memdev=node1 -numa node,nodeid=2,cpus=8-11 -numa" in words


def fake_qemu(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a fake emulator into PATH."""
    program = directory / "qemu-system-x86_64"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_emulator_is_asked_with_the_words_of_the_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/words; read word; test "$word" = quit')
    refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))
    words = (tmp_path / "words").read_text()
    assert "modules=6" in words
    assert " -S " in words


def test_emulator_that_cannot_is_told_with_the_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_qemu(tmp_path, monkeypatch, "echo \"Parameter 'smp.modules' is unexpected\" >&2; exit 1")
    with pytest.raises(SchedlineError, match=r"(?s)smp\.modules.*--on qemu-arm64"):
        refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))


def test_user_mode_linux_has_no_topology() -> None:
    with pytest.raises(SchedlineError, match="use --on qemu-arm64"):
        refuse_impossible(TARGETS["uml"], load_topology("smt2"))


def test_a_shape_without_a_name() -> None:
    assert (flat(8).cpus, flat(8).arguments) == (8, ())
    assert shape_words(flat(8), "x86_64") == ["-smp", "8,sockets=1,cores=8,threads=1"]
