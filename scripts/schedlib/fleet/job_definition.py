# SPDX-License-Identifier: GPL-2.0
"""A job definition of LAVA, for a kind of device of configs/fleet/: the boots of a block, one after another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import yaml
from msgspec import UNSET, Meta, UnsetType

from schedlib.fleet.campaign import FleetJob
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Positive, Strict, Word, Wrong
from schedlib.kernel.targets import TARGETS, Target
from schedlib.runs.guest_runs import COLLECTION

READY = "schedline: ready"
"""selftests/send_console.sh prints it before the first run."""

KEY = "schedline.job="
"""In the kernel's command line. The kernel takes a word with a dot for the parameter of a module that is not there."""

_END = r"(reboot: (Restarting system|Power down|machine restart)|end Kernel panic)[^\n]*\n"
"""Until this is on the console a boot has something to say. No line of a run contains it. It goes to the end of the
line, because LAVA logs a line only when it is whole."""

_ARCHS = {target.arch: target for target in TARGETS.values() if target.emulator}

_Seconds = Annotated[int, Meta(ge=1, le=86_400)]

Artefact: TypeAlias = Mapping[str, str]
"""A file that a job downloads, as LAVA's deploy action has it: its url and sha256sum."""


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
    return read_toml(path, FleetDevice, stem="name")


def definition(
    device: FleetDevice,
    campaign: str,
    job: FleetJob,
    ramdisk: Artefact,
    files: Mapping[str, Mapping[str, Artefact]],
    *,
    seconds: float,
    tags: Sequence[str] = (),
) -> dict[str, Any]:
    """A job definition. Its time limits follow from the work: what each boot needs, and the number of boots.

    Args:
        campaign: the plan's id.
        files: what boots each kernel: `kernel`, and if there are any `modules`, which LAVA puts into the ramdisk, and
            `dtb`.
        seconds: what the runs of a boot may take.
        tags: of the machine, besides those of its kind.
    """
    arguments = " ".join([*device.parameters, f"{KEY}{campaign}/{job.name}"])
    context: dict[str, Any] = msgspec.to_builtins(device.context)
    boot: dict[str, Any] = {"method": device.method, "media": "tmpfs"}
    if device.method != "qemu":
        context["extra_kernel_args"] = arguments
        boot = {"method": device.method, "commands": "ramdisk"}
    actions: list[dict[str, Any]] = []
    for label in job.order:
        actions += [
            {"deploy": _deploy(device, ramdisk, files[label], arguments)},
            {"boot": {**boot, "prompts": [READY], "timeout": _limit(device.boot_seconds)}},
            {"test": {"monitors": [_monitor()], "timeout": _limit(seconds)}},
        ]
    each = device.deploy_seconds + device.boot_seconds + seconds
    tags = (*device.tags, *tags)
    return {
        "job_name": f"schedline {campaign} {job.name}",
        "device_type": device.device_type,
        **({"tags": list(tags)} if tags else {}),
        "visibility": "public",
        "priority": "medium",
        "timeouts": {
            # Power, and the time between the actions.
            "job": _limit(len(job.order) * (each + 60)),
            "action": _limit(each),
            "connection": _limit(120),
        },
        **({"context": context} if context else {}),
        "metadata": {"schedline-campaign": campaign, "schedline-job": job.name},
        "actions": actions,
    }


def _limit(seconds: float) -> dict[str, int]:
    return {"minutes": max(1, ceil(seconds / 60))}


def _deploy(device: FleetDevice, ramdisk: Artefact, files: Mapping[str, Artefact], arguments: str) -> dict[str, Any]:
    timeout = {"timeout": _limit(device.deploy_seconds)}
    if device.method == "qemu":
        images = {
            "kernel": {**files["kernel"], "image_arg": f'-kernel {{kernel}} -append "{arguments}"'},
            "ramdisk": {**ramdisk, "image_arg": "-initrd {ramdisk}"},
        }
        return {"to": "tmpfs", "images": images, **timeout}
    kind = {"type": device.kernel_type} if device.kernel_type else {}
    found: dict[str, Any] = {
        "to": "tftp",
        "kernel": {**files["kernel"], **kind},
        "ramdisk": {**ramdisk, "compression": "gz", "install_overlay": False, "install_modules": "modules" in files},
    }
    if "modules" in files:
        found["modules"] = {**files["modules"], "compression": "gz"}
    if "dtb" in files:
        found["dtb"] = dict(files["dtb"])
    return found | timeout


def _monitor() -> dict[str, Any]:
    """What LAVA takes for results. They are decoration: schedline judges the log."""
    name = r"(?P<test_case_id>[a-z0-9-]+)"
    return {
        "name": "schedline",
        "start": "TAP version 13",
        "end": _END,
        "pattern": rf"(?P<result>ok|not ok) \d+ selftests: {COLLECTION}: {name}[\r\n]",
        "fixupdict": {"ok": "pass", "not ok": "fail"},
    }


def yaml_text(value: Mapping[str, Any], comment: Sequence[str] = ()) -> str:
    """A job definition as YAML, in the order of its entries."""
    said = "".join(f"# {line}\n" for line in comment)
    return said + yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, width=1 << 20)
