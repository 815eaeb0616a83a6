# SPDX-License-Identifier: GPL-2.0
"""What this machine lacks, why it is needed, and the command that installs it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import machine

from schedlib.errors import SchedlineError
from schedlib.names import plain_toml
from schedlib.process import run
from schedlib.progress import step


@dataclass(frozen=True)
class Need:
    """A program, header or file that some job needs.

    Attributes:
        name: the program's name, or a description of the file.
        package: the Debian package that contains it.
        why: what it is for.
        jobs: the jobs that need it: any of fetch, build, compile, uml, qemu-x86_64, qemu-arm64, qemu-arm64-selftests,
            qemu-arm64-c2c, layout, objtool, kselftest, kernels, kernels-deb, in-guest, run, fleet, lava, test.
        file: path of a file to look for instead of a program.
    """

    name: str
    package: str
    why: str
    jobs: frozenset[str]
    file: str | None = None

    def is_met(self) -> bool:
        """Whether this machine has it."""
        if self.file:
            return any(Path("/").glob(self.file))
        return shutil.which(self.name) is not None


def _need(name: str, package: str, why: str, jobs: str, file: str | None = None) -> Need:
    return Need(name, package, why, frozenset(jobs.split()), file)


_GUESTS = "uml qemu-x86_64 qemu-arm64"
"""The jobs that build a kernel with BTF."""

NEEDS = (
    _need("git", "git", "keeps the kernel trees and applies the changes", "fetch build compile"),
    _need("apt-get", "apt", "fetches Debian's kernel source", "fetch"),
    _need("dpkg-deb", "dpkg", "opens Debian's package", "fetch"),
    _need("tar", "tar", "unpacks the kernel", "fetch"),
    _need("xz", "xz-utils", "unpacks the kernel", "fetch"),
    _need(
        "the archive's keyring",
        "debian-archive-keyring",
        "checks the archive's signature",
        "fetch",
        "usr/share/keyrings/debian-archive-keyring.gpg",
    ),
    _need("make", "make", "builds the kernel", "build"),
    _need("gcc", "gcc", "builds the kernel, and programs for this machine", "build compile"),
    _need("flex", "flex", "builds Kconfig", "build"),
    _need("bison", "bison", "builds Kconfig", "build"),
    _need("bc", "bc", "computes time constants of the kernel", "build"),
    _need(
        "the C library's headers",
        "libc6-dev",
        "builds UML, the kernel's host programs, and programs for this machine",
        "build compile",
        "usr/include/stdio.h",
    ),
    _need("pahole", "pahole", "reads the debug information of kernels, and makes BTF of it", f"layout {_GUESTS}"),
    _need(
        "libelf's headers",
        "libelf-dev",
        "builds objtool and resolve_btfids",
        f"{_GUESTS} objtool",
        "usr/include/libelf.h",
    ),
    _need("zlib's headers", "zlib1g-dev", "builds resolve_btfids", _GUESTS, "usr/include/zlib.h"),
    _need("qemu-system-x86_64", "qemu-system-x86", "boots the x86-64 kernel", "qemu-x86_64"),
    _need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", "builds the arm64 kernel", "qemu-arm64"),
    _need("qemu-system-aarch64", "qemu-system-arm", "boots the arm64 kernel", "qemu-arm64"),
    _need(
        "the C library for arm64",
        "libc6-dev-arm64-cross",
        "builds the programs of an arm64 guest",
        "qemu-arm64-selftests qemu-arm64-c2c",
        "usr/aarch64-linux-gnu/lib/libc.a",
    ),
    _need("rsync", "rsync", "installs the kselftests, and headers for a package", "kselftest kernels-deb"),
    _need("depmod", "kmod", "lists the modules of a packaged kernel", "kernels"),
    _need("cpio", "cpio", "packs the kernel's headers", "kernels"),
    _need("dpkg-buildpackage", "dpkg-dev", "makes a Debian package of a kernel", "kernels-deb"),
    _need("dh", "debhelper", "makes a Debian package of a kernel", "kernels-deb"),
    _need("busybox", "busybox-static", "is the shell of a guest that runs workloads or scripts", "in-guest kselftest"),
    _need("cyclictest", "rt-tests", "measures RT latencies, with hackbench, pi_stress and others", "run"),
    _need("stress-ng", "stress-ng", "loads the scheduler", "run"),
    _need("perf", "linux-perf", "benchmarks wake-ups, and counts and samples where the hardware can", "run record"),
    _need("drgn", "python3-drgn", "reads where a running kernel has its objects", "record"),
    _need("tbench", "dbench", "wakes tasks over the loopback", "run"),
    _need(
        "LAVA's schema",
        "lava-common",
        "checks job definitions",
        "fleet",
        "usr/lib/python3/dist-packages/lava_common/schemas/__init__.py",
    ),
    _need("lavacli", "lavacli", "submits jobs to LAVA", "fleet"),
    _need("lava-run", "lava-dispatcher", "runs a job of LAVA without a server", "lava"),
    _need("perl", "perl", "runs checkpatch.pl", "test"),
    _need("shellcheck", "shellcheck", "checks the shell scripts", "test"),
    _need("sparse", "sparse", "checks the kernel code", "test"),
    _need("chromium", "chromium", "shows the page of a report, light and dark", "test"),
)


@dataclass(frozen=True)
class Job:
    """Something that a user does with schedline.

    Attributes:
        command: as the user types it.
        needs: the jobs of Need.jobs whose rows of NEEDS it requires.
        libraries: the requirements files with its Python libraries.
        compilers: whether it needs the cross compiler of each architecture in configs/layout.toml.
    """

    command: str
    needs: tuple[str, ...]
    libraries: tuple[str, ...] = ("requirements.txt",)
    compilers: bool = False

    def missing(self) -> tuple[Need, ...]:
        """What this machine lacks for it."""
        more = compilers() if self.compilers else ()
        return tuple(dict.fromkeys((*missing(self.needs), *(need for need in more if not need.is_met()))))


_KERNEL = ("fetch", "build", "layout")
_GATE = ("requirements.txt", "requirements-gate.txt")

JOBS = {
    "check": Job("schedline check", (*_KERNEL, "uml")),
    "check-x86_64": Job("schedline check --on qemu-x86_64", (*_KERNEL, "qemu-x86_64")),
    "check-arm64": Job("schedline check --on qemu-arm64 --selftests", (*_KERNEL, "qemu-arm64", "qemu-arm64-selftests")),
    "layout": Job("schedline layout", _KERNEL),
    "layout-all": Job("schedline layout --arch all", (*_KERNEL, "objtool"), compilers=True),
    "c2c": Job("schedline c2c", (*_KERNEL, "qemu-x86_64")),
    "c2c-arm64": Job("schedline c2c --on qemu-arm64", (*_KERNEL, "qemu-arm64", "qemu-arm64-c2c")),
    "c2c-record": Job("schedline c2c record", ("record",)),
    "premerge": Job("schedline premerge", (*_KERNEL, "uml", "qemu-x86_64", "objtool"), _GATE, compilers=True),
    "kernels": Job("schedline kernels", (*_KERNEL, "objtool", "kernels", "kernels-deb")),
    "run": Job("schedline run", ("compile", "run")),
    "run-in-guest": Job("schedline run --in-guest", (*_KERNEL, "qemu-x86_64", "in-guest", "run")),
    "gate": Job("schedline gate", (), _GATE),
    "fleet": Job(
        "schedline fleet", ("fetch", "compile", "in-guest", "fleet"), ("requirements.txt", "requirements-fleet.txt")
    ),
    "fleet-trial": Job(
        "python3 scripts/proof lava_trial",
        (*_KERNEL, "objtool", "qemu-x86_64", "in-guest", "fleet", "lava"),
        (*_GATE, "requirements-fleet.txt"),
    ),
    "test": Job(
        "make test",
        (
            *_KERNEL,
            "uml",
            "objtool",
            "qemu-x86_64",
            "qemu-arm64",
            "qemu-arm64-selftests",
            "kselftest",
            "in-guest",
            "test",
        ),
        ("requirements-test.txt", "requirements.txt"),
        compilers=True,
    ),
}
"""The key is the word after `schedline doctor`."""


def compilers() -> tuple[Need, ...]:
    """The cross compiler of each architecture in configs/layout.toml except this machine's own."""
    with plain_toml("layout.toml") as found:
        return tuple(
            Need(f"{row['compiler']}gcc", row["package"], f"compiles for {row['make']}", frozenset())
            for row in found["arch"].values()
            if row["compiler"] and not row["compiler"].startswith(f"{machine()}-")
        )


def missing(jobs: Collection[str]) -> tuple[Need, ...]:
    """The unmet needs of some jobs."""
    return tuple(need for need in NEEDS if need.jobs & set(jobs) and not need.is_met())


def listed(needs: Iterable[Need]) -> str:
    """One line for each need."""
    return "\n".join(f"    {need.name}: {need.why} (package {need.package})" for need in needs)


def _lacks(needs: Iterable[Need], next_step: str) -> SchedlineError:
    other = "install them with this system's package manager"
    return SchedlineError(f"this machine lacks:\n{listed(needs)}", next_step if shutil.which("apt-get") else other)


def _install_command(needs: Iterable[Need]) -> list[str]:
    """The command that installs them on Debian; root has to run it."""
    return ["apt-get", "install", "-y", "--no-install-recommends", *dict.fromkeys(need.package for need in needs)]


def require(jobs: Collection[str], more: Iterable[Need] = ()) -> None:
    """Check that this machine has what some jobs need, and the needs in `more`. Nothing is installed.

    Raises:
        SchedlineError: something is missing; the next step is the command that installs it.
    """
    needs = (*missing(jobs), *(need for need in more if not need.is_met()))
    if needs:
        raise _lacks(needs, " ".join(["sudo", *_install_command(needs)]))


def install(needs: Sequence[Need]) -> None:
    """Install Debian packages.

    Raises:
        SchedlineError: the machine has no apt-get, the user is not root, or apt-get failed.
    """
    if not needs:
        return
    command = _install_command(needs)
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise _lacks(needs, " ".join(["sudo", *command]))
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(" ".join(command)):
        done = run(command, env=env)
        if done.returncode:
            run(["apt-get", "update"], env=env)
            done = run(command, env=env)
    still = [need.name for need in needs if not need.is_met()]
    if done.returncode or still:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise SchedlineError(
            f"{', '.join(still) or 'something'} could not be installed:\n    " + "\n    ".join(said), " ".join(command)
        )
