# SPDX-License-Identifier: GPL-2.0
"""What this machine lacks, why it is needed, and the command that installs it."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.process import run
from schedlib.progress import say, step


@dataclass(frozen=True)
class Need:
    """A program, header or file that some job needs.

    Attributes:
        name: of the program, or what is looked for.
        package: Debian's package that has it.
        why: what it is for.
        jobs: which need it, of fetch, build, uml, qemu-x86_64, qemu-arm64, qemu-arm64-selftests, qemu-arm64-c2c,
            layout, objtool, kselftest, kernels, kernels-deb, in-guest, run, test.
        file: path of a file to look for instead of a program.
    """

    name: str
    package: str
    why: str
    jobs: frozenset[str]
    file: str | None = None

    def is_met(self) -> bool:
        """Whether it is here."""
        if self.file:
            return any(Path("/").glob(self.file))
        return shutil.which(self.name) is not None


def _need(name: str, package: str, why: str, jobs: str, file: str | None = None) -> Need:
    return Need(name, package, why, frozenset(jobs.split()), file)


NEEDS = (
    _need("git", "git", "keeps the kernel trees and applies the changes", "fetch build"),
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
    _need("gcc", "gcc", "builds the kernel", "build"),
    _need("flex", "flex", "builds Kconfig", "build"),
    _need("bison", "bison", "builds Kconfig", "build"),
    _need("bc", "bc", "computes time constants of the kernel", "build"),
    _need(
        "the C library's headers",
        "libc6-dev",
        "builds UML and the kernel's host programs",
        "build",
        "usr/include/stdio.h",
    ),
    _need("pahole", "pahole", "reads the debug information of kernels", "layout"),
    _need("libelf's headers", "libelf-dev", "builds objtool", "qemu-x86_64 objtool", "usr/include/libelf.h"),
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
    _need("busybox", "busybox-static", "is the shell of a guest that runs workloads", "in-guest kselftest"),
    _need("cyclictest", "rt-tests", "measures RT latencies, with hackbench, pi_stress and others", "run"),
    _need("stress-ng", "stress-ng", "loads the scheduler", "run"),
    _need("perf", "linux-perf", "benchmarks wake-ups, and counts where the hardware can", "run"),
    _need("tbench", "dbench", "wakes tasks over the loopback", "run"),
    _need("sockperf", "sockperf", "measures answers over the loopback where netperf is not there", "run"),
    _need("iperf3", "iperf3", "measures throughput over the loopback where netperf is not there", "run"),
    _need("perl", "perl", "runs checkpatch.pl", "test"),
    _need("shellcheck", "shellcheck", "checks the shell scripts", "test"),
    _need("sparse", "sparse", "checks the kernel code", "test"),
    _need("chromium", "chromium", "shows the page of a report, light and dark", "test"),
)


def missing(jobs: Collection[str]) -> tuple[Need, ...]:
    """The unmet needs of some jobs."""
    return tuple(need for need in NEEDS if need.jobs & set(jobs) and not need.is_met())


def _packages(needs: Iterable[Need]) -> list[str]:
    return list(dict.fromkeys(need.package for need in needs))


def ensure(jobs: Collection[str], more: Iterable[Need] = ()) -> None:
    """Install what some jobs need, and what is listed beside, where that is possible, and say what.

    Raises:
        SchedlineError: something is missing and cannot be installed from here.
    """
    needs = (*missing(jobs), *(need for need in more if not need.is_met()))
    if not needs:
        return
    listed = "\n    ".join(f"{need.name}: {need.why} (package {need.package})" for need in needs)
    install = ["apt-get", "install", "-y", "--no-install-recommends", *_packages(needs)]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        how = (
            f"sudo {' '.join(install)}"
            if shutil.which("apt-get")
            else "install them with this system's package manager"
        )
        raise SchedlineError(f"this machine lacks:\n    {listed}", how)
    say(f"installing what this machine lacks:\n    {listed}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(" ".join(install)):
        done = run(install, env=env)
        if done.returncode:
            run(["apt-get", "update"], env=env)
            done = run(install, env=env)
    if done.returncode or (still := tuple(need for need in needs if not need.is_met())):
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        names = ", ".join(need.name for need in (needs if done.returncode else still))
        raise SchedlineError(f"{names} could not be installed:\n    " + "\n    ".join(said), " ".join(install))


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help="what this machine lacks, why, and the command that installs it",
        epilog="examples:\n  schedline doctor",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> int:
    rows: list[tuple[str, Callable[[], str]]] = [
        ("system", lambda: f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"),
        ("/dev/kvm", lambda: "there; used only where a guest boots with it" if Path("/dev/kvm").exists() else "absent"),
    ]
    for name, tell in rows:
        print(f"{name}: {tell()}")
    for need in NEEDS:
        mark = "ok     " if need.is_met() else "MISSING"
        print(f"{mark} {need.name}: {need.why} (for {', '.join(sorted(need.jobs))}; package {need.package})")
    needs = [need for need in NEEDS if not need.is_met()]
    if not needs:
        print("nothing is missing")
        return 0
    print(f"next: apt-get install --no-install-recommends {' '.join(_packages(needs))}")
    return 2
