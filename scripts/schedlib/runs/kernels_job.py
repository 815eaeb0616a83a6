# SPDX-License-Identifier: GPL-2.0
"""Build and package the kernels of some commits, and print how to boot them in turn."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir
from schedlib.errors import SchedlineError
from schedlib.formats.kernels_document import PackagedKernel
from schedlib.layout.compile import arch_table
from schedlib.runs import packages, variants
from schedlib.runs.run_options import KernelsOptions
from schedlib.runs.variants import KernelSource
from schedlib.tree.kernel_tree import Tree, open_tree
from schedlib.verdict import Verdict


def build_kernels(options: KernelsOptions) -> Verdict:
    """Build and package the kernels, and print how to boot them.

    Raises:
        SchedlineError: there is nothing to compare, the placebo is invalid, or a kernel does not build.
    """
    arch = _native_arch()
    needs = ["build", *options.tree.needs, "layout", "objtool", "kernels"]
    doctor.require([*needs, "kernels-deb"] if options.package == "deb" else needs)
    cache = cache_dir()
    tree = open_tree(cache, options.tree)
    sources = _sources(tree, options)
    notes = variants.differences(tree, sources)
    with packages.place_of(cache, tree, options.configuration, arch) as place:
        built, said = packages.kernels(place, tree, sources, options.configuration, arch, options.package)
        notes += said
        delivered = packages.deliver(built, options.out, tree, str(options.config), notes)
    for kernel in delivered:
        print(f"{kernel.release}: {kernel.what}")
        for file in kernel.files:
            print(f"    {options.out / file}")
        for name, size in kernel.sizes.items():
            print(f"    struct {name}: {packages.size_text(size)}")
    print("\n".join([*notes, *boot_lines(delivered, options.out)]))
    return Verdict.PASS


def _native_arch() -> str:
    """make's name of this machine's architecture, which needs no cross compiler."""
    archs = [arch for arch in arch_table().values() if arch.make != "um"]
    native = next((arch.make for arch in archs if not arch.compiler), None)
    if native is None:
        known = ", ".join(arch.name for arch in archs)
        raise SchedlineError(f"kernels cannot be built for {platform.machine()}", f"known are {known}")
    return native


def _sources(tree: Tree, options: KernelsOptions) -> list[KernelSource]:
    if options.revisions:
        sources = variants.of_revisions(tree, *options.revisions)
    else:
        sources = variants.of_changes(tree, options.changes, options.with_)
    if options.placebo:
        mail = options.placebo_patch or variants.placebo_of(tree, options.changes[0])
        sources.append(variants.with_placebo(tree, sources, mail))
    return sources


def boot_lines(built: Sequence[PackagedKernel], out: Path) -> list[str]:
    """How to boot each kernel once, so that the next boot or a power cycle after a hang boots the old kernel."""
    lines = ["install:"]
    for file in (out / name for kernel in built for name in kernel.files):
        if file.suffix == ".deb":
            lines.append(f"    apt-get install {file.absolute()}")
        else:
            lines.append(f"    tar -C / -xf {file}   # then depmod and an initramfs")
    lines.append("boot once; the reboot after that starts the current default kernel again:")
    if shutil.which("bootctl") and Path("/boot/loader").is_dir():
        once = "bootctl set-oneshot '*{release}*.conf' && systemctl reboot"
    elif grub := next((name for name in ("grub-reboot", "grub2-reboot") if shutil.which(name)), None):
        once = f"{grub} '<the menu entry of {{release}}>' && systemctl reboot   # with GRUB_DEFAULT=saved"
    else:
        once = "kexec -l /boot/vmlinuz-{release} --initrd=/boot/initrd.img-{release} --reuse-cmdline && systemctl kexec"
    lines += [f"    {once.format(release=kernel.release)}" for kernel in built]
    return [
        *lines,
        "boot in turn (base first in one round, last in the next), 10 boots of each kernel; in each boot: "
        "schedline run --suite rt --out runs/<kernel>",
    ]
