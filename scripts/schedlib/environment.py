# SPDX-License-Identifier: GPL-2.0
"""From a bare Python to a running command: the pinned libraries go into a virtual environment in the cache.

Nothing here imports anything but the standard library.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedlib.cache import cache_dir, lock
from schedlib.errors import SchedlineError
from schedlib.paths import PROJECT


def start(words: Sequence[str]) -> int:
    """Run a command line; its exit code (decision 5 of CONTRIBUTING.md: 0, 1, 2, 3)."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that guests and builds are ended on the way out
    try:
        environment("requirements.txt")
        from schedlib.main import main

        return main(words)
    except SchedlineError as error:
        print(f"schedline: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("schedline: interrupted; run the same command again to go on", file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"schedline: {where}{error.strerror}\n  next: schedline doctor; df -h", file=sys.stderr)
    return 2


def environment(requirements: str) -> Path:
    """Make the libraries of a requirements file importable; the environment's python.

    Raises:
        SchedlineError: no venv module, no network, or a package whose hash differs.
    """
    path = PROJECT / requirements
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256(f"{sys.executable} {sys.version}".encode() + path.read_bytes()).hexdigest()[:12]
    directory = cache_dir() / "python" / key
    python = directory / "bin/python"
    if not (directory / "complete").is_file():
        with lock(directory.parent / "lock", _say):
            if not (directory / "complete").is_file():
                _create(directory, python, path)
    site.addsitedir(str(directory / "lib" / version / "site-packages"))
    return python


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _create(directory: Path, python: Path, requirements: Path) -> None:
    _say(f"installing the Python libraries of {requirements.name} into the cache ...")
    shutil.rmtree(directory, ignore_errors=True)
    made = _run([sys.executable, "-m", "venv", str(directory)])
    if made.returncode and os.geteuid() == 0 and shutil.which("apt-get"):
        _say("installing Debian package python3-venv (the venv module lacks ensurepip) ...")
        if _run(["apt-get", "install", "-y", "--no-install-recommends", "python3-venv"]).returncode:
            _run(["apt-get", "update"])
            _run(["apt-get", "install", "-y", "--no-install-recommends", "python3-venv"])
        shutil.rmtree(directory, ignore_errors=True)
        made = _run([sys.executable, "-m", "venv", str(directory)])
    if made.returncode:
        raise SchedlineError(
            "this Python cannot create a virtual environment, which holds the pinned libraries",
            "apt-get install python3-venv",
        )
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    # The files name all that is needed; kcidb-io asks for more than its schemas take.
    pip.append("--no-deps")
    done = _run([*pip, "--require-hashes", "--only-binary=:all:", "-r", str(requirements)])
    if done.returncode:
        said = done.stderr.strip().splitlines()[-3:]
        raise SchedlineError(
            f"the libraries of {requirements.name} cannot be installed:\n    " + "\n    ".join(said),
            "check the network, the free space (df -h) and pip config list, then run the command again",
        )
    (directory / "complete").touch()


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
