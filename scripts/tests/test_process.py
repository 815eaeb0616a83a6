# SPDX-License-Identifier: GPL-2.0
"""Processes that compute at once: they end with us, and errors come back whole."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schedlib.formats.document import Refused
from schedlib.formats.run_file import Run
from schedlib.gate.comparable import LacksMetric
from schedlib.process import workers

_SCRIPTS = Path(__file__).parents[1]

_WAITS = """
import os, sys, time
from schedlib.process import workers
with workers() as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 600).result()
"""


def test_they_compute_in_threads_and_elsewhere() -> None:
    with workers() as pool:
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(pool.submit(os.getpid).result()))
        thread.start()
        thread.join()
        assert found and found[0] != os.getpid()
        # They outlive the thread that asked first.
        assert pool.submit(pow, 2, 3).result() == 8


def test_none_outlives_us() -> None:
    with subprocess.Popen([sys.executable, "-c", _WAITS], cwd=_SCRIPTS, stdout=subprocess.PIPE, text=True) as begun:
        assert begun.stdout
        worker = int(begun.stdout.readline())
        descriptor = os.pidfd_open(worker)
        begun.send_signal(signal.SIGKILL)
        begun.wait()
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)


def _raised(error: Exception) -> None:
    raise error


def test_an_error_is_the_same_elsewhere() -> None:
    with workers() as pool:
        for error in (LacksMetric("base", "none", "boot"), Refused(Path("x"), Run, "no", "make one")):
            with pytest.raises(type(error)) as other:
                pool.submit(_raised, error).result()
            kept = {name: vars(other.value)[name] for name in vars(error)}
            assert (str(other.value), kept) == (str(error), vars(error))
