# SPDX-License-Identifier: GPL-2.0
"""tree -> patched tree -> built kernel -> guests -> one verdict.

An earlier verdict is printed again, without building or booting anything, if all that it depends on is the same.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from schedlib import doctor
from schedlib.cache import (
    cache_dir,
    contents_of,
    digest_of,
    read_json,
    results_directory,
    scratch,
    write_atomic,
    write_json,
)
from schedlib.check import report
from schedlib.check.check_boots import CheckPlan, boot_and_judge, make_plan
from schedlib.check.check_results import JudgedBoot
from schedlib.check.check_verb import CheckOptions
from schedlib.errors import DoesNotBuild
from schedlib.guest import selftests
from schedlib.guest.boot import Ending
from schedlib.guest.command_line import accelerator
from schedlib.kernel.build import Kernel, KernelPlan, compiler_version, plan_kernel, prepare_kernel, without_broken
from schedlib.kernel.kconfig import Configuration
from schedlib.kernel.machine import boot_id, build_id_of, machine_text
from schedlib.kernel.targets import SANITIZED, choose, with_sanitizer
from schedlib.paths import CONFIGS, KUNIT, PATCHES, SELFTESTS
from schedlib.process import version_of
from schedlib.progress import print_untrusted, say
from schedlib.tree.kernel_tree import open_tree
from schedlib.verdict import Verdict, worst

MADE_WITH = ("check", "console", "contracts", "formats", "guest", "kernel", "layout", "tree")
"""The folders of schedlib that a verdict depends on, besides the modules at its top."""


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
    wanted = options.on or (SANITIZED if options.sanitize else None)
    # A tree chooses between uml and a target that needs more. All that can be told is told before it is fetched.
    programs = [f"{wanted}-selftests"] if options.selftests else []
    doctor.require(["build", *options.tree.needs, wanted or "uml", *programs])
    tree = open_tree(cache, options.tree)
    target, reason = choose(tree, wanted)
    needed = [*options.config]
    if options.sanitize:
        target = with_sanitizer(target, options.sanitize)
        needed.insert(0, options.sanitize)
    if reason:
        say(f"note: {reason}")
    if options.selftests:
        needed.insert(0, selftests.FRAGMENT)
    kernel_plan = plan_kernel(
        tree, target, needed, changes=options.changes, expect=options.expect, base=options.base, in_part=True
    )
    plan = make_plan(target, options, kernel_plan.composition.expected, kernel_plan.left_out)
    for cpus in plan.classes:
        plan.tests(cpus)
    earlier = cache / "verdicts" / f"{state(kernel_plan, plan)}.json"
    before = None if options.again or options.out else repeat(earlier, options.json)
    if before is not None:
        return before
    say(f"checking {kernel_plan.describe()} on {target.name}")
    out = results_directory(cache, options.out)
    with scratch(cache) as place:
        kernel, kernel_plan = _built(cache, kernel_plan, place)
        left = replace(plan, left_out=kernel_plan.left_out, lost=kernel_plan.lost)
        archive = selftests.initramfs(kernel, tree, target, plan.programs()) if options.selftests else None
        accel = accelerator(cache, target, kernel.image)
        boots = boot_and_judge(left, kernel, out, accel, archive)
        fingerprint = _fingerprint(kernel, boots, kernel_plan.configuration)
        result = report.check_result(started, tree, kernel_plan.composition, boots, fingerprint)
    summary = report.Summary(result, out, options.command(target.name), plan.left_out)
    report.write(summary, options.json)
    lines = report.lines(summary, verbose=options.verbose)
    for line in lines:
        print_untrusted(line)
    # A guest that hung may be one that a busy host starved.
    if not any(boot.ending is Ending.TIMED_OUT for boot in boots):
        remember(earlier, result.status, out, lines)
    return result.status


def _built(cache: Path, plan: KernelPlan, place: Path) -> tuple[Kernel, KernelPlan]:
    """Build a kernel, with all suites that the tree compiles."""
    home = plan.configuration
    while True:
        try:
            return prepare_kernel(cache, plan, place, home), plan
        except DoesNotBuild as error:
            plan = without_broken(plan, error)
            say(f"note: not judged: {plan.lost[-1][1]}")


def _fingerprint(kernel: Kernel, boots: Sequence[JudgedBoot], configuration: Configuration) -> dict[str, str]:
    """Machine, kernel, build-id, configuration, boot id and tool versions; an empty text where one is unknown."""
    logs = (Path(boot.log).read_bytes()[: 1 << 20] for boot in boots)
    banner = next(filter(None, (re.search(rb"Linux version [^\n\r]*", log) for log in logs)), None)
    build_id = ""
    with suppress(OSError, ELFError), (kernel.build / "vmlinux").open("rb") as file:
        build_id = build_id_of(ELFFile(file))
    emulator = boots[0].command[0]
    return {
        "machine": machine_text(),
        "host_kernel": platform.release(),
        "boot_id": boot_id(),
        "kernel": banner[0].decode(errors="replace") if banner else "",
        "build_id": build_id,
        "configuration": "+".join(configuration.names),
        "configuration_sha256": hashlib.sha256((kernel.build / ".config").read_bytes()).hexdigest(),
        "compiler": kernel.compiler,
        "emulator": version_of(emulator) if "qemu" in emulator else "",
    }


def state(kernel: KernelPlan, plan: CheckPlan) -> str:
    """A digest of all inputs of a check: sources, configuration, compiler, emulator, machine, options, schedline."""
    emulator = kernel.target.emulator
    package = Path(__file__).parents[1]
    # The place of the results, --again and --bisect do not change what is judged.
    asked = replace(plan.options, json=None, out=None, again=False, bisect=False)
    return digest_of(
        kernel.commit,
        kernel.configuration.text(),
        compiler_version(kernel.target.compiler),
        version_of(emulator[0]) if emulator else "",
        machine_text(),
        platform.release(),
        sys.version,
        os.access("/dev/kvm", os.R_OK | os.W_OK),
        replace(plan, expected=frozenset(), options=asked),
        plan.expected,
        *contents_of([*package.glob("*.py"), *(package / name for name in MADE_WITH)]),
        *contents_of([CONFIGS, KUNIT, PATCHES, SELFTESTS]),
    )


def remember(record: Path, verdict: Verdict, out: Path, lines: Sequence[str]) -> None:
    """Record the output of a check. The other verdicts depend on the machine, or on what is missing."""
    if verdict in (Verdict.PASS, Verdict.FAIL):
        results = hashlib.sha256((out / "results.json").read_bytes()).hexdigest()
        write_json(record, {"verdict": verdict.name, "out": str(out), "results": results, "lines": lines})


def repeat(record: Path, also: Path | None) -> Verdict | None:
    """Print a recorded verdict again, and write its results to `also`, too.

    None if there is none, or its results were removed or changed.
    """
    found = read_json(record)
    content = b""
    with suppress(OSError):
        content = Path(found["out"], "results.json").read_bytes() if found else b""
    if not found or hashlib.sha256(content).hexdigest() != found["results"]:
        return None
    if also:
        write_atomic(also, content)
    say("nothing has changed since an earlier check, so its verdict is repeated (--again boots anyway)")
    for line in found["lines"]:
        print_untrusted(line)
    return Verdict[found["verdict"]]
