# SPDX-License-Identifier: GPL-2.0
"""A job definition of LAVA: the boots of one block, one after another, on one device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import msgspec

from schedlib.fleet.fleet_device import FleetDevice
from schedlib.runs.guest_runs import COLLECTION

READY = "schedline: ready"
"""selftests/send_console.sh prints it before the first run."""

KEY = "schedline.job="
"""In the kernel's command line. The kernel takes a word with a dot for the parameter of a module that is not there."""

_END = r"(reboot: (Restarting system|Power down|machine restart)|end Kernel panic)[^\n]*\n"
"""Until this is on the console a boot has something to say. No line of a run contains it. It goes to the end of the
line, because LAVA logs a line only when it is whole."""


@dataclass(frozen=True)
class Artefact:
    """A file that a job downloads."""

    url: str
    sha256: str

    def words(self, **more: str | bool) -> dict[str, Any]:
        """It as LAVA's deploy action has it."""
        return {"url": self.url, "sha256sum": self.sha256, **more}


@dataclass(frozen=True)
class BootFiles:
    """What boots one kernel. The modules are an archive; LAVA puts them into the ramdisk."""

    kernel: Artefact
    modules: Artefact | None = None
    dtb: Artefact | None = None


@dataclass(frozen=True)
class BlockOfBoots:
    """A job.

    Attributes:
        name: of the job; campaign: the plan's id.
        order: the kernel of each boot.
        seconds: what the runs of a boot may take.
        tags: of the machine, besides those of its kind.
    """

    name: str
    campaign: str
    order: tuple[str, ...]
    seconds: float
    tags: tuple[str, ...] = ()


def key_of(campaign: str, name: str) -> str:
    """The word of the kernel's command line that tells a job."""
    return f"{KEY}{campaign}/{name}"


def definition(
    device: FleetDevice, block: BlockOfBoots, ramdisk: Artefact, files: Mapping[str, BootFiles]
) -> dict[str, Any]:
    """A job definition. Its time limits follow from the work: what each boot needs, and the number of boots."""
    arguments = " ".join([*device.parameters, key_of(block.campaign, block.name)])
    context: dict[str, Any] = msgspec.to_builtins(device.context)
    if device.method != "qemu":
        context["extra_kernel_args"] = arguments
    actions: list[dict[str, Any]] = []
    for label in block.order:
        actions += [
            {"deploy": _deploy(device, ramdisk, files[label], arguments)},
            {"boot": _boot(device)},
            {"test": _test(block.seconds)},
        ]
    each = device.deploy_seconds + device.boot_seconds + block.seconds
    tags = (*device.tags, *block.tags)
    return {
        "job_name": f"schedline {block.campaign} {block.name}",
        "device_type": device.device_type,
        **({"tags": list(tags)} if tags else {}),
        "visibility": "public",
        "priority": "medium",
        "timeouts": {
            # Power, and the time between the actions.
            "job": _limit(len(block.order) * (each + 60)),
            "action": _limit(each),
            "connection": _limit(120),
        },
        **({"context": context} if context else {}),
        "metadata": {"schedline-campaign": block.campaign, "schedline-job": block.name},
        "actions": actions,
    }


def _limit(seconds: float) -> dict[str, int]:
    return {"minutes": max(1, ceil(seconds / 60))}


def _deploy(device: FleetDevice, ramdisk: Artefact, files: BootFiles, arguments: str) -> dict[str, Any]:
    timeout = {"timeout": _limit(device.deploy_seconds)}
    if device.method == "qemu":
        images = {
            "kernel": files.kernel.words(image_arg=f'-kernel {{kernel}} -append "{arguments}"'),
            "ramdisk": ramdisk.words(image_arg="-initrd {ramdisk}"),
        }
        return {"to": "tmpfs", "images": images, **timeout}
    kind = {"type": device.kernel_type} if device.kernel_type else {}
    more: dict[str, Any] = {}
    if files.modules:
        more["modules"] = files.modules.words(compression="gz")
    if files.dtb:
        more["dtb"] = files.dtb.words()
    return {
        "to": "tftp",
        "kernel": files.kernel.words(**kind),
        "ramdisk": ramdisk.words(compression="gz", install_overlay=False, install_modules=bool(files.modules)),
        **more,
        **timeout,
    }


def _boot(device: FleetDevice) -> dict[str, Any]:
    how = {"media": "tmpfs"} if device.method == "qemu" else {"commands": "ramdisk"}
    return {"method": device.method, **how, "prompts": [READY], "timeout": _limit(device.boot_seconds)}


def _test(seconds: float) -> dict[str, Any]:
    # Its results are decoration: schedline judges the log.
    name = r"(?P<test_case_id>[a-z0-9-]+)"
    monitor = {
        "name": "schedline",
        "start": "TAP version 13",
        "end": _END,
        "pattern": rf"(?P<result>ok|not ok) \d+ selftests: {COLLECTION}: {name}[\r\n]",
        "fixupdict": {"ok": "pass", "not ok": "fail"},
    }
    return {"monitors": [monitor], "timeout": _limit(seconds)}


def yaml_text(value: Mapping[str, Any], comment: Sequence[str] = ()) -> str:
    """A job definition as YAML: blocks for tables and lists, and JSON's scalars, which are YAML's."""
    return "\n".join([*(f"# {line}" for line in comment), *_lines(value)]) + "\n"


def _lines(value: Any) -> list[str]:
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, part in value.items():
            below = _lines(part) if part and isinstance(part, Mapping | list) else []
            shown = key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)
            lines += [f"{shown}:", *(f"  {line}" for line in below)] if below else [f"{shown}: {json.dumps(part)}"]
    else:
        for part in value:
            first, *rest = _lines(part) if part and isinstance(part, Mapping | list) else [json.dumps(part)]
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines
