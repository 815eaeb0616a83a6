# SPDX-License-Identifier: GPL-2.0
"""Kinds of devices in LAVA: configs/fleet/*.toml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Positive, Strict, Word, Wrong
from schedlib.kernel.targets import TARGETS, Target

_ARCHS = {target.arch: target for target in TARGETS.values() if target.emulator}

_Seconds = Annotated[int, Meta(ge=1, le=86_400)]


class LavaContext(Strict, frozen=True, kw_only=True):
    """What a job may tell the template of its device type, by LAVA's names."""

    arch: Word | UnsetType = UNSET
    cpu: Word | UnsetType = UNSET
    machine: Word | UnsetType = UNSET
    model: Word | UnsetType = UNSET
    memory: Positive | UnsetType = UNSET
    netdevice: Word | UnsetType = UNSET
    no_kvm: bool | UnsetType = UNSET
    extra_options: tuple[Word, ...] | UnsetType = UNSET
    console_device: Word | UnsetType = UNSET
    bootloader_prompt: Word | UnsetType = UNSET
    boot_character_delay: Positive | UnsetType = UNSET
    kernel_start_message: Word | UnsetType = UNSET
    tftp_mac_address: Word | UnsetType = UNSET


class FleetDevice(Strict, frozen=True, kw_only=True):
    """A kind of device.

    Attributes:
        device_type, tags, context: as in a job definition of LAVA.
        arch: make's ARCH.
        method: of LAVA's boot action. All but qemu get their files by TFTP.
        kernel_type: how U-Boot starts the kernel.
        cpus: of the device.
        parameters: of the kernel.
        boot_seconds: from the start of the boot to the first program.
        deploy_seconds: for the transfer of kernel and ramdisk.
        emulated: times mean nothing there.
    """

    name: Annotated[str, Meta(pattern="^[a-z0-9_]+(-[a-z0-9_]+)*$")]
    about: Word
    device_type: Word
    arch: Literal["x86_64", "arm64"]
    method: Literal["qemu", "u-boot", "ipxe", "grub"]
    kernel_type: Literal["", "image", "uimage", "zimage"] = ""
    cpus: Annotated[int, Meta(ge=1, le=8192)]
    parameters: tuple[Word, ...]
    boot_seconds: _Seconds
    deploy_seconds: _Seconds
    emulated: bool = False
    tags: tuple[Word, ...] = ()
    context: LavaContext = LavaContext()

    def __post_init__(self) -> None:
        if (self.method == "u-boot") != bool(self.kernel_type):
            raise Wrong("has a kernel_type without U-Boot, or U-Boot without one", 'write kernel_type = "image"')
        if self.method == "qemu" and not any(word.startswith("console=") for word in self.parameters):
            raise Wrong("has no console among its parameters, and runs come home on it", 'add "console=ttyS0"')
        for word in self.parameters:
            if not re.fullmatch(r"[\w.,:/@=+-]+", word):
                raise Wrong(f"has the kernel parameter {word!r}", "write it without spaces and quotes")

    @property
    def target(self) -> Target:
        """The compiler for its programs."""
        return _ARCHS[self.arch]


def read_device(path: Path) -> FleetDevice:
    """Read a kind of device.

    Raises:
        SchedlineError: the file cannot be read, or something in it is wrong.
    """
    return read_toml(path, FleetDevice, stem="name")
