# SPDX-License-Identifier: GPL-2.0
"""A suite of fake tools, run by `schedline run`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from by_schema import validate
from one_verb import main_of
from schedlib import names
from schedlib.errors import SchedlineError
from schedlib.kernel import machine
from schedlib.paths import CONFIGS, PROJECT
from schedlib.runs import run_verb, workload_suites

DRIVER = """
import sys
from pathlib import Path
from schedlib import main, names
from schedlib.runs import workload_suites
main.activate = lambda *_, **__: None
names.CONFIGS = Path(sys.argv[1])
workload_suites.SUITES = names.CONFIGS / "workloads"
sys.exit(main.start(sys.argv[2:]))
"""
"""The command, without looking for its libraries in the test's cache."""

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
        os.mkfifo(directory / "begun")
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

    def words(self, *words: str, suite: bool = True) -> list[str]:
        out = [] if "--out" in words else ["--out", str(self.out)]
        return ["run", *(["--suite", "play"] if suite else []), *out, *words]

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-c", DRIVER, str(self.configs), *self.words(*words)]

    @property
    def boot(self) -> Path:
        return self.out / machine.boot_id()

    def run(self, *words: str, suite: bool = True, boot: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run the verb in this process, in another boot if one is named. It has to end with this code."""
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.environment.items():
                patch.setenv(name, value)
            if boot:
                patch.setattr(machine, "boot_id", lambda: boot)
            patch.setattr(names, "CONFIGS", self.configs)
            patch.setattr(workload_suites, "SUITES", self.configs / "workloads")
            try:
                found = main_of(run_verb)(self.words(*words, suite=suite))
            except SystemExit as ended:
                found = int(ended.code or 0)
            except SchedlineError as error:
                print(f"schedline: {error}", file=err)
                found = 2
        assert found == code, err.getvalue()
        return subprocess.CompletedProcess(words, found, out.getvalue(), err.getvalue())

    def run_limited(self, wrapper: Sequence[str]) -> subprocess.CompletedProcess[str]:
        # With a limit on file sizes Python would leave truncated .pyc files.
        env = self.environment | {"PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([*wrapper, *self.argv()], check=False, capture_output=True, text=True, env=env)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            start_new_session=True,
        )

    def document(self, name: str, boot: str = "") -> dict[str, Any]:
        found: dict[str, Any] = json.loads(((self.out / boot if boot else self.boot) / name).read_text())
        validate(found, "run-1")
        return found

    def begun(self, process: subprocess.Popen[str]) -> list[int]:
        """Wait for the ids that a tool writes to the FIFO `begun`, as soon as it runs below this process."""
        # Open for writing, too: then the tool does not wait for us, nor do we if it never runs.
        with (self.directory / "begun").open("rb+", buffering=0) as begun, os.fdopen(os.pidfd_open(process.pid)) as end:
            ready, _, _ = select.select([begun, end], [], [])
            assert begun in ready, f"it ended with {process.wait()}"
            return [int(word) for word in begun.read(100).split()]
