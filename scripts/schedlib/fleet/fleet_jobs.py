# SPDX-License-Identifier: GPL-2.0
"""Writes the jobs of a campaign: artefacts with checksums, and a job definition for each block of each machine.

A job definition of LAVA is for a kind of device of configs/fleet/: the boots of a block, one after another.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shlex
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import yaml
from msgspec import UNSET, Meta, UnsetType

from schedlib import doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.errors import SchedlineError
from schedlib.fleet.campaign import NO_TOOL, FleetJob, FleetJobs, campaign_id, fleet_suite, jobs_file
from schedlib.fleet.fleet_verb import FleetJobsOptions
from schedlib.formats import document
from schedlib.formats.data_file import read_toml
from schedlib.formats.strict import Positive, Strict, Word, Wrong
from schedlib.gate.boot_plan import GatePlan, blocks, version_in
from schedlib.gate.gate_options import PLAN_FILE
from schedlib.guest.busybox_guest import busybox, scripts
from schedlib.kernel.targets import TARGETS
from schedlib.options import TreeOptions
from schedlib.paths import SELFTESTS
from schedlib.progress import say
from schedlib.runs.guest_runs import COLLECTION, Queue, compiled_for, guest_files, queued
from schedlib.runs.measure import time_limit
from schedlib.runs.programs import header_tree
from schedlib.verdict import Verdict

EPOCH = 1767225600
"""The time to which a board without a clock is set, 2026-01-01. What counts is when LAVA saw a line."""

_SENDING = 120.0
"""Seconds for the runs of a boot on a serial line, and until the clock is chosen. A run is 10 kB, sent twice; 115200
baud are 10 kB in a second."""

_DIRECTORY = 0o040755
_PROGRAM = 0o100755
_TERMINAL = 0o020600
_CONSOLE = (5, 1)
"""The device of /dev/console, without which the first process has no output."""


READY = "schedline: ready"
"""selftests/send_console.sh prints it before the first run."""

KEY = "schedline.job="
"""In the kernel's command line. The kernel takes a word with a dot for the parameter of a module that is not there."""

_END = r"(reboot: (Restarting system|Power down|machine restart)|end Kernel panic)[^\n]*\n"
"""Until this is on the console a boot has something to say. No line of a run contains it. It goes to the end of the
line, because LAVA logs a line only when it is whole."""

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
    return {
        "name": "schedline",
        "start": "TAP version 13",
        "end": _END,
        "pattern": rf"(?P<result>ok|not ok) \d+ selftests: {COLLECTION}: (?P<test_case_id>[a-z0-9-]+)[\r\n]",
        "fixupdict": {"ok": "pass", "not ok": "fail"},
    }


def yaml_text(value: Mapping[str, Any], comment: Sequence[str] = ()) -> str:
    """A job definition as YAML, in the order of its entries."""
    said = "".join(f"# {line}\n" for line in comment)
    return said + yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, width=1 << 20)


# ---- a campaign's jobs ----


def write_jobs(wanted: FleetJobsOptions) -> Verdict:
    directory = wanted.plan.absolute()
    device = read_device(wanted.device)
    plan = document.read(directory / PLAN_FILE, GatePlan, "schedline gate plan --boot lava --help")
    record = jobs_file(directory, device.name)
    if record.exists():
        raise SchedlineError(f"{record} exists, and jobs are never changed", "plan another campaign")
    known = sorted(kernel.label for kernel in plan.kernels)
    if sorted(label for label, _ in wanted.kernels) != known:
        raise SchedlineError(f"the plan has the kernels {', '.join(known)}", "name them all with --kernels")
    suite, left_out = fleet_suite(plan, device.cpus, device.emulated)
    todo = queued(suite, plan.runs, plan.seed)
    place = directory / "artefacts" / device.name
    add = partial(_add, place, f"{wanted.url.rstrip('/')}/{device.name}" if wanted.url else place.as_uri())
    files = {
        label: {name: add(*file) for name, file in _boot_files(device, plan, label, path, wanted.dtb).items()}
        for label, path in wanted.kernels
    }
    content = _ramdisk(device, wanted.tree, todo)
    if device.method == "qemu":
        archive = add("ramdisk.cpio", content)
    else:
        archive = add("ramdisk.cpio.gz", gzip.compress(content, 9, mtime=0))
    seconds = sum(map(time_limit, todo.values())) + _SENDING
    campaign = campaign_id(directory)
    comment = ["SPDX-License-Identifier: GPL-2.0", f"Made by schedline: {device.about}"]
    labels = [kernel.label for kernel in plan.kernels]
    jobs = []
    for number, machine in enumerate(wanted.tags or [f"{number + 1:04}" for number in range(wanted.machines or 1)]):
        # Each machine has an order of its own; the first one that of the plan.
        drawn = blocks(labels, plan.order.count(labels[0]), plan.seed + number) if number else plan.blocks
        for at, block in enumerate(drawn, 1):
            job = FleetJob(f"{device.name}.{machine}.{at}", block)
            tags = (machine,) if wanted.tags else ()
            made = definition(device, campaign, job, archive, files, seconds=seconds, tags=tags)
            write_atomic(directory / "jobs" / f"{job.name}.yaml", yaml_text(made, comment))
            jobs.append(job)
    made_jobs = FleetJobs(
        schema="fleet-jobs-2",
        campaign=campaign,
        device=device.name,
        cpus=device.cpus,
        emulated=device.emulated,
        digest=suite.digest(),
        jobs=tuple(jobs),
    )
    document.write(record, made_jobs)
    boots = sum(len(job.order) for job in jobs)
    print(f"campaign {campaign}: {len(jobs)} jobs with {boots} boots for {device.name}")
    print(f"in each boot: {', '.join([*todo][1:])}; {seconds / 60:.0f} min at most")
    for name in left_out:
        print(f"left out: {name}: {NO_TOOL}")
    here = shlex.quote(str(directory))
    if wanted.url:
        say(f"copy {here}/artefacts to {wanted.url}")
    else:
        say("the jobs read files of this machine; for a laboratory add --url")
    say(f"next: lavacli jobs submit {here}/jobs/{device.name}.*.yaml")
    say(f"then: schedline fleet collect {here} ID ...")
    return Verdict.PASS


def _add(place: Path, url: str, name: str, content: bytes) -> Artefact:
    write_atomic(place / name, content)
    return {"url": f"{url}/{name}", "sha256sum": hashlib.sha256(content).hexdigest()}


def _boot_files(
    device: FleetDevice, plan: GatePlan, label: str, path: Path, dtb: Path | None
) -> dict[str, tuple[str, bytes]]:
    image, modules = unpacked(path)
    if device.arch == "arm64" and image[:2] == b"\x1f\x8b":
        image = gzip.decompress(image)
    wanted, found = plan.kernel(label).version, version_in(image)
    if not found and (banner := re.search(rb"Linux version (\S+) \(", image)):
        found = banner[1].decode(errors="replace")
    if found and found != wanted:
        raise SchedlineError(
            f"{path} is {found}, and the plan's {label} is {wanted}", "give the image of that kernel, or plan anew"
        )
    files = {"kernel": (f"{label}-kernel", image)}
    if modules and device.method != "qemu":
        files["modules"] = f"{label}-modules.tar.gz", modules
    if dtb and device.method != "qemu":
        files["dtb"] = dtb.name, dtb.read_bytes()
    return files


def unpacked(path: Path) -> tuple[bytes, bytes]:
    """An image and an archive of modules, which may be empty, from an image or a package of make tar-pkg."""
    if not tarfile.is_tarfile(path):
        return path.read_bytes(), b""
    image, modules = b"", io.BytesIO()
    with (
        tarfile.open(path) as package,
        gzip.GzipFile(fileobj=modules, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        there = False
        for member in package:
            name = member.name.removeprefix("./")
            content = package.extractfile(member) if member.isreg() else None
            if re.fullmatch(r"boot/(vmlinuz|Image)(-.*)?", name) and content:
                image = content.read()
            elif name.startswith("lib/modules/"):
                member.name, member.mtime, there = name, 0, True
                archive.addfile(member, content)
    if not image:
        raise SchedlineError(f"{path} has no boot/vmlinuz", "schedline kernels --package tar makes such packages")
    return image, modules.getvalue() if there else b""


def _ramdisk(device: FleetDevice, tree: TreeOptions, todo: Queue) -> bytes:
    cache = cache_dir()
    source, own = header_tree(cache, tree), scripts("guest_runs.sh", "send_console.sh", slow=device.emulated)
    target = next(each for each in TARGETS.values() if each.emulator and each.arch == device.arch)
    doctor.require(["compile"])
    with tempfile.TemporaryDirectory(dir=cache, prefix="ramdisk-") as name:
        place = Path(name)
        (place / "files").mkdir()
        files: Mapping[str, Path | bytes] = {
            **{path: SELFTESTS / script for path, script in own.items()},
            **guest_files(todo, place / "files"),
            **compiled_for(source, todo, place / "programs", target),
            "/bin/busybox": busybox(cache, device.arch),
            "/epoch": f"{EPOCH}\n".encode(),
        }
        return ramdisk(files)


def ramdisk(files: Mapping[str, Path | bytes]) -> bytes:
    """An archive of files, by their path in it, and of all directories above them, for the kernel.

    The format is `newc` (Documentation/driver-api/early-userspace/buffer-format.rst). Same files, same bytes.
    """
    parents = {str(parent) for name in files for parent in PurePosixPath(name).parents} | {"/dev", "/proc", "/sys"}
    members = [_member(number, name, _DIRECTORY) for number, name in enumerate(sorted(parents - {"/"}), 1)]
    members.append(_member(len(members) + 1, "/dev/console", _TERMINAL, device=_CONSOLE))
    for name, content in sorted(files.items()):
        data = content if isinstance(content, bytes) else content.read_bytes()
        members.append(_member(len(members) + 1, name, _PROGRAM, data))
    return b"".join([*members, _member(0, "/TRAILER!!!", 0)])


def _member(number: int, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    path = name.lstrip("/").encode() + b"\0"
    links = 2 if mode == _DIRECTORY else 1
    fields = (number, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return b"".join(part + bytes(-len(part) % 4) for part in (head + path, data))
