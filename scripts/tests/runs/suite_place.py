# SPDX-License-Identifier: GPL-2.0
"""A suite of fake tools, run by `schedline run`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from by_schema import validate
from schedlib.paths import CONFIGS, PROJECT

DRIVER = """
import argparse, signal, sys
from pathlib import Path
from schedlib import names
from schedlib.errors import SchedlineError
from schedlib.runs import run_verb, workload_suites
signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
names.CONFIGS = Path(sys.argv[1])
workload_suites.SUITES = names.CONFIGS / "workloads"
parser = argparse.ArgumentParser()
run_verb.add_parser(parser.add_subparsers())
arguments = parser.parse_args(sys.argv[2:])
try:
    sys.exit(arguments.job(arguments.read(arguments)).exit_code)
except (SchedlineError, OSError) as error:
    print(f"schedline: {error}", file=sys.stderr)
    sys.exit(2)
"""
"""Runs the verb without main.py, which would look for its libraries in the test's cache."""

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
    """A suite, the tools in their own PATH, and the directory of the runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.out = directory / "out"
        self.tools = directory / "bin"
        self.tools.mkdir()
        self.configs = directory / "configs"
        (self.configs / "workloads").mkdir(parents=True)
        (self.configs / "workloads/play.toml").write_text(SUITE)
        for path in CONFIGS.iterdir():
            if path.name != "workloads":
                (self.configs / path.name).symlink_to(path)
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
        # Asking for the version of a tool also counts as a call.
        return path.read_text().split() if path.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.tools),
            "PYTHONPATH": f"{PROJECT / 'scripts'}:{':'.join(sys.path)}",
            "SCHEDLINE_CACHE": str(self.directory / "cache"),
            "HOME": str(self.directory),
            "PYTHONPYCACHEPREFIX": sys.pycache_prefix or str(self.directory.parent / "pycache"),
        }

    def argv(self, *words: str) -> list[str]:
        out = [] if "--out" in words else ["--out", str(self.out)]
        return [sys.executable, "-c", DRIVER, str(self.configs), "run", "--suite", "play", *out, *words]

    def run(self, *words: str, wrapper: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        # With a limit on file sizes Python would leave truncated .pyc files.
        env = self.environment | ({"PYTHONDONTWRITEBYTECODE": "1"} if wrapper else {})
        return subprocess.run([*wrapper, *self.argv(*words)], check=False, capture_output=True, text=True, env=env)

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
        validate(found, "run-1")
        return found
