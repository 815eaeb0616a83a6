# SPDX-License-Identifier: GPL-2.0
"""The Python libraries of an extra of pyproject.toml: what pip has installed, or a virtual environment in the cache."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import site
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from schedlib.cache import cache_dir, lock, temporary_files
from schedlib.errors import SchedlineError
from schedlib.paths import BUNDLE, BUNDLED_LIBRARIES, INSTALLED, PROJECT
from schedlib.process import dying_with_us
from schedlib.progress import only_on_a_terminal, step

CORE = "core"
"""The dependencies that are no extra: what every verb needs."""

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

_SECONDS = 600
"""Time limit for pip: a network that does not answer must not look like long work."""


def activate(extra: str, *, download: bool = True) -> Path:
    """Make the libraries of an extra importable; returns the python that has them.

    Raises SchedlineError: pip has installed schedline, or somebody has packed it, without this extra; or see pinned().
    """
    if BUNDLE.exists():
        return _bundled(extra)
    if INSTALLED:
        _check_installed(extra)
        return Path(sys.executable)
    python = pinned(extra, download=download)
    site.addsitedir(str(python.parent.parent / f"lib/python{PYTHON}/site-packages"))
    return python


def pinned(extra: str, *, download: bool = True) -> Path:
    """The python of the cache's environment with the locked libraries of an extra. It is made when it is missing.

    Args:
        extra: an extra of pyproject.toml, or CORE. `test` has all that is locked.
        download: install what is not in the cache. False on a machine that is to be measured.

    Raises SchedlineError: it is not in the cache and cannot be made, or may not.
    """
    directory = _place(extra)
    complete = directory / "complete"
    if not complete.is_file() and not download:
        raise SchedlineError(
            f"the Python libraries of {extra} are not in the cache, and nothing is downloaded to a "
            "machine that is measured",
            "schedline doctor --install run",
        )
    if not complete.is_file():
        # b4 takes each line on stderr for a failed check.
        with only_on_a_terminal(), lock(directory.with_name(f"{directory.name}.lock")):
            if not complete.is_file():
                with temporary_files(), step(f"installing the Python libraries of {extra} into the cache"):
                    _create(directory, extra)
    return directory / "bin/python"


def places() -> frozenset[Path]:
    """The virtual environments that this version of schedline uses."""
    return frozenset(map(_place, extras()))


def _place(extra: str) -> Path:
    # One for an interpreter, whichever virtual environment it was started from.
    interpreter = f"{Path(sys.executable).resolve()} {sys.version}"
    key = hashlib.sha256(f"{interpreter}{locked(extra)}".encode())
    return cache_dir() / "python" / key.hexdigest()[:12]


def extras() -> dict[str, frozenset[str]]:
    """The packages that pyproject.toml names for each extra, and for CORE."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    named = {CORE: project["dependencies"], **project["optional-dependencies"]}
    return {extra: frozenset(re.split("[<>=!~; ]", each)[0] for each in rows) for extra, rows in named.items()}


def locked(extra: str) -> str:
    """The entries of the lock for the packages of an extra, and for what these need; for `test` all."""
    text = (PROJECT / "scripts/lock.txt").read_text()
    if extra == "test":
        return text
    entries = {each.partition("==")[0]: each for each in re.split(r"^(?=\w)", text, flags=re.M)[1:]}
    needed_by = {name: set(re.findall(r"^    # +(?:via )?(\S+)", each, re.M)) for name, each in entries.items()}
    wanted = set(extras()[extra])
    while more := {name for name, users in needed_by.items() if users & wanted} - wanted:
        wanted |= more
    return "".join(each for name, each in entries.items() if name in wanted)


def lacking(extra: str) -> list[str]:
    """The libraries of an extra that pip has not installed; a clone gets them when they are needed."""
    missing = []
    for name in sorted(extras()[extra]) if INSTALLED else ():
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    return missing


def _check_installed(extra: str) -> None:
    if missing := lacking(extra):
        what = "schedline" if extra == CORE else f"'schedline[{extra}]'"
        raise SchedlineError(
            f"this needs {', '.join(missing)}, which {sys.executable} does not have",
            f"{sys.executable} -m pip install {what}",
        )


def library_place(python: str) -> Path:
    return BUNDLED_LIBRARIES / f"{python}-{platform.machine()}"


def _bundled(extra: str) -> Path:
    about = json.loads(BUNDLE.read_bytes())
    place = library_place(PYTHON)
    if not place.is_dir():
        raise SchedlineError(
            f"this bundle is for {about['machine']} with Python {', '.join(about['pythons'])}, "
            f"and this is {platform.machine()} with Python {PYTHON}",
            f"pack another one on a machine like this: schedline run --pack FILE --python {PYTHON}",
        )
    if extra not in about["extras"]:
        raise SchedlineError(
            f"this bundle lacks the libraries of {extra}",
            "copy the runs to the machine that packed it, or pack a bundle with --looks",
        )
    site.addsitedir(str(place))
    return Path(sys.executable)


def _create(directory: Path, extra: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    made = _run([sys.executable, "-m", "venv", str(directory)])
    if "No space left" in made.stdout + made.stderr:
        raise SchedlineError(f"{directory}: no space left on the device", "free some, or set SCHEDLINE_CACHE elsewhere")
    if made.returncode:
        observed = "this Python cannot create a virtual environment, which holds the pinned libraries"
        venv = "install its venv module (Debian: apt-get install python3-venv), or schedline by pip"
        raise SchedlineError(observed, venv)
    (directory / "lock.txt").write_text(locked(extra))
    pip = [str(directory / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Not with what apache-otava declares: its analysis, which is all that is used, does not need it.
    done = _run([*pip, "--no-deps", "--require-hashes", "--only-binary=:all:", "-r", str(directory / "lock.txt")])
    if done.returncode:
        raise SchedlineError(
            f"the libraries of {extra} cannot be installed:\n    "
            + "\n    ".join(done.stderr.strip().splitlines()[-3:]),
            "check the network, the free space (df -h) and pip config list, then run the command again",
        )
    (directory / "complete").touch()


def _run(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            dying_with_us(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"no answer within {_SECONDS} seconds")
