# SPDX-License-Identifier: GPL-2.0
"""What this machine lacks, why it is needed, and the command that installs it.

Programs and headers are looked for, not packages: their names are only for the command.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from platform import freedesktop_os_release, machine

from schedlib.errors import SchedlineError
from schedlib.names import plain_toml
from schedlib.process import run
from schedlib.progress import step


@dataclass(frozen=True)
class Need:
    """A program that some job needs, or a file at this path; `package` is Debian's."""

    name: str
    package: str
    why: str
    jobs: frozenset[str]
    file: str | None = None

    def is_met(self) -> bool:
        return any(Path("/").glob(self.file)) if self.file else shutil.which(self.name) is not None


def has_apt() -> bool:
    """Whether kernels can be fetched, and packages be installed."""
    return shutil.which("apt-get") is not None


@dataclass(frozen=True)
class Job:
    """Something that a user does with schedline; `needs` are some of Need.jobs."""

    command: str
    needs: tuple[str, ...]
    libraries: tuple[str, ...]

    def missing(self) -> tuple[Need, ...]:
        """What this machine lacks for it. Without apt that is what a tree of the user's own needs."""
        more = [need for need in compilers() if not need.is_met()] if _COMPILERS in self.needs else []
        needs = self.needs if has_apt() else [need for need in self.needs if need != "fetch"]
        return tuple(dict.fromkeys((*missing(needs), *more)))


_TABLE = """\
git | git | fetch build compile | keeps the kernel trees and applies the changes
apt-get | apt | fetch | fetches Debian's kernel source
dpkg-deb | dpkg | fetch | opens Debian's package
tar | tar | fetch | unpacks the kernel
xz | xz-utils | fetch | unpacks the kernel
the archive's keyring | debian-archive-keyring | fetch | checks the archive's signature | \
usr/share/keyrings/debian-archive-keyring.gpg
make | make | build | builds the kernel
gcc | gcc | build compile | builds the kernel, and programs for this machine
flex | flex | build | builds Kconfig
bison | bison | build | builds Kconfig
bc | bc | build | computes time constants of the kernel
the C library's headers | libc6-dev | build compile | \
builds UML, the kernel's host programs, and programs for this machine | usr/include/stdio.h
pahole | pahole | uml qemu-x86_64 qemu-arm64 | makes BTF of a kernel's debug information
libelf's headers | libelf-dev | uml qemu-x86_64 qemu-arm64 objtool | builds objtool and resolve_btfids | \
usr/include/libelf.h
zlib's headers | zlib1g-dev | uml qemu-x86_64 qemu-arm64 | builds resolve_btfids | usr/include/zlib.h
qemu-system-x86_64 | qemu-system-x86 | qemu-x86_64 | boots the x86-64 kernel
aarch64-linux-gnu-gcc | gcc-aarch64-linux-gnu | qemu-arm64 | builds the arm64 kernel
qemu-system-aarch64 | qemu-system-arm | qemu-arm64 | boots the arm64 kernel
the C library for arm64 | libc6-dev-arm64-cross | qemu-arm64-selftests qemu-arm64-c2c | \
builds the programs of an arm64 guest | usr/aarch64-linux-gnu/lib/libc.a
rsync | rsync | kselftest kernels-deb | installs the kselftests, and headers for a package
depmod | kmod | kernels | lists the modules of a packaged kernel
cpio | cpio | kernels | packs the kernel's headers
dpkg-buildpackage | dpkg-dev | kernels-deb | makes a Debian package of a kernel
dh | debhelper | kernels-deb | makes a Debian package of a kernel
busybox | busybox-static | kselftest in-guest | is the shell of a guest that runs workloads or scripts
cyclictest | rt-tests | run | measures RT latencies, with hackbench, pi_stress and others
stress-ng | stress-ng | run | loads the scheduler
perf | linux-perf | run record | benchmarks wake-ups, and counts and samples where the hardware can
drgn | python3-drgn | record | reads where a running kernel has its objects
tbench | dbench | run | wakes tasks over the loopback
lavacli | lavacli | fleet | submits jobs to LAVA
lava-run | lava-dispatcher | lava | runs a job of LAVA without a server
perl | perl | test | runs checkpatch.pl
shellcheck | shellcheck | test | checks the shell scripts
sparse | sparse | test | checks the kernel code
chromium | chromium | test | shows the page of a report, light and dark
"""
"""A need in each line: name, Debian's package, jobs, what it is for; and the file, if it is no program."""


NEEDS = tuple(
    Need(name, package, why, frozenset(jobs.split()), *file)
    for name, package, jobs, why, *file in (line.split(" | ") for line in _TABLE.splitlines())
)

_DISTRIBUTIONS = """\
debian ubuntu | sudo apt-get install -y --no-install-recommends
fedora rhel centos | sudo dnf install
suse opensuse | sudo zypper install
arch | sudo pacman -S
alpine | sudo apk add
nixos | nix-shell -p
"""
"""A distribution in each line: what its os-release calls it or what it is like, and how it installs packages."""

_NAMES = """\
busybox-static | busybox | busybox-static | busybox | busybox-static | busybox
gcc-aarch64-linux-gnu | gcc-aarch64-linux-gnu | | aarch64-linux-gnu-gcc | |
libc6-dev | glibc-devel | glibc-devel | glibc | musl-dev | glibc
libc6-dev-arm64-cross | | | aarch64-linux-gnu-glibc | |
libelf-dev | elfutils-libelf-devel | libelf-devel | libelf | elfutils-dev | elfutils
linux-perf | perf | perf | perf | perf | perf
pahole | dwarves | dwarves | pahole | pahole | pahole
python3-drgn | drgn | python3-drgn | drgn | |
qemu-system-arm | qemu-system-aarch64-core | qemu-arm | qemu-system-aarch64 | qemu-system-aarch64 | qemu
qemu-system-x86 | qemu-system-x86-core | qemu-x86 | qemu-system-x86 | qemu-system-x86_64 | qemu
rt-tests | realtime-tests | rt-tests | rt-tests | rt-tests | rt-tests
xz-utils | xz | xz | xz | xz | xz
zlib1g-dev | zlib-devel | zlib-devel | zlib | zlib-dev | zlib
"""
"""A package in each line, by its name in each of _DISTRIBUTIONS; empty where it has none. Any other is called alike
everywhere, or is in Debian alone."""

_COMPILERS = "compilers"
"""A need that stands for all cross compilers."""

_JOBS = """\
check | schedline check | fetch build layout uml
check-x86_64 | schedline check --on qemu-x86_64 | fetch build layout qemu-x86_64
check-arm64 | schedline check --on qemu-arm64 --selftests | fetch build layout qemu-arm64 qemu-arm64-selftests
layout | schedline layout | fetch build layout
layout-all | schedline layout --arch all | fetch build layout compilers
c2c | schedline c2c | fetch build layout qemu-x86_64
c2c-arm64 | schedline c2c --on qemu-arm64 | fetch build layout qemu-arm64 qemu-arm64-c2c
c2c-record | schedline c2c record | record
premerge | schedline premerge | fetch build layout uml qemu-x86_64 objtool compilers | core gate
kernels | schedline kernels | fetch build layout objtool kernels kernels-deb
run | schedline run | compile run
run-in-guest | schedline run --in-guest | fetch build layout qemu-x86_64 in-guest run
gate | schedline gate |  | core gate
fleet | schedline fleet | fetch compile in-guest fleet | core fleet
fleet-trial | python3 scripts/proof lava_trial | \
fetch build layout objtool qemu-x86_64 in-guest fleet lava | core gate fleet
test | make test | \
fetch build layout uml objtool qemu-x86_64 qemu-arm64 qemu-arm64-selftests kselftest in-guest test compilers | test core
"""
"""A job in each line: the word after `schedline doctor`, the command, needs, and extras if not core alone."""


JOBS = {
    name: Job(command, tuple(needs.split()), tuple(" ".join(libraries or ["core"]).split()))
    for name, command, needs, *libraries in (line.split(" | ") for line in _JOBS.splitlines())
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
    lines = []
    for need in needs:
        name = "".join(_packages([need]))
        lines.append(f"    {need.name}: {need.why} ({f'package {name}' if name else 'no package'})")
    return "\n".join(lines)


def _distribution() -> int | None:
    try:
        about = freedesktop_os_release()
    except OSError:
        return None
    ids = {about["ID"], *about.get("ID_LIKE", "").split()}
    lines = enumerate(_DISTRIBUTIONS.splitlines())
    return next((number for number, line in lines if ids & set(line.partition(" |")[0].split())), None)


def _packages(needs: Iterable[Need]) -> tuple[str, ...]:
    """This distribution's packages; Debian's where the distribution is not known."""
    column = _distribution() or 0
    rows = [[name.strip() for name in line.split("|")] for line in _NAMES.splitlines()]
    names = {row[0]: row[column] for row in rows}
    return tuple(dict.fromkeys(filter(None, (names.get(need.package, need.package) for need in needs))))


def next_step(needs: Sequence[Need]) -> str:
    """What makes up for these needs: the command that installs them here, or a tree that need not be fetched."""
    if any(need.jobs == {"fetch"} for need in needs) and not has_apt():
        return "without apt, give a kernel tree of your own: --kdir PATH"
    number = _distribution()
    command = "" if number is None else _DISTRIBUTIONS.splitlines()[number].partition(" | ")[2]
    program = command.removeprefix("sudo ")
    if not program or not shutil.which(program.split()[0]):
        return "install them with this system's package manager"
    return " ".join([command if os.geteuid() else program, *_packages(needs)])


def require(jobs: Collection[str], more: Iterable[Need] = ()) -> None:
    """Raise a SchedlineError, with the command that installs it, if what some jobs or `more` need is not here."""
    if needs := (*missing(jobs), *(need for need in more if not need.is_met())):
        raise SchedlineError(f"this machine lacks:\n{listed(needs)}", next_step(needs))


def install(needs: Sequence[Need]) -> None:
    """Install Debian packages. Raises SchedlineError: there is no apt-get, the user is not root, or apt-get failed."""
    if not needs:
        return
    if not has_apt() or os.geteuid() != 0:
        raise SchedlineError(f"this machine lacks:\n{listed(needs)}", next_step(needs))
    command = ["apt-get", "install", "-y", "--no-install-recommends", *_packages(needs)]
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    with step(" ".join(command)):
        # dpkg cut off leaves packages half installed.
        done = run(command, env=env, outliving=True)
        if done.returncode:
            run(["apt-get", "update"], env=env)
            done = run(command, env=env, outliving=True)
    still = [need.name for need in needs if not need.is_met()]
    if done.returncode or still:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise SchedlineError(
            f"{', '.join(still) or 'something'} could not be installed:\n    " + "\n    ".join(said), " ".join(command)
        )
