# SPDX-License-Identifier: GPL-2.0
"""A machine in QEMU that makes the boots of a plan by itself, as root: docs/results/gate.md.

The machine has a disk with busybox, Python, kexec and a bundle. Its boot loader, which is QEMU, always starts its own
kernel. From there it goes on by kexec. One boot is killed in the middle of its runs, as by a power cut. One hangs until
a watchdog resets the machine.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.guest.boot import Ending, run_guest
from schedlib.guest.command_line import machine, what_boots
from schedlib.guest.shared_libraries import with_libraries
from schedlib.kernel.targets import TARGETS
from schedlib.kernel.topology import flat

TARGET = TARGETS["qemu-x86_64"]
CPUS = 2
ROW = "storm-quick"

MODULES = (
    *("virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"),
    *("watchdog", "softdog"),
)
"""What Debian's kernels need to find the disk and to feed a watchdog, in the order of their dependencies. A kernel has
some of them built in."""

INITRAMFS = """\
#!/bin/sh
mount -t devtmpfs dev /dev
for module in {modules}; do [ -e "/$module.ko" ] && insmod "/$module.ko"; done
until mount -t ext4 /dev/vda /root; do :; done
mount --move /dev /root/dev
exec switch_root /root /init
"""

INIT = """\
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME= SCHEDLINE_CACHE=/schedline/cache
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmp /tmp
# A reset after 60 seconds in which nothing feeds it.
watchdog -T 60 -t 5 /dev/watchdog
echo "up: $(uname -r)"
[ -e /campaign/plan.json ] || {plan}
touch /campaign/log
tail -n 0 -f /campaign/log >/dev/console &
echo "$(uname -r)" >>/boots
if [ "$(grep -c . /boots)" = "{hangs}" ]; then
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
class DebianKernel:
    """An unpacked kernel package."""

    version: str
    image: Path
    initramfs: Path


def kernel_of(root: Path, place: Path) -> DebianKernel:
    """Make an initramfs with the modules for the disk and the watchdog. root: where the packages were unpacked."""
    image = next(root.rglob("vmlinuz*"))
    modules = next(root.rglob("kernel/drivers")).parents[1]
    packed = place / f"{modules.name}-initramfs"
    for name in ("bin", "dev", "root"):
        (packed / name).mkdir(parents=True)
    busybox(packed)
    for name in MODULES:
        for module in modules.rglob(f"{name}.ko*"):
            content = module.read_bytes()
            (packed / f"{name}.ko").write_bytes(lzma.decompress(content) if module.suffix == ".xz" else content)
    write_script(packed / "init", INITRAMFS.format(modules=" ".join(MODULES)))
    archive = place / f"{modules.name}.cpio"
    names = "\n".join(str(path.relative_to(packed)) for path in packed.rglob("*"))
    with archive.open("wb") as file:
        argv = ["cpio", "--quiet", "-o", "-H", "newc"]
        subprocess.run(argv, cwd=packed, input=names.encode(), stdout=file, check=True)
    return DebianKernel(modules.name, image, archive)


def busybox(root: Path) -> None:
    """Copy this machine's busybox, which has to be static, with a link for each of its applets."""
    program = root / "bin/busybox"
    shutil.copy(shutil.which("busybox") or "busybox is missing", program)
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    for name in listed.stdout.split():
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")


def write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def disk(place: Path, bundle: Path, kernels: Sequence[DebianKernel], plan: str, hangs: int) -> Path:
    """The machine's disk. hangs: which boot of the machine, from 1, never comes back."""
    root = place / "root"
    for name in ("bin", "sbin", "usr/bin", "boot", "campaign", "proc", "sys", "dev", "tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", root, "-xf", bundle], check=True)
    busybox(root)
    write_script(root / "init", INIT.replace("{plan}", plan).replace("{hangs}", str(hangs)))
    for kernel in kernels:
        shutil.copy(kernel.image, root / f"boot/vmlinuz-{kernel.version}")
        shutil.copy(kernel.initramfs, root / f"boot/initrd.img-{kernel.version}")
    python, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    kexec = Path(shutil.which("kexec") or "kexec is missing")
    for path in with_libraries([python, kexec, *(library / "lib-dynload").glob("*.so"), *root.rglob("*.so")]):
        copied = root / path.lstrip("/")
        if path.startswith(str(root)):
            continue
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copied)
    left_out = shutil.ignore_patterns("test", "tests", "site-packages", "idlelib", "config-*")
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=left_out, dirs_exist_ok=True)
    for link, to in (("usr/bin/python3", python), ("usr/bin/env", "/bin/busybox"), ("sbin/kexec", kexec)):
        if not (root / link).exists():
            (root / link).symlink_to(to)
    (root / "dev/null").touch()
    # Compile schedline's modules here, where that is quicker.
    once = ["chroot", str(root), "/bin/env", "-i", "PATH=/bin:/usr/bin", "SCHEDLINE_CACHE=/schedline/cache"]
    subprocess.run([*once, "/schedline/schedline", "run", "--suite", "quick", "--list"], check=True)
    image = place / "disk"
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, image, "1G"], check=True)
    return image


def switched_on(own: DebianKernel, image: Path, log: Path, seconds: float, cut: str | None = None) -> Ending:
    """Switch the machine on until it switches itself off, or pull the plug as soon as the console matches `cut`.

    SchedlineError: neither happened in time.
    """
    drive = f"file={image},if=none,id=disk,format=raw"
    device = ["-drive", drive, "-device", f"{TARGET.disk},drive=disk"]
    parameters = [f"console={TARGET.console}", "quiet"]
    shape = machine(TARGET, flat(CPUS), ("-serial", "stdio", "-monitor", "none"))
    argv = [*shape, "-accel", "tcg", *device, *what_boots(own.image, own.initramfs, parameters)]
    ending = run_guest(argv, log, seconds, re.compile(cut.encode(), re.S) if cut else None).ending
    if ending is Ending.TIMED_OUT:
        raise SchedlineError(f"the machine did not come to its end in {seconds:.0f} s", f"see {log}")
    return ending


def campaign_of(image: Path, place: Path) -> Path:
    """Copy the campaign from the disk of a machine that is off."""
    subprocess.run(["e2fsck", "-fy", image], check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["debugfs", "-R", f"rdump /campaign {place}", image], check=True, capture_output=True)
    return place / "campaign"


def trial(place: Path, bundle: Path, unpacked: Sequence[Path], *, boots: int, cut: int, hangs: int) -> Path:
    """Make a campaign in a new directory; returns the campaign's own directory.

    Args:
        unpacked: the machine's own kernel, the base, the candidate, and perhaps the placebo.
        boots: of each kernel.
        cut: the boot of the plan, from 1, in whose runs the power is cut.
        hangs: the boot of the machine, from 1, that never comes back.
    """
    place.mkdir(parents=True)
    kernels = [kernel_of(root, place) for root in unpacked]
    labels = ("base", "candidate", "placebo")
    named = ",".join(f"{label}={kernel.version}" for label, kernel in zip(labels, kernels[1:], strict=False))
    plan = f"/schedline/schedline gate plan --boots {boots} --kernels {named} --seed 1 --pairs"
    plan += f" --suite quick --only {ROW} --out /campaign"
    image = disk(place, bundle, kernels, plan, hangs)
    seconds = 900.0 * boots * (len(kernels) - 1)
    # The run says this when it begins to measure.
    middle = rf"boot {cut} of \d+, \S+: running.* in /campaign/runs/[^\n]*\n"
    if switched_on(kernels[0], image, place / "console-cut.log", seconds, middle) is not Ending.KILLED:
        raise SchedlineError(f"boot {cut} was never in the middle of its runs", f"see {place / 'console-cut.log'}")
    switched_on(kernels[0], image, place / "console.log", seconds)
    return campaign_of(image, place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boots", type=int, metavar="BOOTS", help="of each kernel")
    parser.add_argument("place", type=Path, metavar="DIR", help="a new directory")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="as schedline run --pack writes it")
    about = (
        "a directory with Debian's linux-binary-* and linux-modules-*, unpacked by dpkg-deb -x: of the machine's own "
        "kernel, the base, the candidate, and perhaps the placebo"
    )
    parser.add_argument("kernels", type=Path, nargs="+", metavar="KERNEL", help=about)
    words = parser.parse_args()
    kernels, boots = [each.absolute() for each in words.kernels], words.boots
    done = trial(words.place.absolute(), words.bundle.absolute(), kernels, boots=boots, cut=1 + boots, hangs=5 + boots)
    schedline = str(Path(__file__).parents[1] / "schedline")
    subprocess.run([schedline, "gate", "plan", str(done), "--status"], check=False)


if __name__ == "__main__":
    main()
