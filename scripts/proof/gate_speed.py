# SPDX-License-Identifier: GPL-2.0
"""How long a gate takes, and how much memory, of 40 and of 100,000 runs: docs/results/gate.md."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from proof.made_runs import Figure, made_run, timed_gate
from schedlib.errors import SchedlineError
from schedlib.progress import step

_BOOTS = 20
_METRICS = 10
_LARGE = 100_000
"""Files of the large campaign. A file is a run with ten metrics, so they are 10^6 values."""

_START = datetime(2026, 1, 1, tzinfo=UTC)
_GATES = """\
[[metric]]
tool = "rt_wakeup"
name = "timer.p0"
direction = "lower"
method = "rank"
budget = 3
detect = 25
"""


def gate_rows() -> list[Figure]:
    """Time of both campaigns with all imports, in seconds, and the memory of the large one, in MB.

    Raises:
        SchedlineError: a gate did not come to a verdict.
    """
    with _campaign(2 * _BOOTS) as place:
        small = min(_gate(place) for _ in range(5))
    with step(f"writing {_LARGE} run files"), _campaign(_LARGE) as place:
        # The gate of a usual campaign needs less memory, and this is the largest of all children.
        large = _gate(place)
        memory = getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        Figure(f"gate of {2 * _BOOTS} boots, imports included", small, "under 1 s", "s"),
        Figure(f"gate of {_LARGE} runs with {_METRICS} metrics each", large, "under 30 s", "s"),
        Figure("its memory", memory, "under 500 MB", "MB"),
    ]


@contextmanager
def _campaign(files: int) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="schedline-"))
    try:
        lot = random.Random(1)  # noqa: S311 - the same every time
        (place / "gates.toml").write_text(_GATES)
        for kernel, name in enumerate(("base", "candidate")):
            for boot in range(_BOOTS):
                directory = place / name / f"boot-{boot}"
                directory.mkdir(parents=True)
                slot = 2 * boot + ((boot % 2) ^ kernel)
                for number in range(files // (2 * _BOOTS)):
                    started = _START + timedelta(hours=slot, seconds=number)
                    values = [round(10_000 * lot.lognormvariate(0, 0.05), 3) for _ in range(_METRICS)]
                    text = json.dumps(made_run(name, f"{name}-{boot}", started, values))
                    (directory / f"{number:05}.json").write_text(text)
        yield place
    finally:
        shutil.rmtree(place)


def _gate(place: Path) -> float:
    taken, done = timed_gate(
        [*(str(place / name) for name in ("base", "candidate")), "--gates", str(place / "gates.toml")]
    )
    if "verdict: " not in done.stdout:
        raise SchedlineError(f"the gate came to no verdict: {done.stderr[-300:]}", "schedline gate --help")
    return taken


def main() -> None:
    """Print the figures."""
    for row in gate_rows():
        print(row)


if __name__ == "__main__":
    main()
