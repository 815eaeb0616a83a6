# SPDX-License-Identifier: GPL-2.0
"""The commands of README and docs that need no guest, run as a reader would type them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import toy_results
from campaigns import Campaign, hackbench, main, metric, noise, run

from conftest import git, user_clone
from schedlib.cache import cache_dir
from schedlib.formats import document
from schedlib.paths import CONFIGS, PROJECT
from schedlib.tree.kernel_tree import Tree
from test_docs import commands

pytestmark = pytest.mark.tools

VERBS = ("layout", "status", "judge", "gate", "export", "doctor", "run")
NOT_HERE = {
    "--running": "this machine's kernel may have no BTF",
    "--vmlinux": "a kernel that somebody else built",
    "a/vmlinux": "the same",
    "--install": "installs packages",
    "--in-guest": "a guest",
    "--suite": "measures for minutes; --list is run",
    "--arch": "six more compilers; the matrix has tests of its own",
    "6.12": "a second kernel to download",
    "--placebo": "a third kernel's runs",
    "plan": "its kernels are not installed here",
    "./my.config": "a driver and its options: minutes",
}
TMP = "/tmp/"  # noqa: S108
LINES = sorted(
    {
        shlex.join(words)
        for _, line, words in commands(PROJECT)
        if words[0] in VERBS
        and "--help" not in words
        and "make" not in line.split()
        and ("--list" in words or not any(word in NOT_HERE for word in words))
    }
)


PATCH = """\
diff --git a/kernel/sched/nothing.h b/kernel/sched/nothing.h
new file mode 100644
--- /dev/null
+++ b/kernel/sched/nothing.h
@@ -0,0 +1 @@
+/* nothing */
"""


def _campaign(campaign: Campaign) -> None:
    judged: dict[str, list[dict[str, Any]]] = {}
    for row in tomllib.loads((CONFIGS / "gates/default.toml").read_text())["metric"]:
        more = {"kind": "exceedance", "value": 7, "n": 100_000} if row["method"] == "rate" else {}
        judged.setdefault(row["tool"], []).append({"name": row["name"], "direction": row["direction"]} | more)
    for seed, side in ((1, campaign.base), (2, campaign.candidate)):
        for place, value in enumerate(noise(seed)):
            slot = 2 * place + ((place % 2) ^ (side == campaign.candidate))
            for number, (tool, rows) in enumerate(judged.items()):
                metrics = [metric(value) | row for row in rows]
                content = run(side.name, f"{side.name}-{place}", 10 * slot + number, metrics, tool=tool)
                campaign.save(side, content)


@pytest.fixture(scope="module")
def home(series: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what the pages speak of."""
    home = tmp_path_factory.mktemp("home")
    linux = user_clone(series, "docs")
    git(linux, "tag", "--force", "v7.3")
    with (linux / "kernel/sched/sched.h").open("a") as header:
        header.write("/* changed */\n")
    git(linux, "-c", "user.name=A", "-c", "user.email=a@localhost", "commit", "-qm", "x", "kernel/sched/sched.h")
    (linux / ".git/hooks/pre-commit").unlink(missing_ok=True)
    (home / "linux").symlink_to(linux)
    for name in ("kunit", "docs"):
        (home / name).symlink_to(PROJECT / name)
    (home / ".gitconfig").write_text("[user]\n\tname = Tester\n\temail = tester@example.org\n")
    _campaign(Campaign(home / "runs"))
    (home / "fleet").mkdir()
    (home / "fleet/one").symlink_to(home / "runs")
    for seed, side in ((1, "base"), (2, "candidate")):
        hackbench(home / "results" / side, noise(seed))
    (home / "campaign").mkdir()
    (home / "campaign/runs").symlink_to(home / "runs")
    (home / "campaign/fleet").symlink_to(home / "fleet")
    main(["gate", str(home / "runs/base"), str(home / "runs/candidate"), "--json", str(home / "gate.json")])
    main(["gate", str(home / "runs/base"), str(home / "runs/candidate"), "--json", str(home / "gates/7.4.json")])
    shutil.copyfile(PROJECT / "scripts/tests/logs/pass.log", home / "console.log")
    document.write(home / "measured/c2c.json", toy_results.result((toy_results.row("rto_count", 0, 10, 3000),)))
    (home / "mine").mkdir()
    shutil.copyfile(CONFIGS / "contracts/time/timer_base.toml", home / "mine/timer_base.toml")
    (home / "build").mkdir()
    (home / "kernel.c").write_text("int nr_cpu_ids;\n")
    subprocess.run(["gcc", "-g", "-nostdlib", "-static", "-o", "build/vmlinux", "kernel.c"], cwd=home, check=True)
    for name in ("my.patch", "suggested.patch"):
        (home / name).write_text(PATCH)
    return home


def test_there_are_commands() -> None:
    assert {line.split()[0] for line in LINES} == set(VERBS)
    assert len(LINES) > 12


@pytest.mark.parametrize("line", LINES)
def test_command_of_a_page(line: str, home: Path) -> None:
    argv = shlex.split(line.replace(TMP, f"{home}/").replace("~/", f"{home}/"))
    where = home / "linux" if "--kdir ." in line else home
    stdin = (home / "my.patch").read_bytes() if "--patch -" in line else (home / "console.log").read_bytes()
    done = subprocess.run(
        [str(PROJECT / "scripts/schedline"), *argv],
        cwd=where,
        env=os.environ | {"SCHEDLINE_CACHE": str(cache_dir()), "HOME": str(home)},
        input=stdin,
        capture_output=True,
        check=False,
        timeout=600,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    # What it finds is the affair of other tests; a usage error or a crash is not.
    assert done.returncode in (0, 1, 3), said
    assert "Traceback" not in said
