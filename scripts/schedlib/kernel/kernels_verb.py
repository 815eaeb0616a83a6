# SPDX-License-Identifier: GPL-2.0
"""`schedline kernels`: base, candidate and placebo, to be booted in turn."""

from __future__ import annotations

import argparse
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path

from schedlib import doctor, options
from schedlib.errors import SchedlineError
from schedlib.kernel import packages, variants
from schedlib.kernel.packages import Built
from schedlib.layout.compile import arch_table
from schedlib.verdict import Verdict

_DESCRIPTION = """\
Builds two kernels from one configuration with one toolchain, so that they differ in nothing but the change, and
packages them under names of their own. Functions are aligned to 64 bytes in both, or they would move with the change.

--placebo builds a third one, which has the candidate's sizes and none of its order: what it gains, the layout does not
explain. Placebos are carried for the changes of this project; for another change, give a patch."""

_EXAMPLES = """\
examples:
  schedline kernels --config /boot/config-7.3.4 --change rd-lines --placebo
  schedline kernels --config my.config --kdir ~/linux --base v7.3 --head my-branch
  schedline kernels --config my.config --kdir ~/linux --base v7.3 --head my-branch --placebo pad.patch
  schedline kernels --config my.config --change cpupri-split --with cpupri-lines --placebo --package tar
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `schedline kernels`."""
    parser = subparsers.add_parser(
        "kernels",
        help="base, candidate and placebo, built alike, to be booted in turn",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the .config of all of them")
    options.add_tree_options(parser)
    parser.add_argument("--base", metavar="REV", help="revision of your tree without the change")
    parser.add_argument("--head", metavar="REV", help="revision of your tree with it")
    parser.add_argument(
        "--change",
        type=options.ids,
        default=(),
        metavar="ID,...",
        help="instead of revisions: carried changes, without and with",
    )
    parser.add_argument(
        "--with", dest="with_", type=options.ids, default=(), metavar="ID,...", help="changes that all kernels get"
    )
    parser.add_argument(
        "--placebo",
        nargs="?",
        const="",
        metavar="FILE",
        help="a third kernel, by the carried placebo of the change or by this patch",
    )
    parser.add_argument("--package", choices=sorted(packages.PACKAGES), default="deb", help="deb (default) or tar")
    parser.add_argument("--out", type=Path, default=Path("kernels"), metavar="DIR", help="where they go (./kernels)")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    try:
        text = arguments.config.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SchedlineError(
            f"--config: {arguments.config}: {error}", "zcat /proc/config.gz, or /boot/config-*"
        ) from error
    if not packages.parse(text):
        raise SchedlineError(f"--config: {arguments.config} has no CONFIG_ line", "give a .config")
    revisions = arguments.base is not None or arguments.head is not None
    if revisions == bool(arguments.change):
        raise SchedlineError("what is compared is not clear", "give --base and --head, or --change")
    if revisions and not (arguments.kdir and arguments.base and arguments.head):
        raise SchedlineError("revisions are those of your tree", "give --kdir, --base and --head")
    archs = [arch for arch in arch_table().values() if arch.make != "um"]
    # The one that needs no cross compiler.
    native = next((arch.make for arch in archs if not arch.compiler), None)
    if native is None:
        known = ", ".join(arch.name for arch in archs)
        raise SchedlineError(f"no kernel is built for {platform.machine()}", f"known are {known}")
    with options.opened_tree(arguments) as (cache, tree):
        doctor.ensure(["layout", "objtool", "kernels", *(["kernels-deb"] if arguments.package == "deb" else [])])
        if revisions:
            chosen = variants.of_revisions(tree, arguments.base, arguments.head)
        else:
            chosen = variants.of_changes(tree, arguments.change, arguments.with_)
        if arguments.placebo is not None:
            mail = Path(arguments.placebo) if arguments.placebo else variants.placebo_of(tree, arguments.change)
            chosen.append(variants.with_placebo(tree, chosen, mail))
        notes = variants.differences(tree, chosen)
        built, said = packages.kernels(cache, tree, chosen, text, native, arguments.package)
        notes += said
        delivered = packages.deliver(built, arguments.out, tree, str(arguments.config), notes)
    print(_text(delivered, notes))
    print("\n".join(boot_lines(delivered)))
    return Verdict.PASS.exit_code


def _text(built: Sequence[Built], notes: Sequence[str]) -> str:
    lines = []
    for kernel in built:
        lines.append(f"{kernel.release}: {kernel.what}")
        lines += [f"    {file}" for file in kernel.files]
        lines += [f"    struct {name}: {size.text()}" for name, size in kernel.sizes.items()]
    return "\n".join([*lines, *notes])


def boot_lines(built: Sequence[Built]) -> list[str]:
    """How to boot each of them once, so that the next boot, or a power cycle after a hang, is the old kernel again."""
    package = built[0].files[0]
    if package.suffix == ".deb":
        lines = ["install:", *(f"    apt-get install {file.absolute()}" for kernel in built for file in kernel.files)]
    else:
        lines = [
            "install:",
            *(f"    tar -C / -xf {file}   # then depmod and an initramfs" for kernel in built for file in kernel.files),
        ]
    lines.append("boot once; without a further command the machine comes back with the kernel that it has now:")
    if shutil.which("bootctl") and Path("/boot/loader").is_dir():
        once = "bootctl set-oneshot '*{release}*.conf' && systemctl reboot"
    elif grub := next((name for name in ("grub-reboot", "grub2-reboot") if shutil.which(name)), None):
        once = f"{grub} '<the menu entry of {{release}}>' && systemctl reboot   # with GRUB_DEFAULT=saved"
    else:
        once = "kexec -l /boot/vmlinuz-{release} --initrd=/boot/initrd.img-{release} --reuse-cmdline && systemctl kexec"
    lines += [f"    {once.format(release=kernel.release)}" for kernel in built]
    order = "the base first in one round, last in the next"
    return [*lines, f"in turn ({order}), 10 boots of each, and in each: schedline run --suite rt --out runs/<kernel>"]
