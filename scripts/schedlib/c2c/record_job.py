# SPDX-License-Identifier: GPL-2.0
"""Sample this machine's data accesses with perf, and map its objects with drgn, for `schedline c2c import`."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from schedlib.c2c.c2c_options import TAGS, C2cImportOptions, C2cRecordOptions
from schedlib.c2c.kernel_map import kernel_map
from schedlib.c2c.memory_map import memory_map_if_known
from schedlib.c2c.perf_script import FIELDS, read_script
from schedlib.c2c.raw import PAGE
from schedlib.c2c.running_objects import WantedObjects, objects_of_kernel
from schedlib.c2c.sampler import Sampler, possible_cpus, refuse_locked_down, sampler
from schedlib.c2c.samples_job import import_samples
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.c2c_map_document import MAP_FILE, ObjectMap
from schedlib.kernel.build_id import build_id_of, running_build_id
from schedlib.process import clean_environment, dying_with_us, run
from schedlib.progress import step
from schedlib.verdict import Verdict

_MEMORY = Path("/proc/kcore")
DATA_FILE, SAMPLES_FILE = "perf.data", "samples.txt"


def record(options: C2cRecordOptions) -> Verdict:
    """Sample, map and import; SchedlineError if this machine or its kernel does not allow it."""
    how = _ready(options)
    options.out.mkdir(parents=True, exist_ok=True)
    with step(f"sampling with {how.name}"):
        _sample(how, options)
    with step("writing the samples as text"):
        _write_text(options.out)
    if not options.without_map:
        with step("reading where the objects lie"):
            document.write(options.out / MAP_FILE, _map(options))
    return import_samples(
        C2cImportOptions(
            files=(options.out / SAMPLES_FILE,),
            vmlinux=options.vmlinux,
            map=None if options.without_map else options.out / MAP_FILE,
            build_id=running_build_id(),
            line=64,
            out=options.out,
            json=None,
        )
    )


def _ready(options: C2cRecordOptions) -> Sampler:
    """What samples here; SchedlineError if a program, a right or the kernel's help lacks."""
    how = sampler(platform.machine())
    refuse_locked_down()
    programs = {"perf": "apt-get install linux-perf"}
    if not options.without_map:
        programs["drgn"] = "apt-get install python3-drgn, or pip install drgn; or --without-map"
    for name, next_step in programs.items():
        if shutil.which(name) is None:
            raise SchedlineError(f"{name} is not installed", next_step)
    if os.geteuid():
        raise SchedlineError("only root may sample all CPUs and read the kernel's memory", "run it as root")
    if not options.without_map and not _MEMORY.exists():
        raise SchedlineError("this kernel has no /proc/kcore for drgn to read (CONFIG_PROC_KCORE)", "--without-map")
    refuse_other_kernel(options.vmlinux, running_build_id())
    there = next((name for name in (DATA_FILE, SAMPLES_FILE, MAP_FILE) if (options.out / name).exists()), None)
    if there:
        raise SchedlineError(f"{options.out} has a recording already: {there}", "name another directory")
    return how


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


def _sample(how: Sampler, options: C2cRecordOptions) -> None:
    command = options.command or ("sleep", f"{options.seconds:g}")
    latency = ["--ldlat", str(options.ldlat)] if options.ldlat and how.latency else []
    # Not complete: perf writes the end when it ends. So the name is given afterwards.
    half = options.out / f".{DATA_FILE}"
    argv = ["perf", "c2c", "record", "-a", "-o", str(half), *latency, "--", *command]
    done = run(dying_with_us(argv))
    if done.returncode or not half.is_file() or not half.stat().st_size:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-8:]
        half.unlink(missing_ok=True)
        raise SchedlineError(
            f"`{' '.join(argv)}` failed ({done.returncode}):\n    " + "\n    ".join(said),
            "does the command run by itself? AMD's IBS needs perf 6.1 or later",
        )
    half.replace(options.out / DATA_FILE)


def _write_text(out: Path) -> None:
    half = out / f".{SAMPLES_FILE}"
    argv = ["perf", "script", "--header", "-i", str(out / DATA_FILE), "-F", FIELDS]
    with half.open("wb") as file:
        done = subprocess.run(
            dying_with_us(argv),
            check=False,
            stdout=file,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=clean_environment(),
        )
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

    read_script(options.out / SAMPLES_FILE, kept, workers=1)
    wanted = WantedObjects(known, memory, options.objects, possible_cpus(), tuple(sorted(pages)))
    return objects_of_kernel(["drgn", "-q", "-k"], options.vmlinux, wanted)
