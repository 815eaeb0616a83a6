# SPDX-License-Identifier: GPL-2.0
"""The pinned Python libraries: a virtual environment in the cache for each requirements file."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from schedlib.cache import cache_dir, lock
from schedlib.errors import SchedlineError
from schedlib.paths import BUNDLE, BUNDLED_LIBRARIES, PROJECT
from schedlib.progress import say

_SECONDS = 600
"""Time limit for pip: a network that does not answer must not look like long work."""


def activate(requirements: str, *, download: bool = True) -> Path:
    """Make the libraries of a requirements file importable; returns the environment's python.

    Args:
        requirements: name of a file at the top of the project.
        download: install what is not in the cache. False on a machine that is to be measured.

    Raises SchedlineError: no venv module, no network, a package whose hash differs, or libraries that are not in the
    cache while `download` is False. In a bundle: it has no such libraries.
    """
    if BUNDLE.exists():
        return _bundled(requirements)
    directory = _place(requirements)
    python = directory / "bin/python"
    if not (directory / "complete").is_file():
        if not download:
            raise SchedlineError(
                f"the Python libraries of {requirements} are not in the cache, and nothing is downloaded to a "
                "machine that is measured",
                "schedline doctor --install run",
            )
        with lock(directory.parent / f"{directory.name}.lock"):
            if not (directory / "complete").is_file():
                _create(directory, python, PROJECT / requirements)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site.addsitedir(str(directory / "lib" / version / "site-packages"))
    return python


def _place(requirements: str) -> Path:
    """The environment's directory: one for an interpreter, whichever virtual environment it was started from."""
    interpreter = f"{Path(sys.executable).resolve()} {sys.version}".encode()
    key = hashlib.sha256(interpreter + b"".join(_contents(PROJECT / requirements)))
    return cache_dir() / "python" / key.hexdigest()[:12]


def places() -> frozenset[Path]:
    """The virtual environments that this version of schedline uses."""
    return frozenset(_place(each.name) for each in PROJECT.glob("requirements*.txt"))


def library_place(python: str) -> Path:
    """The directory of a bundle with the libraries for a version of Python."""
    return BUNDLED_LIBRARIES / f"{python}-{platform.machine()}"


def _bundled(requirements: str) -> Path:
    about = json.loads(BUNDLE.read_bytes())
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = library_place(here)
    if not place.is_dir():
        raise SchedlineError(
            f"this bundle is for {about['machine']} with Python {', '.join(about['pythons'])}, "
            f"and this is {platform.machine()} with Python {here}",
            f"pack another one on a machine like this: schedline run --pack FILE --python {here}",
        )
    if requirements not in about["requirements"]:
        raise SchedlineError(
            f"this bundle lacks the libraries of {requirements}",
            "copy the runs to the machine that packed it, or pack a bundle with --looks",
        )
    site.addsitedir(str(place))
    return Path(sys.executable)


def _contents(path: Path) -> Iterator[bytes]:
    """A requirements file and those that it includes (`-r NAME`)."""
    text = path.read_bytes()
    yield text
    for name in re.findall(rb"^-r (\S+)$", text, re.M):
        yield from _contents(path.with_name(name.decode()))


def _create(directory: Path, python: Path, requirements: Path) -> None:
    say(f"installing the Python libraries of {requirements.name} into the cache ...")
    shutil.rmtree(directory, ignore_errors=True)
    made = _run([sys.executable, "-m", "venv", str(directory)])
    if "No space left" in made.stdout + made.stderr:
        raise SchedlineError(f"{directory}: no space left on the device", "free some, or set SCHEDLINE_CACHE elsewhere")
    if made.returncode:
        observed = "this Python cannot create a virtual environment, which holds the pinned libraries"
        raise SchedlineError(observed, "apt-get install python3-venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # The requirements files list every package that is needed; kcidb-io declares dependencies that its schemas do
    # not use.
    done = _run([*pip, "--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(requirements)])
    if done.returncode:
        said = done.stderr.strip().splitlines()[-3:]
        raise SchedlineError(
            f"the libraries of {requirements.name} cannot be installed:\n    " + "\n    ".join(said),
            "check the network, the free space (df -h) and pip config list, then run the command again",
        )
    (directory / "complete").touch()


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"no answer within {_SECONDS} seconds")
