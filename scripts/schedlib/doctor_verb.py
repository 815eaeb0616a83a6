# SPDX-License-Identifier: GPL-2.0
"""`schedline doctor`: which jobs this machine is ready for, and what the others lack."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib import doctor
from schedlib.environment import activate
from schedlib.errors import SchedlineError
from schedlib.names import unknown
from schedlib.options import Verbs, add_verb, flag, option
from schedlib.paths import TYPED
from schedlib.verdict import Verdict


@dataclass(frozen=True)
class DoctorOptions:
    """The jobs to report on, and whether to install what they lack."""

    jobs: tuple[str, ...] = option("JOB", f"some of {', '.join(doctor.JOBS)}", default=(), nargs="*")
    install: bool = flag("--install", "install what the named jobs lack")


def add_parser(verbs: Verbs) -> None:
    """Add `schedline doctor`."""
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
        read=_checked,
        job=_doctor,
        libraries=(),
    )


def _checked(options: DoctorOptions) -> DoctorOptions:
    for name in options.jobs:
        if name not in doctor.JOBS:
            raise SchedlineError(unknown("job", name, tuple(doctor.JOBS)), "schedline doctor")
    return options


def _doctor(options: DoctorOptions) -> Verdict:
    named = options.jobs or ("check",)
    if options.install:
        jobs = [doctor.JOBS[name] for name in named]
        doctor.install(tuple(dict.fromkeys(need for job in jobs for need in job.missing())))
        for extra in dict.fromkeys(extra for job in jobs for extra in job.libraries):
            activate(extra)
        print(f"ready: {', '.join(job.command for job in jobs)}")
        return Verdict.PASS
    _show(options.jobs or tuple(doctor.JOBS), whole=not options.jobs)
    return Verdict.ERROR if any(doctor.JOBS[name].missing() for name in named) else Verdict.PASS


def _show(names: Sequence[str], *, whole: bool) -> None:
    if whole:
        kvm = "present; used if a guest boots with it" if Path("/dev/kvm").exists() else "absent"
        print(f"machine: {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
        print(f"/dev/kvm: {kvm}")
        if not doctor.has_apt():
            print("apt-get: absent; give a kernel tree of your own, --kdir PATH")
    lacking: dict[str, tuple[doctor.Need, ...]] = {}
    for name in names:
        job = doctor.JOBS[name]
        needs = job.missing()
        print(f"{'ready    ' if not needs else 'NOT READY'} {name}: {job.command}")
        if needs:
            print(doctor.listed(needs))
            lacking[name] = needs
    if lacking:
        all_needs = tuple(dict.fromkeys(need for needs in lacking.values() for need in needs))
        command = f"sudo {TYPED} doctor --install {' '.join(lacking)}"
        print(f"next: {command if doctor.has_apt() else doctor.next_step(all_needs)}")
