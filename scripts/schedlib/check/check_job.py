# SPDX-License-Identifier: GPL-2.0
"""tree -> patched tree -> built kernel -> guests -> one verdict."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from schedlib import doctor
from schedlib.cache import cache_dir, results_directory, scratch
from schedlib.check import repeated, report, sanitize
from schedlib.check.check_boots import boot_and_judge, make_plan
from schedlib.check.check_options import CheckOptions
from schedlib.check.check_results import JudgedBoot
from schedlib.guest import selftests
from schedlib.guest.command_line import accelerator
from schedlib.kernel.build import Kernel, plan_kernel, prepare_kernel
from schedlib.kernel.build_id import build_id_of
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.machine import boot_id, machine_text
from schedlib.kernel.targets import choose
from schedlib.process import version_of
from schedlib.progress import say, tell
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict, worst


def check(options: CheckOptions) -> Verdict:
    """Check a tree, or each variant of cpupri-split in it; SchedlineError if that cannot be done."""
    if not options.cpupri:
        return _check(options)
    out = results_directory(cache_dir(), options.out)
    verdicts = {name: _check(options.variant(name, out)) for name in options.cpupri}
    verdict = worst(verdicts.values())
    each = ", ".join(f"{name} {one.name}" for name, one in verdicts.items())
    print(f"verdict of {len(verdicts)} cpupri variants: {verdict.name} ({each})")
    return verdict


def _check(options: CheckOptions) -> Verdict:
    started = datetime.now(UTC)
    cache = cache_dir()
    doctor.require(["build", *options.tree.needs])
    tree = open_tree(cache, options.tree)
    target, reason = choose(tree, options.on or (sanitize.TARGET if options.sanitize else None))
    if options.sanitize:
        target = sanitize.scaled(target, options.sanitize)
    if reason:
        say(f"note: {reason}")
    if options.selftests:
        doctor.require([f"{target.name}-selftests"])
    needed = [*([selftests.FRAGMENT] if options.selftests else []), *([options.sanitize] if options.sanitize else [])]
    kernel_plan = plan_kernel(
        tree, target, [*needed, *options.config], changes=options.changes, expect=options.expect, base=options.base
    )
    plan = make_plan(target, options, kernel_plan.composition.expected, kernel_plan.left_out)
    for cpus in plan.classes:
        plan.tests(cpus)
    digest = repeated.state(options, kernel_plan, plan)
    before = None if options.again or options.out else repeated.repeat(cache, digest, options.json)
    if before is not None:
        return before
    say(f"checking {kernel_plan.describe()} on {target.name}")
    out = results_directory(cache, options.out)
    with scratch(cache) as place:
        kernel = prepare_kernel(cache, kernel_plan, place)
        archive = selftests.initramfs(kernel, tree, target, plan.programs()) if options.selftests else None
        accel = accelerator(cache, target, kernel.image)
        boots = boot_and_judge(plan, kernel, out, options.require, accel, archive)
        summary = report.Summary(
            started=started,
            tree=tree,
            composition=kernel_plan.composition,
            boots=boots,
            out=out,
            fingerprint=_fingerprint(kernel, boots, kernel_plan.configuration),
            reproduce=options.command(target.name),
            left_out=plan.left_out,
        )
    report.write(summary, options.json)
    lines = report.lines(summary, verbose=options.verbose)
    for line in lines:
        tell(line)
    repeated.remember(cache, digest, summary.verdict, out, lines)
    return summary.verdict


def _fingerprint(kernel: Kernel, boots: Sequence[JudgedBoot], configuration: Configuration) -> dict[str, str]:
    """Machine, kernel, build-id, configuration, boot id and tool versions; an empty text where one is unknown."""
    banner = b""
    for boot in boots:
        found = re.search(rb"Linux version [^\n\r]*", boot.log.read_bytes()[: 1 << 20])
        banner = banner or (found.group(0) if found else b"")
    build_id = ""
    with suppress(OSError, ELFError), (kernel.build / "vmlinux").open("rb") as file:
        build_id = build_id_of(ELFFile(file))
    emulator = boots[0].argv[0] if boots else ""
    version = version_of(emulator) if "qemu" in emulator else ""
    return {
        "machine": machine_text(),
        "host_kernel": platform.release(),
        "boot_id": boot_id(),
        "kernel": banner.decode(errors="replace"),
        "build_id": build_id,
        "configuration": "+".join(configuration.names),
        "configuration_sha256": hashlib.sha256((kernel.build / ".config").read_bytes()).hexdigest(),
        "compiler": kernel.compiler,
        "emulator": version,
    }
