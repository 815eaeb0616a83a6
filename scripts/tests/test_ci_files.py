# SPDX-License-Identifier: GPL-2.0
"""The files of configs/ci call commands that exist, with options that these have, and read files that these write."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from schedlib.doctor import JOBS
from schedlib.main import parser
from schedlib.names import pack_files
from schedlib.paths import COLLECTION, CONFIGS, PROJECT, SELFTESTS

FILES = sorted((CONFIGS / "ci").iterdir())
_VALUES = {"SUITE": "quick", "RUNS": "5"}
"""What a variable of a job stands for; any other is a revision."""


def commands(text: str) -> list[list[str]]:
    """The words behind `schedline` of each command in a file."""
    joined = re.sub(r"\n +(?=--)", " ", text)
    found = []
    for line in re.findall(r"scripts/schedline\"? (.*)", joined):
        plain = re.sub(r'"?\$\(.*?\)"|"?\$\{?(\w+)\}?"?', lambda name: _VALUES.get(name[1] or "", "HEAD"), line)
        found.append(shlex.split(plain.partition(" ||")[0].rstrip("'")))
    return found


def wrong(text: str) -> list[str]:
    found = []
    for words in commands(text):
        said = io.StringIO()
        try:
            with redirect_stderr(said):
                parsed = parser().parse_args([str(PROJECT) if word == "linux" else word for word in words])
        except SystemExit:
            found.append(said.getvalue())
        else:
            jobs = parsed.jobs if words[0] == "doctor" else ()
            found += [f"no job {job}" for job in jobs if job not in JOBS]
    return found


def test_all_files_are_looked_at() -> None:
    counts = {path.name: len(commands(path.read_text())) for path in FILES}
    assert counts == {
        "github-premerge.yml": 1,
        "gitlab-premerge.yml": 2,
        "kernelci.yaml": 0,
        "linaro-sched-latency.yaml": 2,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_command_parses(path: Path) -> None:
    assert wrong(path.read_text()) == []


@pytest.mark.parametrize(
    ("file", "spoil"),
    [
        ("github-premerge.yml", lambda text: text.replace("--head ", "--haed ")),
        ("github-premerge.yml", lambda text: text.replace("--arch x86_64", "--arch vax")),
        ("gitlab-premerge.yml", lambda text: text.replace("--install check", "--install chek")),
        ("gitlab-premerge.yml", lambda text: text.replace("schedline premerge", "schedline premerg")),
        ("linaro-sched-latency.yaml", lambda text: text.replace("--lava ", "--to-lava ")),
    ],
)
def test_a_wrong_command_is_found(file: str, spoil: Callable[[str], str]) -> None:
    text = (CONFIGS / "ci" / file).read_text()
    assert spoil(text) != text
    assert len(wrong(spoil(text))) == 1


def test_the_files_that_jobs_read_are_written() -> None:
    written = (PROJECT / "scripts/schedlib/premerge/premerge_job.py").read_text()
    named = {name for path in FILES for name in re.findall(r"page/([\w.]+\w)", path.read_text())}
    assert named == {"premerge.txt", "layout.sarif", "junit.xml"}
    assert not [name for name in named if f'"{name}"' not in written]


def test_all_files_that_can_break_a_rule_are_watched() -> None:
    github = yaml.safe_load((CONFIGS / "ci/github-premerge.yml").read_text())
    gitlab = yaml.safe_load((CONFIGS / "ci/gitlab-premerge.yml").read_text())
    # YAML reads the key `on` as true.
    watched = github[True]["pull_request"]["paths"]
    assert gitlab["schedline"]["rules"][0]["changes"] == ["kernel/sched/**/*", *watched[1:]]
    more = ("kernel/sched/core.c", "include/linux/cpumask.h", "arch/arm64/include/asm/topology.h", "init/Kconfig")
    assert [file for file in (*pack_files(), *more) if not any(fnmatch(file, each) for each in watched)] == []
    assert [each for each in watched if "*" not in each] == [file for file in pack_files() if file.endswith(".c")]
    assert github["jobs"]["premerge"]["continue-on-error"] and gitlab["schedline"]["allow_failure"]


@pytest.mark.parametrize("name", ["github-premerge.yml", "gitlab-premerge.yml"])
def test_a_job_tells_the_command_for_the_same_at_home(name: str) -> None:
    text = (CONFIGS / "ci" / name).read_text()
    (told,) = re.findall(r'(?<!/)schedline (premerge --kdir \. .*?)"', " ".join(text.split()))
    (run,) = (words for words in commands(text) if words[0] == "premerge")
    assert [*shlex.split(re.sub(r"\$\{\{.*?\}\}|\$\w+", "HEAD", told)), "--out", "page"] == [
        "." if word == "linux" else word for word in run
    ]


def test_a_job_without_a_page_tells_the_command_too(tmp_path: Path) -> None:
    """cat of the page, which an ERROR does not write, was before it."""
    github = yaml.safe_load((CONFIGS / "ci/github-premerge.yml").read_text())["jobs"]["premerge"]["steps"]
    gitlab = yaml.safe_load((CONFIGS / "ci/gitlab-premerge.yml").read_text())["schedline"]
    (page,) = (step for step in github if "SAME" in step.get("env", {}))
    summary = tmp_path / "summary"
    env = os.environ | page["env"] | {"GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(["bash", "-ec", page["run"]], cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0 and f"{page['env']['SAME']}\n~~~\n" in summary.read_text()
    script = "\n".join(gitlab["after_script"])
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=env, check=False, stdout=subprocess.PIPE)
    assert b"at home - schedline premerge" in done.stdout


def test_a_failed_github_job_keeps_what_it_built() -> None:
    """actions/cache saves after a job that succeeded: each push to a series with a finding built from nothing."""
    steps = yaml.safe_load((CONFIGS / "ci/github-premerge.yml").read_text())["jobs"]["premerge"]["steps"]
    restore, save = (step for step in steps if step.get("uses", "").startswith("actions/cache"))
    assert [step["uses"].partition("@")[0] for step in (restore, save)] == [
        "actions/cache/restore",
        "actions/cache/save",
    ]
    assert "always()" in save["if"] and save["with"].items() <= restore["with"].items()
    assert steps.index(save) > steps.index(next(step for step in steps if step.get("name") == "premerge"))


def test_kernelci_runs_a_collection_that_is_there() -> None:
    text = (CONFIGS / "ci/kernelci.yaml").read_text()
    assert re.findall(r"collections: (\w+)", text) == [COLLECTION]
    assert (SELFTESTS / COLLECTION / "Makefile").exists()
    assert re.findall(r"^- job: (\S+)$", text, re.M) == re.findall(r"^  (\S+):$", text, re.M)[:1]


LINARO = ("name", "format", "description", "maintainer", "os", "devices")
"""The keys that validate.py of Linaro's test-definitions requires below metadata, seen in June 2026."""

KERNELCI_JOB = ("template", "kind", "test_method", "kcidb_test_suite")
KERNELCI_ENTRY = ("job", "event", "channel", "kind", "state", "name", "runtime", "platforms")
"""The keys that tests/validate_yaml.py of kernelci-pipeline requires, seen in August 2026."""


def lacking(text: str, keys: tuple[str, ...], pattern: str) -> list[str]:
    return [key for key in keys if not re.search(pattern.format(key), text, re.M)]


def test_files_for_ci_have_what_their_checkers_want() -> None:
    linaro = (CONFIGS / "ci/linaro-sched-latency.yaml").read_text()
    assert not lacking(linaro, LINARO, r"^    {}:")
    assert '    format: "Lava-Test Test Definition 1.0"\n' in linaro
    assert "run:\n    steps:\n" in linaro
    assert lacking(linaro.replace("    devices:", ""), LINARO, r"^    {}:") == ["devices"]
    kernelci = (CONFIGS / "ci/kernelci.yaml").read_text()
    jobs, _, scheduler = kernelci.partition("\nscheduler:\n")
    assert not lacking(jobs, KERNELCI_JOB, r"^ +{}: \S")
    assert not lacking(scheduler, KERNELCI_ENTRY, r"^[ -]+{}:")
    assert "nfsroot" not in jobs and "fragments" not in jobs
    assert lacking(scheduler.replace("    state: available\n", ""), KERNELCI_ENTRY, r"^[ -]+{}:") == ["state"]
