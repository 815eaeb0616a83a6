# SPDX-License-Identifier: GPL-2.0
"""Patches that git has: a commit, what is staged, a range; and the hook and b4's settings that judge them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from schedlib.errors import SchedlineError
from schedlib.git import try_git
from schedlib.layout.layout_options import GitPatch
from schedlib.paths import COMMAND
from schedlib.process import must, run

_PLAIN = ("--no-ext-diff", "--no-color", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")

_HOOK = """\
#!/bin/sh
# Written by `schedline layout --install-hook`. An error of schedline itself does not stop a commit.
git diff --cached --quiet && exit 0
{schedline} layout --kdir "$(git rev-parse --show-toplevel)" --staged
[ $? -ne 1 ]
"""


def git_patch(kdir: Path, wanted: GitPatch) -> bytes:
    """The diff of a commit (of a merge: against its first parent), of the index, or of a range A..B.

    Raises:
        SchedlineError: there is no such commit, or no git tree.
    """
    if wanted.commit is not None:
        words = ["show", "--format=", "-m", "--first-parent", *_PLAIN, "--end-of-options", wanted.commit, "--"]
    else:
        which = ["--cached"] if wanted.between is None else ["--end-of-options", wanted.between]
        words = ["diff", *_PLAIN, *which, "--"]
    # In a hook of `git commit -a` the index is another file.
    index = {"GIT_INDEX_FILE": str(Path(chosen).absolute())} if (chosen := os.environ.get("GIT_INDEX_FILE")) else {}
    done = try_git(kdir, *words, env=index)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise SchedlineError(
            f"git {words[0]} in {kdir}: {said[0] if said else 'failed'}", f"git -C {kdir} log --oneline"
        )
    return done.stdout


def install_hook(kdir: Path | None) -> str:
    """Let git commit and b4 judge patches of a tree; what was written.

    Raises:
        SchedlineError: it is no git tree, or it has such a hook already.
    """
    if kdir is None:
        raise SchedlineError("--install-hook is for a git tree, and none is named", "add --kdir .")
    found = run(["git", "-C", kdir, "rev-parse", "--git-path", "hooks"])
    if found.returncode:
        raise SchedlineError(f"{kdir} is no git tree", "name one with --kdir")
    schedline = shlex.join(COMMAND)
    hook = kdir / found.stdout.decode().strip() / "pre-commit"
    if hook.exists() and hook.read_text() != _HOOK.format(schedline=schedline):
        line = f"{schedline} layout --kdir . --staged"
        raise SchedlineError(f"{hook} exists, and stays as it is", f"add a line to it: {line}")
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(_HOOK.format(schedline=schedline))
    hook.chmod(0o755)
    patch, series = f"{schedline} layout --kdir . --patch -", f"{schedline} premerge --kdir . --format b4"
    settings = {
        "b4.prep-perpatch-check-cmd": patch,
        "b4.am-perpatch-check-cmd": patch,
        "b4.review-perpatch-check-cmd": f"{patch} --format b4",
        "b4.review-series-check-cmd": f"{series} --skip c2c,mutants",
    }
    for name, value in settings.items():
        must(["git", "-C", kdir, "config", "--local", name, value])
    return "\n".join(
        [f"wrote {hook}", *(f"git config {name} {shlex.quote(value)}" for name, value in settings.items())]
    )
