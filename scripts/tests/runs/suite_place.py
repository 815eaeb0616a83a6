# SPDX-License-Identifier: GPL-2.0
"""A suite of tools that play, run by the command as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
from workload_runs import SCHEMA

from schedlib.paths import PROJECT

DRIVER = """
import signal, sys
from pathlib import Path
from schedlib.workloads import suites
from schedlib.errors import SchedlineError
signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
suites.SUITES = Path(sys.argv[1])
from schedlib.cli import main
try:
    sys.exit(main(sys.argv[2:]))
except (SchedlineError, OSError) as error:
    sys.exit(f"schedline: {error}")
"""

HACKBENCH = "echo 'groups (== 40 tasks)'; echo 'Each sender will pass 5 messages'; echo 'Time: 0.5'\n"
PI_STRESS = """echo '{"inversion": %d, "return_code": %d}' > out.json\n"""

SUITE = """
about = "tools that play"

[rows.bench]
tool = "hackbench"
seconds = 1
work = "tasks"
required = true
metrics = { "tasks" = "tasks", "time_s" = "s" }

[rows.inversions]
tool = "pi_stress"
arguments = ["-D", "2", "-g", "{half_cpus}"]
seconds = 1
work = "inversions"
metrics = { "inversions" = "inversions" }
"""


class Place:
    """A suite, tools in a PATH of their own, and where the runs go."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"
        self.tools = directory / "bin"
        self.tools.mkdir()
        (directory / "suites").mkdir()
        (directory / "suites" / "play.toml").write_text(SUITE)
        for name in ("sh", "cat", "env", "sleep", "setsid", "echo", "rm"):
            (self.tools / name).symlink_to(Path("/bin", name))
        self.tool("hackbench", HACKBENCH)
        self.tool("pi_stress", PI_STRESS % (7, 0))

    def tool(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\necho {name} >> {self.directory}/called\n{script}")
        path.chmod(0o755)

    def called(self) -> list[str]:
        path = self.directory / "called"
        # Its version is asked for, too.
        return path.read_text().split() if path.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.tools),
            "PYTHONPATH": f"{PROJECT / 'scripts'}:{':'.join(sys.path)}",
            "SCHEDLINE_CACHE": str(self.directory / "cache"),
            "HOME": str(self.directory),
            # Under a limit on the size of files Python would leave half a .pyc beside the sources.
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def argv(self, *words: str) -> list[str]:
        out = [] if "--out" in words else ["--out", str(self.out)]
        return [sys.executable, "-c", DRIVER, str(self.directory / "suites"), "run", "--suite", "play", *out, *words]

    def run(self, *words: str, wrapper: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*wrapper, *self.argv(*words)], check=False, capture_output=True, text=True, env=self.environment
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def document(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / name).read_text())
        jsonschema.validate(found, SCHEMA)
        return found
