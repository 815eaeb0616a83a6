# SPDX-License-Identifier: GPL-2.0
"""How the endings of a guest are told apart, and that no process of a guest outlives its run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schedlib.errors import SchedlineError
from schedlib.guest.boot import Ending, run_guest


def test_console_is_kept_and_its_end_is_seen(tmp_path: Path) -> None:
    run = run_guest(["printf", "Linux version\\nok 1\\n"], tmp_path / "new" / "log", 60)
    assert (run.ending, run.times[0][0]) == (Ending.EXITED, 0)
    assert run.log.read_bytes() == b"Linux version\nok 1\n"
    dies = run_guest([sys.executable, "-c", "import os; print('x', flush=True); os.abort()"], tmp_path / "log", 60)
    assert dies.ending is Ending.DIED
    with pytest.raises(SchedlineError, match="cannot be started"):
        run_guest(["/nonexistent/emulator"], tmp_path / "log", 5)


def test_time_out_ends_the_whole_group(tmp_path: Path) -> None:
    # The child prints the pid of a grandchild that ignores SIGTERM. Both must be gone afterwards.
    program = (
        "import signal, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        'signal.signal(15, signal.SIG_IGN); print("up", flush=True); time.sleep(600)\'])\n'
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    run = run_guest([sys.executable, "-c", program], tmp_path / "log", 2)
    assert run.ending is Ending.TIMED_OUT
    pid = int(next(line for line in run.log.read_text().split() if line.isdigit()))
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the guest's process outlived the run")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 2), (signal.SIGKILL, -signal.SIGKILL)])
def test_interrupt_ends_the_guest(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """Also one that ignores SIGTERM, which outlived a kill -9."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from schedlib.guest.boot import run_guest\n"
        "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))\n"
        "run_guest(['sh', '-c', 'trap : TERM; echo $$; while :; do sleep 600; done'], Path(sys.argv[2]), 600)\n"
    )
    log = tmp_path / "log"
    scripts = str(Path(__file__).parents[2])
    runner = subprocess.Popen([sys.executable, "-c", program, scripts, str(log)])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.read_text().strip()):
        os.sched_yield()
    runner.send_signal(number)
    assert runner.wait(timeout=60) == code
    guest = Path(f"/proc/{log.read_text().split()[0]}/cmdline")
    while time.monotonic() < deadline and guest.exists() and b"sleep" in guest.read_bytes():
        os.sched_yield()
    assert not guest.exists() or b"sleep" not in guest.read_bytes()
