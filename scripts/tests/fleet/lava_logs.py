# SPDX-License-Identifier: GPL-2.0
"""Campaigns and logs of LAVA, made up as the real ones are."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from schedlib.fleet.campaign import FleetJob, FleetJobs, campaign_id, fleet_suite, jobs_file
from schedlib.formats import document
from schedlib.formats.run_file import Head, Metric, Reading, run_of
from schedlib.gate.boot_plan import BootedKernel, GatePlan

ROW = "rt-wakeup-quick"
RUN = f"{ROW}-1"
VERSIONS = {"base": "7.3.4-a", "candidate": "7.3.4-b"}
ORDER = ("candidate", "base", "base", "candidate")
JOB = "qemu-x86_64.0001.1"
MACHINE = "x86_64 QEMU, CPUs 0-1, 1 LLCs, 1 nodes"


def campaign(directory: Path, order: Sequence[str] = ORDER) -> Path:
    """A campaign with one job."""
    kernels = tuple(BootedKernel(label, version, "false") for label, version in VERSIONS.items())
    plan = GatePlan(
        schema="gate-plan-1", kernels=kernels, blocks=(tuple(order),), looks=(), seed=1, suite="quick", only=(ROW,),
        runs=1, gates="default", losses=3,
    )  # fmt: skip
    document.write(directory / "plan.json", plan)
    suite, _ = fleet_suite(plan, 2, True)
    jobs = FleetJobs(
        schema="fleet-jobs-2", campaign=campaign_id(directory), device="qemu-x86_64", cpus=2, emulated=True,
        digest=suite.digest(), jobs=(FleetJob(JOB, tuple(order)),),
    )  # fmt: skip
    document.write(jobs_file(directory, "qemu-x86_64"), jobs)
    return directory


def boot_id(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def _run(tool: str, version: str, number: int, metrics: Sequence[Metric]) -> bytes:
    fingerprint = {
        "machine_name": "m",
        "machine": MACHINE,
        "kernel": f"{version} #1 SMP",
        "build_id": version,
        "configuration": "c",
        "boot_id": boot_id(number),
        "command_line": tool,
    }
    return msgspec.json.encode(run_of(Head(tool, "2026-01-01T00:00:05Z", 5.0, fingerprint), Reading(tuple(metrics))))


def files(label: str, number: int, value: float = 0) -> list[dict[str, bytes]]:
    """The files of the two runs of a boot: the one that finds out the machine, and the one of the suite."""
    version = VERSIONS[label]
    ending = b"2026-01-01T00:00:05Z 5.0 6.5 0\n"
    sleeps = [Metric("sleeps", "sleeps", "neither", "exact", 2, 2)]
    wakeups = [
        Metric("timer.samples", "samples", "neither", "exact", 1000 + number, 1000),
        Metric("timer.p50", "ns", "lower", "quantile", 7000.125 + number, 1000),
        Metric("timer.p99", "ns", "lower", "quantile", 9000.25 + number, 1000),
        Metric("timer.elsewhere", "samples", "lower", "exact", value, 1000),
    ]
    common = {"ending": ending, "stdout": b"ok\n", "stderr": b""}
    return [
        {**common, "run.json": _run("sleep_storm", version, number, sleeps)},
        {**common, "run.json": _run("rt_wakeup", version, number, wakeups)},
    ]


def sent(slot: int, content: Mapping[str, bytes]) -> list[str]:
    """Files as selftests/send_console.sh prints them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in content.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    data = stream.getvalue()
    text = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    parts = [f"# sent {slot}= {text[place : place + 100]}" for place in range(0, len(text), 100)]
    head = f"# sent {slot}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
    return [head, *parts, f"# sent {slot}: end"]


def boot(directory: Path, label: str, number: int, value: float = 0) -> list[str]:
    """The console of a boot."""
    first, second = files(label, number, value)
    return [
        f"[    0.000000] Linux version {VERSIONS[label]} (gcc)",
        f"[    0.000000] Kernel command line: console=ttyS0 schedline.job={campaign_id(directory)}/{JOB}",
        "schedline: ready",
        "TAP version 13",
        "1..2",
        "# selftests: guest: identity",
        *sent(0, first),
        "ok 1 selftests: guest: identity",
        f"# selftests: guest: {RUN}",
        *sent(1, second),
        f"ok 2 selftests: guest: {RUN}",
        "[    9.000000] reboot: Restarting system",
    ]


def boots(directory: Path, order: Sequence[str] = ORDER, first: int = 1, worse: float = 0) -> list[list[str]]:
    """The consoles of the boots of a job."""
    values = {"base": 0.0, "candidate": worse}
    return [boot(directory, label, first + place, values[label]) for place, label in enumerate(order)]


def _records(consoles: Sequence[Sequence[str]], end: Mapping[str, str]) -> Iterator[tuple[str, object]]:
    yield "info", "start: 0 validate"
    for place, console in enumerate(consoles):
        number = 3 * place + 1
        yield "info", f"start: {number} deployimages (timeout 00:05:00) [common]"
        yield "debug", f"start: {number}.1 download-retry (timeout 00:05:00) [common]"
        yield "info", f"start: {number + 1} boot-image-retry (timeout 00:05:00) [common]"
        for line in console:
            yield "target", line
        yield "info", f"start: {number + 2} lava-test-monitor-retry (timeout 00:05:00) [common]"
    yield "info", f"start: {3 * len(consoles) + 1} finalize (timeout 00:15:00) [common]"
    yield "results", {"definition": "lava", "case": "job", **end}


PASSED = {"result": "pass"}
INFRASTRUCTURE = {"result": "fail", "error_type": "Infrastructure", "error_msg": "Connection closed"}
TIMED_OUT = {"result": "fail", "error_type": "Job", "error_msg": "lava-test-monitor timed out after 300 seconds"}


def log(consoles: Sequence[Sequence[str]], end: Mapping[str, str] = PASSED, hour: int = 10) -> str:
    """The log of a job."""
    lines = []
    for number, (level, said) in enumerate(_records(consoles, end)):
        at = f"2026-11-25T{hour}:{number // 60:02}:{number % 60:02}.000001"
        lines.append("- " + json.dumps({"dt": at, "lvl": level, "msg": said}))
    return "\n".join(lines) + "\n"
