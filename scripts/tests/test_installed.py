# SPDX-License-Identifier: GPL-2.0
"""What pip installs is the schedline of a clone, and the lock has what pyproject.toml allows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from schedlib import environment
from schedlib.environment import CORE, activate, extras, locked
from schedlib.errors import SchedlineError
from schedlib.paths import PROJECT
from schedlib.tree.kernel_tree import Tree

pytestmark = pytest.mark.slow

PROJECT_TABLE = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = {CORE: PROJECT_TABLE["dependencies"]} | PROJECT_TABLE["optional-dependencies"]
DATA = ("configs", "kunit", "patches", "selftests", "scripts/c2c")
LOG = PROJECT / "scripts/tests/logs/pass_three_suites.log"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which pip has installed this project. The network is not asked."""
    place = tmp_path_factory.mktemp("installed")
    words = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--target", str(place), str(PROJECT)]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True, stdin=subprocess.DEVNULL)
    return place


def files(top: Path) -> dict[str, bytes]:
    """The contents of all files, behind symbolic links, too."""
    kept = (path for path in sorted(top.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(top)): path.read_bytes() for path in kept}


def started(command: list[str], *words: str, **more: str) -> tuple[int, str, str]:
    """The exit code and both outputs of a command, in a directory that has nothing to do with it."""
    done = subprocess.run([*command, *words], cwd="/", capture_output=True, text=True, env=os.environ | more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("folder", DATA)
def test_the_data_is_installed_without_links(installed: Path, folder: str) -> None:
    there = installed / "schedlib/data" / folder
    assert files(there) == files(PROJECT / folder) != {}
    assert not any(path.is_symlink() for path in there.rglob("*"))


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["judge", str(LOG)],
        ["layout", "rules", "--for", "kernel/sched"],
        ["gate", "--help"],
        ["status", "--kdir", "TREE"],
        ["run", "--list"],
        ["dev", "schemas", "gate"],
        ["check", "--only", "no_such_test"],
    ],
    ids=" ".join,
)
def test_what_is_installed_answers_as_a_clone(installed: Path, kernel: Path, words: list[str]) -> None:
    words = [str(kernel) if word == "TREE" else word for word in words]
    clone = started([sys.executable, str(PROJECT / "scripts/schedline")], *words)
    assert started([str(installed / "bin/schedline")], *words, PYTHONPATH=str(installed)) == clone


@pytest.mark.guest
def test_what_is_installed_exports_the_same_series(installed: Path, series: Tree, tmp_path: Path) -> None:
    for command, where in (("scripts/schedline", "clone"), (str(installed / "bin/schedline"), "installed")):
        words = ["export", "--kdir", str(series.src), "-o", str(tmp_path / where)]
        given = {"PYTHONPATH": str(installed) if where == "installed" else "", "SOURCE_DATE_EPOCH": "1790000000"}
        done = started([sys.executable, str(PROJECT / command)], *words, **given)
        assert done[0] == 0, done
    assert files(tmp_path / "installed") == files(tmp_path / "clone") != {}


def test_a_verb_names_the_extra_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "jinja2":
            raise metadata.PackageNotFoundError
        return "1"

    monkeypatch.setattr(environment, "INSTALLED", True)
    monkeypatch.setattr(metadata, "version", version)
    activate("gate")
    with pytest.raises(SchedlineError, match=r"(?s)needs jinja2, which .* pip install 'schedline\[report\]'"):
        activate("report")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_lock_has_a_version_in_the_range_of_each_package(extra: str) -> None:
    pinned = dict(re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:", locked(extra), re.M))
    for each in map(Requirement, EXTRAS[extra]):
        assert pinned[each.name] in each.specifier, each
    assert extras()[extra] <= set(pinned)


def test_an_extra_has_the_locked_packages_that_it_needs_alone() -> None:
    named = {extra: set(re.findall(r"^(\S+)==", locked(extra), re.M)) for extra in EXTRAS}
    assert named[CORE] == {"msgspec", "pyelftools"}
    assert named["history"] == {"apache-otava", "numpy", "scipy"}
    assert named["report"] > {"jinja2", "markupsafe", "matplotlib", "numpy", "pillow"}
    assert not named["report"] & {"msgspec", "pytest", "scipy"}
    assert named["test"] == set().union(*named.values())
