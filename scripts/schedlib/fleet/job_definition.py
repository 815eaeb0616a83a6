# SPDX-License-Identifier: GPL-2.0
"""A job definition of LAVA: the boots of one block, one after another, on one device.

It is checked by LAVA itself: by the Python module lava_common of Debian's package lava-common.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import yaml

from schedlib.errors import SchedlineError
from schedlib.fleet.fleet_device import FleetDevice
from schedlib.process import run
from schedlib.runs.guest_runs import COLLECTION

READY = "schedline: ready"
"""selftests/send_console.sh prints it before the first run."""

KEY = "schedline.job="
"""In the kernel's command line. The kernel takes a word with a dot for the parameter of a module that is not there."""

_END = r"(reboot: (Restarting system|Power down|machine restart)|end Kernel panic)[^\n]*\n"
"""Until this is on the console a boot has something to say. No line of a run contains it. It goes to the end of the
line, because LAVA logs a line only when it is whole."""

_PACKAGE = "lava-common"
_PYTHON = Path("/usr/bin/python3")
"""Debian's: the package is for it alone."""

_PROGRAM = """\
import json, sys, yaml
from lava_common.schemas import validate
wrong = {}
for name, text in json.load(sys.stdin).items():
    try:
        validate(yaml.safe_load(text), strict=True)
    except Exception as error:
        wrong[name] = f"{type(error).__name__}: {error}"
print(json.dumps(wrong))
"""


@dataclass(frozen=True)
class Artefact:
    """A file that a job downloads."""

    url: str
    sha256: str

    def entry(self, **more: str | bool) -> dict[str, Any]:
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
            "kernel": files.kernel.entry(image_arg=f'-kernel {{kernel}} -append "{arguments}"'),
            "ramdisk": ramdisk.entry(image_arg="-initrd {ramdisk}"),
        }
        return {"to": "tmpfs", "images": images, **timeout}
    kind = {"type": device.kernel_type} if device.kernel_type else {}
    more: dict[str, Any] = {}
    if files.modules:
        more["modules"] = files.modules.entry(compression="gz")
    if files.dtb:
        more["dtb"] = files.dtb.entry()
    return {
        "to": "tftp",
        "kernel": files.kernel.entry(**kind),
        "ramdisk": ramdisk.entry(compression="gz", install_overlay=False, install_modules=bool(files.modules)),
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
    """A job definition as YAML, in the order of its entries."""
    return "".join(f"# {line}\n" for line in comment) + yaml.dump(
        value, Dumper=yaml.CSafeDumper, sort_keys=False, width=1 << 20
    )


@cache
def has_schema() -> bool:
    """Whether this machine has the package."""
    return _PYTHON.exists() and run([_PYTHON, "-I", "-c", "import lava_common.schemas"]).returncode == 0


def schema_errors(texts: Mapping[str, str]) -> dict[str, str]:
    """What LAVA's schema says against each of some job definitions; only those that it refuses."""
    done = run([_PYTHON, "-I", "-c", _PROGRAM], stdin=json.dumps(dict(texts)).encode())
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SchedlineError(f"LAVA's schema cannot be asked: {''.join(said)}", f"apt-get install {_PACKAGE}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def refuse_invalid(texts: Mapping[str, str]) -> str:
    """Check job definitions; returns why that was not possible, or an empty text.

    Raises:
        SchedlineError: one of them is not valid.
    """
    if not has_schema():
        return f"not checked by LAVA's own schema: this machine lacks its package {_PACKAGE} (schedline doctor fleet)"
    if wrong := schema_errors(texts):
        name, said = next(iter(wrong.items()))
        raise SchedlineError(f"LAVA's schema refuses {name}: {said}", "correct the file of the device")
    return ""
