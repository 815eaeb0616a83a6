# SPDX-License-Identifier: GPL-2.0
"""Campaigns with real jobs of LAVA on two QEMU devices, as root: docs/results/gate.md.

In one the kernels do not differ and a job is killed in the middle; in the other the candidate is broken.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from schedlib import doctor
from schedlib.cache import cache_dir, results_directory, scratch, write_atomic
from schedlib.errors import SchedlineError
from schedlib.fleet.fleet_collect import LOG, collect
from schedlib.fleet.fleet_jobs import READY, write_jobs, yaml_text
from schedlib.fleet.fleet_verb import FleetCollectOptions, FleetJobsOptions
from schedlib.gate.boot_plan import write_plan
from schedlib.gate.fleet_gate import compare_fleet, fleet_text
from schedlib.gate.gate_options import LAVA, LOSSES, BootPlanOptions, GateOptions, NamedKernel
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
"""Names of the devices under lava-run."""

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

_PINS = "\tcpumask_and(new_mask, ctx->new_mask, cpus_allowed);\n"
_BROKEN = _PINS + "\tcpumask_copy(new_mask, cpumask_of(cpumask_first(cpus_allowed)));\n"
"""The regression: every task is pinned to the first CPU, whatever was asked for."""

_SYSCALLS = "kernel/sched/syscalls.c"


def try_lava(chosen: TreeOptions, out: Path) -> Verdict:
    """Run the campaigns, and compare their verdicts with those that they have to have."""
    doctor.require(["build", *chosen.needs, TARGET, "in-guest", "fleet", "lava"])
    if os.geteuid() != 0:
        raise SchedlineError("lava-run wants root", "sudo python3 scripts/proof lava_trial")
    cache = cache_dir()
    tree = open_tree(cache, chosen)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "gates.toml", _GATES)
    write_atomic(out / "device.yaml", yaml_text(device()))
    write_atomic(out / "dispatcher.yaml", yaml_text({"dispatcher_ip": "127.0.0.1"}))
    place = _Campaigns(out, _kernels(cache, tree, out / "kernels"), chosen)
    problems = [*_same(place), *_worse(place)]
    for problem in problems:
        print(f"not as it has to be: {problem}")
    verdict = Verdict.FAIL if problems else Verdict.PASS
    print(f"verdict: {verdict.value}")
    return verdict


@dataclass(frozen=True)
class _Campaigns:
    """Where campaigns are made, and of what."""

    out: Path
    images: Mapping[str, Path]
    tree: TreeOptions


def device() -> dict[str, object]:
    """LAVA's device dictionary of a QEMU device, which a server would make from its templates."""
    posix = {"lava_test_results_dir": "/lava-%s", "lava_test_sh_cmd": "/bin/sh", "lava_test_shell_file": "~/.bashrc"}
    shape = ("-M", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-display", "none")
    options = [*shape, "-m", str(MEMORY), *CONSOLE]
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
            # A version in the Makefile would also be in the configuration, and the gate refuses two configurations.
            files["localversion"] = f"{name}\n".encode()
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


def _planned(place: _Campaigns, name: str, candidate: str) -> Path:
    """Plan a campaign, and write its jobs."""
    directory = place.out / name
    kernels = {"base": place.images[""], "candidate": place.images[candidate]}
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
            tree=place.tree,
        )
    )
    return directory


def _same(place: _Campaigns) -> Iterator[str]:
    """A campaign without a change, of which one job is killed. It never FAILs, and PASSes once the job was repeated."""
    directory = _planned(place, "same", "-same")
    with _jobs(directory, (0, "1"), (1, "killed")) as (first, second):
        _wait_for(second, READY, 2)
        second.kill()
        _wait([first, second], "same: a job, while another one was killed")
    yield from _expect("home after a killed job", _collected(directory, ("1", "killed")), (Verdict.INCONCLUSIVE,))
    yield from _expect("gate after a killed job", _gate(directory), (Verdict.PASS, Verdict.INCONCLUSIVE))
    with _jobs(directory, (1, "2")) as again:
        _wait(again, "same: the job, repeated")
    yield from _expect("home", _collected(directory, ("1", "2")), (Verdict.PASS,))
    yield from _expect("gate without a change", _gate(directory), (Verdict.PASS,))


def _worse(place: _Campaigns) -> Iterator[str]:
    """A campaign whose candidate is broken. All boots come home, and the gate FAILs."""
    directory = _planned(place, "worse", "-broken")
    with _jobs(directory, (0, "1"), (1, "2")) as jobs:
        _wait(jobs, "worse: two jobs")
    yield from _expect("home", _collected(directory, ("1", "2")), (Verdict.PASS,))
    yield from _expect("gate with a broken kernel", _gate(directory), (Verdict.FAIL,))


def _expect(what: str, found: Verdict, wanted: Sequence[Verdict]) -> Iterator[str]:
    say(f"{what}: {found.name}")
    if found not in wanted:
        yield f"{what} is {found.name}, and has to be {' or '.join(each.name for each in wanted)}"


class _Job:
    """A job of lava-run, which needs no server, under a name of its own."""

    def __init__(self, directory: Path, machine: int, name: str) -> None:
        place = directory / "lava-run" / name
        place.mkdir(parents=True)
        files = {"--device": "device.yaml", "--dispatcher": "dispatcher.yaml"}
        words = [word for option, file in files.items() for word in (option, directory.parent / file)]
        definition = sorted((directory / "jobs").glob("*.yaml"))[machine]
        argv = ["lava-run", "--job-id", f"{os.getpid()}{machine}", "--output-dir", place, *words, definition]
        self._log = place / LOG
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                dying_with_us([str(word) for word in argv]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                env=clean_environment(),
                start_new_session=True,
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        if not self.ended():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def _jobs(directory: Path, *wanted: tuple[int, str]) -> Iterator[list[_Job]]:
    """Jobs that run at the same time; none of them runs after the context."""
    running: list[_Job] = []
    try:
        for machine, name in wanted:
            running.append(_Job(directory, machine, name))
        yield running
    finally:
        for job in running:
            job.kill()


def _wait(jobs: Sequence[_Job], what: str) -> None:
    with step(what):
        _until(lambda: all(job.ended() for job in jobs), what)


def _wait_for(job: _Job, text: str, times: int) -> None:
    """Wait until the device has printed a text so many times."""
    line = f'"lvl": "target", "msg": "{text}"'
    _until(lambda: job.said().count(line) >= times or job.ended(), f"{text!r}, {times} times")
    if job.said().count(line) < times:
        raise SchedlineError(f"the device has not printed {text!r} {times} times", "look at the logs of the jobs")


def _until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _SECONDS
    while not done():
        if time.monotonic() > end:
            raise SchedlineError(f"waited {_SECONDS:.0f} s for {what}", "look at the logs of the jobs")
        time.sleep(_POLL)


def _collected(directory: Path, jobs: Sequence[str]) -> Verdict:
    """Collect the jobs of these names, of both machines, twice; the second time must not change a file."""
    found = (f"{machine}={directory}/lava-run/{job}" for machine, job in zip(_MACHINES, jobs, strict=True))
    options = FleetCollectOptions(plan=directory, jobs=tuple(found))
    collect(options)
    before = _content(directory)
    verdict = collect(options)
    if _content(directory) != before:
        raise SchedlineError(f"{directory}: collecting a second time changed something", "report this")
    return verdict


def _content(directory: Path) -> dict[str, bytes]:
    places = (directory / "fleet", directory / "collected")
    return {str(path): path.read_bytes() for place in places for path in sorted(place.rglob("*")) if path.is_file()}


def _gate(directory: Path) -> Verdict:
    found = compare_fleet(GateOptions(fleet=directory / "fleet", gates=str(directory.parent / "gates.toml"), json=None))
    print(fleet_text(found))
    return found.status


def main() -> int:
    """Run both campaigns; an hour."""
    parser = argparse.ArgumentParser(prog="lava_trial")
    parser.add_argument("--kdir", help="a kernel tree (default: Debian's 7.3)")
    parser.add_argument("--out", type=Path, help="directory for the campaigns (default: in the cache)")
    given = parser.parse_args()
    return try_lava(TreeOptions(given.kdir), results_directory(cache_dir(), given.out)).exit_code


if __name__ == "__main__":
    sys.exit(main())
