# SPDX-License-Identifier: GPL-2.0
"""`schedline doctor`: which jobs this machine is ready for, and what the others lack."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.environment import activate, lacking
from schedlib.names import one_of
from schedlib.options import Verbs, add_verb, flag, option
from schedlib.paths import TYPED
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class DoctorOptions:
    jobs: tuple[str, ...] = option(
        "JOB", f"some of {', '.join(doctor.JOBS)}", one_of("job", lambda: doctor.JOBS), default=(), nargs="*"
    )
    install: bool = flag("--install", "install what the named jobs lack")


def add_parser(verbs: Verbs) -> None:
    add_verb(
        verbs,
        "doctor",
        "which jobs this machine is ready for, and what the others lack",
        first=[
            "schedline doctor                   every job: ready, or what is missing",
            "schedline doctor --install check   install what `schedline check` needs (Debian, root)",
        ],
        text="""
        Nothing is installed without --install. That option installs Debian packages, and puts the Python libraries
        into the cache. The exit code is 2 if a named job is not ready; without a name, if check is not.""",
        operands="[JOB ...]",
        options=DoctorOptions,
        job=_doctor,
        libraries=(),
    )


def _doctor(options: DoctorOptions) -> Verdict:
    named = options.jobs or ("check",)
    if options.install:
        jobs = [doctor.JOBS[name] for name in named]
        doctor.install(tuple(dict.fromkeys(need for job in jobs for need in job.missing())))
        for extra in dict.fromkeys(extra for job in jobs for extra in job.libraries):
            activate(extra)
        print(f"ready: {', '.join(job.command for job in jobs)}")
        return Verdict.PASS
    if not options.jobs:
        kvm = "present; used if a guest boots with it" if Path("/dev/kvm").exists() else "absent"
        print(f"machine: {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
        print(f"/dev/kvm: {kvm}")
        if not doctor.has_apt():
            print("apt-get: absent; give a kernel tree of your own, --kdir PATH")
    without: dict[str, tuple[doctor.Need, ...]] = {}
    incomplete: set[str] = set()
    for name in options.jobs or doctor.JOBS:
        job = doctor.JOBS[name]
        needs, libraries = job.missing(), {extra: each for extra in job.libraries if (each := lacking(extra))}
        print(f"{'NOT READY' if needs or libraries else 'ready    '} {name}: {job.command}")
        for extra, each in libraries.items():
            print(f"    {', '.join(each)}: {sys.executable} -m pip install 'schedline[{extra}]'")
            incomplete.add(name)
        if needs:
            print(doctor.listed(needs))
            without[name] = needs
    if without:
        all_needs = tuple(dict.fromkeys(need for needs in without.values() for need in needs))
        command = f"sudo {TYPED} doctor --install {' '.join(without)}"
        print(f"next: {command if doctor.has_apt() else doctor.next_step(all_needs)}")
    return Verdict.ERROR if (without.keys() | incomplete) & set(named) else Verdict.PASS
