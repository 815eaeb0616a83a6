# SPDX-License-Identifier: GPL-2.0
"""Campaigns with real jobs of LAVA on two QEMU devices: a broken kernel, no change, and a job that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, scratch, write_atomic
from schedlib.errors import SchedlineError
from schedlib.fleet.fleet_collect import LOG, collect
from schedlib.fleet.fleet_jobs import write_jobs
from schedlib.fleet.fleet_options import FleetCollectOptions, FleetJobsOptions
from schedlib.fleet.job_definition import READY, yaml_text
from schedlib.gate.boot_options import LAVA, LOSSES, BootPlanOptions, NamedKernel
from schedlib.gate.boot_order import write_plan
from schedlib.gate.fleet_gate import compare_fleet, fleet_text
from schedlib.gate.gate_options import FleetOptions
from schedlib.guest.busybox_guest import TARGET
from schedlib.guest.command_line import CONSOLE, MEMORY
from schedlib.guest.selftests import FRAGMENT
from schedlib.kernel.build import plan_kernel, prepare_kernel
from schedlib.kernel.targets import choose
from schedlib.options import TreeOptions
from schedlib.paths import CONFIGS
from schedlib.process import clean_environment, dying_with_us
from schedlib.progress import say, step
from schedlib.tree.kernel_tree import Tree, open_tree, put_files
from schedlib.verdict import Verdict

_MACHINES = ("first", "second")
_SECONDS = 1200.0
"""Limit of a job; LAVA's own limits are lower."""

_POLL = 0.2

_GATES = """\
[gate]
looks = [5]

[[metric]]
tool = "rt_wakeup"
name = "timer.elsewhere"
direction = "lower"
method = "equal"
because = "an RT thread runs on the CPU to which it is pinned"
"""

_PINS = "	cpumask_and(new_mask, ctx->new_mask, cpus_allowed);\n"
_BROKEN = _PINS + "	cpumask_copy(new_mask, cpumask_of(cpumask_first(cpus_allowed)));\n"
"""The regression: every task is pinned to the first CPU, whatever was asked for."""

_SYSCALLS = "kernel/sched/syscalls.c"


def try_lava(tree_options: TreeOptions, out: Path) -> Verdict:
    """Run the campaigns, and compare their verdicts with those that they have to have.

    Raises:
        SchedlineError: something is missing, or a kernel does not build.
    """
    doctor.require(["build", *tree_options.needs, TARGET, "in-guest", "lava"])
    if os.geteuid() != 0:
        raise SchedlineError("lava-run wants root", "sudo schedline dev test-lava")
    cache = cache_dir()
    tree = open_tree(cache, tree_options)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "gates.toml", _GATES)
    write_atomic(out / "device.yaml", yaml_text(device()))
    write_atomic(out / "dispatcher.yaml", yaml_text({"dispatcher_ip": "127.0.0.1"}))
    images = _kernels(cache, tree, out / "kernels")
    problems = [*_same(out, tree_options, images), *_worse(out, tree_options, images)]
    for problem in problems:
        print(f"not as it has to be: {problem}")
    verdict = Verdict.FAIL if problems else Verdict.PASS
    print(f"verdict: {verdict.value}")
    return verdict


def device() -> dict[str, object]:
    """LAVA's device dictionary of a QEMU device, which a server would make from its templates."""
    posix = {
        "lava_test_results_dir": "/lava-%s",
        "lava_test_sh_cmd": "/bin/sh",
        "lava_test_shell_file": "~/.bashrc",
    }
    options = [
        "-M",
        "q35",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-m",
        str(MEMORY),
        "-smp",
        "2",
        "-display",
        "none",
        *CONSOLE,
    ]
    interrupt = {"interrupt-prompt": "", "interrupt-character": ""}
    return {
        "available_architectures": ["amd64"],
        "constants": {
            "failure_retry": 1,
            "boot_retry": 1,
            "spawn_maxread": 4092,
            "default-shell-prompt": "lava-test: # ",
            "kernel-start-message": "Linux version [0-9]",
            "shutdown-message": "reboot: ",
            **interrupt,
            **posix,
            "posix": posix,
            "qemu": interrupt,
        },
        "parameters": {},
        "actions": {
            "deploy": {"connections": {"serial": None}, "methods": {"image": None}},
            "boot": {
                "connections": {"serial": None},
                "methods": {"qemu": {"parameters": {"command": "qemu-system-x86_64", "options": options, "extra": []}}},
            },
        },
        "timeouts": {"actions": {}, "connections": {}},
    }


def _kernels(cache: Path, tree: Tree, place: Path) -> Mapping[str, Path]:
    """Images by the end of their version: the tree as it is, the same under another name, and one that is broken."""
    target, _ = choose(tree, TARGET)
    plan = plan_kernel(tree, target, [FRAGMENT])
    found = {}
    for name in ("", "-same", "-broken"):
        files = {}
        if name:
            files["Makefile"] = _changed(tree, plan.commit, "Makefile", "EXTRAVERSION =\n", f"EXTRAVERSION = {name}\n")
        if name == "-broken":
            files[_SYSCALLS] = _changed(tree, plan.commit, _SYSCALLS, _PINS, _BROKEN)
        commit = put_files(tree, plan.commit, files, f"trial of LAVA {name}\n") if files else plan.commit
        with scratch(cache) as kept:
            kernel = prepare_kernel(cache, replace(plan, commit=commit), kept)
            found[name] = place / f"bzImage{name}"
            write_atomic(found[name], kernel.image.read_bytes())
    return found


def _changed(tree: Tree, commit: str, path: str, old: str, new: str) -> bytes:
    text = tree.read(path, commit) or ""
    if old not in text:
        raise SchedlineError(f"{path} of {tree.origin} has no line {old.strip()!r}", "use --series 7.3")
    return text.replace(old, new, 1).encode()


def _planned(directory: Path, tree: TreeOptions, images: Mapping[str, Path], candidate: str) -> None:
    """Plan a campaign, and write its jobs."""
    kernels = {"base": images[""], "candidate": images[candidate]}
    write_plan(
        BootPlanOptions(
            out=directory,
            boots=(2, 2),
            kernels=tuple(NamedKernel(label, "", str(path)) for label, path in kernels.items()),
            boot=LAVA,
            next_command=None,
            gates=str(directory.parent / "gates.toml"),
            suite="quick",
            only=("rt-wakeup-quick",),
            runs=1,
            seed=28,
            losses=LOSSES,
        )
    )
    write_jobs(
        FleetJobsOptions(
            plan=directory,
            device=CONFIGS / "fleet" / f"{TARGET}.toml",
            kernels=tuple(kernels.items()),
            machines=len(_MACHINES),
            tags=(),
            url=None,
            dtb=None,
            tree=tree,
        )
    )


def _same(out: Path, tree: TreeOptions, images: Mapping[str, Path]) -> Iterator[str]:
    """A campaign without a change, of which one job is killed. It never FAILs, and PASSes once the job was repeated."""
    directory = out / "same"
    _planned(directory, tree, images, "-same")
    with _job(directory, 0, "1") as first, _job(directory, 1, "killed") as second:
        _wait_for(second, READY, 2)
        os.killpg(second.process.pid, signal.SIGKILL)
        first.wait()
    yield from _expect("home after a killed job", _collected(directory, "1", "killed"), (Verdict.INCONCLUSIVE,))
    yield from _expect("gate after a killed job", _gate(directory), (Verdict.PASS, Verdict.INCONCLUSIVE))
    with _job(directory, 1, "2") as second:
        second.wait()
    yield from _expect("home", _collected(directory, "1", "2"), (Verdict.PASS,))
    yield from _expect("gate without a change", _gate(directory), (Verdict.PASS,))


def _worse(out: Path, tree: TreeOptions, images: Mapping[str, Path]) -> Iterator[str]:
    """A campaign whose candidate is broken. All boots come home, and the gate FAILs."""
    directory = out / "worse"
    _planned(directory, tree, images, "-broken")
    with _job(directory, 0, "1") as first, _job(directory, 1, "2") as second:
        first.wait()
        second.wait()
    yield from _expect("home", _collected(directory, "1", "2"), (Verdict.PASS,))
    yield from _expect("gate with a broken kernel", _gate(directory), (Verdict.FAIL,))


def _expect(what: str, found: Verdict, wanted: Sequence[Verdict]) -> Iterator[str]:
    say(f"{what}: {found.name}")
    if found not in wanted:
        yield f"{what} is {found.name}, and has to be {' or '.join(each.name for each in wanted)}"


class _LavaRun:
    """A job that lava-run runs, without a server."""

    def __init__(self, directory: Path, machine: int, name: str) -> None:
        self.place = directory / "lava-run" / name
        self.place.mkdir(parents=True)
        self.log = self.place / LOG
        definition = sorted((directory / "jobs").glob("*.yaml"))[machine]
        files = {"--device": "device.yaml", "--dispatcher": "dispatcher.yaml"}
        words = [word for option, file in files.items() for word in (option, str(directory.parent / file))]
        number = f"{os.getpid()}{machine}"
        argv = ["lava-run", "--job-id", number, "--output-dir", str(self.place), *words, str(definition)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                dying_with_us(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=clean_environment(),
                start_new_session=True,
            )

    def wait(self) -> None:
        with step(f"{self.place.parent.parent.name}: job {self.place.name}"):
            self.process.wait(_SECONDS)


@contextmanager
def _job(directory: Path, machine: int, name: str) -> Iterator[_LavaRun]:
    running = _LavaRun(directory, machine, name)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()


def _wait_for(job: _LavaRun, text: str, times: int) -> None:
    """Wait until the device has printed a text so many times."""
    line = f'"lvl": "target", "msg": "{text}"'
    end = time.monotonic() + _SECONDS
    while job.log.read_text(errors="replace").count(line) < times:
        if job.process.poll() is not None or time.monotonic() > end:
            raise SchedlineError(f"{job.log}: the device has not printed {text!r} {times} times", f"see {job.log}")
        time.sleep(_POLL)


def _collected(directory: Path, *jobs: str) -> Verdict:
    found = tuple(f"{machine}={directory}/lava-run/{job}" for machine, job in zip(_MACHINES, jobs, strict=True))
    again = FleetCollectOptions(plan=directory, jobs=found, server=None, token=None)
    collect(again)
    before = _content(directory)
    verdict = collect(again)
    if _content(directory) != before:
        raise SchedlineError(f"{directory}: collecting a second time changed something", "report this")
    return verdict


def _content(directory: Path) -> dict[str, bytes]:
    places = (directory / "fleet", directory / "collected")
    return {str(path): path.read_bytes() for place in places for path in sorted(place.rglob("*")) if path.is_file()}


def _gate(directory: Path) -> Verdict:
    found = compare_fleet(
        FleetOptions(fleet=directory / "fleet", gates=str(directory.parent / "gates.toml"), json=None)
    )
    print(fleet_text(found))
    return found.status
