# SPDX-License-Identifier: GPL-2.0
"""Writes the jobs of a campaign: artefacts with checksums, and a job definition for each block of each machine."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shlex
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from schedlib import doctor
from schedlib.cache import cache_dir, write_atomic
from schedlib.errors import SchedlineError
from schedlib.fleet.campaign import NO_TOOL, FleetJob, FleetJobs, campaign_id, fleet_suite, jobs_file
from schedlib.fleet.fleet_options import FleetJobsOptions
from schedlib.fleet.job_definition import Artefact, FleetDevice, definition, read_device, yaml_text
from schedlib.formats import document
from schedlib.gate.boot_plan import GatePlan, blocks, version_in
from schedlib.gate.gate_options import PLAN_FILE
from schedlib.guest.busybox_guest import busybox, scripts
from schedlib.options import TreeOptions
from schedlib.paths import SELFTESTS
from schedlib.progress import say
from schedlib.runs.guest_runs import QueuedRun, compiled_for, guest_files, queued
from schedlib.runs.measure import time_limit
from schedlib.runs.programs import header_tree
from schedlib.verdict import Verdict

EPOCH = 1767225600
"""The time to which a board without a clock is set, 2026-01-01. What counts is when LAVA saw a line."""

_SENDING = 120.0
"""Seconds for the runs of a boot on a serial line, and until the clock is chosen. A run is about 10 kB, sent twice, and
115200 baud are 10 kB in a second."""

_DIRECTORY = 0o040755
_PROGRAM = 0o100755
_TERMINAL = 0o020600
_CONSOLE = (5, 1)
"""The device of /dev/console, without which the first process has no output."""


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
    artefacts = _Artefacts(directory, device, wanted.url)
    files = {label: _boot_files(artefacts, device, plan, label, path, wanted.dtb) for label, path in wanted.kernels}
    content = _ramdisk(device, wanted.tree, todo)
    if device.method == "qemu":
        archive = artefacts.add("ramdisk.cpio", content)
    else:
        archive = artefacts.add("ramdisk.cpio.gz", gzip.compress(content, 9, mtime=0))
    seconds = sum(time_limit(each.row) for each in todo) + _SENDING
    campaign = campaign_id(directory)
    comment = ["SPDX-License-Identifier: GPL-2.0", f"Made by schedline: {device.about}"]
    labels = [kernel.label for kernel in plan.kernels]
    jobs, texts = [], {}
    for number, machine in enumerate(wanted.tags or [f"{number + 1:04}" for number in range(wanted.machines or 1)]):
        # Each machine has an order of its own; the first one that of the plan.
        drawn = blocks(labels, plan.order.count(labels[0]), plan.seed + number) if number else plan.blocks
        for place, block in enumerate(drawn):
            job = FleetJob(f"{device.name}.{machine}.{place + 1}", block)
            tags = (machine,) if wanted.tags else ()
            made = definition(device, campaign, job, archive, files, seconds=seconds, tags=tags)
            texts[job.name] = yaml_text(made, comment)
            jobs.append(job)
    for name, text in texts.items():
        write_atomic(directory / "jobs" / f"{name}.yaml", text)
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
    print(f"in each boot: {', '.join(each.name for each in todo[1:])}; {seconds / 60:.0f} min at most")
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


class _Artefacts:
    """The files that jobs download."""

    def __init__(self, directory: Path, device: FleetDevice, url: str | None) -> None:
        self._place = directory / "artefacts" / device.name
        self._url = f"{url.rstrip('/')}/{device.name}" if url else self._place.as_uri()

    def add(self, name: str, content: bytes) -> Artefact:
        write_atomic(self._place / name, content)
        return {"url": f"{self._url}/{name}", "sha256sum": hashlib.sha256(content).hexdigest()}


def _boot_files(
    artefacts: _Artefacts, device: FleetDevice, plan: GatePlan, label: str, path: Path, dtb: Path | None
) -> dict[str, Artefact]:
    """Add the files of a kernel."""
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
    files = {"kernel": artefacts.add(f"{label}-kernel", image)}
    if modules and device.method != "qemu":
        files["modules"] = artefacts.add(f"{label}-modules.tar.gz", modules)
    if dtb and device.method != "qemu":
        files["dtb"] = artefacts.add(dtb.name, dtb.read_bytes())
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


def _ramdisk(device: FleetDevice, tree: TreeOptions, todo: Sequence[QueuedRun]) -> bytes:
    """The programs of all runs, and busybox."""
    cache = cache_dir()
    source, own = header_tree(cache, tree), scripts("guest_runs.sh", "send_console.sh", slow=device.emulated)
    doctor.require(["compile"])
    with tempfile.TemporaryDirectory(dir=cache, prefix="ramdisk-") as name:
        place = Path(name)
        (place / "files").mkdir()
        files: Mapping[str, Path | bytes] = {
            **{path: SELFTESTS / script for path, script in own.items()},
            **guest_files(todo, place / "files"),
            **compiled_for(source, todo, place / "programs", device.target),
            "/bin/busybox": busybox(cache, device.arch),
            "/epoch": f"{EPOCH}\n".encode(),
        }
        return ramdisk(files)


def ramdisk(files: Mapping[str, Path | bytes]) -> bytes:
    """An archive of files, by their path in it, and of all directories above them, for the kernel.

    The format is `newc` (Documentation/driver-api/early-userspace/buffer-format.rst).

    The same files give the same bytes.
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
    return _padded(head + path) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
