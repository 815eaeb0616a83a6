# SPDX-License-Identifier: GPL-2.0
"""The order in which kernels are booted, and the plan that is written before the first boot."""

from __future__ import annotations

import os
import random
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from itertools import accumulate, combinations
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from schedlib.cache import write_atomic
from schedlib.errors import SchedlineError
from schedlib.formats import document
from schedlib.formats.document import Document
from schedlib.formats.strict import Positive, Strict, Whole, Word
from schedlib.gate.gate_options import BOOT_COMMANDS, GATES, LAVA, PLAN_FILE, BootPlanOptions, NamedKernel, gates_path
from schedlib.gate.rules import BLOCK, load_gate
from schedlib.names import suite_of_gates
from schedlib.paths import PROGRAM
from schedlib.progress import say
from schedlib.verdict import Verdict

SERVICE = "schedline-gate.service"
SCRIPT = "each-boot.sh"

Label = Annotated[str, Meta(pattern="^[a-z][a-z0-9-]*$")]


class BootedKernel(Strict, frozen=True):
    """A kernel of a plan.

    Attributes:
        version: as `uname -r` prints it.
        command: the shell command that boots it next, once.
    """

    label: Label
    version: Word
    command: Word


class GatePlan(Document, frozen=True, kw_only=True):
    """Which kernel is booted when. It is written before the first boot and never changed.

    Attributes:
        kernels: the first is the base, the second the candidate.
        blocks: the order of the boots, in blocks with four boots of each kernel, or with one if they are pairs. The
            last may have fewer.
        looks: after how many boots of each kernel the gate is asked.
        seed: of the order.
        suite, only, runs: what is run in each boot.
        gates: the gates file.
        losses: after so many lost boots of a kernel in a row the campaign stops.
    """

    only_lines = True

    schema: Literal["gate-plan-1"]
    kernels: Annotated[tuple[BootedKernel, ...], Meta(min_length=2)]
    blocks: Annotated[tuple[tuple[Label, ...], ...], Meta(min_length=1)]
    looks: tuple[Positive, ...]
    seed: Whole
    suite: Word
    only: tuple[Word, ...]
    runs: Positive
    gates: Word
    losses: Positive

    def __post_init__(self) -> None:
        labels = {kernel.label for kernel in self.kernels}
        if len(labels) < len(self.kernels) or len({kernel.version for kernel in self.kernels}) < len(self.kernels):
            raise ValueError("two kernels have the same label or version, so their boots cannot be told apart")
        if unknown := set(self.order) - labels:
            raise ValueError(f"the order has {min(unknown)}, which is no kernel of the plan")

    @property
    def order(self) -> tuple[str, ...]:
        """The label of each boot."""
        return tuple(label for block in self.blocks for label in block)

    @property
    def pairs(self) -> bool:
        return all(len(block) == len(self.kernels) for block in self.blocks)

    def kernel(self, label: str) -> BootedKernel:
        return next(kernel for kernel in self.kernels if kernel.label == label)


def _fair(places: tuple[int, ...]) -> bool:
    """Whether neither kernel leads by more than two boots, nor is earlier on average by more than half a place."""
    leads = accumulate(1 if place in places else -1 for place in range(2 * BLOCK))
    return max(map(abs, leads)) <= 2 and abs(2 * sum(places) - BLOCK * (2 * BLOCK - 1)) <= BLOCK // 2


BLOCK_ORDERS = tuple(
    "".join("A" if place in places else "B" for place in range(2 * BLOCK))
    for places in combinations(range(2 * BLOCK), BLOCK)
    if _fair(places)
)
"""The 22 orders of a block of eight boots, ABBABAAB among them. In each of them a drift meets both kernels alike.

They are drawn by lot, because any fixed order meets some period of the machine. With ABBABAAB and its mirror image,
something that happens at every third boot looked like a change in 5 % of the campaigns; see docs/results/gate.md.
"""


def blocks(labels: Sequence[str], boots: int, seed: int, size: int = BLOCK) -> tuple[tuple[str, ...], ...]:
    """An order of so many boots of each kernel, drawn by lot in blocks of so many. The last block may have fewer.

    In each block any two of the kernels are in one of the BLOCK_ORDERS, so that a drift meets all of them alike.
    """
    source = random.Random(seed)  # noqa: S311 - an order, no secret
    return tuple(_drawn(source, labels, min(size, boots - start)) for start in range(0, boots, size))


def _drawn(source: random.Random, labels: Sequence[str], boots: int) -> tuple[str, ...]:
    fair = {order[: 2 * boots] for order in BLOCK_ORDERS}
    order = [label for label in labels for _ in range(boots)]
    while True:
        source.shuffle(order)
        pairs = combinations(labels, 2)
        if all("".join("AB"[each == b] for each in order if each in (a, b)) in fair for a, b in pairs):
            return tuple(order)


def write_plan(wanted: BootPlanOptions) -> Verdict:
    out = wanted.out.absolute()
    if (out / PLAN_FILE).exists():
        raise SchedlineError(f"{out} has a plan, and a plan is never changed", f"schedline gate plan {out} --status")
    suite = wanted.suite or suite_of_gates(wanted.gates)
    if not suite:
        raise SchedlineError(f"no suite measures the gates file {wanted.gates}", "name the suite with --suite")
    seed = wanted.seed if wanted.seed is not None else secrets.randbelow(1 << 32)
    # The service has another working directory.
    gates = wanted.gates if gates_path(wanted.gates).parent == GATES else str(Path(wanted.gates).absolute())
    looks = load_gate(gates).looks
    least, most = wanted.boots or (looks[0], looks[-1])
    if most < looks[0]:
        say(f"the gate decides after {looks[0]} boots of each kernel, and these are {most}: it will be INCONCLUSIVE")
    try:
        plan = GatePlan(
            schema="gate-plan-1",
            kernels=tuple(_kernel(each, wanted) for each in wanted.kernels),
            blocks=blocks([kernel.label for kernel in wanted.kernels], most, seed, 1 if wanted.pairs else BLOCK),
            looks=tuple(look for look in looks if least <= look <= most),
            seed=seed,
            suite=suite,
            only=wanted.only,
            runs=wanted.runs,
            gates=gates,
            losses=wanted.losses,
        )
    except ValueError as error:
        raise SchedlineError(str(error), "give each kernel a CONFIG_LOCALVERSION of its own") from error
    document.write(out / PLAN_FILE, plan)
    print(plan_text(plan))
    if wanted.boot == LAVA:
        say(f"next: schedline fleet jobs {shlex.quote(str(wanted.out))} --device NAME --kernels LABEL=IMAGE,...")
        return Verdict.PASS
    _write_service(out)
    service, script, here = (shlex.quote(str(path)) for path in (out / SERVICE, out / SCRIPT, out))
    say("begin, as root; the machine reboots at once:")
    say(f"    systemctl enable --now {service}")
    say(f"    without systemd: let the machine call `sh {script}` at the end of each boot, and call it now")
    say(f"how far it is: schedline gate plan {here} --status")
    return Verdict.PASS


def plan_text(plan: GatePlan) -> str:
    lines = [f"{kernel.label}: {kernel.version}" for kernel in plan.kernels]
    rows = f" (rows {', '.join(plan.only)})" if plan.only else ""
    lines.append(f"in each boot: suite {plan.suite}{rows}, runs of each row: {plan.runs}")
    lines.append(f"order, seed {plan.seed}:")
    lines += [f"    {' '.join(block)}" for block in plan.blocks]
    looks = ", ".join(map(str, plan.looks)) or "all"
    lines.append(f"looks after {looks} boots of each kernel, with gates {plan.gates}")
    return "\n".join(lines)


def _kernel(named: NamedKernel, wanted: BootPlanOptions) -> BootedKernel:
    image, initrd = named.image, named.initrd
    if not image and wanted.boot == "kexec" and not wanted.next_command:
        image = f"/boot/vmlinuz-{named.version}"
        found = (f"/boot/initrd.img-{named.version}", f"/boot/initramfs-{named.version}.img")
        initrd = next((each for each in found if Path(each).exists()), "")
    for file in filter(None, (image, initrd)):
        if not Path(file).is_file():
            raise SchedlineError(f"{named.label}: there is no file {file}", "install the kernel, or give VERSION:IMAGE")
    if not (version := named.version or version_in(Path(image).read_bytes())):
        raise SchedlineError(f"{image} does not say its version", "give VERSION:IMAGE, as uname -r prints it there")
    try:
        command = (wanted.next_command or BOOT_COMMANDS[wanted.boot]).format(
            label=named.label,
            version=shlex.quote(version),
            image=shlex.quote(str(Path(image).absolute())) if image else "",
            initrd=f"--initrd={shlex.quote(str(Path(initrd).absolute()))}" if initrd else "",
            glob=shlex.quote(f"*{version}.conf"),
        )
    except (KeyError, ValueError, IndexError) as error:
        known = "{label}, {version}, {image} and {initrd}"
        raise SchedlineError(f"--next-command has braces with {error}", f"it may have {known}") from error
    return BootedKernel(named.label, version, " ".join(command.split()))


def version_in(image: bytes) -> str:
    """The version in a bzImage, as `uname -r` will print it; empty if it is none of x86."""
    place = 0x200 + int.from_bytes(image[0x20E:0x210], "little")
    found = re.match(rb"(\S+) ", image[place : place + 200]) if image[0x202:0x206] == b"HdrS" else None
    return found[1].decode(errors="replace") if found else ""


def _write_service(out: Path) -> None:
    """Write what does a step of the plan in each boot."""
    step = shlex.join([sys.executable, str(PROGRAM), "gate", "plan", str(out), "--step"])
    cache = os.environ.get("SCHEDLINE_CACHE")
    kept = f"export SCHEDLINE_CACHE={shlex.quote(cache)}\n" if cache else ""
    script = f"""\
#!/bin/sh
# Once in each boot, as root: makes the runs of this boot, then boots the next kernel of the plan.
# Measure when the machine has come to rest.
if [ -d /run/systemd/system ]; then systemctl is-system-running --wait >/dev/null; fi
{kept}exec {step} >>{shlex.quote(str(out / "log"))} 2>&1
"""
    place = str(out).replace("%", "%%")
    unit = f"""\
[Unit]
Description=The next boot of {place}

[Service]
ExecStart=/bin/sh "{place}/{SCRIPT}"
Restart=on-failure
RestartSec=10

[Install]
WantedBy=multi-user.target
"""
    write_atomic(out / SCRIPT, script)
    write_atomic(out / SERVICE, unit)
