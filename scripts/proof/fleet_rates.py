# SPDX-License-Identifier: GPL-2.0
"""The gate of a fleet on simulated fleets: how often it is wrong, and what the largest costs: docs/results/gate.md."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np

from schedlib.errors import SchedlineError
from schedlib.gate.fleet_gate import last_look, verdict_of
from schedlib.gate.fleet_machines import FleetMachine, MetricBoots
from schedlib.gate.rules import load_gate
from schedlib.paths import PROGRAM
from schedlib.progress import step
from schedlib.verdict import Verdict

_KNOWN = ("machine_name", "machine", "configuration", "command_line")


def made_run(
    kernel: str, boot: str, started: datetime, values: Sequence[float], machine: str = "x"
) -> dict[str, object]:
    """A run of rt_wakeup as a run file has it, with a metric for each value, in ns."""
    about = {"kernel": f"7.3-{kernel}", "build_id": kernel, "boot_id": boot, "machine": machine}
    metric = {"unit": "ns", "direction": "lower", "kind": "quantile", "n": 1000}
    return {
        "schema": "run-1",
        "tool": "rt_wakeup",
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uptime_s": 60.0,
        "fingerprint": dict.fromkeys(_KNOWN, "x") | about,
        "status": "DONE",
        "reason": "",
        "metrics": [metric | {"name": f"timer.p{number}", "value": value} for number, value in enumerate(values)],
        "absent": [],
        "cpus": [],
    }


_BOOTS = 10
_MODELS = 5
_METRICS = 5
_NOISE = 0.05
_MACHINE = 0.01
"""Standard deviations of a boot, and of the effect on the machines of a model, as shares."""

_FLEETS = {100: 1000, 1000: 200, 10_000: 20}
"""How many fleets of each size are simulated."""

_LARGEST = 10_000
_START = datetime(2026, 1, 1, tzinfo=UTC)
_GATES = """\
[gate]
looks = [10]

[[metric]]
tool = "rt_wakeup"
name = "timer.p0"
direction = "lower"
method = "rank"
budget = 3
detect = 15
"""


def fleet_rows() -> Iterator[str]:
    """Lines with the rates of wrong and right verdicts; time and memory of the largest fleet.

    The gate of the rates is configs/gates/default.toml at eight boots; one metric is simulated, and the others count as
    not worse.
    """
    for machines, fleets in _FLEETS.items():
        for name, change, goal in (
            ("no change", 0.0, "FAIL at most 1"),
            ("one model +5 %", 0.05, "found by its name"),
            ("one model +15 %", 0.15, "PASS at most 2.5"),
        ):
            with step(f"{fleets} fleets of {machines}, {name}"):
                counts = verdicts(machines, fleets, change)
            for what, count in counts.items():
                share = f"{100 * count / fleets:.2f} % of {fleets} fleets"
                yield f"{machines} machines, {name}: {what}: {share} (goal {goal})"
    with step(f"writing {_LARGEST} machines, {2 * _BOOTS * _LARGEST} run files"), _written(_LARGEST) as place:
        taken = _timed_gate(place)
    memory = getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024
    yield f"gate of {_LARGEST} machines, {2 * _BOOTS} boots each: {taken:.2f} s (goal under 60 s)"
    yield f"memory of its largest process: {memory:.2f} MB (goal under 2000 MB)"


def verdicts(machines: int, fleets: int, change: float) -> dict[str, int]:
    """How many fleets have each verdict, and in how many the one model is named and no other."""
    gate = load_gate("default")
    rule = gate.rules[0]
    lot = np.random.default_rng([machines, round(1000 * change)])
    models = [f"model {number % _MODELS}" for number in range(machines)]
    changed = np.array([model == "model 0" for model in models])
    found = dict.fromkeys(("FAIL", "PASS", "INCONCLUSIVE", "that model alone is named"), 0)
    for _ in range(fleets):
        effects = np.log1p(change) * changed + (_MACHINE * lot.standard_normal(machines) if change else 0.0)
        base, candidate = np.exp(_NOISE * lot.standard_normal((2, machines, _BOOTS)))
        candidate *= np.exp(effects)[:, None]
        sample = [
            FleetMachine(str(number), model, metrics={rule.key: MetricBoots("ns", one, two, 1e-9)})
            for number, (model, one, two) in enumerate(zip(models, base, candidate, strict=True))
        ]
        _, (groups,) = last_look(gate, {rule: sample}, [])
        found[verdict_of(groups).value] += 1
        named = [group.name for group in groups if group.verdict is Verdict.FAIL and group.kind == "model"]
        found["that model alone is named"] += named == ["model 0"]
    return found


@contextmanager
def _written(machines: int) -> Iterator[Path]:
    """A fleet as files, of which one model is 5 % worse."""
    place = Path(tempfile.mkdtemp(prefix="schedline-"))
    try:
        lot = np.random.default_rng(1)
        (place / "gates.toml").write_text(_GATES)
        for number in range(machines):
            change = 1.05 if number % _MODELS == 0 else 1.0
            for kernel, name in enumerate(("base", "candidate")):
                directory = place / f"fleet/m{number:05}" / name
                directory.mkdir(parents=True)
                for boot, noise in enumerate(np.exp(_NOISE * lot.standard_normal(_BOOTS))):
                    value = 10_000 * float(noise) * (change if kernel else 1.0)
                    slot = 2 * boot + ((boot % 2) ^ kernel)
                    run = made_run(
                        name,
                        f"{number}-{name}-{boot}",
                        _START + timedelta(minutes=slot),
                        [value * (1 + each) for each in range(_METRICS)],
                        f"x86_64 Model {number % _MODELS}, CPUs 0-7, 1 LLCs, 1 nodes",
                    )
                    (directory / f"{boot}.json").write_text(json.dumps(run))
        yield place
    finally:
        shutil.rmtree(place)


def _timed_gate(place: Path) -> float:
    """The seconds that `schedline gate` takes for such a fleet, imports included."""
    argv = [sys.executable, str(PROGRAM), "gate", "--fleet", f"{place}/fleet", "--gates", f"{place}/gates.toml"]
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    taken = time.monotonic() - start
    if done.returncode != Verdict.FAIL.exit_code or "x86_64 Model 0 (" not in " ".join(done.stdout.split()):
        raise SchedlineError(f"the gate did not find the model: {done.stdout[-300:]}{done.stderr[-300:]}", "report it")
    return taken


def main() -> None:
    """Print the figures."""
    for row in fleet_rows():
        print(row)


if __name__ == "__main__":
    main()
