# SPDX-License-Identifier: GPL-2.0
"""Processes that compute at once: of the threads of a process only one runs Python at a time."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

_PR_SET_PDEATHSIG = 1


@contextmanager
def workers() -> Iterator[Executor]:
    """One process for each CPU. They hash alike, and end with us, even by kill -9.

    To be opened before any thread begins: a child has the locks of all threads, but none that opens them.
    """
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork"), _begin) as pool:
        # Whoever submits first forks all, and they end with that thread.
        pool.submit(os.getpid).result()
        yield pool


def _begin() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C goes to all; it is for the first of us to say what happens.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
