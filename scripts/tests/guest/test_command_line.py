# SPDX-License-Identifier: GPL-2.0
"""The command line that starts a guest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from schedlib import doctor
from schedlib.errors import SchedlineError
from schedlib.guest.command_line import Programs, accelerator, command_line, refuse_impossible, shape_words
from schedlib.kernel.kconfig import load
from schedlib.kernel.targets import TARGETS, Target
from schedlib.kernel.topology import load_topology, shape_of

QEMU = [target for target in TARGETS.values() if target.name.startswith("qemu")]


BARE = "-nodefaults -no-user-config -display none -no-reboot -serial stdio -monitor none -cpu max -m 512M -smp 64"
SUITES = "kunit.enable=1 kunit.autorun=1"
# Beside many compilers x86 panicked ("IO-APIC + timer doesn't work!"). Beside other guests RCU stalled, 39 s into a
# boot of 64 emulated CPUs; the guest's own limit ends one that hangs. GICv2 has 8 CPUs.
COMMANDS = {
    ("uml", 64, "tcg"): f"""
        image mem=512M console=tty con=null con0=fd:0,fd:1 ssl=null seccomp=on kunit_shutdown=halt
        rcupdate.rcu_cpu_stall_timeout=300 uml_dir=uml/ ncpus=64 maxcpus=64 {SUITES} a.b=1""",
    ("qemu-x86_64", 8, "tcg"): f"""
        qemu-system-x86_64 {BARE} -accel tcg -kernel image -append console=ttyS0 panic=-1 maxcpus=8 no_timer_check
        rcupdate.rcu_cpu_stall_timeout=300 kunit_shutdown=reboot {SUITES} a.b=1""",
    ("qemu-x86_64", 64, "kvm"): f"""
        qemu-system-x86_64 {BARE} -accel kvm -kernel image -append console=ttyS0 panic=-1 maxcpus=64 no_timer_check
        kunit_shutdown=reboot {SUITES} a.b=1""",
    ("qemu-arm64", 64, "tcg"): f"""
        qemu-system-aarch64 -machine virt,gic-version=max {BARE} -accel tcg -kernel image -append console=ttyAMA0
        panic=-1 maxcpus=64 rcupdate.rcu_cpu_stall_timeout=300 kunit_shutdown=reboot {SUITES} a.b=1""",
}


@pytest.mark.parametrize("case", COMMANDS, ids=str)
def test_command(case: tuple[str, int, str]) -> None:
    name, cpus, accel = case
    said = command_line(TARGETS[name], Path("image"), cpus, ["a.b=1"], accel)
    assert " ".join(said) == " ".join(COMMANDS[case].split())


SHAPES = {
    ("kunpeng920", "arm64"): """
        -smp 64,sockets=1,clusters=16,cores=4,threads=1
        -object memory-backend-ram,id=node0,size=256M -numa node,nodeid=0,cpus=0-31,memdev=node0
        -object memory-backend-ram,id=node1,size=256M -numa node,nodeid=1,cpus=32-63,memdev=node1""",
    # Modules of x86 share the L2 cache. Without clusters no new QEMU is needed.
    ("jacobsville", "x86_64"): """
        -smp 24,sockets=1,modules=6,cores=4,threads=1 -cpu max,vendor=GenuineIntel,level=0x1e
        -machine smp-cache.0.cache=l2,smp-cache.0.topology=module""",
    ("smt2", "x86_64"): "-smp 64,sockets=1,cores=32,threads=2",
    ("memoryless", "x86_64"): """
        -smp 16,sockets=4,cores=4,threads=1
        -object memory-backend-ram,id=node0,size=256M -numa node,nodeid=0,cpus=0-3,memdev=node0
        -object memory-backend-ram,id=node1,size=256M -numa node,nodeid=1,cpus=4-7,memdev=node1
        -numa node,nodeid=2,cpus=8-11 -numa node,nodeid=3,cpus=12-15""",
    ("", "x86_64"): "-smp 8,sockets=1,cores=8,threads=1",
}


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_shape(case: tuple[str, str]) -> None:
    name, arch = case
    assert " ".join(shape_words(shape_of(name, 8), arch)) == " ".join(SHAPES[case].split())


@pytest.mark.parametrize("target", QEMU, ids=lambda target: target.name)
def test_guest_prints_to_a_console_that_its_kernel_has(target: Target) -> None:
    driver = {"ttyS0": "CONFIG_SERIAL_8250_CONSOLE", "ttyAMA0": "CONFIG_SERIAL_AMBA_PL011_CONSOLE"}
    assert load([target.name]).values[driver[target.console]] == "y"


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


def test_guest_gets_the_shape_in_place_of_a_cpu_count() -> None:
    words = command_line(TARGETS["qemu-arm64"], Path("image"), 64, (), "tcg", load_topology("smt4"))
    assert [words[place + 1] for place, word in enumerate(words) if word == "-smp"] == [
        "64,sockets=1,clusters=1,cores=16,threads=4"
    ]


def test_only_some_guests_have_a_topology() -> None:
    llcs = load_topology("llcs")
    assert (llcs.cpus, llcs.arguments) == (16, ("split_llc=4",))
    with pytest.raises(SchedlineError, match="only a kernel for x86"):
        refuse_impossible(TARGETS["qemu-arm64"], llcs)
    for name, able in (("clusters", "qemu-arm64"), ("smt2", "qemu-x86_64"), ("llcs", "qemu-x86_64")):
        with pytest.raises(SchedlineError, match=f"use --on {able}"):
            refuse_impossible(TARGETS["uml"], load_topology(name))


def test_emulator_is_asked_with_the_words_of_the_guest(tmp_path: Path, fake: Callable[[str, str], Path]) -> None:
    fake("qemu-system-x86_64", f'echo "$@" > {tmp_path}/words; read word; test "$word" = quit')
    refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))
    assert {"-S", "24,sockets=1,modules=6,cores=4,threads=1"} <= {*(tmp_path / "words").read_text().split()}
    fake("qemu-system-x86_64", "echo \"Parameter 'smp.modules' is unexpected\" >&2; exit 1")
    with pytest.raises(SchedlineError, match=r"(?s)smp\.modules.*--on qemu-arm64"):
        refuse_impossible(TARGETS["qemu-x86_64"], load_topology("jacobsville"))
