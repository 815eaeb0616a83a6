# SPDX-License-Identifier: GPL-2.0
"""A machine in QEMU that makes the boots of a plan by itself: `python tests/gate/boot_trial.py DIR` in scripts/.

It has a disk with busybox, Python, kexec and a bundle. Its boot loader, which is QEMU, always starts its own kernel.
From there it goes on by kexec. One boot is killed in the middle, as by a power cut. One hangs until the watchdog
resets the machine.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    from schedlib.environment import activate

    activate("requirements.txt")

from schedlib.cache import cache_dir
from schedlib.guest import selftests
from schedlib.guest.busybox_guest import busybox, with_libraries
from schedlib.guest.command_line import machine, what_boots
from schedlib.kernel.build import built, make, plan_kernel
from schedlib.kernel.targets import Target, choose
from schedlib.kernel.topology import flat
from schedlib.options import TreeOptions
from schedlib.process import dying_with_us
from schedlib.tree.kernel_tree import checked_out, open_tree

ON = "qemu-x86_64"
ROWS = ("storm-quick",)
CPUS = 2

INIT = """\
#!/bin/busybox sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME= SCHEDLINE_CACHE=/schedline/cache
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
# A reset after 60 seconds without a sign of life.
watchdog -T 60 -t 5 /dev/watchdog
echo "up: $(uname -r)"
[ -e /campaign/plan.json ] || {plan}
touch /campaign/log
tail -n 0 -f /campaign/log >/dev/console &
# This is what never comes back: nobody feeds the watchdog any more.
grep -c . /boots 2>/dev/null >/tmp/boots
echo "$(uname -r)" >>/boots
if [ "$(cat /tmp/boots)" = "{hangs}" ]; then
	echo "this boot hangs"
	sync
	kill -STOP "$(pidof watchdog)"
	while :; do :; done
fi
sh /campaign/each-boot.sh
echo "the step ended with $?"
/schedline/schedline gate plan /campaign --status
sync
poweroff -f
"""


@dataclass(frozen=True)
class Kernels:
    """Images by role: `own`, and those of the plan."""

    target: Target
    images: dict[str, Path]


def kernels(place: Path, roles: Sequence[str]) -> Kernels:
    """Build kernels that differ in their names alone."""
    cache = cache_dir()
    tree = open_tree(cache, TreeOptions())
    target, _ = choose(tree, ON)
    plan = plan_kernel(tree, target, [selftests.FRAGMENT, "kexec"])
    images = {}
    with built(cache, tree, plan.commit, target, plan.configuration) as kernel, checked_out(tree, plan.commit):
        for role in roles:
            make(tree.src, kernel.build, target.arch, [f"LOCALVERSION=-schedline-{role}", target.goal])
            images[role] = shutil.copy(kernel.image, place / role)
        make(tree.src, kernel.build, target.arch, [target.goal])
    return Kernels(target, images)


def disk(place: Path, bundle: Path, found: Kernels, plan: str, hangs: int) -> Path:
    """The machine's disk. `hangs`: which boot, counted from 0, never comes back; -1 for none."""
    root = place / "root"
    for name in ("bin", "sbin", "usr/bin", "usr/sbin", "boot", "campaign", "proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", root, "-xf", bundle], check=True)
    (root / "init").write_text(INIT.replace("{plan}", plan).replace("{hangs}", str(hangs)))
    (root / "init").chmod(0o755)
    shutil.copy(busybox(cache_dir(), found.target.arch), root / "bin/busybox")
    applets = subprocess.run([root / "bin/busybox", "--list"], check=True, capture_output=True, text=True).stdout
    for applet in applets.split():
        if not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    for role, image in found.images.items():
        shutil.copy(image, root / "boot" / role)
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    modules = list((library / "lib-dynload").glob("*.so"))
    for path in with_libraries([python, Path(shutil.which("kexec") or "kexec is missing"), *modules]):
        copied = root / path.lstrip("/")
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    left_out = shutil.ignore_patterns("test", "tests", "site-packages", "idlelib", "config-*", "ensurepip")
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=left_out, dirs_exist_ok=True)
    (root / "usr/bin/python3").symlink_to(python)
    kexec = shutil.which("kexec")
    if kexec and not (root / "sbin/kexec").exists():
        (root / "sbin/kexec").symlink_to(kexec)
    image = place / "disk"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, image, "1G"], check=True)
    return image


class Machine:
    """The machine. Its console is printed and kept."""

    def __init__(self, found: Kernels, image: Path, log: Path) -> None:
        drive = f"file={image},if=none,id=disk,format=raw"
        device = ["-drive", drive, "-device", f"{found.target.disk},drive=disk"]
        dog = ["-device", "i6300esb", "-action", "watchdog=reset"]
        parameters = [f"console={found.target.console}", "root=/dev/vda", "rw", "init=/init", "kunit.enable=0"]
        shape = machine(found.target, flat(CPUS), ("-serial", "stdio", "-monitor", "none"))
        self.argv = [*shape, "-accel", "tcg", *device, *dog, *what_boots(found.images["own"], None, parameters)]
        self.log = log

    def run(self, until: Callable[[str], bool], seconds: float) -> bool:
        """Switch it on, and pull the plug as soon as a line satisfies `until`. False: it ended by itself.

        Raises:
            TimeoutError: neither happened in time.
        """
        end = time.monotonic() + seconds
        argv = dying_with_us(self.argv)
        with (
            self.log.open("ab", buffering=0) as log,
            subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process,
            selectors.DefaultSelector() as selector,
        ):
            assert process.stdout
            selector.register(process.stdout, selectors.EVENT_READ)
            rest = b""
            try:
                while (left := end - time.monotonic()) > 0:
                    if not selector.select(left):
                        continue
                    piece = os.read(process.stdout.fileno(), 1 << 16)
                    if not piece:
                        return False
                    log.write(piece)
                    *lines, rest = (rest + piece).split(b"\n")
                    if any(until(line.decode(errors="replace").strip()) for line in lines):
                        return True
            finally:
                process.kill()
        raise TimeoutError(f"the machine did not come to its end in {seconds:.0f} s: {self.log}")


def campaign_of(image: Path, place: Path) -> Path:
    """Copy the campaign from the disk of a machine that is off."""
    subprocess.run(["e2fsck", "-fy", image], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with suppress(FileNotFoundError):
        shutil.rmtree(place / "campaign")
    argv = ["debugfs", "-R", f"rdump /campaign {place}", image]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return place / "campaign"


def trial(place: Path, roles: Sequence[str], boots: int, cut: int, hangs: int, images: Kernels | None = None) -> Path:
    """Make a campaign; returns its directory.

    Args:
        roles: the kernels of the plan.
        boots: of each kernel.
        cut: the boot of the plan, from 1, in whose runs the machine loses its power.
        hangs: the boot of the machine, from 0, that never comes back.
    """
    place.mkdir(parents=True, exist_ok=True)
    found = images or kernels(place, ["own", *roles])
    bundle = place / "bundle.tar.gz"
    schedline = str(Path(__file__).parents[2] / "schedline")
    subprocess.run([schedline, "run", "--pack", bundle], check=True)
    named = ",".join(f"{role}=/boot/{role}" for role in roles)
    plan = f"/schedline/schedline gate plan --boots {boots} --kernels {named} --seed 1"
    plan += f" --suite quick --only {','.join(ROWS)} --out /campaign"
    image = disk(place, bundle, found, plan, hangs)
    emulated = Machine(found, image, place / "console.log")
    wanted = re.compile(rf"boot {cut} of \d+, \S+: running")
    begun: list[str] = []

    def in_the_middle(line: str) -> bool:
        if wanted.search(line):
            begun.append(line)
        return bool(begun) and re.match(r"1 of 1: ", line) is not None

    seconds = 600.0 * boots * len(roles)
    if cut and not emulated.run(in_the_middle, seconds):
        raise RuntimeError(f"boot {cut} was never in the middle of its runs: {emulated.log}")
    emulated.run(lambda _: False, seconds)
    return campaign_of(image, place)


if __name__ == "__main__":
    done = trial(Path(sys.argv[1]).absolute(), ("base", "candidate", "placebo"), boots=4, cut=5, hangs=9)
    subprocess.run([str(Path(__file__).parents[2] / "schedline"), "gate", "plan", str(done), "--status"], check=False)
