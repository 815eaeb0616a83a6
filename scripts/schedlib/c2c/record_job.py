# SPDX-License-Identifier: GPL-2.0
"""Sample this machine's data accesses with perf, and map its objects with drgn, for `schedline c2c import`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from schedlib import TOOL
from schedlib.c2c.address_names import MAP_FILE, ObjectMap
from schedlib.c2c.c2c_options import SOURCES, TAGS, C2cImportOptions, C2cRecordOptions
from schedlib.c2c.kernel_map import KernelMap, kernel_map
from schedlib.c2c.memory_map import MemoryMap, memory_map_if_known
from schedlib.c2c.objects import PER_CPU_OFFSETS, Instance, watches
from schedlib.c2c.observed import PAGE
from schedlib.c2c.perf_script import FIELDS, read_script
from schedlib.c2c.samples_job import import_samples
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.kernel.machine import build_id_of, running_build_id
from schedlib.process import clean_environment, dying_with_us, must, run
from schedlib.progress import step
from schedlib.verdict import Verdict

_POSSIBLE = "sys/devices/system/cpu/possible"
_FIRST_PER_CPU = "runqueues"
_MEMORY = Path("/proc/kcore")
DATA_FILE, SAMPLES_FILE = "perf.data", "samples.txt"
_PROGRAMS = {"perf": "apt-get install linux-perf", "drgn": "apt-get install python3-drgn, or pip install drgn"}


def possible_cpus(root: Path = Path("/")) -> int:
    """The number of possible CPUs; SchedlineError if sysfs does not say it."""
    try:
        return int((root / _POSSIBLE).read_text().strip().rpartition("-")[2]) + 1
    except (OSError, ValueError) as error:
        raise SchedlineError(f"/{_POSSIBLE} cannot be read: {error}", "mount sysfs") from error


def objects_of_kernel(
    drgn: Sequence[str],
    vmlinux: Path,
    known: KernelMap,
    memory: MemoryMap | None,
    objects: tuple[str, ...],
    cpus: int,
    pages: Sequence[int],
) -> ObjectMap:
    """The map of a running kernel: drgn reads its memory, see scripts/c2c/object_map.py.

    Args:
        drgn: the program, and which kernel it is to read. It has to be that of vmlinux.
        memory: what is needed to name slabs; None if this kernel describes its pages otherwise.
        pages: addresses of pages whose use is asked for.

    Raises SchedlineError: drgn cannot read the kernel.
    """
    offsets, per_cpu = known.symbol(PER_CPU_OFFSETS), known.symbol(_FIRST_PER_CPU)
    if offsets is None or per_cpu is None:
        raise SchedlineError("this kernel has no per-CPU variables: it was built for one CPU", "c2c needs two")
    # Where a base is no variable, as on arm64, slabs have no names yet.
    bases = [] if memory is None else [int(base, 16) for base in memory.bases if not base.startswith("=")]
    looked_at = {watch.key: watch for watch in watches(known, objects, cpus)}
    asked = {
        "offsets": {"name": offsets.name, "address": offsets.address},
        "per_cpu": per_cpu.address,
        "cpus": cpus,
        "areas": bases,
        "watches": [
            {"key": each.key, "per_cpu": each.per_cpu, "address": each.address, "hops": each.hops}
            for each in looked_at.values()
        ],
        "pages": pages if bases else [],
        "arrays": [(name, *places) for name, places in memory.arrays.items()] if memory and bases else [],
    }
    argv = [*drgn, "--main-symbols", "-s", str(vmlinux), str(SOURCES / "object_map.py")]
    text = must(argv, stdin=json.dumps(asked).encode(), next_step="schedline c2c record --help")
    ours = {
        "schema": ObjectMap.kind(),
        "tool": TOOL,
        "made": datetime.now(UTC).replace(microsecond=0),
        "build_id": known.build_id,
        "page": PAGE,
        "cpus": cpus,
        "objects": objects,
    }
    try:
        answer = json.loads(text)
        found = [Instance(key, cpu, address, looked_at[key].size, 1) for key, cpu, address in answer["instances"]]
        return msgspec.convert(answer | ours | {"instances": msgspec.to_builtins(found)}, ObjectMap)
    except (KeyError, TypeError, ValueError) as error:
        raise SchedlineError(
            f"drgn has answered something else: {error!r}", "drgn --version; see docs/c2c.md"
        ) from error


def record(options: C2cRecordOptions) -> Verdict:
    """Sample, map and import; SchedlineError if this machine or its kernel does not allow it."""
    _refuse_unready(options)
    options.out.mkdir(parents=True, exist_ok=True)
    with step("sampling"):
        _sample(options)
    with step("writing the samples as text"):
        _write_text(options.out)
    with step("reading where the objects lie"):
        document.write(options.out / MAP_FILE, _map(options))
    return import_samples(
        C2cImportOptions(
            files=(options.out / SAMPLES_FILE,),
            vmlinux=options.vmlinux,
            map=options.out / MAP_FILE,
            line=64,
            out=options.out,
            json=None,
        )
    )


def _refuse_unready(options: C2cRecordOptions) -> None:
    """SchedlineError if a program, a right or the kernel's help lacks."""
    for name, next_step in _PROGRAMS.items():
        if shutil.which(name) is None:
            raise SchedlineError(f"{name} is not installed", next_step)
    if os.geteuid():
        raise SchedlineError("only root may sample all CPUs and read the kernel's memory", "run it as root")
    if not _MEMORY.exists():
        raise SchedlineError(
            "this kernel has no /proc/kcore for drgn to read (CONFIG_PROC_KCORE)",
            "sample with perf, and import its text without a map: see docs/c2c.md",
        )
    refuse_other_kernel(options.vmlinux, running_build_id())
    there = next((name for name in (DATA_FILE, SAMPLES_FILE, MAP_FILE) if (options.out / name).exists()), None)
    if there:
        raise SchedlineError(f"{options.out} has a recording already: {there}", "name another directory")


def refuse_other_kernel(vmlinux: Path, running: str) -> None:
    """SchedlineError if a vmlinux is not that of the kernel with this build-id, or no vmlinux."""
    try:
        with vmlinux.open("rb") as file:
            found = build_id_of(ELFFile(file))
    except (OSError, ELFError) as error:
        raise SchedlineError(f"{vmlinux} is no vmlinux: {error}", "give the kernel with debug information") from error
    if found != running:
        raise SchedlineError(
            f"{vmlinux} is another kernel than the one that runs: its build-id is {found[:16] or 'missing'}, that of "
            f"the running kernel {running[:16] or 'not shown'}",
            "install the debug information of this kernel: uname -r",
        )


def _sample(options: C2cRecordOptions) -> None:
    command = options.arguments or ("sleep", f"{options.seconds:g}")
    # Not complete: perf writes the end when it ends. So the name is given afterwards.
    half = options.out / f".{DATA_FILE}"
    argv = ["perf", "c2c", "record", "-a", "-o", str(half), "--", *command]
    done = run(dying_with_us(argv))
    if done.returncode or not half.is_file() or not half.stat().st_size:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        half.unlink(missing_ok=True)
        raise SchedlineError(
            f"`{' '.join(argv)}` failed ({done.returncode}):\n    " + "\n    ".join(said),
            "does the command run by itself? Data addresses need Intel's load latency, AMD's IBS (perf 6.1 or later) "
            "or Arm's SPE, which virtual machines lack: count on emulated CPUs there (schedline c2c)",
        )
    half.replace(options.out / DATA_FILE)


def _write_text(out: Path) -> None:
    half = out / f".{SAMPLES_FILE}"
    argv = ["perf", "script", "--header", "-i", str(out / DATA_FILE), "-F", FIELDS]
    with half.open("wb") as file:
        none, kept = subprocess.DEVNULL, subprocess.PIPE
        done = subprocess.run(dying_with_us(argv), stdin=none, stdout=file, stderr=kept, env=clean_environment())
    if done.returncode:
        half.unlink()
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise SchedlineError(f"`{' '.join(argv)}` failed ({done.returncode}): {said}", "perf --version")
    half.replace(out / SAMPLES_FILE)


def _map(options: C2cRecordOptions) -> ObjectMap:
    cache = cache_dir()
    known = kernel_map(options.vmlinux, cache / "c2c", TAGS)
    memory = memory_map_if_known(options.vmlinux, cache / "c2c", known)
    pages: set[int] = set()

    def kept(address: int) -> str:
        pages.add(address // PAGE * PAGE)
        return ""

    read_script(options.out / SAMPLES_FILE, kept)
    drgn = ["drgn", "-q", "-k"]
    return objects_of_kernel(drgn, options.vmlinux, known, memory, options.objects, possible_cpus(), sorted(pages))
